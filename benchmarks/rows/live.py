"""
Live changes: how much CPU time a change costs while it happens.

The changes are written as fast as the server takes them; what counts is the CPU time of the peer from the first of
them to the handler's call for a last one, so it does not matter that the server is slower than the peers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from benchmarks.measures import Goal, Row
from benchmarks.options import Options
from benchmarks.process import Process, running

_SENTINEL = "sentinel"

# Seconds for a peer to come to rest after its start, and after what it was measured with.
_SETTLE = 1.5

_REFUSED = (
    Goal("changes per CPU second", 0.5, "kopf raw stream", at_least=True),
    Goal("changes per CPU second", 7, "kopf on.event", at_least=True),
)
_RECONCILED = (
    Goal("changes per CPU second", 5, "kopf on.event", at_least=True),
    Goal("changes per CPU second", 30, "kopf on.create", at_least=True),
)


async def measure_refused(options: Options) -> Row:
    """Changes of labels: opkit's default filters refuse them, kopf's handlers of raw events see them."""
    row = Row("live-refused", "changes of labels, which no reconciliation is interested in", _REFUSED)
    return await _measure(options, row, options.target.relabel, "kopf on.event", "kopf raw stream")


async def measure_reconciled(options: Options) -> Row:
    """Changes of specs: each is a call of the handler."""
    row = Row("live-reconciled", "changes of specs, each with a no-op call", _RECONCILED)
    return await _measure(
        options, row, options.target.respecify, "kopf on.event", "kopf raw stream", "kopf on.create"
    )


async def _measure(options: Options, row: Row, write: Callable[[int], Awaitable[None]], *peers: str) -> Row:
    objects = options.size(500, 2_000, options.objects)
    changes = options.size(3_000, 20_000, options.changes)
    server = options.target
    await server.grow(objects)
    await server.ensure(_SENTINEL)
    row.notes.append(f"{changes:,} changes over {server.count:,} objects")
    for round_ in range(options.size(2, 3, options.rounds)):
        for peer in options.chosen(*peers):
            profile = options.profile_of(row.name, peer)
            report = f"name:{_SENTINEL}"
            async with running(peer, server.kubeconfig, report, profile=profile) as process:
                await _at_rest(process)
                before = process.cpu()
                await server.change(range(round_ * changes, (round_ + 1) * changes), write)
                await server.touch(_SENTINEL)
                await process.report()
                await asyncio.sleep(_SETTLE)
                row.add(peer, "changes per CPU second", "/s", changes / (process.cpu() - before))
    return row


async def _at_rest(process: Process) -> None:
    """Wait until the peer has seen all that there was, and has nothing left to do."""
    await process.report()
    used = -1.0
    while (now := process.cpu()) - used > 0.02:
        used = now
        await asyncio.sleep(_SETTLE)
