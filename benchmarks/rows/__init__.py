"""The rows: what is measured. Each module has one `async def measure(options) -> Row`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from benchmarks.measures import Row
from benchmarks.options import Options
from benchmarks.rows import idle, latency, linear, live, memory, queue, rooms, start, sync

ROWS: dict[str, Callable[[Options], Awaitable[Row]]] = {
    "start": start.measure,
    "live-refused": live.measure_refused,
    "live-reconciled": live.measure_reconciled,
    "latency": latency.measure,
    "queue": queue.measure,
    "idle": idle.measure,
    "sync": sync.measure,
    "linear": linear.measure,
    "memory": memory.measure,
    "rooms": rooms.measure,
}
