"""
The soak: an operator under everything that a cluster can do to it, for as long as one likes.

    python -m benchmarks soak --minutes 10

A real API server is changed at random, killed and started, its history forgotten, its connections cut; definitions come
and go, gain and lose versions and subresources, namespaces come and go; and handlers fail, time out, block and are
slow. At the end the chaos stops, and everything has to converge: nothing lost, nothing
run twice at once, nothing left over, and memory as it was.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import ctypes
import dataclasses
import gc
import json
import logging
import os
import random
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import yaml

import opkit
from benchmarks.proxy import Proxy
from opkit.cluster.kopf_cluster import KopfCluster
from opkit.cluster.resource import ResourceSelector
from opkit.errors import ApiError
from opkit.flow.onlooker import Onlooker
from opkit.testing.definitions import permissive
from opkit.testing.kube import KubeServer
from opkit.triggers import Trigger

GROUP = "soak.opkit.dev"
NAMES = 60
NAMESPACES = ("soak-a", "soak-b")
COMING_AND_GOING = "soak-x"
"""A namespace that is made and removed again and again, with all that is in it."""
PATIENCE = 60.0
BLOCKS_MORE = 50_000
"""Journals and the like may fill up to their limits; a leak of one body a run is past this within a minute."""
RSS_MORE_MB = 16.0
_RESYNC = frozenset({Trigger.RESYNC})


@dataclasses.dataclass(frozen=True)
class Memory:
    """
    What the process holds: blocks that Python has allocated, and megabytes of the machine.

    The blocks show what the code keeps, to the object. The megabytes also hold what neither is Python's nor leaks: the
    stacks of threads, the buffers of up to a hundred TLS connections, holes between live blocks.
    """

    blocks: int
    rss_mb: float

    @classmethod
    def now(cls) -> Memory:
        """Look, after everything that is free was given back."""
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # only glibc can be asked to
            ctypes.CDLL(None).malloc_trim(0)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(sys.getallocatedblocks(), round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1))


@dataclasses.dataclass
class Verdict:
    """What a soak has found."""

    actions: dict[str, int]
    runs: int
    failures: int
    lost: list[str]
    explained: dict[str, list[dict[str, Any]]]
    overlaps: list[str]
    told_gone: list[str]
    """Living objects that a delete handler was told of."""
    leaked: list[str]
    bugs: list[str]
    memory: list[Memory]

    @property
    def grown(self) -> list[str]:
        """What the second half of the soak has added to the process, beyond what its traffic explains."""
        middle, end = self.memory
        found = []
        if end.blocks > middle.blocks + BLOCKS_MORE:
            found.append(f"{end.blocks - middle.blocks:,} blocks of Python's memory more")
        if end.rss_mb > middle.rss_mb + RSS_MORE_MB:
            found.append(f"{end.rss_mb - middle.rss_mb:.0f} MB more")
        return found

    @property
    def ok(self) -> bool:
        return not (self.lost or self.overlaps or self.told_gone or self.leaked or self.bugs or self.grown)


class Handlers(Onlooker):
    """An operator's handlers, as bad as the chaos wants them to be."""

    def __init__(self, chance: random.Random) -> None:
        self.registry = opkit.Registry()
        self.calm = False
        self.runs = self.failures = 0
        self.overlaps: list[str] = []
        self.bugs: list[str] = []
        self.told_gone: collections.Counter[tuple[str, str]] = collections.Counter()
        self._chance = chance
        self._inside: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()
        self._declare()

    def on_bug(self, error: BaseException) -> None:
        self.bugs.append(repr(error))

    def _declare(self) -> None:
        registry, things = self.registry, (GROUP, "v1", "things")
        retry = opkit.Retry(initial=0.2, maximum=2)

        @opkit.reconcile(*things, owns=[("v1", "configmaps")], retry=retry, timeout=2, registry=registry)
        async def asynchronous(thing: opkit.Body, spec: Any, patch: Any, cluster: Any, uid: str) -> Any:
            with self._once(uid):
                await self._misbehave()
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": thing.name}}
                await cluster.apply({**body, "data": {"n": str(spec.get("n"))}}, owner=thing, force=True)
                patch.status["n"] = spec.get("n")
                return opkit.success(requeue_after=self._chance.choice([None, None, 1]) if not self.calm else None)

        @opkit.reconcile(*things, label_selector="flip=on", retry=retry, registry=registry)
        def synchronous(uid: str, spec: Any, patch: Any) -> None:
            with self._once(uid):
                if not self.calm and self._chance.random() < 0.1:
                    time.sleep(0.05)
                    raise OSError("a sync handler fails")
                patch.status["flipped"] = spec.get("n")

        @opkit.finalizer(*things, registry=registry)
        async def clean(uid: str) -> None:
            with self._once(uid):
                await self._misbehave()

        @opkit.delete(*things, controller="asynchronous", registry=registry)
        async def gone(uid: str) -> None:
            with self._once(uid):
                await asyncio.sleep(0)

        @opkit.reconcile(GROUP, "v1", "visitors", retry=retry, registry=registry)
        async def visitor(spec: Any, patch: Any, uid: str) -> None:
            with self._once(uid):
                patch.status["n"] = spec.get("n")

        # Named without a version: it is served in whatever version is the preferred one at the time.
        @opkit.reconcile(GROUP, "changelings", retry=retry, registry=registry)
        async def changeling(spec: Any, patch: Any, uid: str) -> None:
            with self._once(uid):
                await asyncio.sleep(self._chance.random() * 0.1)
                patch.status["n"] = spec.get("n")

        @opkit.delete(GROUP, "changelings", registry=registry)
        async def changeling_gone(name: str, namespace: str, reason: Any) -> None:
            self.told_gone[namespace, name] += 1

    @contextlib.contextmanager
    def _once(self, uid: str) -> Any:
        """Notice when an object is run twice at once."""
        with self._lock:
            self._inside[uid] += 1
            if self._inside[uid] > 1:
                self.overlaps.append(uid)
            self.runs += 1
        try:
            yield
        except BaseException:
            self.failures += 1
            raise
        finally:
            with self._lock:
                self._inside[uid] -= 1
                if not self._inside[uid]:
                    del self._inside[uid]

    async def _misbehave(self) -> None:
        if self.calm:
            return
        what = self._chance.random()
        if what < 0.05:
            raise RuntimeError("a handler fails")
        if what < 0.07:
            await asyncio.sleep(5)  # longer than its timeout
        elif what < 0.09:
            time.sleep(0.05)  # noqa: ASYNC251  # blocks the loop, as careless handlers do
        elif what < 0.3:
            await asyncio.sleep(self._chance.random() * 0.2)
        elif what < 0.31:
            raise SystemExit("a handler wants to leave")


