"""Other people's clients work on the embedded server unmodified."""

import asyncio
import threading

import kopf
import kubernetes
import pykube
import pytest

GROUP = ("example.com", "v1", "default", "shops")


@pytest.fixture
def prepared(server, files):
    server.apply(files / "crd.yaml")
    return server


def shop(name):
    return {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": name}, "spec": {"size": 1}}


def test_kubernetes_client(prepared):
    """The official client: version, create, replace, patch, status, watch, delete."""
    with kubernetes.config.new_client_from_config(str(prepared.kubeconfig)) as client:
        assert kubernetes.client.VersionApi(client).get_code().major == "1"
        api = kubernetes.client.CustomObjectsApi(client)
        made = api.create_namespaced_custom_object(*GROUP, shop("a"))
        made["spec"]["size"] = 2
        assert api.replace_namespaced_custom_object(*GROUP, "a", made)["metadata"]["generation"] == 2
        status = api.patch_namespaced_custom_object_status(*GROUP, "a", {"status": {"ok": True}})
        assert status["status"] == {"ok": True}
        watch = kubernetes.watch.Watch()
        stream = watch.stream(api.list_namespaced_custom_object, *GROUP, timeout_seconds=1)
        assert [(event["type"], event["object"]["metadata"]["name"]) for event in stream] == [("ADDED", "a")]
        api.delete_namespaced_custom_object(*GROUP, "a")
        assert api.list_namespaced_custom_object(*GROUP)["items"] == []
        core = kubernetes.client.CoreV1Api(client)
        config_map = kubernetes.client.V1ConfigMap(metadata={"name": "m"}, data={"k": "v"})
        assert core.create_namespaced_config_map("default", config_map).metadata.uid
        with pytest.raises(kubernetes.client.ApiException) as caught:
            core.read_namespaced_config_map("nope", "default")
        assert caught.value.status == 404


def test_pykube_client(prepared):
    """pykube: discovery with a trailing slash, create, update, patch, watch, delete."""
    api = pykube.HTTPClient(pykube.KubeConfig.from_file(str(prepared.kubeconfig)))
    try:
        kind = pykube.object_factory(api, "example.com/v1", "Shop")
        made = kind(api, {**shop("a"), "metadata": {"name": "a", "namespace": "default"}})
        made.create()
        made.obj["spec"]["size"] = 3
        made.update()
        made.patch({"spec": {"color": "red"}})
        assert kind.objects(api).get_by_name("a").obj["spec"] == {"size": 3, "color": "red"}
        event = next(iter(kind.objects(api).watch()))
        assert (event.type, event.object.name) == ("ADDED", "a")
        made.delete()
        assert [item.name for item in kind.objects(api)] == []
    finally:
        api.session.close()


def test_unmodified_kopf_operator(prepared, monkeypatch):
    """kopf: finalizers, progress annotations, status, events and deletion, as on a real cluster."""
    monkeypatch.setenv("KUBECONFIG", str(prepared.kubeconfig))
    registry = kopf.OperatorRegistry()
    seen, stop, ready = [], threading.Event(), threading.Event()

    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)

    @kopf.on.startup(registry=registry)
    def configure(settings, **_):
        settings.posting.level = 20
        settings.peering.standalone = True

    @kopf.on.create("example.com", "v1", "shops", registry=registry)
    def create(body, name, patch, **_):
        kopf.event(body, type="Normal", reason="Made", message="It is made.")
        patch.status["made"] = True
        seen.append(("create", name))

    @kopf.on.update("example.com", "v1", "shops", registry=registry)
    def update(name, **_):
        seen.append(("update", name))

    @kopf.on.delete("example.com", "v1", "shops", registry=registry)
    def delete(name, **_):
        seen.append(("delete", name))

    def run():
        loop = asyncio.new_event_loop()
        loop.run_until_complete(kopf.operator(registry=registry, clusterwide=True, stop_flag=stop, ready_flag=ready))
        loop.close()

    operator = threading.Thread(target=run)
    operator.start()
    client = kubernetes.config.new_client_from_config(str(prepared.kubeconfig))
    try:
        assert ready.wait(20)
        api = kubernetes.client.CustomObjectsApi(client)
        api.create_namespaced_custom_object(*GROUP, shop("a"))
        wait_for(lambda: ("create", "a") in seen)
        wait_for(lambda: api.get_namespaced_custom_object(*GROUP, "a").get("status", {}).get("made"))
        api.patch_namespaced_custom_object(*GROUP, "a", {"spec": {"size": 2}})
        wait_for(lambda: ("update", "a") in seen)
        api.delete_namespaced_custom_object(*GROUP, "a")
        wait_for(lambda: api.list_namespaced_custom_object(*GROUP)["items"] == [])
        core = kubernetes.client.CoreV1Api(client)
        wait_for(lambda: {item.involved_object.name for item in core.list_namespaced_event("default").items} == {"a"})
    finally:
        stop.set()
        operator.join(20)
        client.close()
    assert not operator.is_alive()
    assert seen == [("create", "a"), ("update", "a"), ("delete", "a")]


def wait_for(check, seconds=20):
    end = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if check():
            return
        end.wait(0.05)
    raise AssertionError("it did not happen in time")
