"""The queue: a million requests that wait, without anything around it."""

from __future__ import annotations

import asyncio
import gc
import random
import time
import tracemalloc
from collections.abc import Callable

from benchmarks.measures import Goal, Row
from benchmarks.options import Options
from opkit.cli.run import collect_rarely
from opkit.flow.queue import InMemoryQueue
from opkit.flow.requests import Request
from opkit.triggers import Trigger

_GOALS = (
    Goal("add", 200_000, at_least=True),
    Goal("merge", 200_000, at_least=True),
    Goal("take", 200_000, at_least=True),
    Goal("memory of a request", 400),
)
_MODIFIED = frozenset({Trigger.MODIFIED})


async def measure(options: Options) -> Row:
    count = options.size(200_000, 1_000_000, options.objects)
    row = Row("queue", f"{count:,} waiting requests", _GOALS)
    keys = [f"{number:08x}-0000-4000-8000-{number:012x}" for number in range(count)]
    collect_rarely()
    dice = random.Random(1)
    for _ in range(options.size(2, 5, options.rounds)):
        await asyncio.to_thread(_measure_rates, row, keys, list(map(float, range(count))), "")
        # The worst case: each addition and each removal is somewhere else in memory.
        await asyncio.to_thread(_measure_rates, row, keys, [dice.random() for _ in keys], ", due in disorder")
    row.add("opkit", "memory of a request", "bytes", _memory(keys))
    return row


def _measure_rates(row: Row, keys: list[str], dues: list[float], order: str) -> None:
    queue = InMemoryQueue()
    gc.collect()

    def add() -> None:
        for key, due in zip(keys, dues, strict=True):
            queue.add(Request(key, due, _MODIFIED))

    def merge() -> None:
        for key, due in zip(keys, dues, strict=True):
            queue.add(Request(key, due + 1.0, _MODIFIED))

    def take() -> None:
        while queue.take(len(keys)) is not None:
            pass

    for step in (add, merge, take):
        row.add("opkit", f"{step.__name__}{order}", "/s", len(keys) / _seconds(step))


def _seconds(step: Callable[[], None]) -> float:
    started = time.process_time()
    step()
    return time.process_time() - started


def _memory(keys: list[str]) -> float:
    """Bytes for each request with its places in the dict and in the heap; the key is the store's."""
    gc.collect()
    tracemalloc.start()
    try:
        queue = InMemoryQueue()
        for number, key in enumerate(keys):
            queue.add(Request(key, float(number), _MODIFIED))
        return tracemalloc.get_traced_memory()[0] / len(keys)
    finally:
        tracemalloc.stop()
