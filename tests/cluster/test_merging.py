"""Merge patches: what one would change, against applying it for real."""

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opkit.cluster.body import clone
from opkit.cluster.merging import changed_paths, differing_paths, explains, same, would_change

KEYS = st.sampled_from(["a", "b", "c", "e.io/x"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from(["", "x"]), st.just(1.0))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=12,
)
MAPS = st.dictionaries(KEYS, JSON, max_size=4)


def without_nulls(value):
    """What a server stores: maps without nulls. Lists are kept as they are."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


BODIES = MAPS.map(without_nulls)


def apply(target, patch):
    """RFC 7386, word for word."""
    if not isinstance(patch, dict):
        return clone(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply(result.get(key), value)
    return result


def diff(old, new):
    """The merge patch from one body to another, both without nulls in their maps."""
    patch = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        if key in old and isinstance(value, dict) and isinstance(old[key], dict):
            if inner := diff(old[key], value):
                patch[key] = inner
        elif key not in old or not same(old[key], value):
            patch[key] = value
    return patch


@given(BODIES, BODIES)
def test_applying_the_difference_gives_the_other(old, new):
    """patch(a, diff(a, b)) == b, which keeps this model honest."""
    assert same(apply(old, diff(old, new)), new)


@given(BODIES, BODIES)
def test_a_patch_would_change_what_it_changes(old, new):
    """The difference of two bodies would change the one exactly where they differ, and the other never."""
    assert would_change(old, diff(old, new)) is not same(old, new)
    assert not would_change(new, diff(old, new))


@given(BODIES, MAPS)
def test_would_change_agrees_with_applying(body, patch):
    """Whether it says so or it is done: never skipped when it would change something."""
    if not same(apply(body, patch), body):
        assert would_change(body, patch)


@given(BODIES, MAPS)
def test_a_patch_that_was_applied_would_change_nothing_again(body, patch):
    """Applying is idempotent, and the guard knows it."""
    assert not would_change(apply(body, patch), patch)


@given(BODIES, BODIES)
def test_no_difference_is_overlooked_that_jsonpatch_sees(old, new):
    """An independent library agrees on which bodies differ, but for `true` and 1, which JSON tells apart."""
    if jsonpatch.make_patch(old, new).patch:
        assert list(differing_paths(old, new))
    if not list(differing_paths(old, new)):
        assert same(old, new)


@pytest.mark.parametrize(
    "body, patch, paths",
    [
        ({}, {}, []),
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a"]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, ["a.b"]),
        ({"a": 1}, {"a": None}, ["a"]),
        ({}, {"a": None}, []),
        ({"a": None}, {"a": None}, []),
        ({"a": [1]}, {"a": [1]}, []),
        ({"a": [1]}, {"a": [1, 2]}, ["a"]),
        ({"a": 1}, {"a": True}, ["a"]),
        ({"a": 0}, {"a": False}, ["a"]),
        ({}, {"a": {}}, ["a"]),
        ({"a": 5}, {"a": {"b": 1}}, ["a"]),
        ({"a": {"b": 1}}, {"a": {"b": {"c": None}}}, ["a.b"]),
    ],
    ids=str,
)
def test_changed_paths(body, patch, paths):
    """The dotted paths of what a merge patch would change."""
    assert list(changed_paths(body, patch)) == paths


@pytest.mark.parametrize("falsy", [0, False, "", [], {}], ids=repr)
def test_falsy_values_are_values(falsy):
    """Only null removes; zero, false and what is empty are stored."""
    assert would_change({"a": "x"}, {"a": falsy})
    assert not would_change({"a": falsy}, {"a": falsy})


OLD = {"metadata": {"resourceVersion": "1"}, "spec": {"n": 1}, "status": {"phase": "A"}}


@pytest.mark.parametrize(
    "write, new, expected",
    [
        ({"status": {"phase": "B"}}, {"status": {"phase": "B"}}, True),
        ({"status": {"phase": "B"}}, {"status": {"phase": "B"}, "spec": {"n": 2}}, False),
        ({"status": {"phase": "B"}}, {"status": {"phase": "B", "other": 1}}, False),
        ({"status": {"list": [1]}}, {"status": {"phase": "A", "list": [1, 2]}}, True),
        ({"status": None}, {"status": None}, True),
        ({"data": {"x": {}}}, {"data": {"x": {}}}, True),
        ([{"op": "replace", "path": "/spec/n", "value": 2}], {"spec": {"n": 2}}, True),
        ([{"op": "add", "path": "/metadata/finalizers/-", "value": "f"}],
         {"metadata": {"resourceVersion": "2", "finalizers": ["f"]}}, True),
        ([{"op": "test", "path": "/spec/n", "value": 1}], {"spec": {"n": 2}}, False),
        ([{"op": "move", "from": "/spec/n", "path": "/data/n"}], {"spec": {}, "data": {"n": 1}}, True),
        ([{"op": "add", "path": "/metadata/annotations/e.io~1a~0b", "value": "v"}],
         {"metadata": {"annotations": {"e.io/a~b": "v"}}}, True),
    ],
    ids=str,
)  # fmt: skip
def test_a_write_explains_what_it_names(write, new, expected):
    """Differences within the named fields can be its doing; any other is somebody else's."""
    assert explains(write, OLD, {**OLD, **new}) is expected


@given(BODIES, MAPS)
def test_a_merge_patch_explains_what_it_does(body, patch):
    """Whatever it changes, it accounts for."""
    assert explains(patch, body, apply(body, patch))
