"""The built-in kinds that operators touch."""

import base64
import concurrent.futures
import re

import pytest

from .client import STRATEGIC, unique
from .conftest import Collection


def test_resource_version_is_one_counter_of_the_server(widgets, configmaps):
    """Writes of whatever kind count on."""
    versions = [
        int(made["metadata"]["resourceVersion"])
        for made in (
            widgets.create("a", {}),
            configmaps.create("a"),
            widgets.create("b", {}),
            configmaps.create("b"),
        )
    ]
    assert versions == sorted(set(versions))


def test_config_map_has_no_generation_and_only_string_values(api, configmaps):
    """Data is text; other values can't even be read."""
    made = configmaps.create("a", data={"k": "v"})
    assert "generation" not in made["metadata"]
    assert "generation" not in configmaps.patch("a", {"data": {"k": "w"}})["metadata"]
    assert api.post(configmaps.path, configmaps.body("b", data={"k": 1})).status == 400
    assert api.post(configmaps.path, configmaps.body("b", data=["k"])).status == 400


def text_field(number, data):
    data = data.encode() if isinstance(data, str) else data
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def test_protobuf_body_is_decoded(api, configmaps):
    """kubectl create sends protobuf and accepts JSON."""
    meta = text_field(1, "proto") + text_field(11, text_field(1, "k") + text_field(2, "v"))
    config_map = text_field(1, meta) + text_field(2, text_field(1, "key") + text_field(2, "value"))
    kind = text_field(1, "v1") + text_field(2, "ConfigMap")
    body = b"k8s\x00" + text_field(1, kind) + text_field(2, config_map)
    type = "application/vnd.kubernetes.protobuf"
    made = api.post(configmaps.path, body, type=type, accept=f"{type}, application/json").status
    assert made == 201
    stored = configmaps.get("proto")
    assert stored["data"] == {"key": "value"} and stored["metadata"]["labels"] == {"k": "v"}


def test_secret_string_data_becomes_base64_data(api, namespace):
    """stringData is written, never read."""
    secrets = Collection(api, "secrets", "Secret", namespace, group="")
    made = secrets.create("a", stringData={"k": "text"})
    assert made["type"] == "Opaque" and "stringData" not in made
    assert made["data"] == {"k": base64.b64encode(b"text").decode()}
    assert "generation" not in made["metadata"]
    assert api.post(secrets.path, secrets.body("b", data={"k": "no base64!"})).status == 400


@pytest.fixture
def leases(api, namespace):
    return Collection(api, "leases", "Lease", namespace, group="coordination.k8s.io")


def test_lease_is_created_and_renewed_under_the_lock(api, leases):
    """
    Times have microseconds; of several renewals at one version exactly one wins; there is no generation.
    """
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2030-01-02T03:04:05.678901Z"}
    made = leases.create("a", spec)
    assert made["spec"] == spec and "generation" not in made["metadata"]

    def renew(number):
        own = api.clone()
        try:
            return own.put(leases.at("a"), {**made, "spec": {**spec, "holderIdentity": f"other-{number}"}}).status
        finally:
            own.close()

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        assert sorted(pool.map(renew, range(5))) == [200, 409, 409, 409, 409]


def test_lease_is_checked(api, leases):
    """A duration is positive, a time has microseconds."""
    api.post(leases.path, leases.body("b", {"leaseDurationSeconds": 0})).refused(422, reason="Invalid")
    assert api.post(leases.path, leases.body("b", {"renewTime": "yesterday"})).status == 400


def event(namespace, name, about_namespace):
    about = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "namespace": about_namespace}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": about,
        "reason": "Tested",
        "message": "all is well",
        "type": "Normal",
        "count": 1,
        "firstTimestamp": "2030-01-01T00:00:00Z",
        "lastTimestamp": "2030-01-01T00:00:00Z",
        "source": {"component": "suite"},
    }


def test_events(api, namespace):
    """Events are created in the namespace of what they are about, and counted by patches."""
    path = f"/api/v1/namespaces/{namespace}/events"
    made = api.post(path, event(namespace, "a", namespace)).ok(201)
    assert made["message"] == "all is well" and "generation" not in made["metadata"]
    api.post(path, event(namespace, "b", "other")).refused(422, reason="Invalid")
    patch = {"count": 2, "lastTimestamp": "2030-01-01T00:00:09Z"}
    assert api.patch(f"{path}/a", patch).ok(200)["count"] == 2
    assert api.patch(f"{path}/a", {"count": 3}, type=STRATEGIC).ok(200)["count"] == 3


