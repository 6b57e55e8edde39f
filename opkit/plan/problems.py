"""The problems found while compiling: collected, so that the author sees all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from opkit.declaration.declarations import Place
from opkit.errors import Problem

P = ParamSpec("P")
T = TypeVar("T")


class Problems:
    """A collection of problems; the same one at the same place is kept once."""

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}

    def add(self, place: Place, message: str) -> None:
        """Keep a problem."""
        self._found[Problem(place.file, place.line, message)] = None

    def attempt(self, place: Place, check: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The result of a check; None, and a problem kept, if it raises TypeError or ValueError."""
        try:
            return check(*args, **kwargs)
        except (TypeError, ValueError) as error:
            self.add(place, str(error))
            return None

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
