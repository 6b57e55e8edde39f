"""What moves the generation, and the split of spec and status."""

import pytest


def generation(body):
    return body["metadata"]["generation"]


def version(body):
    return body["metadata"]["resourceVersion"]


def test_spec_change_bumps_by_one_by_put_and_by_patch(api, widgets):
    """One write raises the generation by one, however much of the spec it changes."""
    body = widgets.create("a", {"x": 1, "y": 1})
    body["spec"] = {"x": 2, "z": 3}
    replaced = api.put(widgets.at("a"), body).ok(200)
    assert generation(replaced) == 2
    assert generation(widgets.patch("a", {"spec": {"x": 3, "z": None}})) == 3


@pytest.mark.parametrize(
    "meta",
    [
        pytest.param({"labels": {"a": "b"}}, id="labels"),
        pytest.param({"annotations": {"a": "b"}}, id="annotations"),
        pytest.param({"finalizers": ["example.com/x"]}, id="finalizers"),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}]},
            id="owners",
        ),
    ],
)
def test_metadata_does_not_bump(widgets, meta):
    """Metadata moves the resourceVersion only."""
    before = widgets.create("a", {"x": 1})
    after = widgets.patch("a", {"metadata": meta})
    assert generation(after) == 1 and version(after) != version(before)
    widgets.patch("a", {"metadata": {"finalizers": None}})


def test_any_other_top_level_field_counts_as_spec(widgets):
    """Whatever stands beside metadata and status counts."""
    widgets.create("a", {"x": 1})
    assert generation(widgets.patch("a", {"extra": "e"})) == 2


def test_status_subresource_main_endpoint_ignores_status(api, widgets):
    """PUT and PATCH of the object keep the stored status, also when it is left out."""
    widgets.create("a", {"x": 1})
    api.patch(widgets.at("a", "status"), {"status": {"ready": 1}}).ok(200)
    body = widgets.get("a")
    body["status"] = {"ready": 2}
    assert api.put(widgets.at("a"), body).ok(200)["status"] == {"ready": 1}
    body = widgets.get("a")
    del body["status"]
    body["spec"] = {"x": 2}
    assert api.put(widgets.at("a"), body).ok(200)["status"] == {"ready": 1}
    after = widgets.patch("a", {"status": {"ready": 3}})
    assert after["status"] == {"ready": 1} and generation(after) == 2


def test_status_subresource_changes_status_only_without_a_bump(api, widgets):
    """PUT and PATCH of /status take the status alone, move the version, and answer the whole object."""
    before = widgets.create("a", {"x": 1}, metadata={"labels": {"k": "old"}})
    with widgets.watch(resourceVersion=version(before)) as watch:
        patch = {
            "status": {"p": 1},
            "spec": {"x": 9},
            "metadata": {"labels": {"k": "new"}, "finalizers": ["a.b/c"]},
        }
        after = api.patch(widgets.at("a", "status"), patch).ok(200)
        assert watch.next()["type"] == "MODIFIED"
    assert after["status"] == {"p": 1} and after["spec"] == {"x": 1} and generation(after) == 1
    assert after["metadata"]["labels"] == {"k": "old"} and "finalizers" not in after["metadata"]
    assert version(after) != version(before)
    body = {**after, "status": {"q": 2}, "spec": {"x": 8}}
    replaced = api.put(widgets.at("a", "status"), body).ok(200)
    assert (replaced["status"], replaced["spec"], generation(replaced)) == ({"q": 2}, {"x": 1}, 1)
    api.put(widgets.at("a", "status"), body).refused(409, reason="Conflict")
    assert api.get(widgets.at("a", "status")).ok(200)["status"] == {"q": 2}


def test_without_status_subresource_status_is_a_plain_field(api, gadgets):
    """Then its change bumps the generation, and there is no /status."""
    gadgets.create("a", {"x": 1})
    after = gadgets.patch("a", {"status": {"ready": 1}})
    assert after["status"] == {"ready": 1} and generation(after) == 2
    assert api.get(gadgets.at("a", "status")).status == 404
    assert api.patch(gadgets.at("a", "status"), {"status": {}}).status == 404


def test_client_cannot_set_generation_or_drop_system_metadata(api, widgets):
    """System metadata is put back, silently."""
    before = widgets.create("a", {"x": 1})
    lies = {"generation": 50, "creationTimestamp": None, "uid": None}
    after = widgets.patch("a", {"metadata": lies})
    assert after["metadata"] == before["metadata"]
    body = {**before, "metadata": {"name": "a", "resourceVersion": version(before), "generation": 9}}
    replaced = api.put(widgets.at("a"), body).ok(200)
    for field in ("uid", "creationTimestamp", "generation"):
        assert replaced["metadata"][field] == before["metadata"][field]
