"""
The store by itself: determinism, borders, history, statistics. What a server does is in the behaviour suite.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opkit.errors import ApiError, NotFound
from opkit.simulation.store import FIRST_VERSION, Store
from opkit.simulation.watchers import Selection

from .conftest import Clock, make_store, shop


def names(records):
    return [record.name for record in records]


def test_same_seed_same_cluster():
    """Time and randomness are given: two stores that are told the same hold the same."""
    dumps = []
    for _ in range(2):
        store = make_store(Clock())
        endpoint = store.endpoint("example.com", "v1", "shops")
        store.create(endpoint, shop("", generateName="a-"), "default")
        dumps.append([record.data for _, record in store.all_records()])
    assert dumps[0] == dumps[1]


def test_stamps_come_from_the_given_clock(store, shops, clock):
    """Stamps are whole seconds of the clock that was given."""
    clock.advance(61.7)
    meta = store.create(shops, shop("a"), "default").body()["metadata"]
    assert meta["creationTimestamp"] == "2030-01-01T00:01:01Z"


def test_what_is_read_can_be_changed_without_effect(store, shops):
    """Each read gives a dict of its own."""
    store.create(shops, shop("a", {"list": [1]}), "default")
    shops.decode(store.get(shops, "a", "default"))["spec"]["list"].append(2)
    assert shops.decode(store.get(shops, "a", "default"))["spec"] == {"list": [1]}


def test_refused_write_changes_nothing(store, shops):
    """A refusal leaves the version, the objects and the watchers alone."""
    store.create(shops, shop("a", finalizers=["example.com/x"]), "default")
    watcher = store.watch(shops, Selection(), store.version, lambda: None)
    before = store.statistics()
    for patch in (
        {"metadata": {"labels": {"a": "-"}}},
        {"metadata": {"uid": "x"}},
        {"metadata": {"name": "b"}},
    ):
        with pytest.raises(ApiError):
            store.patch(shops, "a", "default", patch)
    assert store.statistics() == before and watcher.drain() == []


def test_unknown_kinds_are_not_found(store):
    """What is not served can't be named."""
    with pytest.raises(NotFound):
        store.endpoint("example.com", "v2", "shops")
    with pytest.raises(NotFound):
        store.endpoint_of({"apiVersion": "example.com/v1", "kind": "Nothing"})


def test_true_and_one_are_different(store, shops):
    """Python takes 1, 1.0 and true for equal, JSON does not: such a change is a change."""
    store.create(shops, shop("a", {"x": 1}), "default")
    after = store.patch(shops, "a", "default", {"spec": {"x": True}}).body()
    assert after["spec"]["x"] is True and after["metadata"]["generation"] == 2


def test_history_is_bounded():
    """Old changes are forgotten, in portions; watching from before them is 410, from after them complete."""
    store = make_store(Clock(), history_limit=10)
    shops = store.endpoint("example.com", "v1", "shops")
    start = store.version
    for number in range(25):
        store.create(shops, shop(f"s{number:02}"), "default")
    with pytest.raises(ApiError) as caught:
        store.watch(shops, Selection(), start, lambda: None)
    assert caught.value.status == 410
    recent = store.watch(shops, Selection(), store.version - 10, lambda: None).drain()
    assert [record.name for _, record in recent] == [f"s{number:02}" for number in range(15, 25)]


def test_compaction_forgets_history_and_tokens(store, shops):
    """After it, what was seen before is too old, what is seen now is not."""
    for name in "abc":
        store.create(shops, shop(name), "default")
    old, token = store.version - 1, store.list(shops, Selection(), limit=1).token
    store.create(shops, shop("d"), "default")
    store.compact()
    for ask in (
        lambda: store.watch(shops, Selection(), old, lambda: None),
        lambda: store.list(shops, Selection(), limit=1, token=token),
        lambda: store.list(shops, Selection(), exactly=old),
    ):
        with pytest.raises(ApiError) as caught:
            ask()
        assert caught.value.status == 410
    assert store.watch(shops, Selection(), store.version, lambda: None).drain() == []


def test_new_server_knows_no_early_versions():
    """Version 1 is too old from the beginning."""
    store = Store(Clock(), random.Random(0))
    assert store.version > FIRST_VERSION
    with pytest.raises(ApiError) as caught:
        store.watch(store.endpoint("", "v1", "configmaps"), Selection(), 1, lambda: None)
    assert caught.value.status == 410


