"""Secrets stay secret, doors stay closed, files stay private."""

import asyncio
import inspect
import json
import logging
import os
import re
import stat
import sys
import tempfile
import traceback
from pathlib import Path

import aiohttp.web
import kopf
import pytest

import opkit
from opkit import health, trigger_server
from opkit.apiserver.server import ApiServer
from opkit.apiserver.state import StateKeeper
from opkit.cli.loading import load
from opkit.clock import LoopClock
from opkit.cluster import clients, kopf_client, kubeconfig
from opkit.cluster.resource import Resource
from opkit.simulation.store import Store
from opkit.testing import FakeEventInjector
from opkit.testing.kube import KubeServer

PACKAGE = Path(opkit.__file__).parent
TOKEN = "t0ken-that-nobody-may-see"
SECRET = "c2VjcmV0LXRoYXQtbm9ib2R5LW1heS1zZWU="
OTHER = "b3RoZXItc2VjcmV0LW5vLW9uZS1tYXktc2Vl"


class Everything(logging.Handler):
    """All that is logged, at any level, with its traceback and its extra fields."""

    def __init__(self):
        super().__init__(logging.NOTSET)
        self.lines = []

    def emit(self, record):
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        self.lines.append(f"{record.name} {record.getMessage()} {record.__dict__} {trace}")


@pytest.fixture
def everything():
    """Logs of all loggers at debug level: also those that opkit keeps to itself."""
    handler = Everything()
    assert not kopf_client._quiet.propagate  # else the next lines are in vain
    ours = ("opkit", "kopf", "aiohttp", "asyncio")
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ours]
    loggers = [logging.getLogger(), *map(logging.getLogger, names)]
    before = [(one, one.level) for one in loggers]
    silent = [one for one in loggers if not one.propagate or one is logging.getLogger()]
    for one in loggers:
        one.setLevel(logging.DEBUG)
    for one in silent:
        one.addHandler(handler)
    yield handler.lines
    for one in silent:
        one.removeHandler(handler)
    for one, level in before:
        one.setLevel(level)


def assert_nowhere(lines, *secrets):
    told = [line for line in lines if any(secret in line for secret in secrets)]
    assert lines and told == []


def secrets_operator():
    """An operator that handles Secrets in all ways: it succeeds, fails, writes, is refused, and cleans up."""
    registry = opkit.Registry()

    @opkit.reconcile("v1", "secrets", registry=registry, label_selector="handled=yes", on_update=lambda new, old: 1 / 0)
    async def reconcile(body, patch, name, cluster, namespace, logger, attempt):
        patch["data"] = {"other": OTHER}
        logger.info("attempt %d", attempt)
        if name == "failing" and attempt < 3:
            raise ValueError("it does not work")
        if name == "copied" and attempt == 1:
            copy = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "copy"}, "data": body["data"]}
            await cluster.create(copy)
            await cluster.create(copy)  # refused: it is there

    @opkit.finalizer("v1", "secrets", name="example.com/cleanup", registry=registry)
    def cleanup(body, attempt):
        if attempt == 1:
            raise opkit.TemporaryError("not yet", delay=1)

    @opkit.delete("v1", "secrets", registry=registry)
    async def delete(body):
        raise RuntimeError("nothing depends on this")

    return registry


def test_the_bodies_of_secrets_are_in_no_log(everything):
    """Handled, failed, refused by the server, cleaned up, told as gone, with broken streams: at debug level."""
    with FakeEventInjector(secrets_operator()) as op:
        secrets = [
            op.add("secrets", name, labels={"handled": "yes"}, data={"key": SECRET})
            for name in ("plain", "failing", "copied", "odd")
        ]
        op.fail("patch", "secrets").times(3, status=422)
        op.fail("patch", "secrets").times(2, status=409)
        op.settle()
        op.watch("secrets").error(500)
        for secret in secrets:
            op.modify(secret, {"data": {"key": OTHER}})
        op.settle()
        explained = json.dumps([op.explain(secret) for secret in secrets], default=str)
        op.lose_leadership()
        op.gain_leadership()
        for secret in secrets:
            op.delete(secret)
        op.settle()
        assert not any(map(op.exists, secrets))
    for said in ("ZeroDivisionError", "it does not work", "AlreadyExists", "nothing depends on this", "not yet"):
        assert any(said in line for line in everything), said
    assert_nowhere([*everything, explained], SECRET, OTHER)


