"""Start: from the start of the process until the handler has been called for every object that is there."""

from __future__ import annotations

from benchmarks.measures import Goal, Row
from benchmarks.options import Options
from benchmarks.process import running

_GOALS = (Goal("wall", 0.4, "kopf on.event"), Goal("cpu", 0.2, "kopf on.event"))


async def measure(options: Options) -> Row:
    objects = options.size(2_000, 50_000, options.objects)
    rounds = options.size(2, 3, options.rounds)
    row = Row("start", f"{objects:,} existing objects, process start to last no-op call", _GOALS)
    await options.target.grow(objects)
    peers = options.chosen("kopf on.event", "kopf raw stream", *_slow(options))
    for _ in range(rounds):
        for peer in peers:
            await measure_one(options, row, peer, options.target.total)
    return row


def _slow(options: Options) -> tuple[str, ...]:
    """Peers that write to each object: only on request, since a later round finds the objects changed by it."""
    return tuple(peer for peer in ("kopf on.create",) if peer in options.peers)


async def measure_one(options: Options, row: Row, peer: str, objects: int) -> None:
    """One start of one peer."""
    profile = options.profile_of(row.name, peer)
    async with running(peer, options.target.kubeconfig, f"count:{objects}", profile=profile) as process:
        _name, ended = await process.report()
        row.add(peer, "wall", "s", float(ended) - process.started)
        row.add(peer, "cpu", "s", process.cpu())
        row.add(peer, "memory", "MB", process.memory())