def test_events_have_two_faces(api, namespace):
    """One object is read in the core group and in events.k8s.io, in other words."""
    api.post(f"/api/v1/namespaces/{namespace}/events", event(namespace, "a", namespace)).ok(201)
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    body = api.get(f"{path}/a").ok(200)
    assert (body["apiVersion"], body["note"], body["regarding"]["name"]) == (
        "events.k8s.io/v1",
        "all is well",
        "x",
    )
    assert "message" not in body and [item["note"] for item in api.get(path).ok(200)["items"]] == ["all is well"]


def test_namespace_phases(api):
    """A namespace is Active; deleted it is Terminating, and nothing can be created in it."""
    name = unique("gone")
    made = api.post("/api/v1/namespaces", {"metadata": {"name": name, "finalizers": ["example.com/stay"]}}).ok(201)
    assert made["status"]["phase"] == "Active" and made["spec"]["finalizers"] == ["kubernetes"]
    deleted = api.delete(f"/api/v1/namespaces/{name}").ok(200)
    assert deleted["status"]["phase"] == "Terminating" and deleted["metadata"]["deletionTimestamp"]
    answer = api.post(f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "a"}})
    status = answer.refused(403, reason="Forbidden")
    assert "because it is being terminated" in status["message"]


def test_namespace_ends_when_its_finalizers_are_gone(api):
    """Both lists of finalizers have to be empty."""
    name = unique("gone")
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok(201)
    body = api.delete(f"/api/v1/namespaces/{name}").ok(200)
    body["spec"]["finalizers"] = []
    api.put(f"/api/v1/namespaces/{name}/finalize", body).ok(200)
    assert api.get(f"/api/v1/namespaces/{name}").status == 404


def test_default_and_kube_system_namespaces_exist(api):
    """They are there from the start."""
    items = api.get("/api/v1/namespaces").ok(200)["items"]
    assert {"default", "kube-system"} <= {item["metadata"]["name"] for item in items}


def test_lasting_namespaces_can_not_be_deleted(api):
    """Some namespaces are there to stay."""
    for name in ("default", "kube-system", "kube-public"):
        status = api.delete(f"/api/v1/namespaces/{name}").refused(403, reason="Forbidden")
        assert "this namespace may not be deleted" in status["message"]


@pytest.fixture
def deployments(api, namespace):
    return Collection(api, "deployments", "Deployment", namespace, group="apps")


def deployment(labels=None):
    template = {
        "metadata": {"labels": labels or {"app": "a"}},
        "spec": {"containers": [{"name": "main", "image": "example/image:1"}]},
    }
    return {"selector": {"matchLabels": {"app": "a"}}, "template": template}


def test_deployment(api, deployments):
    """It has defaults, a generation, a status of its own, and a selector that fits and never changes."""
    made = deployments.create("a", deployment())
    spec = made["spec"]
    assert spec["replicas"] == 1 and spec["strategy"]["type"] == "RollingUpdate"
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert made["metadata"]["generation"] == 1
    assert deployments.patch("a", {"spec": {"replicas": 2}})["metadata"]["generation"] == 2
    after = api.patch(deployments.at("a", "status"), {"status": {"readyReplicas": 1, "replicas": 1}}).ok(200)
    assert after["status"]["readyReplicas"] == 1 and after["metadata"]["generation"] == 2
    api.post(deployments.path, deployments.body("b", deployment({"app": "b"}))).refused(422, reason="Invalid")
    no_selector = {"template": deployment()["template"]}
    api.post(deployments.path, deployments.body("b", no_selector)).refused(422, reason="Invalid")


def test_scale_subresource(api, widgets):
    """The scale of a custom resource is read and written; the generation counts."""
    widgets.create("a", {"replicas": 1})
    scale = api.get(widgets.at("a", "scale")).ok(200)
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"]["replicas"] == 1 and scale["metadata"]["name"] == "a"
    scale["spec"]["replicas"] = 4
    assert api.put(widgets.at("a", "scale"), scale).ok(200)["spec"]["replicas"] == 4
    assert api.patch(widgets.at("a", "scale"), {"spec": {"replicas": 5}}).ok(200)["spec"]["replicas"] == 5
    after = widgets.get("a")
    assert after["spec"]["replicas"] == 5 and after["metadata"]["generation"] == 3
    api.put(widgets.at("a", "scale"), scale).refused(409, reason="Conflict")


def test_times_are_whole_seconds(configmaps):
    """Stamps of objects have no fraction."""
    made = configmaps.create("a")["metadata"]["creationTimestamp"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made)
