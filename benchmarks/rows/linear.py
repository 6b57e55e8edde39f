"""Linear: the cost of an object does not depend on how many there are."""

from __future__ import annotations

from benchmarks.measures import Goal, Row
from benchmarks.options import Options
from benchmarks.rows import start

_GOALS = (Goal("cost of an object, largest to middle", 1.25),)


async def measure(options: Options) -> Row:
    """
    Starts with more and more objects.

    What the process costs by itself is taken off: the smallest size stands for it.
    """
    largest = options.size(6_000, 100_000, options.objects)
    row = Row("linear", f"the cost of an object at the start, up to {largest:,} of them", _GOALS)
    sizes = sorted({max(options.target.count, largest // share) for share in (100, 10, 1)})
    rounds = options.size(2, 3, options.rounds)
    costs = [await _cost(options, row, size, rounds) for size in sizes]
    if len(costs) == 3:
        (fewest, base), (middle, middle_cost), (most, most_cost) = costs
        before, after = (middle_cost - base) / (middle - fewest), (most_cost - middle_cost) / (most - middle)
        row.add("opkit", "CPU of an object up to the middle", "us", before * 1e6)
        row.add("opkit", "CPU of an object beyond it", "us", after * 1e6)
        row.add("opkit", "cost of an object, largest to middle", "", after / before)
    else:
        row.notes.append("the server holds too many objects already to begin with few; run this row by itself")
    return row


async def _cost(options: Options, row: Row, size: int, rounds: int) -> tuple[int, float]:
    """The objects that there are, and the least CPU seconds of a start with them."""
    server = options.target
    await server.grow(size)
    one = Row(row.name, "")
    for _ in range(rounds):
        await start.measure_one(options, one, "opkit", server.total)
    for measure in one.measures:
        for value in measure.values:
            row.add("opkit", f"{measure.quantity} at {server.total:,}", measure.unit, value)
    cpu = one.find("opkit", "cpu")
    assert cpu is not None
    return server.total, cpu.spread.low
