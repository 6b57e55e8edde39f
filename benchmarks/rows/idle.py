"""Idle: what a peer costs that knows many objects while nothing happens."""

from __future__ import annotations

import asyncio

from benchmarks.measures import Goal, Row
from benchmarks.options import Options
from benchmarks.process import running


async def measure(options: Options) -> Row:
    objects = options.size(2_000, 50_000, options.objects)
    seconds = options.size(10, 60)
    row = Row("idle", f"{objects:,} objects and no events for {seconds} s", (Goal("cpu", 1.0),))
    server = options.target
    await server.grow(objects)
    for _ in range(options.size(1, 2, options.rounds)):
        for peer in options.chosen("kopf on.event"):
            profile = options.profile_of(row.name, peer)
            async with running(peer, server.kubeconfig, f"count:{server.total}", profile=profile) as process:
                await process.report()
                await asyncio.sleep(7)  # kopf ends its workers five seconds after their last event
                before = process.cpu()
                await asyncio.sleep(seconds)
                row.add(peer, "cpu", "% of a core", (process.cpu() - before) / seconds * 100)
                row.add(peer, "memory now", "MB", process.memory("VmRSS"))
    return row
