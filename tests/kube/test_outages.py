"""What happens around an operator: definitions, servers and processes that come and go."""

import logging
import signal
import textwrap

import pytest
import yaml

import opkit

from ..behaviour.client import Api, eventually
from .conftest import CRDS, GROUP, Running, Things, definition, process

pytestmark = pytest.mark.kube

THINGS = (GROUP, "v1", "things")


@pytest.fixture
def names(registry):
    seen = []

    @opkit.reconcile(*THINGS, registry=registry)
    async def reconcile(name):
        seen.append(name)

    @opkit.delete(*THINGS, registry=registry)
    async def gone(name, reason):
        seen.append((str(reason), name))

    return seen


def test_a_definition_that_comes_after_the_start_goes_and_comes_back(running, registry, api, namespace, caplog):
    """It is waited for, served without a restart, and its end is the end of its objects."""
    seen = []

    @opkit.reconcile(GROUP, "v1", "laters", registry=registry)
    async def reconcile(name):
        seen.append(name)

    @opkit.delete(GROUP, "v1", "laters", registry=registry)
    async def gone(name):
        seen.append(f"{name} is gone")

    @opkit.reconcile(*THINGS, registry=registry)
    async def others(name):
        seen.append(name)

    path, laters = f"{CRDS}/laters.{GROUP}", Things(api, namespace, "laters", "Later")
    with caplog.at_level(logging.WARNING), running(registry):
        Things(api, namespace).create("other")
        eventually(lambda: seen == ["other"])
        assert f"laters.v1.{GROUP} is not served by the server (yet)" in caplog.text
        for round_ in range(2):
            seen.clear()
            api.post(CRDS, definition("laters", "Later")).ok(201)
            eventually(lambda: api.get(laters.path).status == 200)
            laters.create(f"x{round_}")
            eventually(lambda: len(seen) == 1, 15)
            api.delete(path).ok(200)
            eventually(lambda: len(seen) == 2, 15)
            eventually(lambda: api.get(path).status == 404)
            assert seen == [f"x{round_}", f"x{round_} is gone"]


def test_namespaces_by_pattern_come_and_go(running, registry, api, namespace, names):
    """A namespace that matches is served from its creation on."""
    with running(registry, namespaces=[f"{namespace}-*"]) as operator:
        operator.quiet()
        for suffix in ("one", "two"):
            api.post("/api/v1/namespaces", {"metadata": {"name": f"{namespace}-{suffix}"}}).ok(201)
            Things(api, f"{namespace}-{suffix}").create(suffix)
        Things(api, namespace).create("elsewhere")
        eventually(lambda: len(names) == 2, 15)
        operator.quiet()
    assert sorted(names) == ["one", "two"]


def test_the_api_server_goes_and_comes_back(own_server, registry, names):
    """What was deleted in between is told, what was created is reconciled, and nothing is run twice."""
    api = Api(own_server.url, own_server.token, own_server.certificate)
    api.post(CRDS, definition("things", "Thing")).ok(201)
    eventually(lambda: api.get(f"/apis/{GROUP}/v1/things").status == 200)
    things = Things(api, "default")
    for name in ("stays", "goes"):
        things.create(name)
    settings = opkit.Settings()
    settings.watch.reconnect_backoff = 0.2
    with Running(registry, own_server.kubeconfig, settings, ["default"]) as operator:
        eventually(lambda: len(names) == 2)
        names.clear()
        own_server.stop_apiserver()
        api.close()
        own_server.start_apiserver()
        # Before the operator is back: its streams wait for their backoff.
        things.delete("goes")
        things.create("new")
        eventually(lambda: len(names) >= 2, 60)
        operator.quiet(2)
    api.close()
    assert sorted(map(str, names)) == sorted(map(str, ["new", names[names.index("new") - 1]]))
    assert {name[1] for name in names if isinstance(name, tuple)} == {"goes"}


