"""
The lead: whether this process is the one that works.

Takes what an election decides; is asked by whoever starts a run, polls, triggers or writes, also by rooms that are made
later. Never decides who leads.
"""

from __future__ import annotations

import asyncio


class Lead:
    """Held from the start, unless somebody takes it away. To be changed in the loop's thread only."""

    def __init__(self) -> None:
        self._held = asyncio.Event()
        self._held.set()

    @property
    def is_held(self) -> bool:
        return self._held.is_set()

    async def wait(self) -> None:
        """Wait until this process leads."""
        await self._held.wait()

    def lose(self) -> None:
        self._held.clear()

    def gain(self) -> None:
        self._held.set()
