"""Replacing objects: locks, no-ops, what may not change."""

import concurrent.futures

import pytest

from .client import brief


def test_noop_write_keeps_the_version_and_emits_no_event(api, stricts):
    """A write that changes nothing answers 200 with the same version, and nobody sees an event."""
    before = stricts.create("a", {"size": 1, "nested": {}}, metadata={"labels": {"k": "v"}})
    with stricts.watch(resourceVersion=before["metadata"]["resourceVersion"]) as watch:
        writes = [
            api.put(stricts.at("a"), before),
            api.patch(stricts.at("a"), {}),
            api.patch(stricts.at("a"), {"spec": {"size": 1}}),
            api.patch(stricts.at("a"), {"spec": {"absent": None}}),
            api.patch(stricts.at("a"), {"spec": {"unknown": 1}}),
            api.patch(stricts.at("a"), {"metadata": {"labels": {"k": "v"}}}),
            api.patch(stricts.at("a", "status"), {"status": None}),
        ]
        for answer in writes:
            assert answer.ok(200)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        stricts.create("last", {"size": 1})
        assert [name for _, name, _ in brief([watch.next()])] == ["last"]


def test_put_with_a_stale_version_is_409(api, widgets):
    """A version is a lock."""
    before = widgets.create("a", {"x": 1})
    widgets.patch("a", {"spec": {"x": 2}})
    status = api.put(widgets.at("a"), {**before, "spec": {"x": 3}}).refused(409, reason="Conflict")
    assert "the object has been modified; please apply your changes to the latest version" in status["message"]
    assert status["details"]["kind"] == "widgets"
    assert widgets.get("a")["spec"] == {"x": 2}


def test_put_without_a_version(api, widgets, configmaps):
    """Custom resources need one (422); built-in kinds are replaced unconditionally."""
    widgets.create("a", {"x": 1})
    status = api.put(widgets.at("a"), widgets.body("a", {"x": 2})).refused(422, reason="Invalid")
    assert "must be specified for an update" in status["message"]
    configmaps.create("a", data={"k": "1"})
    assert api.put(configmaps.at("a"), configmaps.body("a", data={"k": "2"})).ok(200)["data"] == {"k": "2"}


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        pytest.param({"uid": "other"}, 409, id="uid"),
        pytest.param({"name": "other"}, 400, id="name"),
        pytest.param({"namespace": "other"}, 400, id="namespace"),
        pytest.param({"name": ""}, 400, id="no-name"),
    ],
)
def test_put_with_another_identity(api, widgets, meta, code):
    """Another uid is a conflict, another name or namespace a bad request."""
    body = widgets.create("a", {"x": 1})
    body["metadata"] |= meta
    api.put(widgets.at("a"), body).refused(code)


def test_put_replaces(api, widgets):
    """What a PUT leaves out is removed."""
    body = widgets.create("a", {"x": 1, "y": 2}, metadata={"labels": {"k": "v"}, "annotations": {"n": "m"}})
    del body["metadata"]["labels"], body["spec"]["y"]
    after = api.put(widgets.at("a"), body).ok(200)
    assert after["spec"] == {"x": 1} and "labels" not in after["metadata"]
    assert after["metadata"]["annotations"] == {"n": "m"}


def test_of_concurrent_puts_at_one_version_exactly_one_wins(api, widgets):
    """The others are conflicts."""
    body = widgets.create("a", {"x": 0})

    def put(number):
        own = api.clone()
        try:
            return own.put(widgets.at("a"), {**body, "spec": {"x": number}}).status
        finally:
            own.close()

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        codes = sorted(pool.map(put, range(1, 6)))
    assert codes == [200, 409, 409, 409, 409]


def test_generation_and_version_after_an_update_are_those_of_the_answer(api, widgets):
    """What a write answers is what a read shows."""
    widgets.create("a", {"x": 1})
    after = widgets.patch("a", {"spec": {"x": 2}})
    assert widgets.get("a") == after
