"""What the tests of failures share: an operator for webapps in virtual time."""

import pytest

import opkit

WEBAPPS = ("example.com", "v1", "webapps")


@pytest.fixture
def registry():
    """An empty registry: what a test declares is seen by nobody else."""
    return opkit.Registry()


@pytest.fixture
def webapps(registry, event_injector):
    """An operator for webapps: `op = webapps(reconcile, settings, **options)`."""

    def make(reconcile, settings=None, **options):
        opkit.reconcile(*WEBAPPS, registry=registry, **options)(reconcile)
        return event_injector(registry, settings)

    return make
