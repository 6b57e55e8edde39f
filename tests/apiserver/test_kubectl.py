"""What people type: kubectl works on the embedded server."""

import json
import os
import subprocess
import threading
import time

import pytest
import yaml


@pytest.mark.usefixtures("shop")
def test_get_in_all_its_shapes(kubectl):
    """get prints tables, YAML and JSON, and selects."""
    assert kubectl("get", "shops").split() == ["NAME", "SIZE", "corner", "1"]
    assert "red" in kubectl("get", "sh", "-o", "wide")
    assert yaml.safe_load(kubectl("get", "shop", "corner", "-o", "yaml"))["spec"] == {
        "size": 1,
        "color": "red",
    }
    assert len(json.loads(kubectl("get", "shops", "-o", "json"))["items"]) == 1
    assert "corner" in kubectl("get", "shops", "-l", "app=shop", "-A")
    assert "No resources" in kubectl("get", "shops", "-l", "app=other")
    assert "corner" in kubectl("get", "shops", "--field-selector", "metadata.name=corner")
    assert "corner" in kubectl("get", "all")


@pytest.mark.usefixtures("shop")
def test_get_watch_shows_changes(kubectl, server):
    """get -w goes on to print what changes."""
    command = ["kubectl", "--kubeconfig", str(server.kubeconfig), "get", "shops", "-w"]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.STDOUT)
    try:
        lines = [watching.stdout.readline() for _ in range(2)]
        kubectl("patch", "shop", "corner", "--type=merge", "-p", '{"spec": {"size": 7}}')
        lines.append(watching.stdout.readline())
    finally:
        watching.terminate()
        watching.communicate(timeout=10)
    assert [line.split() for line in lines] == [["NAME", "SIZE"], ["corner", "1"], ["corner", "7"]]


@pytest.mark.usefixtures("shop")
def test_describe(kubectl):
    """describe shows the object and looks for its events."""
    text = kubectl("describe", "shop", "corner")
    assert "Name:         corner" in text and "Events:" in text


def test_apply_says_what_it_did(kubectl, shop):
    """apply creates, leaves alone, and changes by what the file says."""
    assert "unchanged" in kubectl("apply", "-f", str(shop))
    shop.write_text(shop.read_text().replace("size: 1, color: red", "size: 2"))
    assert "configured" in kubectl("apply", "-f", str(shop))
    assert json.loads(kubectl("get", "shop", "corner", "-o", "json"))["spec"] == {"size": 2}


def test_server_side_apply(kubectl, shop):
    """apply --server-side tells of conflicts, and can force."""
    kubectl("patch", "shop", "corner", "--type=merge", "-p", '{"spec": {"size": 5}}')
    assert "conflict" in kubectl("apply", "--server-side", "-f", str(shop), check=False)
    assert "serverside-applied" in kubectl("apply", "--server-side", "--force-conflicts", "-f", str(shop))


@pytest.mark.parametrize(
    ("type", "patch"),
    [
        pytest.param("merge", '{"spec": {"size": 9}}', id="merge"),
        pytest.param("json", '[{"op": "replace", "path": "/spec/size", "value": 9}]', id="json"),
    ],
)
@pytest.mark.usefixtures("shop")
def test_patch(kubectl, type, patch):
    """Patches of custom resources."""
    assert "patched" in kubectl("patch", "shop", "corner", f"--type={type}", "-p", patch)
    assert kubectl("get", "shop", "corner", "-o", "jsonpath={.spec.size}") == "9"


def test_deployment_is_created_patched_scaled_and_deleted(kubectl):
    """A built-in kind: protobuf creation, strategic patch, scale, deletion."""
    kubectl("create", "deployment", "web", "--image=example/one:1")
    patch = '{"spec": {"template": {"spec": {"containers": [{"name": "one", "image": "example/one:2"}]}}}}'
    kubectl("patch", "deployment", "web", "-p", patch)
    kubectl("scale", "deployment", "web", "--replicas=4")
    spec = json.loads(kubectl("get", "deployment", "web", "-o", "json"))["spec"]
    assert spec["replicas"] == 4
    assert [item["image"] for item in spec["template"]["spec"]["containers"]] == ["example/one:2"]
    assert "deleted" in kubectl("delete", "deployment", "web")


