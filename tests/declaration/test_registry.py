"""The registry: declarations in their order, and the process-wide one."""

import pytest

import opkit
from opkit.declaration.registry import default_registry


def handler(body):
    """Stands for an author's function."""


def test_keeps_the_order():
    """Declarations come out in the order in which they were made."""
    registry = opkit.Registry()
    for name in ("a", "b", "c"):
        opkit.reconcile(name, registry=registry)(handler)
    assert [one.resource for one in registry.declarations] == [("a",), ("b",), ("c",)]


def test_compiling_changes_nothing():
    """A registry can be compiled again, also after more was declared."""
    registry = opkit.Registry()
    opkit.reconcile("a", registry=registry)(handler)
    assert len(registry.compile().resources) == 1
    opkit.reconcile("b", registry=registry)(handler)
    assert len(registry.compile().resources) == 2


def test_default_comes_back_after_an_error():
    """A block that fails leaves the process-wide registry as it was."""
    before = default_registry()
    with pytest.raises(ValueError), opkit.Registry().as_default():
        raise ValueError
    assert default_registry() is before


def test_shows_how_many():
    """In a debugger, a registry says how much is in it."""
    registry = opkit.Registry()
    opkit.reconcile("a", registry=registry)(handler)
    assert repr(registry) == "<Registry of 1 declarations>"
