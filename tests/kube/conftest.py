"""Operators at work on a real API server: in a thread of the test, or in a process of their own."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

import opkit
from opkit.flow.onlooker import Onlooker
from opkit.flow.report import Outcome
from opkit.testing.definitions import permissive
from opkit.testing.kube import KubeServer

from ..behaviour.client import MERGE, Api, eventually, unique

GROUP = "kube.opkit.dev"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(plural, kind):
    return permissive(plural, kind, GROUP)


class Things:
    """The objects of one custom resource in one namespace."""

    def __init__(self, api, namespace, plural="things", kind="Thing"):
        self.api = api
        self.namespace = namespace
        self.plural = plural
        self.kind = kind
        self.path = f"/apis/{GROUP}/v1/namespaces/{namespace}/{plural}"

    def create(self, name, spec=None, **meta):
        body = {"apiVersion": f"{GROUP}/v1", "kind": self.kind, "metadata": {"name": name, **meta}, "spec": spec or {}}
        return self.api.post(self.path, body).ok(201)

    def get(self, name):
        return self.api.get(f"{self.path}/{name}").ok(200)

    def exists(self, name):
        return self.api.get(f"{self.path}/{name}").status == 200

    def patch(self, name, patch, subresource=""):
        return self.api.patch(f"{self.path}/{name}{subresource}", patch, type=MERGE).ok(200)

    def delete(self, name):
        return self.api.delete(f"{self.path}/{name}").ok(200)


class Watcher(Onlooker):
    """Keeps the calls, and notices when one object is run twice at once."""

    def __init__(self):
        self.calls = []
        self.bugs = []

    def on_call(self, call):
        self.calls.append(call)

    def on_bug(self, error):
        self.bugs.append(error)

    def of(self, handler):
        return [call for call in self.calls if call.handler == handler]

    def ended(self, handler):
        return [call for call in self.of(handler) if call.outcome is Outcome.SUCCESS]


class Running:
    """An operator in a thread."""

    def __init__(self, registry, kubeconfig, settings=None, namespaces=()):
        self.watcher = Watcher()
        self._kubeconfig = kubeconfig
        self.operator = opkit.Operator(
            registry=registry, settings=settings, namespaces=namespaces, onlooker=self.watcher
        )
        self._error = None
        self._thread = threading.Thread(target=self._run, name="operator", daemon=True)

    def _run(self):
        try:
            asyncio.run(self.operator.run())
        except BaseException as error:
            self._error = error

    def __enter__(self):
        before = os.environ.get("KUBECONFIG")
        os.environ["KUBECONFIG"] = str(self._kubeconfig)
        try:
            self._thread.start()
            eventually(lambda: not self._thread.is_alive() or self.operator.served, 20)
        finally:
            if before is None:
                del os.environ["KUBECONFIG"]
            else:
                os.environ["KUBECONFIG"] = before
        return self

    def __exit__(self, kind, *_):
        self.operator.stop()
        self._thread.join(40)
        if kind is None:
            assert self._error is None, self._error
            assert not self._thread.is_alive()
            assert self.watcher.bugs == []

    def quiet(self, seconds=0.7):
        """Wait until nothing has been called for a while."""
        import time

        count, since = len(self.watcher.calls), time.monotonic()
        while time.monotonic() - since < seconds:
            time.sleep(0.05)
            if len(self.watcher.calls) != count:
                count, since = len(self.watcher.calls), time.monotonic()


@pytest.fixture(scope="session")
def prepared(kube):
    api = Api(kube.url, kube.token, kube.certificate)
    api.post(CRDS, definition("things", "Thing")).ok(201)
    eventually(lambda: api.get(f"/apis/{GROUP}/v1/things").status == 200)
    yield api
    api.close()


@pytest.fixture
def api(prepared):
    return prepared


@pytest.fixture
def namespace(api):
    name = unique("test")
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok(201)
    return name


@pytest.fixture
def things(api, namespace):
    return Things(api, namespace)


@pytest.fixture
def registry():
    return opkit.Registry()


@pytest.fixture
def running(kube, namespace):
    """Runs an operator on the test's namespace."""

    def run(registry, settings=None, namespaces=None):
        return Running(registry, kube.kubeconfig, settings, namespaces if namespaces is not None else [namespace])

    return run


@pytest.fixture
def own_server(kube):
    """A server of the test's own, to be stopped and started as it likes. Skipped, or failed, just as `kube` is."""
    with KubeServer() as server:
        yield server


@contextlib.contextmanager
def process(handlers, kubeconfig, *options, log):
    """`opkit run` in a process of its own, which is killed at the end if it still runs."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONUNBUFFERED": "1"}
    with open(log, "ab") as output:
        started = subprocess.Popen(
            [sys.executable, "-m", "opkit", "run", str(handlers), *options],
            env=environment, stdout=output, stderr=output,
        )  # fmt: skip
        try:
            yield started
        finally:
            if started.poll() is None:
                started.send_signal(signal.SIGKILL)
            started.wait(10)
