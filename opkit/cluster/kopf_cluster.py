"""
The cluster protocol over HTTP: reads, writes, lists and watches of an API server.

The watch is driven here, on kopf's authenticated request: kopf's own generator re-arms a timer for each event,
reconnects without a pause to servers that end a watch at once, and raises on `items: null`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import aiohttp

from opkit.cluster.body import Raw
from opkit.cluster.discovery import Discovery
from opkit.cluster.kopf_answers import words
from opkit.cluster.kopf_client import RETRIES, KopfConnection, reading
from opkit.cluster.lines import LineSplitter, WatchFailed, decode_events
from opkit.cluster.listing import ListDecoder
from opkit.cluster.protocol import Batch, EventType, Mark, PatchType, Topology, WatchScope
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.cluster.scanning import scan_group, scan_groups
from opkit.errors import ApiError, NotFound, Unreachable

_NO_RETRIES: tuple[float, ...] = ()

# Tries of a list whose pages take longer than the server remembers its version.
_LISTINGS = 3

# A watch is cut by the server at `server_timeout`; this is the patience beyond it.
_PATIENCE = 30.0

# Pages in a row that hold nothing and promise more: no server makes many of them.
_EMPTY_PAGES = 3

_MEDIA_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class KopfCluster(KopfConnection):
    """
    A real API server, by kopf's client. To be made in the loop that it works in; `close` ends it.

    `chunk_size` is the number of objects in a page of a list, `server_timeout` the seconds after which the server is
    asked to end a watch; the other arguments are those of the connection.
    """

    def __init__(self, *, chunk_size: int = 500, server_timeout: float = 300.0, **connection: Any) -> None:
        super().__init__(**connection)
        self._chunk_size = chunk_size
        self._server_timeout = server_timeout
        self._discovery = Discovery(self)

    async def request(self, method: str, path: str, **options: Any) -> aiohttp.ClientResponse:
        try:
            return await super().request(method, path, **options)
        except NotFound as error:
            parts = path.split("/")
            if not error.is_about_an_object and parts[1] == "apis" and len(parts) > 4:
                self._discovery.doubt(parts[2])  # it is not served any more, or not in this version
            raise

    # Reads and writes.

    async def resolve(self, selector: ResourceSelector) -> Resource:
        return await self._discovery.resolve(selector)

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Raw:
        return await self.json("get", resource.path(namespace, name))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> Sequence[Raw]:
        scope = WatchScope(resource, namespace, label_selector, field_selector)
        for tries_left in reversed(range(_LISTINGS)):
            try:
                async with contextlib.aclosing(self._pages(scope)) as pages:
                    return [item async for items, _version in pages for item in items]
            except ApiError as error:
                if error.status != 410 or not tries_left:  # the token of the pages has expired: start over
                    raise
        raise AssertionError("the last try gives or raises")

    async def create(
        self, resource: Resource, body: Raw, namespace: str | None = None, *, manager: str | None = None
    ) -> Raw:
        # Not tried again by itself: a lost answer would turn into AlreadyExists.
        return await self.json(
            "post", resource.path(namespace), payload=body, params=_managed_by(manager), backoffs=_NO_RETRIES
        )

    async def apply(
        self, resource: Resource, name: str, namespace: str | None, body: Raw, *, manager: str, force: bool = False
    ) -> Raw:
        params = {"fieldManager": manager, "force": "true" if force else "false"}
        return await self.json(
            "patch", resource.path(namespace, name), payload=body, params=params,
            media_type="application/apply-patch+yaml",
        )  # fmt: skip

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
        return await self.json(
            "patch", resource.path(namespace, name, subresource), payload=patch, params=_managed_by(manager),
            media_type=_MEDIA_TYPES[type],
        )  # fmt: skip

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
        return await self.json(
            "put", resource.path(namespace, name, subresource), payload=body, params=_managed_by(manager)
        )

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> Raw:
        options: Raw = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        return await self.json("delete", resource.path(namespace, name), payload=options)

    # Lists and watches.

    async def _pages(
        self, scope: WatchScope, backoffs: Sequence[float] = RETRIES, *, cached: bool = False
    ) -> AsyncGenerator[tuple[Sequence[Raw], str | None], None]:
        """
        The objects of a list in parts, each with the list's own version if it is known by then.

        An expired token of a page raises 410: the list starts over. The next page is on its way while one is worked
        on: the server needs as long for it as we do.
        """
        path, params = scope.resource.path(scope.namespace), _selecting(scope)
        if self._chunk_size:
            params["limit"] = str(self._chunk_size)

        def ask(**more: str) -> asyncio.Task[aiohttp.ClientResponse]:
            return asyncio.ensure_future(self.request("get", path, params={**params, **more}, backoffs=backoffs))

        # Servers with a cache give all of it at once, whatever the limit; those without still make pages.
        coming = ask(resourceVersion="0") if cached else ask()
        token: str | None = None
        empty = 0
        try:
            while True:
                asked, found = token, False
                async with contextlib.aclosing(_parts(await coming, f"get {path}")) as parts:
                    async for items, meta in parts:
                        found = found or bool(items)
                        if token := meta.get("continue"):
                            empty = 0 if found else empty + 1
                            if token == asked or empty > _EMPTY_PAGES:
                                raise ApiError(f"the pages of {path} have no end: one leads to itself", status=502)
                            coming = ask(**{"continue": token})
                        yield _with_kind(items, scope.resource), meta.get("resourceVersion")
                        del items  # not to be kept while the next ones are made
                if not token:
                    return
        finally:
            coming.cancel()
            for answer in await asyncio.gather(coming, return_exceptions=True):
                if isinstance(answer, aiohttp.ClientResponse):
                    answer.close()

    async def watch(
        self, scope: WatchScope, *, since: str | None = None, cached: bool = False, patience: float | None = None
    ) -> AsyncGenerator[Batch, None]:
        if since is None:
            yield Mark.BEGIN_LIST
            # Whoever keeps the stream alive waits between its tries, and tells what is wrong.
            async with contextlib.aclosing(self._pages(scope, _NO_RETRIES, cached=cached)) as pages:
                async for items, version in pages:
                    yield [(EventType.LISTED, item) for item in items]
                    del items
                    # Some servers read each page at a version of its own. What changed between the first page and the
                    # last is in neither of them, so the watch begins at the first.
                    since = version if since is None else since
            yield Mark.END_LIST
            yield [(EventType.BOOKMARK, {"metadata": {"resourceVersion": since}})]
        async with contextlib.aclosing(self._follow(scope, since, patience)) as batches:
            async for batch in batches:
                yield batch

    async def _follow(
        self, scope: WatchScope, since: str | None, patience: float | None
    ) -> AsyncGenerator[Batch, None]:
        """One watch request: what arrives together is given together."""
        params = {
            **_selecting(scope), "watch": "true", "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(self._server_timeout)),
        }  # fmt: skip
        if since is not None:
            params["resourceVersion"] = since
        response = await self.request(
            "get", scope.resource.path(scope.namespace), params=params, backoffs=_NO_RETRIES,
            timeout=aiohttp.ClientTimeout(
                total=self._server_timeout + _PATIENCE, sock_connect=_PATIENCE, sock_read=patience
            ),
        )  # fmt: skip
        splitter = LineSplitter()
        try:
            async for chunk in response.content.iter_any():
                if lines := splitter.feed(chunk):
                    yield decode_events(lines)
        except TimeoutError as error:
            raise Unreachable("the watch was silent for too long") from error
        except WatchFailed as failed:
            raise ApiError.of_body(failed.status, http_status=500) from None
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"the watch was cut: {words(error)}") from error
        finally:
            response.close()

    # What is served.

    def topology(
        self, selectors: frozenset[ResourceSelector], namespaces: frozenset[str], clusterwide: bool
    ) -> AsyncGenerator[Topology, None]:
        return self._discovery.topology(selectors, namespaces, clusterwide)

    async def groups(self) -> Sequence[str]:
        """The API groups that the server has; the core group is the empty one. Raises `ApiError`."""
        return await scan_groups(self._get_path)

    async def scan(self, group: str) -> Sequence[Resource]:
        """The resources of one group, in all its versions. Raises `ApiError`."""
        return await scan_group(self._get_path, group)

    async def _get_path(self, path: str) -> Any:
        return await self.json("get", path)


async def _parts(response: aiohttp.ClientResponse, request: str) -> AsyncGenerator[tuple[Sequence[Raw], Raw], None]:
    """The objects of one page as they arrive, with the list's metadata, which is empty before the last of them."""
    decoder = ListDecoder()
    async with response:
        with reading(request):
            async for chunk in response.content.iter_any():
                if items := decoder.feed(chunk):
                    yield items, {}
            rest = decoder.end()
            items, meta = _contents(rest)
    yield items, meta


def _contents(answer: Any) -> tuple[Sequence[Raw], Raw]:
    """
    The objects of a list, and its metadata. Raises `ValueError` for anything else.

    What is taken for an empty list by mistake is taken for the end of all objects.
    """
    if isinstance(answer, dict) and "items" in answer:
        items, meta = answer["items"], answer.get("metadata")
        if isinstance(items, list | None) and isinstance(meta, dict | None):
            return items or [], meta or {}  # some servers say null for an empty list
    raise ValueError("this is no list")


def _with_kind(items: Sequence[Raw], resource: Resource) -> Sequence[Raw]:
    """The objects of a list, each with its kind, which the items of built-in lists don't name."""
    for item in items:
        if isinstance(item, dict) and "kind" not in item:
            item["apiVersion"], item["kind"] = resource.api_version, resource.kind
    return items


def _managed_by(manager: str | None) -> dict[str, str] | None:
    return {"fieldManager": manager} if manager else None


def _selecting(scope: WatchScope) -> dict[str, str]:
    params = {}
    if scope.label_selector:
        params["labelSelector"] = scope.label_selector
    if scope.field_selector:
        params["fieldSelector"] = scope.field_selector
    return params
