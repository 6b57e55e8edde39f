"""Memory: what the store needs for an object, beside what the decoded JSON of a list needs by itself."""

from __future__ import annotations

import functools
import gc
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

from benchmarks.measures import Row
from benchmarks.options import Options
from benchmarks.server import widget
from opkit.cluster.protocol import EventType, Mark
from opkit.flow.store import Store

_PAGE = 500


async def measure(options: Options) -> Row:
    objects = options.size(5_000, 50_000, options.objects)
    row = Row("memory", f"memory of an object, {objects:,} of them")
    pages = list(_pages(objects))
    row.add("opkit", "on the wire", "bytes", sum(map(len, pages)) / objects)
    for peer, make in (("json.loads alone", _decoded), ("opkit", _stored)):
        row.add(peer, "in memory", "bytes", _traced(functools.partial(make, pages)) / objects)
    return row


def _decoded(pages: list[bytes]) -> list[Any]:
    return [json.loads(page)["items"] for page in pages]


def _stored(pages: list[bytes]) -> Store:
    store = Store()
    store.apply(None, Mark.BEGIN_LIST)
    for page in pages:
        store.apply(None, [(EventType.LISTED, item) for item in json.loads(page)["items"]])
    store.apply(None, Mark.END_LIST)
    return store


def _traced(make: Any) -> float:
    """The bytes of what is made, once the rest is gone."""
    gc.collect()
    tracemalloc.start()
    try:
        made = make()
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
        del made
        return float(size)
    finally:
        tracemalloc.stop()


def _pages(objects: int) -> Iterator[bytes]:
    """What a server answers to a list."""
    for first in range(0, objects, _PAGE):
        items = [_as_served(number) for number in range(first, min(first + _PAGE, objects))]
        yield json.dumps({"kind": "WidgetList", "items": items}, separators=(",", ":")).encode()


def _as_served(number: int) -> dict[str, Any]:
    body = widget(f"w{number}")
    fields = {f"f:{name}": {} for name in body["spec"]}
    body["metadata"] |= {
        "namespace": "default",
        "uid": f"{number:08x}-0000-4000-8000-{number:012x}",
        "resourceVersion": str(1_000_000 + number),
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [
            {"apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields},
             "manager": "python", "operation": "Update", "time": "2026-01-01T00:00:00Z"},
        ],
    }  # fmt: skip
    return body
