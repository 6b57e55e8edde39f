"""
The stop: when it was asked for, and what is left of the grace since then.

Takes the one request to stop; bounds what the author's functions that run outside of any object may still take. From
the first signal on nothing of them goes on for longer than the grace (semantics: 13.9).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from opkit.clock import Clock

logger = logging.getLogger("opkit.operator")

T = TypeVar("T")

# Seconds for what is cancelled to end; what swallows its cancellation must not hold up the exit.
_LAST_WORDS = 3.0


class Stopped(Exception):
    """Something was cut off, because the grace of the stop was over."""


class Stop:
    """The stop of one operator. `grace` is asked when it is needed: a startup handler may set it."""

    def __init__(self, clock: Clock, grace: Callable[[], float]) -> None:
        self._clock = clock
        self._grace = grace
        self._asked = asyncio.Event()
        self._at: float | None = None

    def ask(self) -> None:
        """Begin to stop. More than once does no harm."""
        if self._at is None:
            self._at = self._clock.now()
            self._asked.set()

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    async def wait(self) -> None:
        """Wait until it is asked for."""
        await self._asked.wait()

    async def sleep(self, seconds: float) -> None:
        """Wait so long, or until the stop is asked for."""
        try:
            async with asyncio.timeout(seconds):
                await self._asked.wait()
        except TimeoutError:
            pass

    @property
    def remaining(self) -> float:
        """Seconds that are left of the grace."""
        began = self._clock.now() if self._at is None else self._at
        return max(0.0, began + self._grace() - self._clock.now())

    async def bound(self, work: Coroutine[Any, Any, T], what: str, at_least: float = 0.0) -> T:
        """
        Do the work; after a stop only for what is left of the grace, or `at_least` so many seconds.

        Gives what it gives, and raises what it raises; `Stopped` if it was cut off.
        """
        task = asyncio.get_running_loop().create_task(work, name=what)
        stop = asyncio.get_running_loop().create_task(self._asked.wait(), name="stop signal")
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait({task}, timeout=max(self.remaining, at_least))
        except asyncio.CancelledError:
            await _cancel(task)
            raise
        finally:
            stop.cancel()
        if not task.done():
            logger.warning("%s did not end within %g s and is cut off.", what, self._grace())
            await _cancel(task)
            raise Stopped(what)
        return task.result()


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=_LAST_WORDS)
