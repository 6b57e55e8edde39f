"""Definitions that change while they are served, on a real API server: discovery that lags, watches that it cuts."""

import asyncio

import pytest

import opkit

from ..behaviour.client import eventually, unique
from .conftest import CRDS, GROUP, Things

pytestmark = pytest.mark.kube


def version(name, *, served=True, storage=False, status=True):
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": loose},
        **({"subresources": {"status": {}}} if status else {}),
    }  # fmt: skip


class Definition:
    """One definition, and its objects in one namespace."""

    def __init__(self, api, namespace, *versions):
        self.api, self.namespace = api, namespace
        word = unique("kind").replace("-", "")
        self.plural, self.kind = f"{word}s", word.capitalize()
        self.path = f"{CRDS}/{self.plural}.{GROUP}"
        self.things = Things(api, namespace, self.plural, self.kind)
        self.create("Namespaced", *versions)

    def create(self, scope, *versions):
        names = {"plural": self.plural, "singular": self.plural[:-1], "kind": self.kind}
        spec = {"group": GROUP, "scope": scope, "names": names, "versions": [*versions]}
        body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{self.plural}.{GROUP}"}, "spec": spec}  # fmt: skip
        self.api.post(CRDS, body).ok(201)
        self.until_served(versions[0]["name"])

    def offer(self, *versions):
        self.api.patch(self.path, {"spec": {"versions": [*versions]}}).ok()

    def until_served(self, name, served=True):
        eventually(lambda: (self.api.get(f"/apis/{GROUP}/{name}/{self.plural}").status == 200) is served)


@pytest.fixture
def defined(api, namespace):
    return lambda *versions: Definition(api, namespace, *versions)


@pytest.mark.parametrize("gains", [True, False], ids=["gains", "loses"])
def test_a_status_subresource_that_changes_during_a_run(running, registry, defined, gains):
    """The status of that run arrives, and that of the next one."""
    one = defined(version("v1", storage=True, status=not gains))
    begun = []

    @opkit.reconcile(GROUP, "v1", one.plural, registry=registry)
    async def reconcile(spec, patch):
        begun.append(spec["n"])
        await asyncio.sleep(1 if spec["n"] > 1 else 0)
        patch.status["n"] = spec["n"]

    @opkit.delete(GROUP, "v1", one.plural, registry=registry)
    async def gone(name):
        begun.append("gone")

    one.things.create("a", {"n": 1})
    with running(registry):
        eventually(lambda: one.things.get("a").get("status") == {"n": 1})
        one.things.patch("a", {"spec": {"n": 2}})
        eventually(lambda: 2 in begun)
        one.offer(version("v1", storage=True, status=gains))
        eventually(lambda: one.things.get("a").get("status") == {"n": 2}, 30)
        one.things.patch("a", {"spec": {"n": 3}})
        eventually(lambda: one.things.get("a").get("status") == {"n": 3}, 30)
    assert "gone" not in begun


@pytest.mark.parametrize("old_stays", [True, False], ids=["old-stays", "old-is-withdrawn"])
def test_a_new_version_takes_over(running, registry, defined, old_stays):
    """A run that is under way ends, its status arrives, and what changes next is run once, in the new version."""
    one = defined(version("v1", storage=True))
    runs, busy = [], set()

    @opkit.reconcile(GROUP, one.plural, registry=registry)
    async def reconcile(uid, spec, resource, patch):
        runs.append((resource.version, spec["n"], uid in busy))
        busy.add(uid)
        await asyncio.sleep(2 if spec["n"] == 2 else 0)
        busy.discard(uid)
        patch.status["n"] = spec["n"]

    @opkit.delete(GROUP, one.plural, registry=registry)
    async def gone(name):
        runs.append("gone")

    path = f"/apis/{GROUP}/v2/namespaces/{one.namespace}/{one.plural}/a"
    one.things.create("a", {"n": 1})
    with running(registry) as operator:
        eventually(lambda: len(runs) == 1)
        one.things.patch("a", {"spec": {"n": 2}})
        eventually(lambda: len(runs) == 2)
        one.offer(version("v1", served=old_stays, storage=True), version("v2"))
        one.until_served("v2")
        eventually(lambda: one.api.get(path).body.get("status") == {"n": 2}, 30)
        eventually(lambda: [one.version for one in operator.operator.served] == ["v2"], 30)
        one.api.patch(path, {"spec": {"n": 3}}).ok()
        eventually(lambda: one.api.get(path).body.get("status") == {"n": 3}, 30)
        operator.quiet()
    assert runs == [("v1", 1, False), ("v1", 2, False), ("v2", 3, False)]


def test_two_versions_by_name_share_the_lock(running, registry, defined):
    """Each change is run once by each, one after the other; the cleanup is done once."""
    one = defined(version("v1", storage=True), version("v2"))
    rows, busy = [], set()

    async def work(what, uid):
        rows.append((what, uid in busy))
        busy.add(uid)
        await asyncio.sleep(0.3)
        busy.discard(uid)

    for name in ("v1", "v2"):

        @opkit.reconcile(GROUP, name, one.plural, controller=name, registry=registry)
        async def reconcile(uid, resource):
            await work(resource.version, uid)

        @opkit.finalizer(GROUP, name, one.plural, name="example.com/clean", registry=registry)
        async def clean(uid):
            await work("clean", uid)

    with running(registry) as operator:
        one.things.create("a", {"n": 1})
        eventually(lambda: len(rows) == 2)
        one.things.patch("a", {"spec": {"n": 2}})
        eventually(lambda: len(rows) == 4)
        one.things.delete("a")
        eventually(lambda: not one.things.exists("a"))
        operator.quiet()
    assert sorted(rows) == [("clean", False)] + [("v1", False)] * 2 + [("v2", False)] * 2


def test_another_scope_is_another_resource(running, registry, defined, namespace):
    """Made anew for the whole cluster: the old objects are gone, the new ones are run."""
    one = defined(version("v1", storage=True))
    rows = []

    @opkit.reconcile(GROUP, one.plural, registry=registry)
    async def reconcile(name, namespace, patch):
        rows.append(("run", namespace))
        patch.status["seen"] = True

    @opkit.delete(GROUP, one.plural, registry=registry)
    async def gone(name, namespace):
        rows.append(("gone", namespace))

    one.things.create("a", {"n": 1})
    with running(registry):
        eventually(lambda: rows == [("run", namespace)])
        one.api.delete(one.path).ok()
        eventually(lambda: one.api.get(one.path).status == 404)
        one.create("Cluster", version("v1", storage=True))
        path = f"/apis/{GROUP}/v1/{one.plural}"
        body = {"apiVersion": f"{GROUP}/v1", "kind": one.kind, "metadata": {"name": "a"}, "spec": {"n": 2}}
        eventually(lambda: one.api.post(path, body).status in (201, 409))
        eventually(lambda: one.api.get(f"{path}/a").body.get("status") == {"seen": True}, 40)
    assert rows == [("run", namespace), ("gone", namespace), ("run", None)]
