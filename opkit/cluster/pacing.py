"""
Pacing: how long to wait before something that has ended is asked for again.

One policy for all that is watched: streams of objects, of definitions and of namespaces, and discovery itself. Takes
how long it lasted and how it ended; gives seconds. Never sleeps, and never reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable

LONGEST_BACKOFF = 32.0

# A connection that held for so long was healthy, whatever ended it: failures before it don't count any more.
HEALTHY = 30.0

# What ends cleanly, but sooner than this, is taken for a refusal without words.
TOO_SHORT = 1.0


def backoff(failures: int, base: float, spread: float) -> float:
    """Seconds to wait after so many failures in a row: doubled each time up to 32, with `spread` (0 to 1) as jitter."""
    longest = min(LONGEST_BACKOFF, base * 2 ** min(max(failures, 1) - 1, 16))
    return float(longest * (0.5 + 0.5 * spread))


class Pacing:
    """The pauses of one thing that is asked for again and again."""

    def __init__(self, base: float, spread: Callable[[], float]) -> None:
        self._base = base
        self._spread = spread
        self.failures = 0
        """In a row, up to now; clean ends that came too soon are among them."""

    def ended(self, lasted: float) -> float:
        """It ended cleanly. The first time that this comes too soon may be chance; from then on the pauses grow."""
        if lasted >= TOO_SHORT:
            self.failures = 0
            return 0.0
        self.failures += 1
        return 0.0 if self.failures == 1 else backoff(self.failures - 1, self._base, self._spread())

    def failed(self, lasted: float, *, at_least: float | None = None) -> float:
        """It failed, `at_least` so many seconds before it may be asked for again."""
        self.failures = 1 if lasted >= HEALTHY else self.failures + 1
        return max(backoff(self.failures, self._base, self._spread()), at_least or 0.0)


class Spacing:
    """Lets something through at growing intervals, and at once again when it was not asked for a while."""

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest, self._longest = shortest, longest
        self._interval = 0.0
        self._last = float("-inf")

    def passes(self, now: float) -> bool:
        """Whether it is time."""
        since = now - self._last
        if since < self._interval:
            return False
        was_quiet = not self._interval or since > 2 * self._longest
        self._interval = self._shortest if was_quiet else min(2 * self._interval, self._longest)
        self._last = now
        return True
