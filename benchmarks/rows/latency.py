"""
Latency: from the API server's answer to a write until the handler's first line.

May be negative: the event can overtake the answer. One write at a time, on a server with nothing else to do.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.measures import Goal, Row, percentile
from benchmarks.options import Options
from benchmarks.process import Process, running

_GOALS = (Goal("median", 1.0, "kopf on.event"), Goal("99th percentile", 1.0, "kopf on.event"))

# Seconds between two writes, so that each finds a peer at rest.
_PAUSE = 0.01
_WARM = 20


async def measure(options: Options) -> Row:
    samples = options.size(200, 1_000, options.changes)
    row = Row("latency", "from the answer to a write until the handler's first line", _GOALS)
    row.notes.append(f"{samples:,} writes each round")
    await options.target.ensure("sentinel")
    for _ in range(options.size(3, 5, options.rounds)):
        for peer in options.chosen("kopf on.event"):
            profile = options.profile_of(row.name, peer)
            async with running(peer, options.target.kubeconfig, "name:sentinel", profile=profile) as process:
                await process.report()
                found = [await _sample(options, process) for _ in range(_WARM + samples)][_WARM:]
            row.add(peer, "median", "ms", percentile(found, 50) * 1000)
            row.add(peer, "99th percentile", "ms", percentile(found, 99) * 1000)
    return row


async def _sample(options: Options, process: Process) -> float:
    await asyncio.sleep(_PAUSE)
    await options.target.touch("sentinel")
    answered = time.monotonic()
    _name, called = await process.report()
    return float(called) - answered
