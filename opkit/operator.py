"""
The operator, for running it from code.

    operator = opkit.Operator(registry=registry, namespaces=["shop"])
    await operator.run()
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path
from typing import Any

from opkit.clock import Clock, LoopClock
from opkit.cluster.protocol import Cluster
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.declaration.registry import Registry, default_registry
from opkit.flow.assembly import Assembly
from opkit.flow.onlooker import Onlooker
from opkit.flow.requests import Request
from opkit.flow.served import Served
from opkit.flow.stream import StreamStatistics
from opkit.flow.watches import Watches
from opkit.plan.plan import Plan
from opkit.results import seconds
from opkit.settings import Settings
from opkit.triggers import Trigger


@dataclasses.dataclass(frozen=True, slots=True)
class OperatorStatistics:
    """A snapshot of a running operator."""

    listed: bool
    """Everything that is served has been listed completely."""
    running: int
    waiting: int
    objects: int
    failing: dict[str, str]
    """Objects (UID) whose last run failed, with the message."""
    streams: tuple[StreamStatistics, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Pending:
    """One run that waits or goes on."""

    lane: str
    key: str
    """The object's UID."""
    name: str
    due_in: float
    attempt: int
    triggers: frozenset[Trigger]
    running: bool = False


class Operator:
    """
    One operator: the plan of a registry, served.

    `namespaces` are names or patterns (as in kopf: `shop-*,!shop-test`); without any, or with `clusterwide`, all are
    served. Settings given here may still be changed by startup handlers; they are frozen after that.
    """

    def __init__(
        self,
        *,
        registry: Registry | None = None,
        settings: Settings | None = None,
        namespaces: Collection[str] = (),
        clusterwide: bool = False,
        cluster: Cluster | None = None,
        clock: Clock | None = None,
        random_source: random.Random | None = None,
        onlooker: Onlooker | None = None,
        clients: Mapping[str, Any] | None = None,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
    ) -> None:
        """
        Compile the registry's declarations. Raises `RegistrationError` with every problem at once.

        `kubeconfig` names a file, and `context` one of its contexts, instead of what there is to be found.
        `cluster`, `clock`, `random_source`, `onlooker` and `clients` are for tests: without them it is the cluster that
        the credentials lead to, and the real time.
        """
        if namespaces and clusterwide:
            raise TypeError("either namespaces are served, or all of them (clusterwide): not both")
        if isinstance(namespaces, str):
            raise TypeError(f"namespaces are a collection of names, as in [{namespaces!r}]")
        self.settings = settings or Settings()
        self.plan: Plan = (registry or default_registry()).compile(self.settings)
        self._namespaces = frozenset(namespaces)
        self._clusterwide = clusterwide or not namespaces
        self._cluster = cluster
        self._clock = clock
        self._random = random_source or random.Random()
        self._onlooker = onlooker or Onlooker()
        self._assembly: Assembly | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_called = False
        self._clients: dict[str, Any] = dict(clients or {})
        self._kubeconfig = kubeconfig
        self._context = context

    async def run(self) -> None:
        """
        Run until `stop` is called; then stop in order, and return.

        Raises `CredentialsError` if no way into a cluster is found, `ApiError` with status 401 if the server refuses
        the credentials at the start, `StartupError` if a startup handler fails for good.
        """
        self._loop = asyncio.get_running_loop()
        self._assembly = Assembly(
            self.plan,
            settings=self.settings,
            connect=self._connect,
            namespaces=self._namespaces,
            clusterwide=self._clusterwide,
            clock=self._clock or LoopClock(),
            random=self._random,
            onlooker=self._onlooker,
            clients=self._client,
        )
        if self._stop_called:
            self._assembly.stop()
        try:
            await self._assembly.run()
        finally:
            self._loop = None

    def stop(self) -> None:
        """Begin to stop, from any thread. More than once does no harm."""
        self._stop_called = True
        loop, assembly = self._loop, self._assembly
        if loop is not None and assembly is not None:
            loop.call_soon_threadsafe(assembly.stop)

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` has been called."""
        return self._stop_called

    def trigger(
        self,
        resource: str | Collection[str],
        name: str,
        namespace: str | None = None,
        after: float = 0,
        controller: str | None = None,
    ) -> bool:
        """
        Ask for a run of an object, from any thread: for webhooks, message consumers and the like.

        `after` is in seconds. `False` if it was not accepted: the object is not known, or the operator stops.
        """
        wait = seconds(after, "trigger(after=...)") or 0.0
        words = (resource,) if isinstance(resource, str) else tuple(resource)
        selector = ResourceSelector.parse(*words)
        if self._loop is None or self._assembly is None or (runtime := self._assembly.runtime) is None:
            return False

        def schedule() -> bool:
            served = self._watches.find(selector) if self._watches is not None else None
            return served is not None and served.trigger(name, namespace, wait, controller, Trigger.MANUAL)

        return runtime.in_loop(schedule)

    @property
    def is_ready(self) -> bool:
        """Whether requests are accepted: everything is listed, and the operator does not stop."""
        return not self._stop_called and self._watches is not None and self._watches.listed

    def knows(self, resource: str | Collection[str], name: str, namespace: str | None = None) -> bool:
        """Whether an object of this name is known. To be called in the loop's thread."""
        words = (resource,) if isinstance(resource, str) else tuple(resource)
        served = self._watches.find(ResourceSelector.parse(*words)) if self._watches is not None else None
        if served is None or not served.pipelines:
            return False
        return served.find(name, namespace if served.resource.namespaced else None) is not None

    def explain(self, resource: str | Collection[str], name: str, namespace: str | None = None) -> list[dict[str, Any]]:
        """
        The last 50 decisions about an object, oldest first: what came, who accepted or refused it, what ran, what
        was written, and what is due next. Times are seconds of the operator's monotonic clock.
        """
        words = (resource,) if isinstance(resource, str) else tuple(resource)
        served = self._watches.find(ResourceSelector.parse(*words)) if self._watches is not None else None
        return [] if served is None else served.explain(name, namespace)

    def statistics(self) -> OperatorStatistics:
        """A snapshot. To be called in the loop's thread."""
        served = list(self._watches or ())
        failing: dict[str, str] = {}
        for one in served:
            failing.update({one.name_of(uid): why for uid, why in one.failing().items()})
        return OperatorStatistics(
            listed=self._watches is not None and self._watches.listed,
            running=sum(one.coordinator.statistics().running for one in self._kinds()),
            waiting=sum(one.coordinator.statistics().waiting for one in self._kinds()),
            objects=len({uid for one in served for store in one.stores.values() for uid in store}),
            failing=failing,
            streams=tuple(stream.statistics() for stream in self._watches.streams()) if self._watches else (),
        )

    def _kinds(self) -> list[Served]:
        """One of the rooms of each kind: versions of one kind share their coordinator."""
        return list({id(served.coordinator): served for served in self._watches or ()}.values())

    def pending(self) -> list[Pending]:
        """All runs that wait or go on. To be called in the loop's thread."""
        if self._assembly is None or self._watches is None:
            return []
        found, now = [], self._assembly.clock.now()
        for served in self._kinds():
            for lane, key in served.coordinator.running():
                found.append(Pending(lane, key, served.name_of(key), 0.0, 0, frozenset(), running=True))
            for lane, request in served.coordinator.waiting():
                due = max(0.0, request.due - now)
                name = served.name_of(request.key)
                found.append(Pending(lane, request.key, name, due, request.attempt, request.triggers))
        return found

    @property
    def is_connected(self) -> bool:
        """Whether the startup is over: what there is to serve is being found out."""
        return self._watches is not None

    def unserved(self) -> list[str] | None:
        """The resources with handlers that the cluster does not serve; None before it has said what it serves."""
        if self._watches is None or not self._watches.is_known:
            return None
        return [str(one.resource) for one in self.plan.resources if self._watches.find(one.resource) is None]

    def next_due(self, *, ignoring: frozenset[Trigger]) -> float | None:
        """Seconds until the next waiting request is due that is not only there for one of these triggers."""
        if self._assembly is None or self._watches is None:
            return None

        def ignore(request: Request) -> bool:
            return request.triggers <= ignoring

        dues = [due for served in self._watches if (due := served.coordinator.next_due(ignore)) is not None]
        return max(0.0, min(dues) - self._assembly.clock.now()) if dues else None

    def lose_lead(self) -> None:
        """
        Stop working, because another replica leads: runs are cancelled, requests and writes refused. Watches go on.

        To be called in the loop's thread by whoever takes part in the election.
        """
        if self._assembly is not None:
            self._assembly.lose_lead()

    def gain_lead(self) -> None:
        """Start working (again): every known object is reconciled. To be called in the loop's thread."""
        if self._assembly is not None:
            self._assembly.gain_lead()

    def stuck(self) -> list[str]:
        """Handlers whose threads still run after the stop: nothing can end them but the end of the process."""
        return self._assembly.stuck() if self._assembly is not None else []

    def dead(self) -> list[str]:
        """Streams whose task has ended though nobody asked for it. There is no way to get there but a bug."""
        return self._watches.dead() if self._watches is not None else []

    def polls(self) -> dict[str, str]:
        """The polls by their names: `ok`, or what the last call failed with."""
        return {one.name: one.error or "ok" for one in (self._watches.pollers() if self._watches is not None else ())}

    async def probe(self) -> dict[str, Any]:
        """What the probes give, by their names; what one raises stands there as text."""
        return await self._assembly.probe() if self._assembly is not None else {}

    @property
    def _watches(self) -> Watches | None:
        return self._assembly.watches if self._assembly is not None else None

    @property
    def served(self) -> list[Resource]:
        """The resources that are served at this moment."""
        return [served.resource for served in self._watches] if self._watches is not None else []

    @contextlib.asynccontextmanager
    async def _connect(self, settings: Settings) -> AsyncIterator[Cluster]:
        if self._cluster is not None:
            yield self._cluster
            return
        # Imported here, so that what never connects (checks, tests in virtual time) never loads an API client.
        from opkit.cluster.clients import make_client
        from opkit.cluster.kopf_cluster import KopfCluster

        cluster = KopfCluster(
            settings=settings.kopf,
            logins=[handler.function for handler in self.plan.logins],
            chunk_size=settings.watch.chunk_size,
            server_timeout=settings.watch.server_timeout,
            kubeconfig=self._kubeconfig,
            context=self._context,
        )
        await cluster.open()
        try:
            libraries = {library for handler in self.plan.handlers() for _, library in handler.clients}
            if libraries:
                live = cluster.credentials()
                self._clients = {library: make_client(library, live) for library in libraries}
            yield cluster
        finally:
            await cluster.close()

    def _client(self, library: str) -> Any:
        if library not in self._clients:
            raise TypeError(
                f"a client of {library} has no server to talk to in virtual time: give the injector "
                f"clients={{{library!r}: ...}}, or test against an embedded server"
            )
        return self._clients[library]
