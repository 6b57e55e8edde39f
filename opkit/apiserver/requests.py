"""
From a request for objects to calls of the store, and the answer.

One method for each verb. Errors are raised as `ApiError`; whoever calls makes a Status of them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from aiohttp import web

from opkit.apiserver import bodies, queries, views
from opkit.apiserver.routes import NoSuchPath, Route
from opkit.apiserver.streams import WatchStream
from opkit.apiserver.views import Clock
from opkit.simulation import refusals, scale
from opkit.simulation.deletion import Deleted, DeleteOptions, check_propagation
from opkit.simulation.faults import FaultPlan
from opkit.simulation.records import Record
from opkit.simulation.store import Store

_WATCH_SECONDS = (1800, 3600)
"""How long a watch lasts that asks for no time of its own: somewhere between these."""

Handler = Callable[[web.BaseRequest, Route], Awaitable[web.StreamResponse]]


class Requests:
    """Answers requests for objects."""

    def __init__(self, store: Store, faults: FaultPlan, clock: Clock) -> None:
        self._store = store
        self._faults = faults
        self._clock = clock
        self._random = random.Random()
        self._streams: set[WatchStream] = set()

    def stop_streams(self) -> None:
        """End all watches cleanly."""
        for stream in self._streams:
            stream.stop()

    async def answer(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        """Carry out one request, and whatever fault is planned for it."""
        verb, handle = self._verb(request, route)
        if verb not in route.endpoint.kind.verbs:
            raise refusals.method_not_allowed(verb)
        fault = self._faults.take(verb, route.endpoint.kind.plural, route.subresource)
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.error is not None and fault.error.status:
            raise fault.error
        if fault.error is not None:
            return _cut(request)
        response = await handle(request, route)
        return _cut(request) if fault.reply_lost else response

    def _verb(self, request: web.BaseRequest, route: Route) -> tuple[str, Handler]:
        is_collection = route.name is None
        if request.method in ("GET", "HEAD"):
            if not is_collection:
                return "get", self._get
            is_watch = queries.parse_boolean(request.query.get("watch"))
            return ("watch", self._watch) if is_watch else ("list", self._list)
        if request.method == "POST" and not route.subresource:
            return "create", self._create
        if request.method in ("PUT", "PATCH") and is_collection:
            if route.endpoint.kind.is_builtin:
                raise refusals.method_not_allowed(request.method)
            raise refusals.bad_request("name must be provided")
        if request.method == "PUT":
            return "update", self._replace
        if request.method == "PATCH":
            return "patch", self._patch
        if request.method == "DELETE" and not route.subresource:
            return ("deletecollection", self._delete_collection) if is_collection else ("delete", self._delete)
        raise refusals.method_not_allowed(request.method)

    async def _get(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        view = views.choose(request, route.endpoint, self._clock)
        record = self._store.get(route.endpoint, route.name or "", route.namespace)
        if route.subresource == "scale":
            return views.document(scale.read(route.endpoint, record))
        return _answer(view.one(record))

    async def _list(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        view = views.choose(request, route.endpoint, self._clock)
        query = queries.parse_list(request, route.namespace)
        if query.version is not None and query.version > self._store.version:
            raise refusals.too_large_version(query.version, self._store.version)
        page = self._store.list(
            route.endpoint,
            query.selection,
            limit=query.limit,
            token=query.token,
            exactly=query.version if query.is_exact else None,
        )
        return _answer(view.page(page))

    async def _watch(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        view = views.choose(request, route.endpoint, self._clock)
        query = queries.parse_list(request, route.namespace)
        timeout = query.timeout if query.timeout else self._random.uniform(*_WATCH_SECONDS)
        stream = WatchStream(self._store, route.endpoint, view, query, timeout)
        self._streams.add(stream)
        try:
            return await stream.serve(request, self._faults)
        finally:
            self._streams.discard(stream)

    async def _create(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        if route.endpoint.kind.namespaced and route.namespace is None:
            raise NoSuchPath
        options = queries.parse_write(request)
        view = views.choose(request, route.endpoint, self._clock)
        body = await bodies.read_object(request)
        record = self._store.create(route.endpoint, body, route.namespace, options)
        return _answer(view.one(record), 201)

    async def _replace(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        options = queries.parse_write(request, route.subresource)
        view = views.choose(request, route.endpoint, self._clock)
        body = await bodies.read_object(request)
        name = route.name or ""
        if route.subresource == "scale":
            record = self._store.get(route.endpoint, name, route.namespace)
            return self._scaled(route, scale.write(self._store, route.endpoint, record, body, options))
        return _answer(view.one(self._store.replace(route.endpoint, name, route.namespace, body, options)))

    async def _patch(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        options = queries.parse_write(request, route.subresource)
        view = views.choose(request, route.endpoint, self._clock)
        type, patch = await bodies.read_patch(request, route.endpoint.kind.is_builtin)
        name = route.name or ""
        if type == "apply":
            if not request.query.get("fieldManager"):
                raise refusals.bad_request("fieldManager: Required value: is required for apply patch")
            record, is_new = self._store.apply(route.endpoint, name, route.namespace, patch, options)
            return _answer(view.one(record), 201 if is_new else 200)
        if route.subresource == "scale":
            record = self._store.get(route.endpoint, name, route.namespace)
            patched = scale.patched(route.endpoint, record, patch, type)
            return self._scaled(route, scale.write(self._store, route.endpoint, record, patched, options))
        return _answer(view.one(self._store.patch(route.endpoint, name, route.namespace, patch, type, options)))

    def _scaled(self, route: Route, record: Record) -> web.StreamResponse:
        return views.document(scale.read(route.endpoint, record))

    async def _delete(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        view = views.choose(request, route.endpoint, self._clock)
        options = await self._delete_options(request)
        deleted = self._store.delete(route.endpoint, route.name or "", route.namespace, options)
        return views.document(_gone(route, deleted)) if deleted.is_gone else _answer(view.one(deleted.record))

    async def _delete_collection(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        if route.endpoint.kind.namespaced and route.namespace is None:
            raise NoSuchPath
        view = views.choose(request, route.endpoint, self._clock)
        query = queries.parse_list(request, route.namespace)
        options = await self._delete_options(request)
        return _answer(view.page(self._store.delete_collection(route.endpoint, query.selection, options)))

    async def _delete_options(self, request: web.BaseRequest) -> DeleteOptions:
        """From the body, or else from the query."""
        body = await bodies.read_options(request)
        if body is not None:
            return DeleteOptions.parse(body)
        return DeleteOptions(
            propagation=check_propagation(request.query.get("propagationPolicy")),
            dry_run=queries.parse_dry_run(request),
        )


def _answer(text: bytes, status: int = 200) -> web.Response:
    return web.Response(body=text, status=status, content_type="application/json")


def _gone(route: Route, deleted: Deleted) -> dict[str, object]:
    kind = route.endpoint.kind
    details = {
        "name": deleted.record.name,
        "group": kind.group,
        "kind": kind.plural,
        "uid": deleted.record.uid,
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def _cut(request: web.BaseRequest) -> web.StreamResponse:
    """Close the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