def test_a_history_that_etcd_has_forgotten(own_server, registry, names):
    """A version that is compacted away leads to a new list, and nothing is lost."""
    api = Api(own_server.url, own_server.token, own_server.certificate)
    api.post(CRDS, definition("things", "Thing")).ok(201)
    eventually(lambda: api.get(f"/apis/{GROUP}/v1/things").status == 200)
    things = Things(api, "default")
    things.create("goes")
    things.create("stays")
    settings = opkit.Settings()
    settings.watch.reconnect_backoff = 5
    with Running(registry, own_server.kubeconfig, settings, ["default"]):
        eventually(lambda: len(names) == 2)
        names.clear()
        own_server.stop_apiserver()
        api.close()
        own_server.start_apiserver()
        things.delete("goes")
        things.create("new")
        own_server.compact()
        own_server.restart()
        api.close()
        eventually(lambda: len(names) == 2, 60)
    api.close()
    assert "new" in names
    assert {name[1] for name in names if isinstance(name, tuple)} == {"goes"}


def test_an_operator_killed_in_a_finalizer_goes_on_after_its_start(kube, things, namespace, tmp_path):
    """What a dead process had finished is not done again; what it had not is."""
    log = tmp_path / "handlers.log"
    handlers = tmp_path / "handlers.py"
    handlers.write_text(
        textwrap.dedent(f'''
        import asyncio, pathlib
        import opkit

        LOG = pathlib.Path({str(log)!r})

        def note(what):
            with LOG.open("a") as file:
                file.write(what + "\\n")

        @opkit.reconcile("{GROUP}", "v1", "things")
        async def reconcile(name):
            note("reconcile")

        @opkit.finalizer("{GROUP}", "v1", "things")
        async def first(name):
            note("first")

        @opkit.finalizer("{GROUP}", "v1", "things")
        async def second(name):
            note("second")
            if LOG.read_text().count("second") == 1:
                await asyncio.sleep(3600)
        ''')
    )
    output = tmp_path / "output.log"
    log.touch()
    things.create("x")
    with process(handlers, kube.kubeconfig, "-n", namespace, log=output) as operator:
        eventually(lambda: "reconcile" in log.read_text(), 30)
        things.delete("x")
        eventually(lambda: "second" in log.read_text(), 30)
        operator.send_signal(signal.SIGKILL)
        operator.wait(10)
    assert things.get("x")["metadata"]["finalizers"] == [f"{GROUP}/second"]
    with process(handlers, kube.kubeconfig, "-n", namespace, log=output) as operator:
        eventually(lambda: not things.exists("x"), 30)
        operator.send_signal(signal.SIGTERM)
        assert operator.wait(30) == 0
    assert log.read_text().split() == ["reconcile", "first", "second", "second"]


def test_a_missing_permission_for_one_resource_leaves_the_others(kube, api, namespace, tmp_path, registry, caplog):
    """403 is told once with what to do; the others work, and the grant is enough for it to work too."""
    seen = []

    @opkit.reconcile(*THINGS, registry=registry)
    async def of_things(name):
        seen.append(name)

    @opkit.reconcile("v1", "configmaps", registry=registry)
    async def of_configmaps(name):
        seen.append(name)

    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.post(accounts, {"metadata": {"name": "op"}}).ok(201)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    token = api.post(f"{accounts}/op/token", request).ok(201)["status"]["token"]
    config = yaml.safe_load(kube.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    limited = tmp_path / "kubeconfig"
    limited.write_text(yaml.safe_dump(config))
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"

    def grant(name, group, resource):
        rules = [{"apiGroups": [group], "resources": [resource], "verbs": ["list", "watch", "get", "patch"]}]
        api.post(f"{rbac}/roles", {"metadata": {"name": name}, "rules": rules}).ok(201)
        subject = {"kind": "ServiceAccount", "name": "op", "namespace": namespace}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        body = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        api.post(f"{rbac}/rolebindings", body).ok(201)

    grant("configmaps", "", "configmaps")
    Things(api, namespace).create("thing")
    settings = opkit.Settings()
    settings.watch.reconnect_backoff = 0.2
    with caplog.at_level(logging.WARNING), Running(registry, limited, settings, [namespace]) as operator:
        api.post(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "cm"}}).ok(201)
        eventually(lambda: "cm" in seen)
        operator.quiet(2)
        assert "thing" not in seen
        told = [line for line in caplog.text.splitlines() if "permission is missing" in line]
        assert len(told) == 1, told
        grant("things", GROUP, "things")
        eventually(lambda: "thing" in seen, 40)