def test_an_unusable_secret_is_named_and_not_shown(everything):
    """A body without the parts that every object has is reported without its content."""
    registry = secrets_operator()
    with FakeEventInjector(registry) as op:
        op.add("secrets", "plain", labels={"handled": "yes"}, data={"key": SECRET})
        op.settle()
        broken = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "default"}, "data": {"key": SECRET}}
        op.inject("MODIFIED", broken)
        op.settle()
    assert any("can't be used" in line for line in everything)
    assert_nowhere(everything, SECRET)


def test_no_credential_is_in_any_log(everything, tmp_path, monkeypatch):
    """A real connection over HTTP, debugging of the loop included: it works, is refused, is cut, and is gone."""

    async def main():
        asyncio.get_running_loop().set_debug(True)
        with FakeEventInjector(secrets_operator()) as op:
            op.add("secrets", "plain", labels={"handled": "yes"}, data={"key": SECRET})
            store = op.store
        server = ApiServer(store, token=TOKEN)
        await server.start()
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
        operator = opkit.Operator(registry=secrets_operator())
        running = asyncio.create_task(operator.run())
        async with asyncio.timeout(30):
            while not (operator.is_ready and not operator.statistics().running):  # noqa: ASYNC110  no event tells it
                await asyncio.sleep(0.02)
        server.faults.fail("list").times(2, status=401)
        server.faults.watch().error(500)
        await asyncio.sleep(0.5)
        await server.stop()
        await asyncio.sleep(0.5)
        operator.stop()
        await asyncio.wait_for(running, 20)

    asyncio.run(main())
    assert_nowhere(everything, TOKEN, SECRET, OTHER)


def test_a_failure_of_the_embedded_server_does_not_log_its_token(everything):
    """kubectl sends the token as a part of the path: the log of a request leaves it out."""

    async def main():
        with FakeEventInjector(secrets_operator()) as op:
            store = op.store
        async with ApiServer(store, token=TOKEN) as server, aiohttp.ClientSession() as session:
            server._requests.answer = None  # any bug
            async with session.get(f"{server.url}/{TOKEN}/api/v1/secrets") as answer:
                assert answer.status == 500

    asyncio.run(main())
    assert any("failed in the embedded API server" in line for line in everything)
    assert_nowhere(everything, TOKEN)


@pytest.mark.parametrize(
    "server",
    [f"http://127.0.0.1:1/{TOKEN}", f"https://user:{TOKEN}@api:6443", f"https://api/?token={TOKEN}"],
    ids=["path", "userinfo", "query"],
)
def test_credentials_show_where_they_lead_and_nothing_else(server):
    """The embedded server's token is a part of its address."""
    found = kubeconfig.Credentials(
        server=server, token=TOKEN, password=TOKEN, key_data=TOKEN, proxy_url=f"http://u:{TOKEN}@p"
    )
    shown = f"{found!r} {found}"
    assert TOKEN not in shown and ("127.0.0.1:1" in shown or "api" in shown)


def test_a_login_that_fails_shows_no_credential(everything):
    """An author's login handler that gives what the server refuses."""

    async def main():
        with FakeEventInjector(secrets_operator()) as op:
            store = op.store
        async with ApiServer(store) as server:
            registry = secrets_operator()

            @opkit.login(registry=registry)
            def login(**_):
                return kopf.ConnectionInfo(server=server.url, token=TOKEN, password=None)

            with pytest.raises(opkit.ApiError) as failure:
                await asyncio.wait_for(opkit.Operator(registry=registry).run(), 20)
            return "".join(traceback.format_exception(failure.value))

    trace = asyncio.run(main())
    assert "401" in trace
    assert_nowhere([*everything, trace], TOKEN)


