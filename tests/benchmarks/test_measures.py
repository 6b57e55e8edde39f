"""The arithmetic of rounds, ratios and goals."""

from __future__ import annotations

import pytest

from benchmarks.measures import Goal, Row, Spread, percentile


def row(*goals: Goal, **values: list[float]) -> Row:
    """A row with one quantity, `cpu`, of the peers given."""
    made = Row("start", "a title", goals)
    for peer, rounds in values.items():
        for value in rounds:
            made.add(peer, "cpu", "s", value)
    return made


def test_a_spread_is_the_median_between_the_ends() -> None:
    """The middle value counts, not the mean, which one slow round would move."""
    assert Spread.of([1.0, 100.0, 2.0]) == Spread(2.0, 1.0, 100.0)


def test_a_spread_of_nothing_is_refused() -> None:
    """No values are a mistake of the row, not a zero."""
    with pytest.raises(ValueError, match="nothing"):
        Spread.of([])


def test_a_ratio_is_taken_round_by_round() -> None:
    """A machine that was slow for a round slowed both: the ratio of the medians would be 2/10 here."""
    made = row(opkit=[1.0, 2.0, 6.0], kopf=[2.0, 10.0, 12.0])
    assert made.ratio("cpu", "kopf") == Spread(0.5, 0.2, 0.5)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(row(opkit=[1.0]), id="no-such-peer"),
        pytest.param(row(kopf=[1.0]), id="no-subject"),
        pytest.param(row(opkit=[1.0], kopf=[0.0]), id="nothing-to-divide-by"),
    ],
)
def test_without_both_values_there_is_no_ratio(made: Row) -> None:
    """What was not measured is not judged."""
    assert made.ratio("cpu", "kopf") is None


def test_a_round_that_only_one_peer_had_is_left_out() -> None:
    """Only values that were taken side by side are compared."""
    assert row(opkit=[1.0, 50.0], kopf=[2.0]).ratio("cpu", "kopf") == Spread(0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        pytest.param(Goal("cpu", 0.5, "kopf"), True, id="at-most-and-just-reached"),
        pytest.param(Goal("cpu", 0.4, "kopf"), False, id="at-most-and-missed"),
        pytest.param(Goal("cpu", 0.5, "kopf", at_least=True), True, id="at-least-and-just-reached"),
        pytest.param(Goal("cpu", 0.6, "kopf", at_least=True), False, id="at-least-and-missed"),
        pytest.param(Goal("cpu", 3.0), True, id="absolute"),
        pytest.param(Goal("cpu", 2.0), False, id="absolute-and-missed"),
    ],
)
def test_a_goal_is_judged_by_the_median(goal: Goal, met: bool) -> None:
    """Of opkit's own values, or of its ratios to a peer."""
    made = row(goal, opkit=[1.0, 3.0, 4.0], kopf=[2.0, 6.0, 8.0])
    assert [verdict for _goal, _reached, verdict in made.verdicts()] == [met]


def test_a_goal_without_values_is_not_judged() -> None:
    """A row that was run without the peer says nothing about it."""
    assert row(Goal("cpu", 0.5, "kopf"), opkit=[1.0]).verdicts() == []


@pytest.mark.parametrize(
    ("percent", "value"),
    [
        pytest.param(50, 50, id="median"),
        pytest.param(99, 99, id="99th"),
        pytest.param(100, 100, id="most"),
        pytest.param(0, 1, id="least"),
    ],
)
def test_a_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    """Nearest rank: nothing is interpolated."""
    assert percentile([float(number) for number in range(100, 0, -1)], percent) == value


def test_a_percentile_of_nothing_is_refused() -> None:
    """As for a spread."""
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 50)


def test_a_row_is_plain_data() -> None:
    """What goes into the JSON file holds every round, and the verdicts."""
    data = row(Goal("cpu", 0.6, "kopf"), opkit=[1.0, 2.0], kopf=[2.0, 4.0]).as_dict()
    assert data["measures"][0] == {"peer": "opkit", "quantity": "cpu", "unit": "s", "values": [1.0, 2.0]}
    assert data["goals"] == [{"goal": "cpu at most 0.6 of kopf", "reached": 0.5, "met": True}]