class Chaos:
    """Somebody else's hands on the cluster."""

    def __init__(self, server: KubeServer, proxy: Proxy, cluster: KopfCluster, chance: random.Random) -> None:
        self.actions: collections.Counter[str] = collections.Counter()
        self._server = server
        self._proxy = proxy
        self._cluster = cluster
        self._chance = chance
        self._serial = 0

    async def run(self, seconds: float) -> None:
        """Do something, again and again; now and then something worse."""
        until = time.monotonic() + seconds
        next_outage = time.monotonic() + 15
        while time.monotonic() < until:
            if time.monotonic() > next_outage:
                next_outage = time.monotonic() + 20
                await self._outage()
            name, namespace = f"t{self._chance.randrange(NAMES)}", self._chance.choice((*NAMESPACES, COMING_AND_GOING))
            actions = {
                self._change: 50, self._flip: 15, self._status: 10, self._delete: 8, self._child: 6, self._visitors: 1,
                self._changeling: 8, self._definition: 0.4, self._namespace: 0.6,
            }  # fmt: skip
            action = self._chance.choices(list(actions), list(actions.values()))[0]
            try:
                await action(name, namespace)
                self.actions[action.__name__.strip("_")] += 1
            except ApiError:
                self.actions["refused"] += 1  # not there, there already, or nobody answers
            await asyncio.sleep(0.005)

    async def _outage(self) -> None:
        kind = self._chance.choice(("cut", "cut", "restart", "kill", "compact"))
        self.actions[f"outage: {kind}"] += 1
        if kind == "cut":
            self._proxy.cut()
        elif kind == "compact":
            await asyncio.to_thread(self._server.compact)
            self._proxy.cut()
        else:
            await asyncio.to_thread(self._server.stop_apiserver, kill=kind == "kill")
            await asyncio.sleep(self._chance.random() * 3)
            await asyncio.to_thread(self._server.start_apiserver)

    async def _resource(self, plural: str) -> Any:
        return await self._cluster.resolve(ResourceSelector(name=plural, group=GROUP, version="v1"))

    async def _change(self, name: str, namespace: str) -> None:
        self._serial += 1
        things, spec = await self._resource("things"), {"n": self._serial}
        try:
            await self._cluster.patch(things, name, namespace, {"spec": spec})
        except opkit.NotFound:
            meta = {"name": name, "labels": {"flip": self._chance.choice(("on", "off"))}}
            body = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": meta, "spec": spec}
            await self._cluster.create(things, body, namespace)

    async def _flip(self, name: str, namespace: str) -> None:
        labels = {"flip": self._chance.choice(("on", "off", None))}
        await self._cluster.patch(await self._resource("things"), name, namespace, {"metadata": {"labels": labels}})

    async def _status(self, name: str, namespace: str) -> None:
        patch = {"status": {"noise": self._chance.random()}}
        await self._cluster.patch(await self._resource("things"), name, namespace, patch, subresource="status")

    async def _delete(self, name: str, namespace: str) -> None:
        await self._cluster.delete(await self._resource("things"), name, namespace)

    async def _child(self, name: str, namespace: str) -> None:
        """Change or delete a child behind the operator's back."""
        configmaps = await self._cluster.resolve(ResourceSelector.parse("v1", "configmaps"))
        if self._chance.random() < 0.5:
            await self._cluster.delete(configmaps, name, namespace)
        else:
            await self._cluster.patch(configmaps, name, namespace, {"data": {"n": "by hand"}})

    async def _visitors(self, name: str, namespace: str) -> None:
        """A definition comes and goes, with what it defines."""
        crds = await self._cluster.resolve(ResourceSelector.parse("apiextensions.k8s.io", "customresourcedefinitions"))
        what = self._chance.random()
        if what < 0.3:
            await self._cluster.create(crds, permissive("visitors", "Visitor", GROUP))
        elif what < 0.5:
            await self._cluster.delete(crds, f"visitors.{GROUP}")
        else:
            body = {
                "apiVersion": f"{GROUP}/v1", "kind": "Visitor", "metadata": {"generateName": "v-"},
                "spec": {"n": self._serial},
            }  # fmt: skip
            await self._cluster.create(await self._resource("visitors"), body, namespace)

    async def _changeling(self, name: str, namespace: str) -> None:
        """Change an object of the kind whose definition changes; it lives in the namespaces that stay."""
        self._serial += 1
        changelings, namespace = await self._resource("changelings"), self._chance.choice(NAMESPACES)
        name, spec = f"c{self._chance.randrange(10)}", {"n": self._serial}
        try:
            await self._cluster.patch(changelings, name, namespace, {"spec": spec})
        except opkit.NotFound as error:
            if not error.is_about_an_object:
                raise
            body = {"apiVersion": f"{GROUP}/v1", "kind": "Changeling", "metadata": {"name": name}, "spec": spec}
            await self._cluster.create(changelings, body, namespace)

    async def _definition(self, name: str, namespace: str) -> None:
        """The definition gains or loses a version, or the status subresource."""
        crds = await self._cluster.resolve(ResourceSelector.parse("apiextensions.k8s.io", "customresourcedefinitions"))
        status = {"status": {}} if self._chance.random() < 0.7 else None
        (first,) = permissive("changelings", "Changeling", GROUP)["spec"]["versions"]
        versions = [{**first, "subresources": status}]
        if self._chance.random() < 0.5:
            versions.append({**first, "name": "v2", "storage": False, "subresources": status})
        await self._cluster.patch(crds, f"changelings.{GROUP}", None, {"spec": {"versions": versions}})

    async def _namespace(self, name: str, namespace: str) -> None:
        """A namespace goes, with all that is in it, or comes back: what the namespace controller does is done here."""
        namespaces = await self._cluster.resolve(ResourceSelector.parse("v1", "namespaces"))
        try:
            body = await self._cluster.get(namespaces, COMING_AND_GOING)
        except opkit.NotFound:
            await self._cluster.create(namespaces, {"metadata": {"name": COMING_AND_GOING}})
            return
        if not body["metadata"].get("deletionTimestamp"):
            if self._chance.random() < 0.5:
                await self._cluster.delete(namespaces, COMING_AND_GOING)
            return
        contents = [
            await self._resource("things"),
            await self._cluster.resolve(ResourceSelector.parse("v1", "configmaps")),
        ]
        left = 0
        for resource in contents:
            for raw in await self._cluster.list(resource, COMING_AND_GOING):
                left += 1
                if not raw["metadata"].get("deletionTimestamp"):
                    await self._cluster.delete(resource, raw["metadata"]["name"], COMING_AND_GOING)
        if not left:
            body = {**body, "spec": {"finalizers": []}}
            await self._cluster.json("put", f"/api/v1/namespaces/{COMING_AND_GOING}/finalize", payload=body)

    async def problems(self) -> list[str]:
        """What has not converged."""
        things = await self._resource("things")
        configmaps = await self._cluster.resolve(ResourceSelector.parse("v1", "configmaps"))
        found = []
        for raw in await self._cluster.list(things):
            meta, status = raw["metadata"], raw.get("status") or {}
            where, n = f"{meta['namespace']}/{meta['name']}", raw["spec"].get("n")
            if meta.get("deletionTimestamp"):
                found.append(f"{where} is still being deleted")
                continue
            if meta["namespace"] == COMING_AND_GOING:
                continue  # its children can't be made while the namespace is on its way out
            if status.get("n") != n:
                found.append(f"{where} was seen at {status.get('n')}, and is at {n}")
            if (meta.get("labels") or {}).get("flip") == "on" and status.get("flipped") != n:
                found.append(f"{where} is selected, and was not seen there at {n}")
            try:
                child = await self._cluster.get(configmaps, meta["name"], meta["namespace"])
                if child["data"]["n"] != str(n):
                    found.append(f"the child of {where} is at {child['data']['n']}, not at {n}")
            except opkit.NotFound:
                found.append(f"the child of {where} is missing")
        for raw in await self._cluster.list(await self._resource("changelings")):
            seen = (raw.get("status") or {}).get("n")
            if seen != raw["spec"]["n"]:
                found.append(f"the changeling {raw['metadata']['name']} was seen at {seen}, not at {raw['spec']['n']}")
        return found + await self._visitors_not_seen()

    async def _visitors_not_seen(self) -> list[str]:
        try:
            visitors = await self._cluster.list(await self._resource("visitors"))
        except opkit.NotFound:
            return []  # the definition is away
        return [
            f"the visitor {raw['metadata']['name']} was not seen"
            for raw in visitors
            if (raw.get("status") or {}).get("n") != raw["spec"]["n"]
        ]


