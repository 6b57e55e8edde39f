"""Watches: what they show, from where, until when."""

import threading

import pytest

from .client import GROUP, TABLE, brief, types
from .conftest import Collection


def test_from_the_lists_version_later_changes_only_in_order(api, widgets):
    """A watch shows what comes after the version, in order, each with its own version."""
    widgets.create("old", {})
    with widgets.watch(resourceVersion=widgets.version()) as watch:
        assert watch.status == 200 and watch.headers["Transfer-Encoding"] == "chunked"
        made = widgets.create("a", {"x": 1})
        changed = widgets.patch("a", {"spec": {"x": 2}})
        api.delete(widgets.at("a")).ok(200)
        events = watch.take(3)
    assert types(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert events[0]["object"] == made and events[1]["object"] == changed
    versions = [int(version) for _, _, version in brief(events)]
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}, {"resourceVersion": ""}])
def test_without_a_version_all_that_exists_comes_first(api, widgets, query):
    """
    Without a version or with 0, existing objects are added with their own versions, then changes follow.
    """
    existing = [widgets.create(name, {})["metadata"]["resourceVersion"] for name in "ab"]
    with widgets.watch(**query) as watch:
        first = brief(watch.take(2))
        widgets.create("c", {})
        assert types([watch.next()]) == [("ADDED", "c")]
    assert sorted(first) == [("ADDED", "a", existing[0]), ("ADDED", "b", existing[1])]


@pytest.mark.parametrize("value", ["true", "True", "1"])
def test_watch_parameter_is_a_go_boolean(api, widgets, value):
    """Clients write true in several ways."""
    widgets.create("a", {})
    with api.watch(widgets.path, watch=value) as watch:
        assert types([watch.next()]) == [("ADDED", "a")]


@pytest.mark.parametrize("value", ["false", "0"])
def test_watch_parameter_false_lists(api, widgets, value):
    """And false, too."""
    assert api.get(widgets.path, watch=value).ok(200)["kind"] == "WidgetList"


def test_history_is_replayed_on_reconnect(api, widgets):
    """A later watch from an old version shows exactly what came after it."""
    start = widgets.version()
    made = widgets.create("a", {})["metadata"]["resourceVersion"]
    widgets.patch("a", {"spec": {"x": 1}})
    api.delete(widgets.at("a")).ok(200)
    widgets.create("b", {})
    with widgets.watch(resourceVersion=start) as watch:
        everything = watch.take(4)
    assert types(everything) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
    with widgets.watch(resourceVersion=made) as watch:
        assert watch.take(3) == everything[1:]


def test_no_gap_and_no_duplicate_under_concurrent_writes(api, widgets):
    """A list and the watch from its version show each change exactly once, however fast changes come."""
    total = 60

    def write():
        own = api.clone()
        for number in range(total):
            own.post(widgets.path, widgets.body(f"w{number:03}", {})).ok(201)
        own.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            page = api.get(widgets.path).ok(200)
            listed = [item["metadata"]["name"] for item in page["items"]]
            with widgets.watch(resourceVersion=page["metadata"]["resourceVersion"]) as watch:
                last = f"w{total - 1:03}"
                watched = [] if last in listed else [e["object"]["metadata"]["name"] for e in watch.until(last)]
            assert listed + watched == [f"w{number:03}" for number in range(total)]
    finally:
        writer.join()


def test_timeout_closes_the_stream_cleanly(api, widgets):
    """After timeoutSeconds the chunked body ends as it should."""
    with widgets.watch(resourceVersion=widgets.version(), timeoutSeconds=1) as watch:
        assert watch.next() is None


def test_bookmark_arrives_before_the_timeout(api, widgets, configmaps):
    """Asked for, and if anything has happened: a bookmark with a version and nothing else."""
    with widgets.watch(resourceVersion=widgets.version(), timeoutSeconds=4, allowWatchBookmarks="true") as watch:
        widgets.create("a", {})
        events = watch.rest()
    assert [event["type"] for event in events[:2]] == ["ADDED", "BOOKMARK"]
    bookmark = events[-1]["object"]
    assert bookmark["kind"] == "Widget" and bookmark["apiVersion"] == f"{GROUP}/v1"
    assert int(bookmark["metadata"]["resourceVersion"]) >= int(events[0]["object"]["metadata"]["resourceVersion"])
    assert not bookmark["metadata"].get("name") and not bookmark["metadata"].get("uid")


