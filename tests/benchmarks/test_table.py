"""What is printed of a row."""

from __future__ import annotations

import pytest

from benchmarks.measures import Goal, Row
from benchmarks.table import number, render


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(0.0, "0", id="zero"),
        pytest.param(0.01234, "0.0123", id="small"),
        pytest.param(-0.5, "-0.5", id="negative"),
        pytest.param(1.234, "1.23", id="ones"),
        pytest.param(56.78, "56.8", id="tens"),
        pytest.param(123456.7, "123,457", id="large"),
    ],
)
def test_numbers_have_three_digits_that_count(value: float, text: str) -> None:
    """More would pretend to an exactness that no round has."""
    assert number(value) == text


def test_a_table_shows_peers_in_terms_of_opkit() -> None:
    """opkit's own line has no ratio; each peer's has one, with its spread."""
    row = Row("start", "a title", [Goal("cpu", 0.4, "kopf")])
    for ours, theirs in ((1.0, 4.0), (2.0, 4.0)):
        row.add("opkit", "cpu", "s", ours)
        row.add("kopf", "cpu", "s", theirs)
    row.notes.append("a note")
    lines = render(row).splitlines()
    assert lines[0] == "### start: a title"
    assert [cell.strip() for cell in lines[4].split("|")[1:-1]] == ["opkit", "cpu", "1.50 s", "1.00 to 2.00", ""]
    assert lines[5].endswith("| 0.375 (0.25 to 0.5) |")
    assert "- goal: cpu at most 0.4 of kopf; reached 0.375: met" in lines
    assert lines[-1] == "- a note"


def test_all_lines_of_a_table_are_equally_long() -> None:
    """A person reads it as it is printed, not only rendered."""
    row = Row("start", "a title")
    row.add("opkit", "cpu", "s", 1.0)
    row.add("a peer with a long name", "wall", "s", 123.0)
    lengths = {len(line) for line in render(row).splitlines()[2:]}
    assert len(lengths) == 1
