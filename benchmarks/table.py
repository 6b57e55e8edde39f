"""Tables: measured rows for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.measures import Measure, Row, Spread

_HEADER = ("peer", "quantity", "median", "low to high", "opkit / peer")


def render(row: Row) -> str:
    """One row as a Markdown table with its goals and notes."""
    lines = [f"### {row.name}: {row.title}", "", *_table(_HEADER, [_cells(row, measure) for measure in row.measures])]
    for goal, reached, met in row.verdicts():
        lines += ["", f"- goal: {goal}; reached {number(reached)}: {'met' if met else 'NOT met'}"]
    for note in row.notes:
        lines += ["", f"- {note}"]
    return "\n".join(lines)


def _cells(row: Row, measure: Measure) -> tuple[str, ...]:
    spread = measure.spread
    ratio = row.ratio(measure.quantity, measure.peer) if measure.peer != "opkit" else None
    return (
        measure.peer,
        measure.quantity,
        f"{number(spread.median)} {measure.unit}".rstrip(),
        f"{number(spread.low)} to {number(spread.high)}",
        "" if ratio is None else _ratio(ratio),
    )


def _ratio(ratio: Spread) -> str:
    return f"{number(ratio.median)} ({number(ratio.low)} to {number(ratio.high)})"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    rows = [header, *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = [f"| {' | '.join(map(str.ljust, row, widths))} |" for row in rows]
    return [lines[0], f"|{'|'.join('-' * (width + 2) for width in widths)}|", *lines[1:]]


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 1 else f"{value:.3g}"
