"""A cluster that shows the objects that it is given, and takes no time. Nothing can be written to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import opkit
from benchmarks.server import widget
from opkit.cluster.protocol import Batch, Mark, Topology, WatchScope
from opkit.cluster.resource import Resource
from opkit.settings import Settings


class MemoryCluster:
    """As much of the cluster protocol as a watching operator asks for."""

    def __init__(self, *plurals: str) -> None:
        self._resources = frozenset(
            Resource("example.com", "v1", plural, kind=plural.title(), verbs=frozenset({"list", "watch"}))
            for plural in plurals
        )
        self._events: dict[str, asyncio.Queue[Batch]] = {plural: asyncio.Queue() for plural in plurals}
        self._watching: set[str] = set()
        self._all_watched = asyncio.Event()
        self._count = 0

    def add(self, plural: str, name: str) -> None:
        """Show a new object."""
        self._count += 1
        body = widget(name)
        body["metadata"] |= {
            "namespace": "default", "uid": f"{plural}-{name}", "resourceVersion": str(self._count), "generation": 1,
        }  # fmt: skip
        self._events[plural].put_nowait([("ADDED", body)])

    async def watched(self) -> None:
        """Wait until all resources are watched."""
        await self._all_watched.wait()

    async def watch(
        self, scope: WatchScope, *, since: str | None = None, cached: bool = False, patience: float | None = None
    ) -> AsyncGenerator[Batch, None]:
        yield Mark.BEGIN_LIST
        yield Mark.END_LIST
        yield [("BOOKMARK", {"metadata": {"resourceVersion": "0"}})]
        self._watching.add(scope.resource.plural)
        if len(self._watching) == len(self._resources):
            self._all_watched.set()
        while True:
            yield await self._events[scope.resource.plural].get()

    async def topology(self, *_: Any) -> AsyncGenerator[Topology, None]:
        yield Topology(self._resources, frozenset({None}))
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def operating(registry: opkit.Registry, cluster: MemoryCluster, settings: Settings) -> AsyncIterator[None]:
    """An operator at work, which watches by now; stopped at the end."""
    operator = opkit.Operator(registry=registry, cluster=cluster, settings=settings)
    task = asyncio.create_task(operator.run())
    try:
        await cluster.watched()
        yield
    finally:
        operator.stop()
        await task
