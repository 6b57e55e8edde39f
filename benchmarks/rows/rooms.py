"""
Rooms: what opkit itself costs for an object, and while nothing happens, with few objects and with many.

In this process, over an in-memory cluster: neither the server nor HTTP has a part in it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import opkit
from benchmarks.measures import Row
from benchmarks.memory_cluster import MemoryCluster, operating
from benchmarks.options import Options
from opkit.cli.run import collect_rarely
from opkit.settings import Settings

# Seconds in which nothing happens.
_IDLE = 8.0


async def measure(options: Options) -> Row:
    collect_rarely()
    largest = options.size(10_000, 100_000, options.objects)
    row = Row("rooms", f"opkit's own cost of an object, up to {largest:,} of them")
    for size in (largest // 100, largest // 10, largest):
        cost, idle = await _costs(size)
        row.add("opkit", f"CPU of an object, {size:,} objects", "us", cost * 1e6)
        row.add("opkit", f"idle, {size:,} objects", "% of a core", idle * 100)
    return row


async def _costs(count: int) -> tuple[float, float]:
    """CPU seconds of an object from its event to the end of its run, and the share of a core when all is done."""
    registry, cluster, runs = opkit.Registry(), MemoryCluster("widgets"), 0
    done = asyncio.Event()

    @opkit.reconcile("example.com", "v1", "widgets", registry=registry)
    async def nothing(**_: Any) -> None:
        nonlocal runs
        runs += 1
        if runs == count:
            done.set()

    async with operating(registry, cluster, Settings()):
        for number in range(count):
            cluster.add("widgets", f"w{number}")
        begin = time.process_time()
        await done.wait()
        used = time.process_time() - begin
        begin = time.process_time()
        await asyncio.sleep(_IDLE)
        return used / count, (time.process_time() - begin) / _IDLE
