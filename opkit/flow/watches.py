"""
Watches: which streams run.

Takes the topologies of the cluster; starts and ends the rooms of resources and their streams as they come and go.
A resource or namespace that goes away ends its streams, and its objects count as deleted (semantics: 1).
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator

from opkit.cluster.protocol import Topology, WatchScope
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.errors import ApiError
from opkit.flow.runtime import Runtime
from opkit.flow.served import Served
from opkit.flow.stream import Stream, backoff
from opkit.plan.plan import Plan, ResourcePlan

logger = logging.getLogger("opkit.watches")


@dataclasses.dataclass(slots=True)
class _Running:
    stream: Stream
    task: asyncio.Task[None]


class Watches:
    """All streams of an operator, and the resources they serve."""

    def __init__(
        self, plan: Plan, runtime: Runtime, *, namespaces: frozenset[str], clusterwide: bool,
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._runtime = runtime
        self._namespaces = namespaces
        self._clusterwide = clusterwide
        self._on_progress = on_progress
        self._served: dict[Resource, Served] = {}
        self._running: dict[WatchScope, _Running] = {}
        self._known = False
        self._reported = False
        self._failures = 0

    def get(self, resource: Resource) -> Served | None:
        """The rooms of a resource, if it is served."""
        return self._served.get(resource)

    def find(self, selector: ResourceSelector) -> Served | None:
        """The rooms of the resource that is named, if it is served."""
        found = selector.select(self._served)
        return self._served[found[0]] if found else None

    def __iter__(self) -> Iterator[Served]:
        return iter(list(self._served.values()))

    def streams(self) -> Iterable[Stream]:
        return [running.stream for running in self._running.values()]

    def dead(self) -> list[str]:
        """Streams that have ended by themselves."""
        return [f"stream of {scope}" for scope, running in self._running.items() if running.task.done()]

    @property
    def listed(self) -> bool:
        """Whether the topology is known, and everything in it has been listed completely."""
        return self._known and all(stream.statistics().listed for stream in self.streams())

    async def run(self) -> None:
        """
        Serve what there is to serve until cancelled.

        Raises `ApiError` only if the very first discovery is refused with 401: nothing will come of that.
        """
        while True:
            try:
                await self._follow()
            except ApiError as error:
                if error.status == 401 and not self._known:
                    raise
                self._report(error)
            self._failures += 1
            base = self._runtime.settings.watch.reconnect_backoff
            await self._runtime.clock.sleep(backoff(self._failures, base, self._runtime.random.random()))

    def _report(self, error: ApiError) -> None:
        """Say it once until it is over. An interruption that the next try ends is not worth a word."""
        if self._reported or (self._known and not self._failures):
            logger.debug("The API server can't be asked what it serves: %s", error)
            return
        self._reported = True
        logger.warning("The API server can't be asked what it serves: %s. It is tried again until it answers.", error)

    async def _follow(self) -> None:
        selectors = frozenset(plan.resource for plan in self._plan.resources)
        cluster = self._runtime.writes.cluster
        async for topology in cluster.topology(selectors, self._namespaces, self._clusterwide):
            await self._adjust(topology)
            if self._reported:
                logger.info("The API server answers again.")
            self._known, self._reported, self._failures = True, False, 0
            self._on_progress()

    async def _adjust(self, topology: Topology) -> None:
        """Make the streams those of the topology: first end, then start."""
        self._replace_changed(topology.resources)
        wanted = {
            scope: served
            for resource in topology.resources
            if (served := self._serve(resource)) is not None
            for scope in served.scopes(topology.namespaces)
        }
        await self.stop([scope for scope in self._running if scope not in wanted])
        for scope, served in wanted.items():
            if scope not in self._running:
                self._start(scope, served)

    def _serve(self, resource: Resource) -> Served | None:
        """The rooms of a resource, made when it is first served."""
        served = self._served.get(resource)
        if served is None and (plans := self._plans_of(resource)):
            served = self._served[resource] = Served(resource, plans, self._runtime)
            logger.debug("Serving %s.", resource)
        return served

    def _plans_of(self, resource: Resource) -> list[ResourcePlan]:
        # A selector that another resource satisfies better was already judged by the cluster: it names this one
        # only if its words do.
        return [plan for plan in self._plan.resources if plan.resource.select([resource])]

    def _replace_changed(self, resources: Iterable[Resource]) -> None:
        """A definition that came back in another shape is another resource."""
        for resource in resources:
            served = self._served.get(resource)
            if served is not None and _shape(served.resource) != _shape(resource):
                self._end(scope for scope in list(self._running) if scope.resource == resource)
                served.coordinator.close()
                del self._served[resource]

    def _start(self, scope: WatchScope, served: Served) -> None:
        runtime = self._runtime
        stream = Stream(
            scope,
            cluster=runtime.writes.cluster,
            clock=runtime.clock,
            random=runtime.random,
            settings=runtime.settings.watch,
            sink=lambda batch: served.apply(scope, batch),
            on_listed=self._on_progress,
        )
        task = runtime.loop.create_task(stream.run(), name=f"stream of {scope}")
        self._running[scope] = _Running(stream, task)

    def _end(self, scopes: Iterable[WatchScope]) -> list[asyncio.Task[None]]:
        ended = []
        for scope in list(scopes):
            running = self._running.pop(scope)
            running.task.cancel()
            ended.append(running.task)
            if (served := self._served.get(scope.resource)) is not None:
                served.drop(scope)
        return ended

    async def stop(self, scopes: Iterable[WatchScope]) -> None:
        """End streams whose scopes are not served any more."""
        tasks = self._end(scopes)
        if tasks:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """End all streams, without taking what they showed for deleted: it is only we who go."""
        tasks = [running.task for running in self._running.values()]
        self._running.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _shape(resource: Resource) -> tuple[object, ...]:
    return (resource.kind, resource.namespaced, resource.subresources)
