"""What the tests of the flow share: a registry of their own, and a loop whose time is virtual."""

import asyncio

import pytest

import opkit
from opkit.testing.virtual import VirtualLoop


@pytest.fixture
def registry():
    """An empty registry: what a test declares is seen by nobody else."""
    return opkit.Registry()


@pytest.fixture
def loop():
    """An event loop in virtual time; what is left in it at the end is cancelled."""
    loop = VirtualLoop()
    yield loop
    while tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_now()
    loop.close()


async def nothing():
    """A handler that is content with everything."""


WEBAPPS = ("example.com", "v1", "webapps")


@pytest.fixture
def webapps(registry, event_injector):
    """
    An operator for webapps: `op = webapps(reconcile, delete=..., finalizers=[...], settings=..., **options)`.

    The handlers are known by the names that their functions have.
    """

    def make(reconcile=nothing, *, delete=None, finalizers=(), settings=None, resource=WEBAPPS, **options):
        opkit.reconcile(*resource, registry=registry, **options)(reconcile)
        if delete is not None:
            opkit.delete(*resource, registry=registry)(delete)
        for order, finalizer in enumerate(finalizers):
            opkit.finalizer(*resource, name=f"example.com/{finalizer.__name__}", order=order, registry=registry)(
                finalizer
            )
        return event_injector(registry, settings)

    return make


@pytest.fixture
def outcomes():
    """The outcomes of an operator's calls, as plain words."""
    return lambda op, *args: [str(call.outcome) for call in op.calls(*args)]
