"""The retry policy: how long to wait before a failed object is tried again."""

from __future__ import annotations

import dataclasses
import math


@dataclasses.dataclass(frozen=True, slots=True)
class Retry:
    """
    Exponential backoff: after the n-th failure in a row wait `initial * factor ** (n - 1)`, at most `maximum`.

    All times are seconds. `jitter` is a share: 0.1 spreads each delay evenly over +-10 %, so that objects that
    fail together don't come back together. After `attempts` failures nothing but the resync is scheduled;
    `None` means that there is no such end.
    """

    initial: float = 1.0
    factor: float = 2.0
    maximum: float = 300.0
    jitter: float = 0.1
    attempts: int | None = None

    def __post_init__(self) -> None:
        for name in ("initial", "factor", "maximum", "jitter"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
                raise ValueError(f"Retry({name}={value!r}): a finite number that is not negative is expected")
        if self.jitter > 1:
            raise ValueError(f"Retry(jitter={self.jitter!r}): a share between 0 and 1 is expected")
        if self.attempts is not None and (
            isinstance(self.attempts, bool) or not isinstance(self.attempts, int) or self.attempts < 1
        ):
            raise ValueError(f"Retry(attempts={self.attempts!r}): a positive whole number or None is expected")

    def delay(self, failures: int, spread: float = 0.5) -> float:
        """
        The seconds to wait after so many failures in a row (1 is the first).

        `spread`, between 0 and 1, picks the point within the jitter; one half is the middle.
        """
        # The exponent is bounded before the power is taken: a float overflows at about 1024 doublings.
        exponent = min(max(failures, 1) - 1, 64)
        delay = min(self.initial * self.factor**exponent, self.maximum)
        return delay * (1 + self.jitter * (2 * spread - 1))

    def exhausted(self, failures: int) -> bool:
        """Whether so many failures in a row are the end of retrying."""
        return self.attempts is not None and failures >= self.attempts
