"""Server-side apply in its details: lists with keys, sets, shared ownership."""

import copy
import random

import pytest

from opkit.errors import Conflict
from opkit.simulation.store import Store
from opkit.simulation.writes import Options

from .conftest import DEFINITION, Clock

SPEC = {
    "type": "object",
    "properties": {
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "size": {"type": "integer"},
                    "color": {"type": "string"},
                },
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "whole": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "additionalProperties": {"type": "string"},
        },
        "open": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


@pytest.fixture
def apply():
    """Apply a spec in the name of a manager; gives the spec that comes of it."""
    store = Store(Clock(), random.Random(0))
    definition = copy.deepcopy(DEFINITION)
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {"spec": SPEC},
    }
    store.create(store.endpoint("apiextensions.k8s.io", "v1", "customresourcedefinitions"), definition)
    shops = store.endpoint("example.com", "v1", "shops")

    def run(manager, spec, force=False):
        body = {
            "apiVersion": "example.com/v1",
            "kind": "Shop",
            "metadata": {"name": "a"},
            "spec": copy.deepcopy(spec),
        }
        record, _ = store.apply(shops, "a", "default", body, Options(manager=manager, force=force))
        return record.body().get("spec")

    return run


def test_items_of_different_managers_live_side_by_side(apply):
    """Each manager owns its items of a list with keys, and takes only those away."""
    apply("one", {"parts": [{"name": "a", "size": 1}]})
    both = apply("two", {"parts": [{"name": "b", "size": 2}]})
    assert [item["name"] for item in both["parts"]] == ["a", "b"]
    assert apply("one", {"parts": []})["parts"] == [{"name": "b", "size": 2}]


def test_fields_of_one_item_may_have_different_managers(apply):
    """An item stays as long as anyone owns something of it."""
    apply("one", {"parts": [{"name": "a", "size": 1}]})
    apply("two", {"parts": [{"name": "a", "color": "red"}]})
    assert apply("one", {})["parts"] == [{"name": "a", "color": "red"}]


def test_conflict_names_the_item(apply):
    """The cause says which field of which item."""
    apply("one", {"parts": [{"name": "a", "size": 1}]})
    with pytest.raises(Conflict) as caught:
        apply("two", {"parts": [{"name": "a", "size": 2}]})
    assert caught.value.details["causes"][0]["field"] == '.spec.parts[name="a"].size'


def test_sets_are_united(apply):
    """Each manager owns its values of a set."""
    apply("one", {"tags": ["x", "y"]})
    assert apply("two", {"tags": ["y", "z"]})["tags"] == ["x", "y", "z"]
    assert apply("one", {"tags": ["y"]})["tags"] == ["y", "z"]


@pytest.mark.parametrize(
    ("field", "first", "second"),
    [("plain", ["a"], ["b"]), ("whole", {"a": "1"}, {"b": "2"})],
)
def test_lists_without_keys_and_atomic_maps_are_one_field(apply, field, first, second):
    """They are replaced as a whole, and contested as a whole."""
    apply("one", {field: first})
    with pytest.raises(Conflict):
        apply("two", {field: second})
    assert apply("two", {field: second}, force=True)[field] == second


def test_equal_values_are_shared(apply):
    """Who wants what is there already owns it as well; it goes with the last owner."""
    apply("one", {"open": {"a": "1", "b": "2"}})
    apply("two", {"open": {"a": "1"}})
    assert apply("one", {})["open"] == {"a": "1"}
    assert "open" not in (apply("two", {}) or {})


def test_forced_fields_change_hands(apply):
    """After a forced apply the other one no longer owns the field."""
    apply("one", {"open": {"a": "1"}})
    apply("two", {"open": {"a": "2"}}, force=True)
    with pytest.raises(Conflict):
        apply("one", {"open": {"a": "1"}})