@contextlib.asynccontextmanager
async def _client(kubeconfig: Path) -> AsyncIterator[KopfCluster]:
    os.environ["KUBECONFIG"] = str(kubeconfig)
    cluster = KopfCluster()
    await cluster.open()
    try:
        yield cluster
    finally:
        await cluster.close()


def _through(proxy: Proxy, server: KubeServer) -> Path:
    """A kubeconfig that leads through the proxy."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
    path = server.directory / "through-the-proxy"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


async def _prepare(cluster: KopfCluster) -> None:
    crds = await cluster.resolve(ResourceSelector.parse("apiextensions.k8s.io", "customresourcedefinitions"))
    namespaces = await cluster.resolve(ResourceSelector.parse("v1", "namespaces"))
    await cluster.create(crds, permissive("things", "Thing", GROUP))
    await cluster.create(crds, permissive("changelings", "Changeling", GROUP))
    for name in NAMESPACES:
        await cluster.create(namespaces, {"metadata": {"name": name}})
    await asyncio.sleep(1)


async def soak(minutes: float, seed: int) -> Verdict:
    """Run one soak."""
    chance = random.Random(seed)
    handlers = Handlers(random.Random(seed))
    settings = opkit.Settings()
    settings.watch.reconnect_backoff = 0.2
    settings.parallel.limit = 8
    with KubeServer() as server:
        async with Proxy(server.port) as proxy, _client(server.kubeconfig) as somebody:
            await _prepare(somebody)
            os.environ["KUBECONFIG"] = str(_through(proxy, server))
            operator = opkit.Operator(
                registry=handlers.registry, settings=settings, namespaces=["soak-*"], onlooker=handlers
            )
            before = len(asyncio.all_tasks())
            running = asyncio.create_task(operator.run())
            chaos = Chaos(server, proxy, somebody, chance)
            await chaos.run(minutes * 30)
            middle = Memory.now()
            await chaos.run(minutes * 30)
            handlers.calm = True
            lost = await _converge(chaos, operator)
            end = Memory.now()
            leaked, explained = _leftovers(operator), _explain(operator, lost)
            operator.stop()
            await running
            await asyncio.sleep(0.5)
            if (after := len(asyncio.all_tasks())) > before:
                leaked.append(f"{after - before} tasks are left after the stop")
    return Verdict(
        actions=dict(chaos.actions), runs=handlers.runs, failures=handlers.failures, lost=lost,
        explained=explained, overlaps=handlers.overlaps,
        told_gone=[f"{namespace}/{name}" for namespace, name in handlers.told_gone], leaked=leaked, bugs=handlers.bugs,
        memory=[middle, end],
    )  # fmt: skip


async def _converge(chaos: Chaos, operator: opkit.Operator) -> list[str]:
    """Wait until nothing is left to do, and give what is not as it should be then."""
    deadline = time.monotonic() + PATIENCE
    while True:
        await asyncio.sleep(1)
        idle = not _is_busy(operator)  # asked first: what runs now may still change what is looked at
        try:
            problems = await chaos.problems()
        except ApiError as error:
            problems = [str(error)]
        if idle and not problems:
            return []
        if time.monotonic() > deadline:
            return problems or ["the operator does not come to rest"]


def _is_busy(operator: opkit.Operator) -> bool:
    """Whether anything runs, such as a handler that began before the calm, or is to run soon."""
    return operator.statistics().running > 0 or operator.next_due(ignoring=_RESYNC) is not None


def _explain(operator: opkit.Operator, lost: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Why the operator believes that it is done with the objects that it has lost."""
    names = {part for text in lost for part in text.split() if part.startswith("soak-") and "/" in part}
    return {
        name: operator.explain((GROUP, "v1", "things"), name.partition("/")[2], name.partition("/")[0])[-12:]
        for name in sorted(names)
    }


