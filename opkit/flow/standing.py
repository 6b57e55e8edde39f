"""
Standing: for each polled object, the value that stood at its last run, and whether a newer one is worth another run.

Takes the values of polls and the ends of runs; gives verdicts (semantics: 13.6). What stood at a run shows in the first
poll that begins after it; one that begins too late for that is compared with what was known before the run. Pure: no
loop, no clock of its own.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

# Seconds after the end of a run within which a poll shows what the run has left, and not what happened since.
_AT_ONCE = 1.0

_UNKNOWN = object()

Moment = tuple[float, int]
"""The clock's monotonic seconds, and a number that orders what happens at the same time."""


@dataclasses.dataclass(slots=True, eq=False)
class Standing:
    """One object's values."""

    standing: Any = _UNKNOWN
    """What stood at the last run; before the first run, what was polled first."""
    polled: Any = _UNKNOWN
    """What was polled last."""
    ended: Moment | None = None
    """When its last run ended, as long as no poll has shown yet what stood then."""
    failed: bool = False
    """A poll has failed since then, or none could be made."""

    def note_run(self, now: Moment, *, is_blind: bool = False) -> None:
        """The object was run. `is_blind` tells that polls are failing, so that none looks right after it."""
        self.ended, self.failed = now, is_blind

    def note_failure(self) -> None:
        """It could not be polled."""
        self.failed = True

    def take(self, value: Any, begun: Moment) -> bool:
        """Take what a poll that began then has given; whether the object is to be run."""
        value = copy.deepcopy(value)  # the author may go on with the same list or dict
        before, self.polled = self.polled, value
        if self.ended is None:
            if self.standing is _UNKNOWN:
                self.standing = value
                return False
            return not is_same(value, self.standing)
        if begun < self.ended:
            return False  # of before the run's end: what stood then is still to be seen
        at_once = begun[0] - self.ended[0] <= _AT_ONCE and not self.failed
        self.standing, self.ended = value, None
        if at_once:
            return False
        # What was known before the run is all there is to compare with. Without even that: whoever could not look right
        # after the run does not know what it has missed.
        return self.failed if before is _UNKNOWN else not is_same(value, before)


def is_same(one: Any, other: Any) -> bool:
    """Equality, in whatever way the author's values have it; what can't be compared has changed."""
    try:
        return bool(one == other)
    except Exception:
        return False


class Allowance:
    """So many extra polls at once, and one more for each `every` seconds: runs must not turn a timer into a flood."""

    __slots__ = ("_at", "_every", "_left")

    def __init__(self, every: float, now: float) -> None:
        self._every = every
        self._left = _EXTRA
        self._at = now

    def wait(self, now: float) -> float:
        """Seconds until the next extra poll may begin."""
        self._refill(now)
        return 0.0 if self._left >= 1.0 else (1.0 - self._left) * self._every

    def take(self, now: float) -> None:
        """One begins now."""
        self._refill(now)
        self._left = max(0.0, self._left - 1.0)

    def _refill(self, now: float) -> None:
        self._left = min(_EXTRA, self._left + (now - self._at) / self._every)
        self._at = now


_EXTRA = 10.0
