"""
Measures: the arithmetic of rounds and ratios.

Takes one value per peer and round; gives medians, spreads and ratios. Never runs or prints anything.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Spread:
    """A middle value and the ends."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Raises `ValueError` without values."""
        if not values:
            raise ValueError("there is nothing to take the median of")
        return cls(statistics.median(values), min(values), max(values))


@dataclasses.dataclass
class Measure:
    """One quantity of one peer, a value for each round."""

    peer: str
    quantity: str
    unit: str
    values: list[float] = dataclasses.field(default_factory=list)

    @property
    def spread(self) -> Spread:
        return Spread.of(self.values)


@dataclasses.dataclass(frozen=True)
class Goal:
    """What opkit's value may be at most (or at least) in terms of a peer's, or, without a peer, by itself."""

    quantity: str
    bound: float
    peer: str | None = None
    at_least: bool = False

    def __str__(self) -> str:
        sign = "at least" if self.at_least else "at most"
        return f"{self.quantity} {sign} {self.bound:g}{f' of {self.peer}' if self.peer else ''}"

    def is_met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound


class Row:
    """What one benchmark measured."""

    def __init__(self, name: str, title: str, goals: Sequence[Goal] = ()) -> None:
        self.name = name
        self.title = title
        self.goals = tuple(goals)
        self.measures: list[Measure] = []
        self.notes: list[str] = []

    def add(self, peer: str, quantity: str, unit: str, value: float) -> None:
        """Add the value of one round."""
        found = self.find(peer, quantity)
        if found is None:
            found = Measure(peer, quantity, unit)
            self.measures.append(found)
        found.values.append(value)

    def find(self, peer: str, quantity: str) -> Measure | None:
        for measure in self.measures:
            if (measure.peer, measure.quantity) == (peer, quantity):
                return measure
        return None

    def ratio(self, quantity: str, peer: str, subject: str = "opkit") -> Spread | None:
        """
        The subject's value in terms of a peer's, round by round; `None` if one of them was not measured.

        Values of one round were taken right after each other, so what slowed the machine then is in both.
        """
        ours, theirs = self.find(subject, quantity), self.find(peer, quantity)
        if ours is None or theirs is None:
            return None
        pairs = [(a, b) for a, b in zip(ours.values, theirs.values, strict=False) if b > 0]
        return Spread.of([a / b for a, b in pairs]) if pairs else None

    def verdicts(self) -> list[tuple[Goal, float, bool]]:
        """Each goal that could be judged: what was reached, and whether that is enough."""
        found = []
        for goal in self.goals:
            reached = self._reached(goal)
            if reached is not None:
                found.append((goal, reached, goal.is_met(reached)))
        return found

    def _reached(self, goal: Goal) -> float | None:
        if goal.peer is not None:
            ratio = self.ratio(goal.quantity, goal.peer)
            return None if ratio is None else ratio.median
        measure = self.find("opkit", goal.quantity)
        return None if measure is None else measure.spread.median

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "row": self.name,
            "title": self.title,
            "measures": [dataclasses.asdict(measure) for measure in self.measures],
            "goals": [{"goal": str(goal), "reached": reached, "met": met} for goal, reached, met in self.verdicts()],
            "notes": self.notes,
        }


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest value that so many percent of them do not exceed."""
    if not values:
        raise ValueError("there is nothing to take a percentile of")
    ordered = sorted(values)
    rank = max(1, math.ceil(len(ordered) * percent / 100))
    return ordered[rank - 1]
