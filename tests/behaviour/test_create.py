"""Creation: what the server sets, what it drops, what it refuses."""

import json
import re

import pytest

from .client import GROUP, unique

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def test_server_sets_system_metadata(widgets, namespace):
    """A new object has uid, creationTimestamp, resourceVersion, generation and namespace."""
    meta = widgets.create("a", {"x": 1})["metadata"]
    assert UUID.fullmatch(meta["uid"]) and STAMP.fullmatch(meta["creationTimestamp"])
    assert meta["resourceVersion"].isdigit() and meta["generation"] == 1
    assert (meta["name"], meta["namespace"]) == ("a", namespace)
    assert meta["managedFields"][0]["operation"] == "Update"
    assert "deletionTimestamp" not in meta


def test_client_supplied_system_metadata_is_overridden(widgets):
    """What a client says about system metadata is ignored."""
    lies = {
        "uid": "lie",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "generation": 77,
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "unknown": 1,
    }
    meta = widgets.create("a", {}, metadata=lies)["metadata"]
    assert meta["uid"] != "lie" and meta["generation"] == 1 and "unknown" not in meta
    assert not meta["creationTimestamp"].startswith("2001") and "deletionTimestamp" not in meta


def test_resource_version_on_create_is_rejected(api, widgets):
    """An object to be created has no version (400; older servers say 500)."""
    assert api.post(widgets.path, widgets.body("a", {}, metadata={"resourceVersion": "1"})).status in (
        400,
        500,
    )
    assert api.get(widgets.at("a")).status == 404


def test_status_is_dropped_where_there_is_a_status_subresource(widgets, gadgets):
    """With a status subresource a new object has no status; without, it keeps it."""
    assert "status" not in widgets.create("a", {}, status={"x": 1})
    assert gadgets.create("a", {}, status={"x": 1})["status"] == {"x": 1}


def test_duplicate_is_409_already_exists(api, widgets):
    """A second object of one name is AlreadyExists; details.kind is the plural."""
    widgets.create("a", {})
    status = api.post(widgets.path, widgets.body("a", {})).refused(409, reason="AlreadyExists")
    assert status["details"] == {"name": "a", "group": GROUP, "kind": "widgets"}
    assert status["message"] == f'widgets.{GROUP} "a" already exists'


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_missing_object_is_404(api, widgets, method):
    """No verb finds what is not there, and PUT does not create it; details.kind is the plural."""
    body = {"GET": None, "DELETE": None, "PATCH": {}}.get(method, widgets.body("nope", {}))
    if method == "PUT":
        body["metadata"]["resourceVersion"] = "1"
    type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    status = api.request(method, widgets.at("nope"), body, type=type).refused(404, reason="NotFound")
    assert status["details"] == {"name": "nope", "group": GROUP, "kind": "widgets"}


def test_missing_object_is_404_at_status(api, widgets):
    """The status subresource of what is not there is not there either."""
    api.get(widgets.at("nope", "status")).refused(404, reason="NotFound")
    api.patch(widgets.at("nope", "status"), {"status": {}}).refused(404, reason="NotFound")


def test_creation_in_a_missing_namespace_is_404_of_the_namespace(api):
    """The namespace has to exist for a POST, not for a LIST."""
    path = f"/apis/{GROUP}/v1/namespaces/nowhere/widgets"
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}}
    status = api.post(path, body).refused(404, reason="NotFound")
    assert status["message"] == 'namespaces "nowhere" not found'
    assert api.get(path).ok(200)["items"] == []


def test_namespaced_creation_without_a_namespace_is_404(api, widgets):
    """Objects of a namespaced kind are created in a namespace only."""
    answer = api.post(widgets.everywhere, widgets.body("a", {}))
    assert answer.status == 404 and answer.body is None


