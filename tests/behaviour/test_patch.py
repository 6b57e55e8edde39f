"""Patches of four types."""

import concurrent.futures

import pytest

from .client import APPLY, JSON, JSON_PATCH, STRATEGIC


def test_merge_patch(widgets):
    """Null deletes, maps merge, lists are replaced."""
    widgets.create("a", {"m": {"a": 1, "b": 2}, "l": [1, 2], "gone": 1})
    after = widgets.patch("a", {"spec": {"m": {"b": None, "c": 3}, "l": [3], "gone": None}})
    assert after["spec"] == {"m": {"a": 1, "c": 3}, "l": [3]}


def test_merge_patch_with_a_version_is_a_lock(api, widgets):
    """A stale version in the patch is a conflict, at the status too."""
    before = widgets.create("a", {"x": 1})
    lock = {"metadata": {"resourceVersion": before["metadata"]["resourceVersion"]}}
    widgets.patch("a", {**lock, "spec": {"x": 2}})
    api.patch(widgets.at("a"), {**lock, "spec": {"x": 3}}).refused(409, reason="Conflict")
    api.patch(widgets.at("a", "status"), {**lock, "status": {"x": 3}}).refused(409, reason="Conflict")


def test_concurrent_merge_patches_without_a_version_all_succeed(api, widgets):
    """The server retries, and none is lost."""
    widgets.create("a", {"x": 0})

    def patch(number):
        own = api.clone()
        try:
            return own.patch(widgets.at("a"), {"spec": {f"k{number}": number}}).status
        finally:
            own.close()

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        assert list(pool.map(patch, range(5))) == [200] * 5
    assert widgets.get("a")["spec"] == {"x": 0} | {f"k{number}": number for number in range(5)}


def test_json_patch(widgets):
    """Add, replace, remove, append, test."""
    widgets.create("a", {"x": 1, "l": [1], "gone": 1})
    operations = [
        {"op": "test", "path": "/spec/x", "value": 1},
        {"op": "replace", "path": "/spec/x", "value": 2},
        {"op": "add", "path": "/spec/l/-", "value": 2},
        {"op": "add", "path": "/spec/l/0", "value": 0},
        {"op": "remove", "path": "/spec/gone"},
        {"op": "copy", "from": "/spec/x", "path": "/spec/y"},
        {"op": "add", "path": "/metadata/labels", "value": {"a/b": "c"}},
        {"op": "replace", "path": "/metadata/labels/a~1b", "value": "d"},
    ]
    after = widgets.patch("a", operations, type=JSON_PATCH)
    assert after["spec"] == {"x": 2, "l": [0, 1, 2], "y": 2}
    assert after["metadata"]["labels"] == {"a/b": "d"}


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        pytest.param([{"op": "test", "path": "/spec/x", "value": 9}], 422, id="failed-test"),
        pytest.param([{"op": "remove", "path": "/spec/absent"}], 422, id="remove-absent"),
        pytest.param([{"op": "replace", "path": "/spec/absent/deep", "value": 1}], 422, id="replace-absent"),
        pytest.param([{"op": "add", "path": "/spec/absent/deep", "value": 1}], 422, id="add-below-absent"),
        pytest.param({"op": "add"}, 400, id="not-a-list"),
        pytest.param([1], 400, id="not-operations"),
    ],
)
def test_json_patch_that_fails(api, widgets, patch, code):
    """Operations that can't be carried out are Invalid, nonsense is a bad request; nothing is changed."""
    before = widgets.create("a", {"x": 1})
    status = api.patch(widgets.at("a"), patch, type=JSON_PATCH).refused(code)
    if code == 422:
        assert "the server rejected our request due to an error in our request" in status["message"]
    assert widgets.get("a") == before


def test_json_patch_on_status_touches_status_only(api, widgets):
    """Whatever else it changes is ignored."""
    widgets.create("a", {"x": 1})
    operations = [
        {"op": "add", "path": "/status", "value": {"ready": True}},
        {"op": "replace", "path": "/spec/x", "value": 2},
    ]
    after = api.patch(widgets.at("a", "status"), operations, type=JSON_PATCH).ok(200)
    assert after["status"] == {"ready": True} and after["spec"] == {"x": 1}


