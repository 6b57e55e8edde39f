"""
The portal: the way from a thread into the event loop and back.

Takes a coroutine from a handler's thread, gives its result there. Never used in the loop's own thread, which
would wait for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def in_loop_thread(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the caller is in the thread that this loop runs in."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def wait_for(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Run the coroutine in the loop, and wait for its result in this thread. Raises what it raises."""
    # A loop with virtual time has to know which threads wait for it: its time stands still for all others.
    portal = getattr(loop, "wait_from_thread", None)
    if portal is not None:
        result: T = portal(coroutine)
        return result
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
