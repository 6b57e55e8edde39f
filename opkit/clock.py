"""
The one place that reads clocks and sleeps; every room is given a `Clock`.

Durations come from the event loop's monotonic time, so a jump of the wall clock moves no due time, and a
test that runs on a loop with virtual time has virtual time everywhere, in the author's own code too.
"""

from __future__ import annotations

import asyncio
import contextvars
import datetime
from collections.abc import Callable
from typing import Any, Protocol


def time_of_day() -> datetime.datetime:
    """The time of day in UTC, for what is given as one from outside: stamps, and the end of credentials."""
    return datetime.datetime.now(datetime.UTC)


class Clock(Protocol):
    """Time, as the rooms see it."""

    def now(self) -> float:
        """Monotonic seconds. Only differences mean something."""

    def wall(self) -> datetime.datetime:
        """The time of day in UTC, for stamps in objects. Never subtracted for a decision."""

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        """Call back at the monotonic time `when`."""

    async def sleep(self, seconds: float) -> None:
        """Wait. Can be cancelled."""


class LoopClock:
    """The clock of the running event loop. To be made inside of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        # Timers are often set in the context of a run, whose object they must neither keep alive nor name in logs.
        self._context = contextvars.copy_context()
        self.now = self._loop.time  # bound once: it is asked several times per event

    def wall(self) -> datetime.datetime:
        return time_of_day()

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        return self._loop.call_at(when, callback, *args, context=self._context)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
