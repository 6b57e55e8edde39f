"""
Watches: which streams run.

Takes the topologies of the cluster; starts and ends the rooms of resources and their streams as they come and go.
A resource or namespace that goes away ends its streams, and its objects count as deleted (semantics: 1). One that is
served in another version, or in another way, goes on with all that is known of its objects (semantics: 13.8).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Iterable, Iterator

from opkit.cluster.pacing import Pacing
from opkit.cluster.protocol import Topology, WatchScope
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.errors import ApiError
from opkit.flow.gates import Gates
from opkit.flow.kind import Kind
from opkit.flow.links import links_of
from opkit.flow.polling import Poller
from opkit.flow.runtime import Runtime
from opkit.flow.served import Served
from opkit.flow.slots import Slot, Together, means, slot_of
from opkit.flow.stream import Stream
from opkit.flow.writes import Watched
from opkit.plan.plan import Plan, Poll

logger = logging.getLogger("opkit.watches")


@dataclasses.dataclass(slots=True)
class _Running:
    stream: Stream
    task: asyncio.Task[None]


_Place = tuple[Slot, WatchScope]


class Watches:
    """All streams of an operator, and the resources they serve."""

    def __init__(self, plan: Plan, runtime: Runtime, *, namespaces: frozenset[str], clusterwide: bool) -> None:
        self._plan = plan
        self._runtime = runtime
        self._namespaces = namespaces
        self._clusterwide = clusterwide
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._served: dict[Slot, Served] = {}
        self._found: dict[Resource, Watched] = {}
        self._running: dict[_Place, _Running] = {}
        self._links: set[tuple[Slot, str, Slot, object]] = set()
        self._gates = Gates(runtime)
        self._polls: dict[tuple[Slot, Poll], tuple[Poller, asyncio.Task[None]]] = {}
        self._known = False
        self._reported = False
        self._pacing = Pacing(runtime.settings.watch.reconnect_backoff, runtime.random.random)

    def get(self, resource: Resource) -> Watched | None:
        """The rooms of all those whom this resource serves, or its kind in whatever version there is now."""
        found = self._found.get(resource)  # each write asks for it several times
        if found is None and (found := self._look_up(resource)) is not None:
            self._found[resource] = found
        return found

    def _look_up(self, resource: Resource) -> Watched | None:
        kind = [served for slot, served in self._served.items() if slot[:2] == resource.kind_key]
        found = [served for served in kind if served.resource.version == resource.version] or kind
        return found[0] if len(found) == 1 else Together(found) if found else None

    def find(self, selector: ResourceSelector) -> Served | None:
        """The rooms of the resource that is named, if it is served; those of primary objects first."""
        served = list(self._served.values())
        found = selector.select({one.resource for one in served})
        meant = [one for one in served if found and one.resource == found[0]]
        return max(meant, key=lambda one: bool(one.pipelines), default=None)

    def __iter__(self) -> Iterator[Served]:
        return iter(list(self._served.values()))

    def streams(self) -> Iterable[Stream]:
        return [running.stream for running in self._running.values()]

    def dead(self) -> list[str]:
        """Streams that have ended by themselves."""
        streams = [f"stream of {scope}" for (_, scope), running in self._running.items() if running.task.done()]
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
        clock = self._runtime.clock
        while True:
            started = clock.now()
            try:
                await self._follow()
            except ApiError as error:
                if error.status == 401 and not self._known:
                    raise
                pause = self._pacing.failed(clock.now() - started, at_least=error.retry_after)
                self._report(error)
            else:
                pause = self._pacing.ended(clock.now() - started)
            await clock.sleep(pause)

    def _report(self, error: ApiError) -> None:
        """Say it once until it is over. An interruption that the next try ends is not worth a word."""
        if self._reported or (self._known and self._pacing.failures < 2):
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
                self._known, self._reported = True, False

    async def _adjust(self, topology: Topology) -> None:
        """Make the streams those of the topology: first end, then move, then start."""
        self._found.clear()
        resources = self._resources(topology)
        for slot, resource in resources.items():
            self._serve(slot, resource)
        self._relate(topology)
        wanted = {
            (slot, scope): self._served[slot]
            for slot in resources
            for scope in self._served[slot].scopes(topology.namespaces)
        }
        await self._end([place for place in self._running if place not in wanted], {_part(place) for place in wanted})
        for place, served in wanted.items():
            if place not in self._running:
                self._start(place, served)
        self._gates.set(self._served, wanted, topology.namespaces)
        self._adjust_polls(resources)

    def _resources(self, topology: Topology) -> dict[Slot, Resource]:
        """What is served where. The order is always the same, so that histories are repeatable."""
        claims = [(one, resource) for one in self._plan.named_resources() if (resource := topology.resource_for(one))]
        claims.sort(key=lambda claim: (str(claim[1]), str(claim[0])))
        return {slot_of(selector, resource): resource for selector, resource in claims}

    def _serve(self, slot: Slot, resource: Resource) -> None:
        """Make the rooms of a resource when it is first served; let them move when it is served in another way."""
        served = self._served.get(slot)
        if served is None:
            plans = [plan for plan in self._plan.resources if means(plan.resource, slot, resource)]
            kind = self._kinds.setdefault(resource.kind_key, Kind(self._runtime))
            self._served[slot] = Served(resource, plans, self._runtime, kind)
            logger.debug("Serving %s.", resource)
        elif served.resource.shape != resource.shape:
            if served.resource != resource:
                logger.info("%s is served as %s from now on.", served.resource, resource)
            served.move(resource)

    def _relate(self, topology: Topology) -> None:
        """Connect primary resources with their secondary ones, as far as both are served."""

        def slot_for(selector: ResourceSelector) -> Slot | None:
            resource = topology.resource_for(selector)
            return slot_of(selector, resource) if resource is not None else None

        def served_for(selector: ResourceSelector) -> Served | None:
            slot = slot_for(selector)
            return self._served.get(slot) if slot is not None else None

        slots = {id(served): slot for slot, served in self._served.items()}
        for slot, primary in self._served.items():
            for link in links_of(primary, served_for):
                source = slots[id(link.secondary)]
                key = (slot, link.pipeline.name, source, link.mapper)
                if key not in self._links:
                    self._links.add(key)
                    link.connect(self._runtime)
                    self._gates.add_source(slot, source)

    def _adjust_polls(self, resources: dict[Slot, Resource]) -> None:
        """Poll for what is served, and not for what is not."""
        for key in [key for key in self._polls if key[0] not in resources]:
            poller, task = self._polls.pop(key)
            self._served[key[0]].remove_poll(poller)
            task.cancel()
        for slot in resources:
            served = self._served[slot]
            for poll in (poll for plan in served.plans for poll in plan.polls):
                if (slot, poll) not in self._polls:
                    poller = Poller(poll, served, self._runtime)
                    served.add_poll(poller)
                    task = self._runtime.loop.create_task(poller.run(), name=f"poll {poller.name}")
                    self._polls[slot, poll] = (poller, task)

    def pollers(self) -> Iterable[Poller]:
        return [poller for poller, _ in self._polls.values()]

    def _start(self, place: _Place, served: Served) -> None:
        runtime, (slot, scope) = self._runtime, place
        stream = Stream(
            scope,
            cluster=runtime.writes.cluster,
            clock=runtime.clock,
            random=runtime.random,
            settings=runtime.settings.watch,
            sink=lambda batch: served.apply(scope, batch),
            on_progress=lambda: self._progress(place, served, stream),
        )
        task = runtime.loop.create_task(stream.run(), name=f"stream of {scope}")
        self._running[place] = _Running(stream, task)
        self._gates.expect(slot, scope)

    def _progress(self, place: _Place, served: Served, stream: Stream) -> None:
        """A stream has listed everything, or has failed."""
        slot, scope = place
        if stream.statistics().listed:
            served.listed(scope)
        self._gates.settle(slot, scope)

    async def _end(self, places: Iterable[_Place], going_on: set[_Part]) -> None:
        """
        End streams that are not wanted any more, and wait for their ends.

        What they showed counts as deleted, unless another version is watched for the same part of the kind from now on.
        """
        tasks = []
        for place in list(places):
            running = self._running.pop(place)
            running.task.cancel()
            tasks.append(running.task)
            if _part(place) not in going_on:
                self._served[place[0]].drop(place[1])
                self._gates.forget(*place)
        if tasks:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """End all streams, without taking what they showed for deleted: it is only we who go."""
        tasks = [running.task for running in self._running.values()]
        tasks += [task for _, task in self._polls.values()]
        self._running.clear()
        self._polls.clear()
        self._gates.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


_Part = tuple[Slot, str | None, str | None, str | None]


def _part(place: _Place) -> _Part:
    """The part of a kind that a stream shows, in whatever version."""
    slot, scope = place
    return (slot, scope.namespace, scope.label_selector, scope.field_selector)
