"""Deletion: at once, or after the finalizers."""

import pytest

from .client import GROUP, JSON_PATCH, brief, types

FINALIZER = "example.com/guard"


def guarded(collection, name="a"):
    return collection.create(name, {"x": 1}, metadata={"finalizers": [FINALIZER]})


def version(body):
    return int(body["metadata"]["resourceVersion"])


def test_without_finalizers_it_is_gone_at_once(api, widgets):
    """The answer is a Status; the event shows the last state with the deletion's own, newer version."""
    before = widgets.create("a", {"x": 1})
    with widgets.watch(resourceVersion=version(before)) as watch:
        answer = api.delete(widgets.at("a")).ok(200)
        event = watch.next()
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {
        "name": "a",
        "group": GROUP,
        "kind": "widgets",
        "uid": before["metadata"]["uid"],
    }
    assert event["type"] == "DELETED" and event["object"]["spec"] == {"x": 1}
    assert version(event["object"]) > version(before)
    assert "deletionTimestamp" not in event["object"]["metadata"]
    api.get(widgets.at("a")).refused(404)


def test_with_finalizers_it_is_marked(api, widgets):
    """
    It gets a deletionTimestamp, a grace period of 0 and another generation; a second deletion changes
    nothing.
    """
    before = guarded(widgets)
    with widgets.watch(resourceVersion=version(before)) as watch:
        marked = api.delete(widgets.at("a")).ok(200)
        meta = marked["metadata"]
        assert meta["deletionTimestamp"].endswith("Z") and meta["deletionGracePeriodSeconds"] == 0
        assert meta["generation"] == 2 and meta["finalizers"] == [FINALIZER]
        assert api.delete(widgets.at("a")).ok(200)["metadata"]["resourceVersion"] == meta["resourceVersion"]
        assert brief([watch.next()]) == [("MODIFIED", "a", meta["resourceVersion"])]
        widgets.patch("a", {"metadata": {"finalizers": None}})
        assert watch.next()["type"] == "DELETED"


def remove_by_merge(api, widgets):
    return widgets.patch("a", {"metadata": {"finalizers": []}})


def remove_by_json_patch(api, widgets):
    return widgets.patch("a", [{"op": "remove", "path": "/metadata/finalizers/0"}], type=JSON_PATCH)


def remove_by_put(api, widgets):
    body = widgets.get("a")
    del body["metadata"]["finalizers"]
    return api.put(widgets.at("a"), body).ok(200)


@pytest.mark.parametrize("remove", [remove_by_merge, remove_by_json_patch, remove_by_put])
def test_removing_the_last_finalizer_deletes(api, widgets, remove):
    """
    One DELETED and no MODIFIED: with the last stored state and a newer version; the answer has the old one.
    """
    guarded(widgets)
    marked = api.delete(widgets.at("a")).ok(200)
    with widgets.watch(resourceVersion=version(marked)) as watch:
        answer = remove(api, widgets)
        event = watch.next()
        widgets.create("last", {})
        assert types([watch.next()]) == [("ADDED", "last")]
    assert not answer["metadata"].get("finalizers") and version(answer) == version(marked)
    assert event["type"] == "DELETED" and version(event["object"]) > version(marked)
    assert event["object"]["metadata"]["finalizers"] == [FINALIZER]
    assert event["object"]["metadata"]["deletionTimestamp"]
    api.get(widgets.at("a")).refused(404)


def test_spec_may_change_while_deleting(api, widgets):
    """An object that is being deleted is an object still."""
    guarded(widgets)
    api.delete(widgets.at("a")).ok(200)
    assert widgets.patch("a", {"spec": {"x": 2}})["metadata"]["generation"] == 3
    widgets.patch("a", {"metadata": {"finalizers": None}})


def test_adding_a_finalizer_while_deleting_is_422(api, widgets):
    """No new ones: Forbidden; removing one of several is fine."""
    widgets.create("a", {}, metadata={"finalizers": [FINALIZER, "example.com/other"]})
    api.delete(widgets.at("a")).ok(200)
    patch = {"metadata": {"finalizers": [FINALIZER, "example.com/other", "example.com/new"]}}
    status = api.patch(widgets.at("a"), patch).refused(422, reason="Invalid")
    assert "Forbidden: no new finalizers can be added if the object is being deleted" in status["message"]
    assert widgets.patch("a", {"metadata": {"finalizers": [FINALIZER]}})["metadata"]["finalizers"] == [FINALIZER]
    widgets.patch("a", {"metadata": {"finalizers": None}})


def test_finalizer_names_must_be_qualified(api, widgets, configmaps):
    """Built-in kinds want a domain, all want a valid name."""
    body = configmaps.body("a", metadata={"finalizers": ["plain"]})
    api.post(configmaps.path, body).refused(422, reason="Invalid")
    body = widgets.body("a", {}, metadata={"finalizers": ["-bad-"]})
    api.post(widgets.path, body).refused(422, reason="Invalid")


def options(**fields):
    return {"kind": "DeleteOptions", "apiVersion": "v1", **fields}


def test_preconditions(api, widgets):
    """Another uid or version is a conflict; the right ones delete."""
    body = widgets.create("a", {})
    for wrong in ({"uid": "other"}, {"resourceVersion": "1"}):
        api.delete(widgets.at("a"), options(preconditions=wrong)).refused(409, reason="Conflict")
    meta = body["metadata"]
    right = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    api.delete(widgets.at("a"), options(preconditions=right)).ok(200)


def test_propagation_policy(api, widgets):
    """Orphan and Foreground add a finalizer for the garbage collector, Background deletes."""
    for name, policy, finalizer in (("o", "Orphan", "orphan"), ("f", "Foreground", "foregroundDeletion")):
        widgets.create(name, {})
        meta = api.delete(widgets.at(name), options(propagationPolicy=policy)).ok(200)["metadata"]
        assert meta["finalizers"] == [finalizer] and meta["deletionTimestamp"]
        widgets.patch(name, {"metadata": {"finalizers": None}})
    widgets.create("b", {})
    assert api.delete(widgets.at("b"), propagationPolicy="Background").ok(200)["kind"] == "Status"
    widgets.create("n", {})
    api.delete(widgets.at("n"), options(propagationPolicy="Nonsense")).refused(422, reason="Invalid")


def test_delete_collection_with_a_label_selector(api, widgets):
    """All that is selected is deleted, or marked if guarded; the answer is the list."""
    widgets.create("a", {}, metadata={"labels": {"k": "1"}})
    widgets.create("b", {}, metadata={"labels": {"k": "1"}, "finalizers": [FINALIZER]})
    widgets.create("c", {}, metadata={"labels": {"k": "2"}})
    answer = api.delete(widgets.path, labelSelector="k=1").ok(200)
    assert answer["kind"] == "WidgetList" and len(answer["items"]) == 2
    assert widgets.names() == ["b", "c"]
    assert widgets.get("b")["metadata"]["deletionTimestamp"]
    widgets.patch("b", {"metadata": {"finalizers": None}})


def test_same_name_after_a_deletion_is_another_object(api, widgets):
    """A new object has a new uid."""
    first = widgets.create("a", {})
    api.delete(widgets.at("a")).ok(200)
    assert widgets.create("a", {})["metadata"]["uid"] != first["metadata"]["uid"]
