"""
Waiting handlers: plain functions that sleep don't delay async ones, and async ones that wait cost little.

In this process, over an in-memory cluster: the server has no part in it.
"""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path
from typing import Any

import opkit
from benchmarks.measures import Goal, Row
from benchmarks.memory_cluster import MemoryCluster, operating
from benchmarks.options import Options
from opkit.settings import Settings

_GOALS = (Goal("delay by sleeping threads", 0.05), Goal("memory of waiting handlers", 100))
_SLEEP = 0.2
_PROBES = 50


async def measure(options: Options) -> Row:
    waiting = options.size(1_000, 1_000, options.objects)
    row = Row("sync", f"sleeping threads, and {waiting:,} async handlers that wait", _GOALS)
    for _ in range(options.size(2, 5, options.rounds)):
        alone = await _latency(asleep=0)
        beside = await _latency(asleep=100)
        row.add("opkit", "async call, alone", "ms", alone * 1000)
        row.add("opkit", "async call, beside 100 sleeping threads' work", "ms", beside * 1000)
        row.add("opkit", "delay by sleeping threads", "s", beside - alone)
    row.add("opkit", "memory of waiting handlers", "MB", await _memory_of(waiting))
    return row


async def _latency(asleep: int) -> float:
    """The worst time from an event to the first line of an async handler, in seconds."""
    registry, called = opkit.Registry(), asyncio.Event()

    @opkit.reconcile("example.com", "v1", "sleepers", registry=registry)
    def sleep(**_: Any) -> None:
        time.sleep(_SLEEP)

    @opkit.reconcile("example.com", "v1", "widgets", registry=registry)
    async def see(**_: Any) -> None:
        called.set()

    cluster = MemoryCluster("sleepers", "widgets")
    async with operating(registry, cluster, Settings()):
        for number in range(asleep):
            cluster.add("sleepers", f"s{number}")
        worst = 0.0
        for number in range(_PROBES):
            await asyncio.sleep(0.002)
            called.clear()
            started = time.monotonic()
            cluster.add("widgets", f"w{number}")
            await called.wait()
            worst = max(worst, time.monotonic() - started)
        return worst


async def _memory_of(count: int) -> float:
    """What so many handlers that wait add to the process, in MB."""
    registry, full, going, running = opkit.Registry(), asyncio.Event(), asyncio.Event(), 0

    @opkit.reconcile("example.com", "v1", "widgets", registry=registry)
    async def wait(body: Any, patch: Any, logger: Any, cluster: Any, **_: Any) -> None:
        nonlocal running
        running += 1
        if running == count:
            full.set()
        await going.wait()

    settings, cluster = Settings(), MemoryCluster("widgets")
    settings.parallel.limit = count
    async with operating(registry, cluster, settings):
        gc.collect()
        before = _resident()
        for number in range(count):
            cluster.add("widgets", f"w{number}")
        await full.wait()
        used = _resident() - before
        going.set()
        return used


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6
