"""What a handler may return: nothing, `opkit.success(...)` or `opkit.failure(...)`."""

from __future__ import annotations

import dataclasses
import datetime
import math

# Later than any operator lives, and small enough for every clock and timer to add it to now.
LONGEST_DELAY = 10 * 365 * 24 * 3600.0


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """The verdict of one run. Made by `success` and `failure`, not by hand."""

    ok: bool
    requeue_after: float | None = None
    """Seconds after which the object is due again; `None` leaves it to the resync or the retry policy."""
    message: str = ""
    error: BaseException | None = None


def seconds(value: float | datetime.timedelta | None, what: str) -> float | None:
    """
    Check a duration given by an author, and turn it into seconds, at most ten years.

    Raises `TypeError` for what is no duration, `ValueError` for one that is negative or not finite.
    """
    if value is None:
        return None
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} must be seconds or a timedelta, not {value!r}")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{what} must be finite and not negative, not {value!r}")
    return min(float(value), LONGEST_DELAY)


def success(requeue_after: float | datetime.timedelta | None = None) -> Result:
    """
    The object is as it should be. With `requeue_after` look at it again then: seconds or a timedelta.

    Zero means at once, but behind everything that is already due. Raises as `seconds` does.
    """
    return Result(ok=True, requeue_after=seconds(requeue_after, "requeue_after"))


def failure(
    message: str,
    *,
    error: BaseException | None = None,
    requeue_after: float | datetime.timedelta | None = None,
) -> Result:
    """
    The run failed. With `requeue_after` come back after exactly that, otherwise by the retry policy.

    `error` is shown in the log beside the message. Raises as `seconds` does.
    """
    return Result(ok=False, requeue_after=seconds(requeue_after, "requeue_after"), message=str(message), error=error)
