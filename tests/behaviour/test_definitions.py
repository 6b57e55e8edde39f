"""Custom resource definitions: they come, serve, and go."""

import pytest

from .client import eventually, unique
from .conftest import Collection
from .definitions import CRDS, definition, version


@pytest.fixture
def group():
    """A group of the test's own."""
    return unique("crd") + ".dev"


def conditions(body):
    return {item["type"]: item["status"] for item in (body.get("status") or {}).get("conditions") or ()}


def test_new_definition_becomes_established_and_serves(api, namespace, group):
    """A definition is established soon, then its endpoints and discovery are there."""
    body = definition("things", "Thing", version("v1"), group=group)
    path = f"{CRDS}/things.{group}"
    api.post(CRDS, body).ok(201)
    eventually(lambda: conditions(api.get(path).ok(200)).get("Established") == "True")
    things = Collection(api, "things", "Thing", namespace, group=group)
    eventually(lambda: api.get(things.path).status == 200)
    assert things.create("a", {"x": 1})["spec"] == {"x": 1}
    eventually(lambda: api.get(f"/apis/{group}/v1").status == 200)


def test_definition_watch_reports_added_then_established(api, group):
    """A watch shows the new definition, then its conditions as they come."""
    start = api.get(CRDS).ok(200)["metadata"]["resourceVersion"]
    name = f"things.{group}"
    with api.watch(CRDS, resourceVersion=start, fieldSelector=f"metadata.name={name}") as watch:
        api.post(CRDS, definition("things", "Thing", version("v1"), group=group)).ok(201)
        events = [watch.next()]
        while conditions(events[-1]["object"]).get("Established") != "True":
            events.append(watch.next())
    assert [event["type"] for event in events[:2]] == ["ADDED", "MODIFIED"]
    assert conditions(events[-1]["object"])["NamesAccepted"] == "True"


def broken(change):
    body = definition("things", "Thing", version("v1"), group="broken.dev")
    change(body)
    return body


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(broken(lambda body: body["metadata"].update(name="wrong.dev")), id="name"),
        pytest.param(broken(lambda body: body["spec"]["versions"][0].pop("schema")), id="no-schema"),
        pytest.param(broken(lambda body: body["spec"]["versions"][0].update(storage=False)), id="no-storage"),
        pytest.param(broken(lambda body: body["spec"].update(scope="Everywhere")), id="scope"),
        pytest.param(broken(lambda body: body["spec"]["names"].update(plural="Things")), id="plural"),
    ],
)
def test_invalid_definitions_are_422(api, body):
    """A definition that can't work is Invalid, with causes."""
    assert api.post(CRDS, body).refused(422, reason="Invalid")["details"]["causes"]


def test_deleting_a_definition_removes_objects_endpoints_and_discovery(api, namespace, group):
    """When a definition goes, its objects are deleted in the sight of watchers, then nothing is served."""
    api.post(CRDS, definition("things", "Thing", version("v1"), group=group)).ok(201)
    things = Collection(api, "things", "Thing", namespace, group=group)
    eventually(lambda: api.post(things.path, things.body("a", {})).status == 201)
    with things.watch(resourceVersion=things.version()) as watch:
        answer = api.delete(f"{CRDS}/things.{group}").ok(200)
        assert answer["kind"] == "CustomResourceDefinition"
        assert answer["metadata"]["deletionTimestamp"]
        event = watch.next()
        assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "a")
    eventually(lambda: api.get(things.path).status == 404)
    eventually(lambda: api.get(f"/apis/{group}").status == 404)
    eventually(lambda: api.get(f"{CRDS}/things.{group}").status == 404)


def test_every_served_version_reads_the_same_object(api, namespace):
    """Versions show one object, each with its own apiVersion."""
    stable = Collection(api, "doubles", "Double", namespace)
    beta = Collection(api, "doubles", "Double", namespace, version="v1beta1")
    created = beta.create("a", {"x": 1})
    read = stable.get("a")
    assert created["apiVersion"].endswith("/v1beta1") and read["apiVersion"].endswith("/v1")
    assert read["spec"] == {"x": 1} and read["metadata"]["uid"] == created["metadata"]["uid"]
    assert [item["apiVersion"] for item in api.get(beta.path).ok(200)["items"]] == [created["apiVersion"]]