def test_json_patch_with_a_version_test_is_a_lock(api, widgets):
    """Testing the version guards a patch, as operators do when they attach finalizers."""
    before = widgets.create("a", {"x": 1})
    lock = {"op": "test", "path": "/metadata/resourceVersion", "value": before["metadata"]["resourceVersion"]}
    add = {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/x"]}
    widgets.patch("a", [lock, add], type=JSON_PATCH)
    api.patch(widgets.at("a"), [lock, add], type=JSON_PATCH).refused(422, reason="Invalid")
    widgets.patch("a", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("type", [STRATEGIC, JSON, "text/plain"])
def test_other_patch_types_are_415(api, widgets, type):
    """Custom resources know no strategic merge, and JSON alone is no patch."""
    widgets.create("a", {"x": 1})
    api.patch(widgets.at("a"), {}, type=type).refused(415, reason="UnsupportedMediaType")


def pod(name):
    return {"name": name, "image": f"{name}:1"}


def test_strategic_merge_on_builtins_merges_lists_by_key(api, namespace):
    """Containers are merged by name, and removed by a directive."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [pod("one"), pod("two")]}}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}
    api.post(path, body).ok(201)

    def patched(containers):
        patch = {"spec": {"template": {"spec": {"containers": containers}}}}
        answer = api.patch(f"{path}/a", patch, type=STRATEGIC).ok(200)
        return {item["name"]: item["image"] for item in answer["spec"]["template"]["spec"]["containers"]}

    assert patched([{"name": "two", "image": "two:2"}]) == {"one": "one:1", "two": "two:2"}
    assert patched([pod("three")]) == {"one": "one:1", "two": "two:2", "three": "three:1"}
    assert patched([{"name": "one", "$patch": "delete"}]) == {"two": "two:2", "three": "three:1"}
    assert patched([{"$patch": "replace"}, pod("only")]) == {"only": "only:1"}


def applied(api, widgets, spec, manager, **query):
    body = widgets.body("a", spec)
    return api.patch(widgets.at("a"), body, type=APPLY, fieldManager=manager, **query)


def test_server_side_apply_creates_updates_conflicts_and_forces(api, widgets):
    """The first apply creates; equal ones change nothing; others' fields are a conflict unless forced."""
    created = applied(api, widgets, {"x": 1, "y": 1}, "one").ok(201)
    again = applied(api, widgets, {"x": 1, "y": 1}, "one").ok(200)
    assert again["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    status = applied(api, widgets, {"x": 2}, "two").refused(409, reason="Conflict")
    cause = status["details"]["causes"][0]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".spec.x")
    assert '"one"' in cause["message"]
    assert applied(api, widgets, {"x": 2}, "two", force="true").ok(200)["spec"] == {"x": 2, "y": 1}


def test_server_side_apply_removes_what_is_no_longer_wanted(api, widgets):
    """A field that its only manager leaves out is removed; one that another has set stays."""
    applied(api, widgets, {"x": 1, "y": 1, "z": 1}, "one").ok(201)
    applied(api, widgets, {"y": 1}, "two").ok(200)
    assert applied(api, widgets, {"x": 1}, "one").ok(200)["spec"] == {"x": 1, "y": 1}


def test_server_side_apply_needs_a_manager(api, widgets):
    """Without a name it is refused (422; newer servers say 400)."""
    api.patch(widgets.at("a"), widgets.body("a", {}), type=APPLY).refused(400, 422)


@pytest.mark.parametrize(("meta", "code"), [({"name": "b"}, 400), ({"namespace": "b"}, 400), ({"uid": "b"}, 422)])
def test_patch_cannot_rename(api, widgets, meta, code):
    """Identity does not change."""
    widgets.create("a", {"x": 1})
    api.patch(widgets.at("a"), {"metadata": meta}).refused(code)


def test_patch_cannot_set_the_deletion_timestamp(api, widgets):
    """Only a deletion does; removing it is ignored."""
    widgets.create("a", {"x": 1})
    patch = {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}}
    api.patch(widgets.at("a"), patch).refused(422, reason="Invalid")
    widgets.patch("a", {"metadata": {"deletionTimestamp": None}})


def test_field_manager_is_recorded(api, widgets):
    """managedFields tells who set what."""
    widgets.create("a", {"x": 1})
    meta = api.patch(widgets.at("a"), {"spec": {"y": 2}}, fieldManager="me").ok(200)["metadata"]
    fields = {entry["manager"]: entry["fieldsV1"] for entry in meta["managedFields"]}
    assert "f:y" in fields["me"]["f:spec"]
    assert all("f:y" not in tree.get("f:spec", {}) for manager, tree in fields.items() if manager != "me")


def test_dry_run_answers_as_usual_and_stores_nothing(api, widgets):
    """The codes and bodies are the usual ones; no object and no event comes of it."""
    version = widgets.version()
    with widgets.watch(resourceVersion=version) as watch:
        made = api.post(widgets.path, widgets.body("a", {"x": 1}), dryRun="All").ok(201)
        assert made["metadata"]["uid"] and not made["metadata"].get("resourceVersion")
        before = widgets.create("real", {"x": 1})
        assert api.patch(widgets.at("real"), {"spec": {"x": 2}}, dryRun="All").ok(200)["spec"] == {"x": 2}
        api.delete(widgets.at("real"), dryRun="All").ok(200)
        assert widgets.get("real") == before
        widgets.create("last", {})
        names = [event["object"]["metadata"]["name"] for event in watch.take(2)]
    assert names == ["real", "last"]
    assert api.get(widgets.at("a")).status == 404
    api.post(widgets.path, widgets.body("a", {}), dryRun="Some").refused(422, reason="Invalid")