def _leftovers(operator: opkit.Operator) -> list[str]:
    """What is kept for objects that are not there any more."""
    found = []
    for served in operator._watches or ():
        known = {uid for store in served.stores.values() for uid in store}
        if len(served.journal) > len(known):
            found.append(f"{served.resource}: {len(served.journal)} journals for {len(known)} objects")
        if served._shared.memos.keys() - known:
            found.append(f"{served.resource}: memos of objects that are gone")
        for store in served.stores.values():
            statistics = store.statistics()
            if statistics.writes_under_way or statistics.names != statistics.objects:
                found.append(f"{served.resource}: {statistics}")
        for pipeline in served.pipelines:
            if pipeline.results.last_run.keys() - known:
                found.append(f"{pipeline.identity}: results of objects that are gone")
            if {request.key for request in pipeline.lane.queue.waiting()} - known:
                found.append(f"{pipeline.identity}: requests of objects that are gone")
        if served.coordinator.statistics().running:
            found.append(f"{served.resource}: runs that have not ended")
    return found


def main(arguments: list[str]) -> int:
    """The command; its exit status is 1 if anything was lost, run twice, left or grown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="show what the operator logs")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO if options.verbose else logging.CRITICAL)
    verdict = asyncio.run(soak(options.minutes, options.seed))
    print(json.dumps({**dataclasses.asdict(verdict), "grown": verdict.grown, "ok": verdict.ok}, indent=2))
    return 0 if verdict.ok else 1
