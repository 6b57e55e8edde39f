"""
Live changes: how much CPU time a change costs while it happens.

In bursts: the peer is stopped while the changes are written, finds them in its socket, and goes on; so it counts
what it does with them, not how often it was woken for them by a server that is slower than all peers. One by one: the
changes are written as fast as the server takes them, and the peer sees each when it happens. What is taken is the CPU
time of the peer's process until it is at rest again.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable

from benchmarks.measures import Goal, Row
from benchmarks.options import Options
from benchmarks.process import Process, running
from benchmarks.server import Server

_SENTINEL = "sentinel"

# Seconds for a peer to come to rest after its start, and after what it was measured with.
_SETTLE = 1.5

# Few enough for the buffers of a socket: a server cuts a watch that does not take its events.
_BURST = 200

_BURSTS = "changes per CPU second, in bursts"
_SINGLY = "changes per CPU second, one by one"

_REFUSED = (
    Goal(_BURSTS, 0.5, "kopf raw stream", at_least=True),
    Goal(_BURSTS, 7, "kopf on.event", at_least=True),
)
_RECONCILED = (
    Goal(_BURSTS, 5, "kopf on.event", at_least=True),
    Goal(_BURSTS, 30, "kopf on.create", at_least=True),
)

Write = Callable[[int], Awaitable[None]]


async def measure_refused(options: Options) -> Row:
    """Changes of labels: opkit's default filters refuse them, kopf's handlers of raw events see them."""
    row = Row("live-refused", "changes of labels, which no reconciliation is interested in", _REFUSED)
    return await _measure(options, row, options.target.relabel, "kopf on.event", "kopf raw stream")


async def measure_reconciled(options: Options) -> Row:
    """Changes of specs: each is a call of the handler."""
    row = Row("live-reconciled", "changes of specs, each with a no-op call", _RECONCILED)
    return await _measure(options, row, options.target.respecify, "kopf on.event", "kopf raw stream", "kopf on.create")


async def _measure(options: Options, row: Row, write: Write, *peers: str) -> Row:
    objects = options.size(500, 2_000, options.objects)
    changes = options.size(3_000, 20_000, options.changes)
    server = options.target
    await server.grow(objects)
    await server.ensure(_SENTINEL)
    row.notes.append(f"{changes:,} changes over {server.count:,} objects")
    numbers = itertools.count()
    for _ in range(options.size(2, 3, options.rounds)):
        for peer in options.chosen(*peers):
            profile = options.profile_of(row.name, peer)
            report = f"name:{_SENTINEL}"
            async with running(peer, server.kubeconfig, report, profile=profile) as process:
                await process.report()
                for quantity, burst in ((_BURSTS, _BURST), (_SINGLY, None)):
                    before = await _at_rest(process)
                    await _change(server, process, list(itertools.islice(numbers, changes)), write, burst)
                    row.add(peer, quantity, "/s", changes / (await _at_rest(process) - before))
    return row


async def _change(server: Server, process: Process, numbers: list[int], write: Write, burst: int | None) -> None:
    """Make the changes, in bursts or not, and wait until the last one has reached the handler."""
    size = burst or len(numbers)
    for first in range(0, len(numbers), size):
        with process.stopped() if burst else contextlib.nullcontext():
            await server.change(numbers[first : first + size], write)
            await server.touch(_SENTINEL)
        await process.report()


async def _at_rest(process: Process) -> float:
    """Wait until the peer has nothing left to do; the CPU seconds that it has used up to then."""
    used = -1.0
    while (now := process.cpu()) - used > 0.01:
        used = now
        await asyncio.sleep(_SETTLE)
    return now
