"""
One watch connection: events from the store's buffer to a client, in one task for each connection.

The store never waits for it. A client that is too slow to read loses its stream and lists again.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from opkit.apiserver import views
from opkit.apiserver.queries import ListQuery
from opkit.apiserver.views import View
from opkit.errors import ApiError
from opkit.simulation.bell import Bell
from opkit.simulation.faults import FaultPlan, Stream
from opkit.simulation.kinds import Endpoint
from opkit.simulation.store import Store
from opkit.simulation.watchers import Watcher

_BOOKMARK_INTERVAL = 60.0
_LAST_BOOKMARK = 2.0


class WatchStream:
    """Serves one watch until its time is over, the client goes, or the server stops."""

    def __init__(self, store: Store, endpoint: Endpoint, view: View, query: ListQuery, timeout: float) -> None:
        self._store = store
        self._endpoint = endpoint
        self._view = view
        self._query = query
        self._bell = Bell()
        self._deadline = asyncio.get_running_loop().time() + timeout
        self._start = query.version or store.version
        self._is_stopping = False

    def stop(self) -> None:
        """End it cleanly: the server stops."""
        self._is_stopping = True
        self._bell.ring()

    async def serve(self, request: web.BaseRequest, faults: FaultPlan) -> web.StreamResponse:
        query = self._query
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache"})
        response.enable_chunked_encoding()
        stream = Stream(self._endpoint.kind.plural, self._bell.fail, self._bell.ring)
        try:
            watcher = self._store.watch(self._endpoint, query.selection, query.version, self._bell.ring)
        except ApiError as error:
            if error.status != 410:
                raise
            await response.prepare(request)
            await response.write(views.error_event(error))
            return response
        faults.opened(stream)
        try:
            await response.prepare(request)  # clients wait for the headers before the first event
            await self._pump(response, watcher, stream)
        except ApiError as error:
            await self._fail(request, response, error)
        except ConnectionError:
            pass  # the client has gone, in the middle of a write: nobody is left to be told
        finally:
            faults.closed(stream)
            watcher.close()
        return response

    async def _pump(self, response: web.StreamResponse, watcher: Watcher, stream: Stream) -> None:
        loop = asyncio.get_running_loop()
        is_first = True
        while True:
            left = self._deadline - loop.time()
            if left <= 0 or self._is_stopping:
                return
            rang = await self._bell.wait(self._until_next(left))
            if stream.is_held:
                continue
            injected, stream.injected = stream.injected, []
            lines = [views.any_event(str(type), body) for type, body in injected]
            lines += [self._view.event(type, record) for type, record in watcher.drain()]
            if is_first and self._query.initial_events:
                lines.append(views.bookmark(self._endpoint, self._store.version, is_end_of_list=True))
            elif not rang and self._is_bookmark_due(self._deadline - loop.time()):
                lines.append(views.bookmark(self._endpoint, self._store.version))
            is_first = False
            if lines and not stream.is_silent:
                await response.write(b"".join(lines))
            if watcher.is_closed:
                return

    def _until_next(self, left: float) -> float:
        if not self._query.bookmarks:
            return left
        return min(_BOOKMARK_INTERVAL, left - _LAST_BOOKMARK if left > _LAST_BOOKMARK else left)

    def _is_bookmark_due(self, left: float) -> bool:
        """Whether anything has happened since the client's version, selected or not."""
        return self._query.bookmarks and left > 0 and self._store.version > self._start

    async def _fail(self, request: web.BaseRequest, response: web.StreamResponse, error: ApiError) -> None:
        if error.status == 0:
            if request.transport is not None:
                request.transport.abort()
            return
        await response.write(views.error_event(error))
