"""How clients find out what a server serves."""

import pytest

from .client import GROUP, TABLE


def by_name(resources):
    return {resource["name"]: resource for resource in resources}


def test_version(api):
    """/version tells major and minor."""
    version = api.get("/version").ok(200)
    assert version["major"] == "1" and version["gitVersion"].startswith("v1.")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_endpoints_answer_ok(api, path):
    """Health endpoints answer 200 with the text ok."""
    answer = api.get(path)
    assert (answer.status, answer.text) == (200, "ok")


def test_api_lists_v1(api):
    """/api lists the only version of the core group."""
    body = api.get("/api").ok(200)
    assert body["kind"] == "APIVersions" and body["versions"] == ["v1"]


def test_apis_lists_groups_with_versions_and_preferred_version(api):
    """/apis lists each group with its versions, the preferred one first."""
    body = api.get("/apis").ok(200)
    groups = by_name(body["groups"])
    assert body["kind"] == "APIGroupList" and "apps" in groups
    assert [version["version"] for version in groups[GROUP]["versions"]] == ["v1", "v1beta1"]
    assert groups[GROUP]["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}


def test_group_is_an_api_group(api):
    """/apis/GROUP is the entry of one group."""
    body = api.get(f"/apis/{GROUP}").ok(200)
    assert body["kind"] == "APIGroup" and body["name"] == GROUP
    assert body["preferredVersion"]["version"] == "v1"


def test_group_version_lists_resources_with_subresources(api):
    """/apis/GROUP/VERSION lists resources and their subresources."""
    body = api.get(f"/apis/{GROUP}/v1").ok(200)
    resources = by_name(body["resources"])
    assert body["kind"] == "APIResourceList" and body["groupVersion"] == f"{GROUP}/v1"
    widgets = resources["widgets"]
    assert (widgets["kind"], widgets["singularName"], widgets["namespaced"]) == ("Widget", "widget", True)
    assert widgets["shortNames"] == ["wd"]
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(widgets["verbs"])
    assert {"widgets/status", "widgets/scale"} <= resources.keys()
    assert "gadgets/status" not in resources
    assert resources["planets"]["namespaced"] is False


def test_core_group_has_the_builtins_an_operator_needs(api):
    """/api/v1 has the built-in kinds that operators touch."""
    resources = by_name(api.get("/api/v1").ok(200)["resources"])
    needed = {"configmaps", "secrets", "namespaces", "pods", "services", "events", "serviceaccounts", "nodes"}
    assert needed <= resources.keys()
    assert resources["namespaces"]["namespaced"] is False and resources["pods"]["shortNames"] == ["po"]


@pytest.mark.parametrize(
    ("path", "is_status"),
    [
        pytest.param("/apis/nothing.dev", False, id="group"),
        pytest.param("/apis/nothing.dev/v1", False, id="group-version"),
        pytest.param("/apis/nothing.dev/v1/things", False, id="resource-of-unknown-group"),
        pytest.param(f"/apis/{GROUP}/v1/things", False, id="resource-of-known-group"),
        pytest.param("/api/v1/things", True, id="core-resource"),
    ],
)
def test_unknown_group_resource_and_path_are_404(api, path, is_status):
    """What is not served is 404: a Status in the core group, text elsewhere."""
    answer = api.get(path)
    assert answer.status == 404
    assert (answer.body is not None) is is_status


def test_openapi_v2_is_served(api):
    """There is an OpenAPI document with the definitions."""
    body = api.get("/openapi/v2").ok(200)
    assert body["swagger"] == "2.0" and body["definitions"]


@pytest.mark.parametrize("path", ["/version/", "/api/", "/apis/", f"/apis/{GROUP}/v1/", "/api/v1/"])
def test_trailing_slashes_are_accepted(api, path):
    """Clients send trailing slashes."""
    assert api.get(path).status == 200


def test_self_subject_access_review_for_an_admin(api):
    """An administrator is allowed everything, and the review is answered at once."""
    spec = {"resourceAttributes": {"verb": "delete", "group": GROUP, "resource": "widgets"}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    answer = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body).ok(201)
    assert answer["status"]["allowed"] is True


def test_wrong_token_is_401(api):
    """A wrong token is Unauthorized wherever it is used."""
    for path in ("/api", "/api/v1/namespaces", f"/apis/{GROUP}/v1"):
        api.get(path, token="wrong").refused(401, reason="Unauthorized")


def test_unacceptable_media_type(api):
    """A client that accepts nothing that can be given is told so."""
    assert api.get("/api/v1/namespaces", accept="image/png").status == 406
    assert api.get("/api/v1/namespaces", accept=f"image/png, {TABLE}").ok(200)["kind"] == "Table"
