"""What the rooms of all resources share: clock, randomness, settings, the door for writes, threads."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable
from typing import Any, TypeVar

from opkit.clock import Clock
from opkit.flow.events import EventPoster
from opkit.flow.invocation import Invoker, Memo
from opkit.flow.lead import Lead
from opkit.flow.onlooker import Onlooker
from opkit.flow.portal import in_loop_thread, wait_for
from opkit.flow.threads import Threads
from opkit.flow.writes import Writes
from opkit.settings import Settings

T = TypeVar("T")


@dataclasses.dataclass(slots=True, eq=False)
class Runtime:
    """The shared parts of a running operator."""

    clock: Clock
    random: random.Random
    settings: Settings
    writes: Writes
    invoker: Invoker
    threads: Threads
    """For functions of the author that are no handlers of objects, which must not wait for handlers."""
    lead: Lead
    events: EventPoster
    memo: Memo
    loop: asyncio.AbstractEventLoop
    onlooker: Onlooker

    def in_loop(self, function: Callable[..., T], *args: Any) -> T:
        """
        Call a function of the runtime in the loop's thread and give its result, from whatever thread.

        From another thread it blocks until the loop has come to it.
        """
        if in_loop_thread(self.loop):
            return function(*args)

        async def call() -> T:
            return function(*args)

        return wait_for(call(), self.loop)
