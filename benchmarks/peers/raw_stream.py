"""
kopf's raw stream with a dict, a deque and four tasks: a sketch of the least that an operator in Python does.

No filters, no retries, no errors, no finalizers, no arguments; each object's body is kept, its name is queued once, and
one of the tasks calls the handler.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
from typing import Any

import kopf
from kopf._cogs.clients import watching
from kopf._cogs.structs import references

from benchmarks.peers.observing import observe
from opkit.cluster.kopf_cluster import KopfCluster

_WIDGETS = references.Resource(group="example.com", version="v1", plural="widgets", namespaced=True)


class Operator:
    """The sketch."""

    def __init__(self) -> None:
        self._bodies: dict[str, Any] = {}
        self._queue: collections.deque[str] = collections.deque()
        self._waiting: set[str] = set()
        self._filled = asyncio.Event()

    async def watch(self) -> None:
        settings = kopf.OperatorSettings()
        async for event in watching.infinite_watch(settings=settings, resource=_WIDGETS, namespace=None):
            if isinstance(event, watching.Bookmark) or event["type"] == "BOOKMARK":
                continue
            body: Any = event["object"]
            uid = body["metadata"]["uid"]
            self._bodies[uid] = body
            if uid not in self._waiting:
                self._waiting.add(uid)
                self._queue.append(uid)
                self._filled.set()

    async def work(self) -> None:
        while True:
            while not self._queue:
                self._filled.clear()
                await self._filled.wait()
            uid = self._queue.popleft()
            self._waiting.discard(uid)
            await self.handle(self._bodies[uid])

    async def handle(self, body: Any) -> None:
        observe(body["metadata"]["name"])


async def main() -> None:
    # opkit's login is kopf's, from the same kubeconfig; the stream below is kopf's own.
    cluster = KopfCluster()
    await cluster.open()
    operator = Operator()
    await asyncio.gather(operator.watch(), *(operator.work() for _ in range(4)))


def loop_factory() -> Any:
    """The same loop as the others take."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main())
