"""Stores with a clock and randomness of their own."""

import copy
import datetime
import random

import pytest

from opkit.simulation.store import Store

START = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "shops.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "shops", "kind": "Shop", "shortNames": ["sh"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


class Clock:
    """Time that stands still until it is moved."""

    def __init__(self):
        self.time = START

    def __call__(self):
        return self.time

    def advance(self, seconds):
        self.time += datetime.timedelta(seconds=seconds)


@pytest.fixture
def clock():
    return Clock()


def make_store(clock, **options):
    """A store in which shops are defined."""
    store = Store(clock, random.Random(0), **options)
    store.create(store.endpoint("apiextensions.k8s.io", "v1", "customresourcedefinitions"), copy.deepcopy(DEFINITION))
    return store


@pytest.fixture
def store(clock):
    return make_store(clock)


@pytest.fixture
def collecting(clock):
    """A store with garbage collection."""
    return make_store(clock, collect_garbage=True)


@pytest.fixture
def shops(store):
    return store.endpoint("example.com", "v1", "shops")


def shop(name, spec=None, **meta):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Shop",
        "metadata": {"name": name, **meta},
        "spec": spec or {},
    }
