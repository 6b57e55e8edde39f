"""A bell that wakes one task from synchronous callbacks: between a store's watcher and who reads it."""

from __future__ import annotations

import asyncio

from opkit.errors import ApiError


class Bell:
    """
    Rung before anyone waits, it stays rung. New bells are rung: whatever was there before has to be looked
    at.
    """

    def __init__(self) -> None:
        self._rung = True
        self._error: ApiError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        self._rung = True
        self._wake()

    def fail(self, error: ApiError) -> None:
        """Make the waiting one, or the next one, raise."""
        self._error = error
        self.ring()

    async def wait(self, timeout: float | None) -> bool:
        """Wait for a ring, at most `timeout` seconds; tells whether it rang. Raises what `fail` was given."""
        if not self._rung:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout, self._wake) if timeout is not None else None
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        if self._error is not None:
            raise self._error
        rung, self._rung = self._rung, False
        return rung

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