def test_slow_reader_loses_its_watch():
    """A full buffer ends the watch; what is in it can still be read."""
    store = make_store(Clock(), buffer_limit=3)
    shops = store.endpoint("example.com", "v1", "shops")
    watcher = store.watch(shops, Selection(), store.version, lambda: None)
    for number in range(5):
        store.create(shops, shop(f"s{number}"), "default")
    assert watcher.is_closed and watcher.has_overflowed
    assert [record.name for _, record in watcher.drain()] == ["s0", "s1", "s2"]
    assert store.statistics()["watchers"] == 0


def test_watcher_is_notified_once_until_it_is_drained(store, shops):
    """A burst wakes a reader once."""
    rings = []
    watcher = store.watch(shops, Selection(), store.version, lambda: rings.append(1))
    for name in "ab":
        store.create(shops, shop(name), "default")
    assert len(rings) == 1
    watcher.drain()
    store.create(shops, shop("c"), "default")
    assert len(rings) == 2


def test_watches_of_a_kind_that_goes_are_closed(store, shops):
    """With the definition the watch ends, after the last deletions."""
    store.create(shops, shop("a"), "default")
    watcher = store.watch(shops, Selection(), store.version, lambda: None)
    definitions = store.endpoint("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    store.delete(definitions, "shops.example.com", None)
    assert [type for type, _ in watcher.drain()] == ["DELETED"] and watcher.is_closed


def test_definition_waits_for_guarded_objects(store, shops):
    """Objects with finalizers keep their definition until they are gone."""
    store.create(shops, shop("a", finalizers=["example.com/x"]), "default")
    definitions = store.endpoint("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    store.delete(definitions, "shops.example.com", None)
    assert store.find(definitions, "shops.example.com") is not None
    store.patch(shops, "a", "default", {"metadata": {"finalizers": None}})
    assert store.find(definitions, "shops.example.com") is None


def test_kind_that_is_taken_is_not_accepted(store):
    """Two definitions of one kind in a group: the second is never established."""
    definitions = store.endpoint("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    body = definitions.decode(store.get(definitions, "shops.example.com"))
    names = {**body["spec"]["names"], "plural": "stores"}
    again = {"metadata": {"name": "stores.example.com"}, "spec": {**body["spec"], "names": names}}
    store.create(definitions, again)
    stored = definitions.decode(store.get(definitions, "stores.example.com"))
    assert [(item["type"], item["status"]) for item in stored["status"]["conditions"]] == [("NamesAccepted", "False")]


@st.composite
def histories(draw):
    """Some creations, changes and deletions of a few objects."""
    step = st.tuples(st.sampled_from(["create", "patch", "delete"]), st.sampled_from("abcd"), st.integers(0, 3))
    return draw(st.lists(step, max_size=25))


def play(store, shops, history):
    """Carry out what can be carried out; gives the state after each version."""
    states = {store.version: current(store, shops)}
    for verb, name, number in history:
        try:
            if verb == "create":
                store.create(shops, shop(name, {"x": number}), "default")
            elif verb == "patch":
                store.patch(shops, name, "default", {"spec": {"x": number}})
            else:
                store.delete(shops, name, "default")
        except ApiError:
            continue
        states[store.version] = current(store, shops)
    return states


def current(store, shops):
    return {record.name: record.data for record in store.records(shops)}


@given(histories())
@settings(max_examples=60, deadline=None)
def test_every_version_can_be_listed_again(history):
    """The state at each version is told from the history exactly as it was."""
    store = make_store(Clock())
    shops = store.endpoint("example.com", "v1", "shops")
    for version, state in play(store, shops, history).items():
        page = store.list(shops, Selection(), exactly=version)
        assert {record.name: record.data for record in page.records} == state


@given(histories(), st.integers(0, 25))
@settings(max_examples=60, deadline=None)
def test_replaying_a_watch_leads_to_the_same_state(history, start):
    """From whatever version a watch begins, its events lead from the state there to the state now."""
    store = make_store(Clock())
    shops = store.endpoint("example.com", "v1", "shops")
    states = play(store, shops, history)
    version = sorted(states)[min(start, len(states) - 1)]
    state = dict(states[version])
    for type, record in store.watch(shops, Selection(), version, lambda: None).drain():
        if type == "DELETED":
            del state[record.name]
        else:
            state[record.name] = record.data
    assert state == current(store, shops)