def test_generate_name_makes_unique_names(api, widgets):
    """The name is the prefix and five letters or digits."""
    names = set()
    for _ in range(5):
        body = widgets.body("x", {})
        body["metadata"] = {"generateName": "some-"}
        meta = api.post(widgets.path, body).ok(201)["metadata"]
        assert re.fullmatch("some-[a-z0-9]{5}", meta["name"]) and meta["generateName"] == "some-"
        names.add(meta["name"])
    assert len(names) == 5


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        pytest.param({"metadata": {"name": "Bad_Name"}}, (422,), id="bad-name"),
        pytest.param({"metadata": {"name": "x" * 254}}, (422,), id="long-name"),
        pytest.param({"metadata": {}}, (422,), id="no-name"),
        pytest.param({"metadata": {"name": "a", "namespace": "other"}}, (400,), id="other-namespace"),
        pytest.param({"apiVersion": f"{GROUP}/v2"}, (400,), id="other-version"),
        pytest.param({"kind": "Gadget"}, (400, 422), id="other-kind"),
        pytest.param({"kind": None}, (400,), id="no-kind"),
        pytest.param({"metadata": {"name": "a", "labels": {"a": "-bad-"}}}, (422,), id="bad-label"),
        pytest.param({"metadata": {"name": "a", "labels": {"a": 1}}}, (400,), id="label-type"),
        pytest.param({"metadata": {"name": "a", "annotations": {"a": 1}}}, (400,), id="annotation-type"),
        pytest.param({"metadata": {"name": "a", "annotations": {"a": "x" * 270000}}}, (422,), id="big-annotations"),
        pytest.param({"metadata": {"name": "a", "ownerReferences": [{"name": "x"}]}}, (422,), id="bad-owner"),
        pytest.param({"metadata": {"name": "a", "finalizers": ["not valid!"]}}, (422,), id="bad-finalizer"),
        pytest.param({"metadata": []}, (400,), id="metadata-type"),
    ],
)
def test_invalid_names_and_mismatching_bodies_are_rejected(api, widgets, change, codes):
    """What can't be an object of this collection is refused, and nothing is stored."""
    body = {key: value for key, value in (widgets.body("a", {}) | change).items() if value is not None}
    api.post(widgets.path, body).refused(*codes)
    assert widgets.names() == []


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'"text"', b"null", b"\xff\xfe", b"{'a': 1}"])
def test_bodies_that_are_no_json_objects_are_400(api, widgets, data):
    """A body has to be a JSON object."""
    api.post(widgets.path, data).refused(400, reason="BadRequest")


def test_bodies_that_are_too_large_are_413(api, widgets):
    """Three MiB are the limit."""
    data = json.dumps(widgets.body("a", {"text": "x" * (3 * 1024 * 1024)})).encode()
    api.post(widgets.path, data).refused(413, reason="RequestEntityTooLarge")
    api.close()


def test_yaml_body_is_accepted(api, widgets):
    """YAML is as good as JSON; other media types are not."""
    text = f"apiVersion: {GROUP}/v1\nkind: Widget\nmetadata: {{name: a}}\nspec: {{x: 1}}\n".encode()
    assert api.post(widgets.path, text, type="application/yaml").ok(201)["spec"] == {"x": 1}
    api.post(widgets.path, text, type="text/plain").refused(415, reason="UnsupportedMediaType")


def test_media_types_may_have_parameters(api, widgets):
    """Only the media type itself counts."""
    api.post(widgets.path, widgets.body("a", {}), type="application/json; charset=utf-8").ok(201)


def test_cluster_scoped_custom_resources(api, planets):
    """A cluster-scoped object has no namespace, and no collection in one."""
    name = unique("planet")
    assert "namespace" not in planets.create(name, {})["metadata"]
    assert api.get(f"/apis/{GROUP}/v1/namespaces/default/planets").status == 404
    api.delete(planets.at(name)).ok(200)


def test_post_at_an_item_path_creates(api, widgets):
    """The name may be in the path as well."""
    assert api.post(widgets.at("a"), widgets.body("a", {})).status == 201