def test_initial_events_are_supported_or_refused(api, widgets):
    """Newer servers send what exists and a marking bookmark, older ones refuse."""
    widgets.create("a", {})
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    with widgets.watch(**query) as watch:
        assert watch.status in (200, 422)
        if watch.status == 200:
            added, bookmark = watch.take(2)
            assert types([added]) == [("ADDED", "a")] and bookmark["type"] == "BOOKMARK"
            assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_too_old_version_is_410(api, widgets):
    """
    A version that is no longer known is Expired: an error event in the stream or the status of the answer.
    """
    with widgets.watch(resourceVersion="1") as watch:
        assert watch.status in (200, 410)
        event = watch.next()
        status = event["object"] if watch.status == 200 else event
        assert watch.status == 410 or event["type"] == "ERROR"
        assert (status["code"], status["reason"]) == (410, "Expired")
        assert "too old resource version" in status["message"]
        assert watch.next() is None


def test_malformed_version_is_rejected(api, widgets):
    """A version is a number (400; older servers say 500)."""
    assert api.get(widgets.path, watch="true", resourceVersion="nonsense").status in (400, 500)


def test_label_selector_entering_is_added_and_leaving_is_deleted(api, widgets):
    """What leaves is shown as it was before, with the version of the change."""
    with widgets.watch(labelSelector="k=in") as watch:
        widgets.create("other", {})
        widgets.create("a", {"x": 1}, metadata={"labels": {"k": "out"}})
        entered = widgets.patch("a", {"metadata": {"labels": {"k": "in"}}})
        widgets.patch("a", {"spec": {"x": 2}})
        left = widgets.patch("a", {"metadata": {"labels": {"k": "out"}}, "spec": {"x": 3}})
        widgets.create("last", {}, metadata={"labels": {"k": "in"}})
        events = watch.take(4)
    assert types(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "last")]
    assert events[0]["object"] == entered
    gone = events[2]["object"]
    assert gone["metadata"]["labels"] == {"k": "in"} and gone["spec"] == {"x": 2}
    assert gone["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
    assert "deletionTimestamp" not in gone["metadata"]


def test_field_selector_and_scopes(api, namespace, widgets):
    """One object, one namespace, everything."""
    other = Collection(api, "widgets", "Widget", "default")
    start = widgets.version()
    name = f"{namespace}-x"
    with (
        widgets.watch(resourceVersion=start, fieldSelector="metadata.name=b") as one,
        widgets.watch(resourceVersion=start) as some,
        api.watch(widgets.everywhere, resourceVersion=start) as everything,
    ):
        widgets.create("a", {})
        other.create(name, {})
        widgets.create("b", {})
        assert types([one.next()]) == [("ADDED", "b")]
        assert types(some.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        assert types(everything.take(3)) == [("ADDED", "a"), ("ADDED", name), ("ADDED", "b")]
    api.delete(other.at(name)).ok(200)


def test_table_events(api, widgets):
    """kubectl get -w watches tables."""
    with widgets.watch(resourceVersion=widgets.version(), accept=TABLE) as watch:
        widgets.create("a", {"size": 2})
        event = watch.next()
    assert event["type"] == "ADDED" and event["object"]["kind"] == "Table"
    assert event["object"]["rows"][0]["cells"] == ["a", 2]


def test_several_watchers_all_get_every_event(api, widgets):
    """A watcher that does not read, or has gone, harms nobody."""
    start = widgets.version()
    lazy, gone = widgets.watch(resourceVersion=start), widgets.watch(resourceVersion=start)
    gone.close()
    watches = [widgets.watch(resourceVersion=start) for _ in range(5)]
    for number in range(20):
        widgets.create(f"w{number:02}", {})
    expected = [("ADDED", f"w{number:02}") for number in range(20)]
    for watch in watches:
        assert types(watch.take(20)) == expected
        watch.close()
    lazy.close()