# Doors.


def test_nothing_listens_beyond_loopback_unless_told():
    """The embedded server, the health and the triggers: their defaults are this machine only."""
    assert inspect.signature(ApiServer).parameters["host"].default == "127.0.0.1"
    assert trigger_server.parse_address(":8090") == trigger_server.parse_address("8090") == ("127.0.0.1", 8090)
    assert trigger_server.parse_address("0.0.0.0:8090") == ("0.0.0.0", 8090)


@pytest.mark.parametrize(
    ("url", "host"),
    [("http://:0/healthz", "127.0.0.1"), ("http://0.0.0.0:0/healthz", "0.0.0.0")],
    ids=["no-host", "told"],
)
def test_the_health_listens_on_loopback_without_a_host(monkeypatch, url, host):
    """Probes of a kubelet come from outside of the pod: that has to be said."""
    hosts = []

    class Site(aiohttp.web.TCPSite):
        def __init__(self, runner, host, port):
            hosts.append(host)
            super().__init__(runner, "127.0.0.1", port)

    monkeypatch.setattr(aiohttp.web, "TCPSite", Site)

    async def main():
        operator = opkit.Operator(registry=secrets_operator())
        async with health.served(operator, url, LoopClock()):
            pass

    asyncio.run(main())
    assert hosts == [host]


def test_every_listening_socket_of_the_package_is_known():
    """A new door has to be added here, with the test of its default."""
    opening = re.compile(r"TCPSite\(|_server\(host|create_server\(|UnixSite\(|SockSite\(|^import socket", re.MULTILINE)
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if opening.search(path.read_text())}
    doors = {"apiserver/server.py", "health.py", "trigger_server.py"}
    probes = {"testing/kube.py"}  # asks the system for free ports on loopback
    assert found - probes == doors


def test_free_ports_are_asked_for_on_loopback_only():
    """Also those of a real server under test."""
    source = inspect.getsource(sys.modules[KubeServer.__module__])
    opening = re.compile(r"\.bind\(|create_server\(|bind-address|listen-")
    listening = [line for line in source.splitlines() if opening.search(line)]
    assert listening and all("127.0.0.1" in line or "url" in line.lower() for line in listening)


# Files.


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_kubeconfig_is_readable_by_its_owner_only(tmp_path, open_umask):
    """Also where a file was there before, for all to read."""
    path = tmp_path / "kubeconfig"
    path.write_text("")
    path.chmod(0o666)
    with FakeEventInjector(secrets_operator()) as op:
        ApiServer(op.store).kubeconfig(path)
    assert mode(path) == 0o600


def test_the_state_is_readable_by_its_owner_only(tmp_path, open_umask):
    """It holds whatever Secrets the embedded server holds."""
    path = tmp_path / "state"

    async def main(store):
        async with StateKeeper(store, path):
            pass

    with FakeEventInjector(secrets_operator()) as op:
        op.add("secrets", "plain", data={"key": SECRET})
        assert isinstance(op.store, Store)
        asyncio.run(main(op.store))
    assert path.stat().st_size > 0
    assert mode(path) == 0o600


def test_key_files_for_other_clients_are_readable_by_their_owner_only(open_umask, monkeypatch):
    """pykube and kubernetes want certificates and keys as files."""
    written = []
    real = tempfile.mkstemp

    def mkstemp(*args, **options):
        handle, name = real(*args, **options)
        written.append(name)
        return handle, name

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
    info = kopf.ConnectionInfo(server="https://127.0.0.1:1", certificate_data="Yw==", private_key_data="aw==")
    clients.make_client("kubernetes", info)
    assert len(written) == 2
    assert all(mode(name) == 0o600 for name in written if os.path.exists(name))