@pytest.mark.usefixtures("shop")
def test_label_and_annotate(kubectl):
    """Metadata by hand."""
    kubectl("label", "shop", "corner", "new=label")
    kubectl("annotate", "shop", "corner", "new=note")
    meta = json.loads(kubectl("get", "shop", "corner", "-o", "json"))["metadata"]
    assert meta["labels"] == {"app": "shop", "new": "label"} and meta["annotations"]["new"] == "note"


@pytest.mark.usefixtures("shop")
def test_delete_waits_for_finalizers(kubectl):
    """delete returns when the object is gone."""
    kubectl("patch", "shop", "corner", "--type=merge", "-p", '{"metadata": {"finalizers": ["example.com/x"]}}')

    def release():
        while "deletionTimestamp" not in kubectl("get", "shop", "corner", "-o", "json"):
            time.sleep(0.1)
        kubectl("patch", "shop", "corner", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')

    releasing = threading.Thread(target=release)
    releasing.start()
    assert "deleted" in kubectl("delete", "shop", "corner", "--wait", "--timeout=30s")
    releasing.join()
    assert "NotFound" in kubectl("get", "shop", "corner", check=False)


@pytest.mark.usefixtures("shop")
def test_wait_for_a_condition(kubectl):
    """wait sees conditions of definitions and of custom resources."""
    kubectl("wait", "--for=condition=Established", "crd/shops.example.com", "--timeout=10s")
    patch = '{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}'
    kubectl("patch", "shop", "corner", "--type=merge", "--subresource=status", "-p", patch)
    assert "condition met" in kubectl("wait", "--for=condition=Ready", "shop/corner", "--timeout=10s")


@pytest.mark.usefixtures("shop")
def test_discovery_and_explanation(kubectl):
    """api-resources lists, explain reads the schema."""
    assert "shops" in kubectl("api-resources", "--api-group=example.com")
    assert "How large it is." in kubectl("explain", "shops.spec")
    assert "KIND:       Deployment" in kubectl("explain", "deployments")


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(("namespace", "made"), id="namespace"),
        pytest.param(("configmap", "made", "--from-literal=a=b"), id="configmap"),
        pytest.param(("secret", "generic", "made", "--from-literal=a=b"), id="secret"),
        pytest.param(("serviceaccount", "made"), id="serviceaccount"),
        pytest.param(("role", "made", "--verb=get", "--resource=pods"), id="role"),
        pytest.param(("rolebinding", "made", "--role=made", "--user=me"), id="rolebinding"),
    ],
)
def test_create(kubectl, args):
    """create sends protobuf."""
    assert "created" in kubectl("create", *args)
    assert "made" in kubectl("get", args[0], "made")


def test_auth_can_i(kubectl):
    """Whoever has the token may do everything."""
    assert kubectl("auth", "can-i", "create", "deployments").strip() == "yes"


def test_namespace_is_emptied_and_goes(kubectl):
    """With garbage collection a namespace takes all with it."""
    kubectl("create", "namespace", "short")
    kubectl("create", "configmap", "made", "-n", "short")
    kubectl("delete", "namespace", "short", "--timeout=20s")
    assert "NotFound" in kubectl("get", "namespace", "short", check=False)


def test_edit(kubectl, shop, tmp_path, monkeypatch):
    """edit is a GET, an editor, and a patch."""
    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/red/green/")
    assert os.environ["KUBE_EDITOR"]
    assert "edited" in kubectl("edit", "shop", "corner")
    assert kubectl("get", "shop", "corner", "-o", "jsonpath={.spec.color}") == "green"
