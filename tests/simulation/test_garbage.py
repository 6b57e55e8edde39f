"""Garbage collection where it is wanted, and none where it is not."""

import pytest

from opkit.errors import Forbidden
from opkit.simulation.deletion import DeleteOptions
from opkit.simulation.watchers import Selection

from .conftest import make_store, shop


@pytest.fixture
def store(collecting):
    return collecting


def owner_of(record, is_controller):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Shop",
        "name": record.name,
        "uid": record.uid,
        "controller": is_controller,
        "blockOwnerDeletion": True,
    }


def create(store, shops, name, *owners, **meta):
    references = [owner_of(owner, owner is owners[0]) for owner in owners]
    return store.create(shops, shop(name, ownerReferences=references, **meta), "default")


def names(store, shops):
    return [record.name for record in store.records(shops)]


def test_dependents_go_with_their_last_owner(store, shops):
    """An object with two owners stays until both are gone; the reference to the first goes with it."""
    first, second = create(store, shops, "first"), create(store, shops, "second")
    create(store, shops, "child", first)
    create(store, shops, "shared", first, second)
    store.delete(shops, "first", "default")
    assert names(store, shops) == ["second", "shared"]
    owners = store.get(shops, "shared", "default").body()["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == ["second"]


def test_deletion_cascades(store, shops):
    """Children of children go as well."""
    top = create(store, shops, "top")
    middle = create(store, shops, "middle", top)
    create(store, shops, "bottom", middle)
    store.delete(shops, "top", "default")
    assert names(store, shops) == []


def test_guarded_dependents_are_only_marked(store, shops):
    """A finalizer holds them up."""
    top = create(store, shops, "top")
    create(store, shops, "child", top, finalizers=["example.com/x"])
    store.delete(shops, "top", "default")
    assert store.get(shops, "child", "default").body()["metadata"]["deletionTimestamp"]


def test_owner_with_finalizers_keeps_its_dependents_until_it_is_gone(store, shops):
    """An owner that is only marked is still there."""
    top = create(store, shops, "top", finalizers=["example.com/x"])
    create(store, shops, "child", top)
    store.delete(shops, "top", "default")
    assert names(store, shops) == ["child", "top"]
    store.patch(shops, "top", "default", {"metadata": {"finalizers": None}})
    assert names(store, shops) == []


def test_foreground_deletion_takes_the_dependents_first(store, shops):
    """The owner is the last to go."""
    top = create(store, shops, "top")
    create(store, shops, "child", top)
    watcher = store.watch(shops, Selection(), store.version, lambda: None)
    store.delete(shops, "top", "default", DeleteOptions(propagation="Foreground"))
    gone = [record.name for type, record in watcher.drain() if type == "DELETED"]
    assert gone == ["child", "top"]


def test_foreground_deletion_waits_for_guarded_dependents(store, shops):
    """The owner stays until what blocks it is gone."""
    top = create(store, shops, "top")
    create(store, shops, "child", top, finalizers=["example.com/x"])
    store.delete(shops, "top", "default", DeleteOptions(propagation="Foreground"))
    assert names(store, shops) == ["child", "top"]
    store.patch(shops, "child", "default", {"metadata": {"finalizers": None}})
    assert names(store, shops) == []


def test_orphaned_dependents_stay(store, shops):
    """They lose their reference."""
    top = create(store, shops, "top")
    create(store, shops, "child", top)
    store.delete(shops, "top", "default", DeleteOptions(propagation="Orphan"))
    assert names(store, shops) == ["child"]
    assert "ownerReferences" not in store.get(shops, "child", "default").body()["metadata"]


def test_object_whose_owner_never_was_goes_at_once(store, shops):
    """An owner that does not exist owns nothing."""
    top = create(store, shops, "top")
    store.delete(shops, "top", "default")
    create(store, shops, "late", top)
    assert names(store, shops) == []


def test_namespace_takes_its_objects_with_it(store, shops):
    """It is emptied, then it goes; guarded objects hold it up."""
    namespaces = store.endpoint("", "v1", "namespaces")
    store.create(namespaces, {"metadata": {"name": "short"}})
    store.create(shops, shop("a", finalizers=["example.com/x"]), "short")
    store.create(shops, shop("b"), "short")
    store.delete(namespaces, "short", None)
    assert names(store, shops) == ["a"]
    with pytest.raises(Forbidden):
        store.create(shops, shop("c"), "short")
    store.patch(shops, "a", "short", {"metadata": {"finalizers": None}})
    assert store.namespace("short") is None


def test_empty_namespace_goes_at_once(store):
    """Nothing holds it up."""
    namespaces = store.endpoint("", "v1", "namespaces")
    store.create(namespaces, {"metadata": {"name": "short"}})
    store.delete(namespaces, "short", None)
    assert store.namespace("short") is None


class TestWithoutCollection:
    """A bare API server collects nothing."""

    @pytest.fixture
    def store(self, clock):
        return make_store(clock)

    def test_dependents_and_namespaces_stay(self, store, shops):
        """Owners go alone, namespaces stay Terminating."""
        top = create(store, shops, "top")
        create(store, shops, "child", top)
        store.delete(shops, "top", "default")
        assert names(store, shops) == ["child"]
        store.delete(store.endpoint("", "v1", "namespaces"), "kube-node-lease", None)
        assert store.namespace("kube-node-lease").body()["status"]["phase"] == "Terminating"