def test_loading_puts_the_handlers_folder_on_the_path_and_nothing_else(tmp_path):
    """Neither its parents, nor the current folder."""
    (tmp_path / "inner").mkdir()
    file = tmp_path / "inner" / "secure_handlers.py"
    file.write_text("import opkit\n@opkit.reconcile('v1', 'pods')\ndef reconcile(): ...\n")
    before = list(sys.path)
    try:
        load([file])
        assert [entry for entry in sys.path if entry not in before] == [str(file.parent)]
    finally:
        sys.path[:] = before


def test_yaml_is_loaded_safely_everywhere():
    """No loader of PyYAML that makes objects: only safe ones, and one of opkit's own that is derived from them."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        for line in path.read_text().splitlines():
            if re.search(
                r"yaml\.(load|load_all|full_load|unsafe_load|full_load_all|unsafe_load_all|parse|compose|scan)\(", line
            ):
                found.append((path.name, line.strip()))
            assert not re.search(r"\b(FullLoader|UnsafeLoader|yaml\.Loader|CLoader)\b", line), line
    ours = [one for one in found if "json_yaml." not in one[1]]
    assert ours and all(name == "json_yaml.py" and "Loader=_Loader" in line for name, line in ours)


def test_nothing_of_what_comes_in_is_evaluated():
    """No eval, exec, pickle or shell anywhere in the package; annotations written as text are the author's own code."""
    unsafe = r"(?<![\w.])(eval|exec)\(|\bpickle\b|\bmarshal\b|shell=True|os\.system\("
    found = [path.name for path in PACKAGE.rglob("*.py") if re.search(unsafe, path.read_text())]
    assert found == ["annotations.py"]


# Names that come from objects.

ELSEWHERE = ["", None, ".", "..", "../../kube-system/secrets/admin", "a/b", "a%2Fb"]


@pytest.mark.parametrize("name", ELSEWHERE, ids=repr)
@pytest.mark.parametrize("verb", ["get", "delete", "patch", "patch_status"])
def test_a_name_that_leads_elsewhere_is_refused(event_injector, verb, name):
    """`cluster.delete("secrets", spec["secretName"])` with no name there must not mean all of them."""
    registry = opkit.Registry()
    raised = []

    @opkit.reconcile("v1", "configmaps", registry=registry)
    async def reconcile(cluster):
        calls = {
            "get": lambda: cluster.get("secrets", name),
            "delete": lambda: cluster.delete("secrets", name),
            "patch": lambda: cluster.patch("secrets", name, None, {"data": {}}),
            "patch_status": lambda: cluster.patch_status("secrets", name, None, {"x": 1}),
        }
        try:
            await calls[verb]()
        except ValueError as error:
            raised.append(str(error))

    op = event_injector(registry)
    op.add("secrets", "one", data={"key": SECRET})
    op.add("configmaps", "any")
    op.settle()
    assert raised == [f"{name!r} can't be the name of an object"]
    assert op.exists("secrets", "one")


@pytest.mark.parametrize("namespace", ["", "..", "kube-system/secrets"], ids=repr)
def test_a_namespace_that_leads_elsewhere_is_refused(event_injector, namespace):
    """Also where only the namespace comes from an object."""
    registry = opkit.Registry()
    raised = []

    @opkit.reconcile("v1", "configmaps", registry=registry)
    async def reconcile(cluster):
        try:
            await cluster.get("secrets", "one", namespace)
        except ValueError as error:
            raised.append(str(error))

    op = event_injector(registry)
    op.add("configmaps", "any")
    op.settle()
    assert raised == [f"{namespace!r} can't be the namespace of an object"]


def test_what_is_no_plain_name_is_quoted_in_paths():
    """Names of roles have colons; a question mark would begin a query."""
    roles = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", kind="ClusterRole", namespaced=False)
    assert roles.path(None, "system:node").endswith("/clusterroles/system:node")
    assert roles.path(None, "a?b#c d").endswith("/clusterroles/a%3Fb%23c%20d")
    for name in [name for name in ELSEWHERE if name is not None]:
        with pytest.raises(ValueError, match="can't be the name of an object"):
            roles.path(None, name)
