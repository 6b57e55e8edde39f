"""
Watches: which streams run.

Takes the topologies of the cluster; starts and ends the rooms of resources and their streams as they come and go.
A resource or namespace that goes away ends its streams, and its objects count as deleted (semantics: 1).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Iterable, Iterator

from opkit.cluster.protocol import Topology, WatchScope
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.errors import ApiError
from opkit.flow.links import links_of
from opkit.flow.polling import Poller
from opkit.flow.runtime import Runtime
from opkit.flow.served import Served
from opkit.flow.stream import Stream, backoff
from opkit.plan.plan import Plan, Poll

logger = logging.getLogger("opkit.watches")


@dataclasses.dataclass(slots=True)
class _Running:
    stream: Stream
    task: asyncio.Task[None]


class Watches:
    """All streams of an operator, and the resources they serve."""

    def __init__(self, plan: Plan, runtime: Runtime, *, namespaces: frozenset[str], clusterwide: bool) -> None:
        self._plan = plan
        self._runtime = runtime
        self._namespaces = namespaces
        self._clusterwide = clusterwide
        self._served: dict[Resource, Served] = {}
        self._running: dict[WatchScope, _Running] = {}
        self._links: set[tuple[Resource, str, Resource, object]] = set()
        self._sources: dict[Resource, set[Resource]] = {}
        self._polls: dict[tuple[Resource, Poll], tuple[Poller, asyncio.Task[None]]] = {}
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
        streams = [f"stream of {scope}" for scope, running in self._running.items() if running.task.done()]
        return streams + [f"poll {poller.name}" for poller, task in self._polls.values() if task.done()]

    @property
    def is_known(self) -> bool:
        """Whether the cluster has said what it serves."""
        return self._known

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
        selectors = frozenset(self._plan.named_resources())
        cluster = self._runtime.writes.cluster
        topologies = cluster.topology(selectors, self._namespaces, self._clusterwide)
        async with contextlib.aclosing(topologies):
            async for topology in topologies:
                await self._adjust(topology)
                if self._reported:
                    logger.info("The API server answers again.")
                self._known, self._reported, self._failures = True, False, 0

    async def _adjust(self, topology: Topology) -> None:
        """Make the streams those of the topology: first end, then start."""
        self._replace_changed(topology.resources)
        for resource in sorted(topology.resources, key=str):
            self._serve(resource)
        self._relate(topology.resources)
        wanted = {
            scope: self._served[resource]
            for resource in sorted(topology.resources, key=str)
            for scope in self._served[resource].scopes(topology.namespaces)
        }
        await self.stop([scope for scope in self._running if scope not in wanted])
        for scope, served in wanted.items():
            if scope not in self._running:
                self._start(scope, served)
        self._open_gates()
        self._start_polls(topology.resources)

    def _serve(self, resource: Resource) -> None:
        """Make the rooms of a resource when it is first served."""
        if resource not in self._served:
            plans = [plan for plan in self._plan.resources if plan.resource.select([resource])]
            self._served[resource] = Served(resource, plans, self._runtime)
            logger.debug("Serving %s.", resource)

    def _relate(self, resources: frozenset[Resource]) -> None:
        """Connect primary resources with their secondary ones, as far as both are served."""
        for primary in resources:
            for link in links_of(self._plan, primary, self._served[primary].pipelines, resources):
                key = (primary, link.pipeline.name, link.secondary, link.what)
                if key not in self._links:
                    self._links.add(key)
                    link.connect(self._served[link.secondary], self._runtime)
                    self._sources.setdefault(primary, set()).add(link.secondary)

    def _open_gates(self) -> None:
        """
        Let controllers start whose secondary objects are known, so that their first runs see all of them.

        One that can't be listed holds nothing up: that is told where it fails.
        """
        waiting = {
            scope.resource
            for scope, running in self._running.items()
            if not running.stream.statistics().listed and not running.stream.statistics().failures
        }
        for primary, sources in self._sources.items():
            if primary in self._served:
                self._served[primary].coordinator.set_gate(bool(sources & waiting))

    def _start_polls(self, resources: frozenset[Resource]) -> None:
        for resource in resources:
            served = self._served[resource]
            for plan in self._plan.resources:
                if plan.resource.select([resource]):
                    for poll in plan.polls:
                        if (resource, poll) not in self._polls:
                            poller = Poller(poll, served, self._runtime)
                            task = self._runtime.loop.create_task(poller.run(), name=f"poll {poller.name}")
                            self._polls[resource, poll] = (poller, task)

    def pollers(self) -> Iterable[Poller]:
        return [poller for poller, _ in self._polls.values()]

    def _replace_changed(self, resources: Iterable[Resource]) -> None:
        """A definition that came back in another shape is another resource."""
        for resource in resources:
            served = self._served.get(resource)
            if served is not None and _shape(served.resource) != _shape(resource):
                self._end(scope for scope in list(self._running) if scope.resource == resource)
                served.coordinator.close()
                self._forget(resource)

    def _forget(self, resource: Resource) -> None:
        """Take a resource's rooms down, with all that connects them to others."""
        del self._served[resource]
        self._sources.pop(resource, None)
        self._links = {link for link in self._links if resource not in (link[0], link[2])}
        for served in self._served.values():
            for pipeline in served.pipelines:
                pipeline.tools.detach(resource)
        for key in [key for key in self._polls if key[0] == resource]:
            self._polls.pop(key)[1].cancel()

    def _start(self, scope: WatchScope, served: Served) -> None:
        runtime = self._runtime
        stream = Stream(
            scope,
            cluster=runtime.writes.cluster,
            clock=runtime.clock,
            random=runtime.random,
            settings=runtime.settings.watch,
            sink=lambda batch: served.apply(scope, batch),
            on_progress=lambda: self._progress(scope, served, stream),
        )
        task = runtime.loop.create_task(stream.run(), name=f"stream of {scope}")
        self._running[scope] = _Running(stream, task)

    def _progress(self, scope: WatchScope, served: Served, stream: Stream) -> None:
        """A stream has listed everything, or has failed."""
        if stream.statistics().listed:
            served.listed(scope)
        self._open_gates()

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
        tasks += [task for _, task in self._polls.values()]
        self._running.clear()
        self._polls.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _shape(resource: Resource) -> tuple[object, ...]:
    return (resource.kind, resource.namespaced, resource.subresources)
