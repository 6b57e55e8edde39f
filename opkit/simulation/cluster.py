"""
`opkit.cluster.protocol.Cluster` right over the store: no sockets, no text, no time of its own.

Works on any event loop; all that it asks of one are futures and timers, so a loop with virtual time makes it
deterministic. Requests are answered at once unless a fault delays them. Bodies are copied at the border.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, TypeVar

from opkit.cluster.body import Raw, clone
from opkit.cluster.protocol import Batch, EventType, Mark, PatchType, Topology, WatchEvent, WatchScope
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.cluster.selector import FieldSelector, LabelSelector
from opkit.errors import ApiError
from opkit.simulation import refusals, topology
from opkit.simulation.bell import Bell
from opkit.simulation.deletion import DeleteOptions
from opkit.simulation.faults import FaultPlan, Stream
from opkit.simulation.kinds import Endpoint
from opkit.simulation.store import Store
from opkit.simulation.watchers import Selection, Watcher
from opkit.simulation.writes import Options

_T = TypeVar("_T")


class SimulatedCluster:
    """
    The store as a cluster.

    `faults` is asked before each request; `manager` is the field manager of its writes; `chunk_size` is the
    number of objects in a batch of a list; a bookmark comes every `bookmark_interval` seconds (`None`:
    never).
    """

    def __init__(
        self,
        store: Store,
        *,
        faults: FaultPlan | None = None,
        manager: str = "opkit",
        chunk_size: int = 500,
        bookmark_interval: float | None = 60.0,
    ) -> None:
        self.store = store
        self.faults = faults or FaultPlan()
        self.faults.expire = store.compact
        self._manager = manager
        self._chunk_size = chunk_size
        self._bookmark_interval = bookmark_interval

    async def resolve(self, selector: ResourceSelector) -> Resource:
        found = selector.select(topology.resources(self.store))
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(sorted(map(str, found)))
            raise ApiError.of(404, "Ambiguous", f"{selector} can mean {names}: name the group and version too")
        raise ApiError.of(404, message=f"the server does not serve {selector}")

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Raw:
        def request(endpoint: Endpoint) -> Raw:
            return endpoint.decode(self.store.get(endpoint, name, namespace))

        return await self._request("get", resource, None, request)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> builtins.list[Raw]:
        selection = _selection(namespace, label_selector, field_selector)

        def request(endpoint: Endpoint) -> builtins.list[Raw]:
            return [endpoint.decode(record) for record in self.store.list(endpoint, selection).records]

        return await self._request("list", resource, None, request)

    async def create(
        self, resource: Resource, body: Raw, namespace: str | None = None, *, manager: str | None = None
    ) -> Raw:
        def request(endpoint: Endpoint) -> Raw:
            given = _typed(endpoint, body)
            return endpoint.decode(self.store.create(endpoint, given, namespace, self._options(manager)))

        return await self._request("create", resource, None, request)

    async def apply(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Raw,
        *,
        manager: str,
        force: bool = False,
    ) -> Raw:
        def request(endpoint: Endpoint) -> Raw:
            options = Options(manager=manager, force=force)
            record, _ = self.store.apply(endpoint, name, namespace, _typed(endpoint, body), options)
            return endpoint.decode(record)

        return await self._request("apply", resource, None, request)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        patch: Raw | Sequence[Raw],
        *,
        type: PatchType = "merge",
        subresource: str | None = None,
        manager: str | None = None,
    ) -> Raw:
        def request(endpoint: Endpoint) -> Raw:
            given = clone(patch if isinstance(patch, dict) else [*patch])
            options = self._options(manager, subresource)
            place = namespace if resource.namespaced else None  # as in a path
            return endpoint.decode(self.store.patch(endpoint, name, place, given, type, options))

        return await self._request("patch", resource, subresource, request)

    async def replace(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Raw,
        *,
        subresource: str | None = None,
        manager: str | None = None,
    ) -> Raw:
        def request(endpoint: Endpoint) -> Raw:
            options = self._options(manager, subresource)
            record = self.store.replace(endpoint, name, namespace, _typed(endpoint, body), options)
            return endpoint.decode(record)

        return await self._request("update", resource, subresource, request)

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> Raw:
        """Gives the object as it was left; one that is gone at once has no `deletionTimestamp`."""

        def request(endpoint: Endpoint) -> Raw:
            return endpoint.decode(self.store.delete(endpoint, name, namespace, DeleteOptions(uid=uid)).record)

        return await self._request("delete", resource, None, request)

    async def watch(
        self, scope: WatchScope, *, since: str | None = None, cached: bool = False, patience: float | None = None
    ) -> AsyncGenerator[Batch, None]:
        selection = _selection(scope.namespace, scope.label_selector, scope.field_selector)
        if since is None:
            page = await self._request("list", scope.resource, None, lambda _: self.store.list(_, selection))
            endpoint = self._endpoint(scope.resource)
            yield Mark.BEGIN_LIST
            for start in range(0, len(page.records), self._chunk_size):
                chunk = page.records[start : start + self._chunk_size]
                yield [(EventType.LISTED, endpoint.decode(record)) for record in chunk]
            yield Mark.END_LIST
            yield [_bookmark(endpoint, page.version)]
            since = str(page.version)
        version = _parse_version(since)
        async with contextlib.aclosing(self._changes(scope.resource, selection, version, patience)) as changes:
            async for batch in changes:
                yield batch

    async def _changes(
        self, resource: Resource, selection: Selection, version: int, patience: float | None
    ) -> AsyncGenerator[Batch, None]:
        bell = Bell()

        def request(endpoint: Endpoint) -> tuple[Endpoint, Watcher]:
            return endpoint, self.store.watch(endpoint, selection, version, bell.ring)

        endpoint, watcher = await self._request("watch", resource, None, request)
        stream = Stream(resource.plural, bell.fail, bell.ring)
        self.faults.opened(stream)
        try:
            while True:
                # A server that is not silent sends bookmarks often enough to be patient with: only silence is timed.
                rang = await bell.wait(patience if stream.is_silent else self._bookmark_interval)
                if stream.is_silent:
                    watcher.drain()
                    if not rang:
                        raise ApiError.of(0, message="the watch was silent for too long")
                elif stream.is_held:
                    continue
                if stream.injected:
                    injected, stream.injected = stream.injected, []
                    yield injected
                if stream.is_silent:
                    continue
                if seen := watcher.drain():
                    yield [(type, endpoint.decode(record)) for type, record in seen]
                elif not rang:
                    yield [_bookmark(endpoint, self.store.version)]
                if watcher.is_closed:
                    return
        finally:
            self.faults.closed(stream)
            watcher.close()

    async def topology(
        self, selectors: frozenset[ResourceSelector], namespaces: frozenset[str], clusterwide: bool
    ) -> AsyncGenerator[Topology, None]:
        bell = Bell()
        watchers = [
            self.store.watch(self.store.endpoint(*names), Selection(), self.store.version, bell.ring)
            for names in topology.WATCHED
        ]
        last: Topology | None = None
        try:
            while True:
                current = topology.of(self.store, selectors, namespaces, clusterwide, last)
                if current != last:
                    last = current
                    yield current
                await bell.wait(None)
                for watcher in watchers:
                    watcher.drain()
        finally:
            for watcher in watchers:
                watcher.close()

    async def _request(
        self, verb: str, resource: Resource, subresource: str | None, request: Callable[[Endpoint], _T]
    ) -> _T:
        """Carry out a request, or whatever fault is planned for it."""
        fault = self.faults.take(verb, resource.plural, subresource)
        # Even the fastest server answers later: callers must not rely on never being interrupted.
        await asyncio.sleep(fault.delay)
        if fault.error is not None:
            raise fault.error
        answer = request(self._endpoint(resource))
        if fault.reply_lost:
            raise ApiError.of(0, message="the answer was lost")
        return answer

    def _endpoint(self, resource: Resource) -> Endpoint:
        return self.store.endpoint(resource.group, resource.version, resource.plural)

    def _options(self, manager: str | None, subresource: str | None = None) -> Options:
        return Options(manager=manager or self._manager, subresource=subresource or "")


def _selection(namespace: str | None, labels: str | None, fields: str | None) -> Selection:
    try:
        return Selection(namespace, LabelSelector.parse(labels), FieldSelector.parse(fields))
    except ValueError as error:
        raise refusals.bad_request(str(error)) from None


def _parse_version(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise refusals.bad_request(f"resourceVersion: Invalid value: {refusals.show(text)}")
    return int(text)


def _typed(endpoint: Endpoint, body: Raw) -> Raw:
    """A copy that says its version and kind, which callers may leave out."""
    copy: Any = clone(body)
    return {"apiVersion": endpoint.api_version, "kind": endpoint.kind.kind, **copy}


def _bookmark(endpoint: Endpoint, version: int) -> WatchEvent:
    meta = {"resourceVersion": str(version)}
    return (
        EventType.BOOKMARK,
        {"apiVersion": endpoint.api_version, "kind": endpoint.kind.kind, "metadata": meta},
    )
