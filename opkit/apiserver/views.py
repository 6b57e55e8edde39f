"""
What a client wants to see of objects: themselves, a table, or their metadata; each as JSON text.

A view is chosen by the Accept header. Objects themselves are never decoded for it: their text is put
together.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from opkit.cluster.body import Raw
from opkit.errors import ApiError
from opkit.simulation import refusals, tables
from opkit.simulation.kinds import Endpoint
from opkit.simulation.lists import Page
from opkit.simulation.records import Record, encode

Clock = Callable[[], datetime.datetime]


class View(Protocol):
    """How objects of one endpoint are shown."""

    def one(self, record: Record) -> bytes: ...

    def page(self, page: Page) -> bytes: ...

    def event(self, type: str, record: Record) -> bytes: ...


class Plain:
    """The objects themselves."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def one(self, record: Record) -> bytes:
        return self._endpoint.encode(record)

    def page(self, page: Page) -> bytes:
        head = {
            "kind": self._endpoint.list_kind,
            "apiVersion": self._endpoint.api_version,
            "metadata": _list_meta(page),
        }
        items = b",".join(map(self._endpoint.encode_item, page.records))
        return encode(head)[:-1] + b',"items":[' + items + b"]}"

    def event(self, type: str, record: Record) -> bytes:
        return self._endpoint.event(type, record)


class Table:
    """What `kubectl get` prints."""

    def __init__(self, endpoint: Endpoint, clock: Clock, include: str) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._include = include

    def one(self, record: Record) -> bytes:
        return encode(self._table([record], {"resourceVersion": str(record.version)}))

    def page(self, page: Page) -> bytes:
        return encode(self._table(page.records, _list_meta(page)))

    def event(self, type: str, record: Record) -> bytes:
        table = self._table([record], {"resourceVersion": str(record.version)})
        return encode({"type": type, "object": table}) + b"\n"

    def _table(self, records: list[Record], meta: Raw) -> Raw:
        bodies = [self._endpoint.decode(record) for record in records]
        return tables.table(self._endpoint, bodies, meta, self._clock(), self._include)


class Partial:
    """The metadata alone."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def one(self, record: Record) -> bytes:
        return encode(tables.partial(self._endpoint.decode(record)))

    def page(self, page: Page) -> bytes:
        items = [tables.partial(self._endpoint.decode(record)) for record in page.records]
        head = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": _list_meta(page),
        }
        return encode({**head, "items": items})

    def event(self, type: str, record: Record) -> bytes:
        return encode({"type": type, "object": tables.partial(self._endpoint.decode(record))}) + b"\n"


def choose(request: web.BaseRequest, endpoint: Endpoint, clock: Clock) -> View:
    """The first view that the client accepts. Raises 406."""
    accepted = request.headers.get("Accept") or "*/*"
    for part in accepted.split(","):
        media, *parameters = (word.strip().lower() for word in part.split(";"))
        shape = next((word.partition("=")[2] for word in parameters if word.startswith("as=")), "")
        if media not in ("application/json", "application/*", "*/*"):
            continue
        if shape == "table":
            return Table(endpoint, clock, request.query.get("includeObject", "Metadata"))
        if shape in ("partialobjectmetadata", "partialobjectmetadatalist"):
            return Partial(endpoint)
        if not shape:
            return Plain(endpoint)
    message = "only the following media types are accepted: application/json"
    raise ApiError.of(406, "NotAcceptable", message)


def bookmark(endpoint: Endpoint, version: int, is_end_of_list: bool = False) -> bytes:
    """A bookmark: a version and nothing else, or the mark after the initial events."""
    meta: Raw = {"resourceVersion": str(version)}
    if is_end_of_list:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    body = {"kind": endpoint.kind.kind, "apiVersion": endpoint.api_version, "metadata": meta}
    return encode({"type": "BOOKMARK", "object": body}) + b"\n"


def error_event(error: ApiError) -> bytes:
    return any_event("ERROR", refusals.status_of(error))


def any_event(type: str, body: Raw) -> bytes:
    """One line of a watch stream with whatever object."""
    return encode({"type": type, "object": body}) + b"\n"


def _list_meta(page: Page) -> Raw:
    meta: Raw = {"resourceVersion": str(page.version)}
    if page.token:
        meta["continue"] = page.token
    if page.remaining is not None:
        meta["remainingItemCount"] = page.remaining
    return meta


def document(body: object, status: int = 200) -> web.Response:
    """An answer of plain JSON."""
    text = json.dumps(body, separators=(",", ":")).encode()
    return web.Response(body=text, status=status, content_type="application/json")
