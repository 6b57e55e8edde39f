"""
Threads: where plain functions of the author run.

Takes a function and what to call it for people; gives a future, and the names of what still works. Never ends a thread:
nothing can but its own end, or that of the process.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import os
from collections.abc import Callable
from typing import Any

from opkit.flow.forks import end_child_of


class Threads:
    """A pool of threads, made when it is first needed."""

    def __init__(self, size: int, prefix: str) -> None:
        self._size = size
        self._prefix = prefix
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._working: dict[asyncio.Future[Any], str] = {}

    def start(self, function: Callable[[], Any], what: str) -> asyncio.Future[Any]:
        """
        Call the function in a thread, in the context of the caller; `what` names it as long as it works.

        To be awaited through `asyncio.shield`: a future that is cancelled would count as done while its thread works.
        """
        if self._pool is None:
            self._pool = concurrent.futures.ThreadPoolExecutor(self._size, thread_name_prefix=self._prefix)
        call = functools.partial(contextvars.copy_context().run, function)
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        self._working[future] = what
        future.add_done_callback(self._end)
        return future

    def _end(self, future: asyncio.Future[Any]) -> None:
        self._working.pop(future, None)
        if not future.cancelled():
            future.exception()  # who waited for it may be gone by now: nobody else is to be told

    def working(self) -> list[str]:
        """What works at this moment."""
        return list(self._working.values())

    async def wait(self, within: float) -> None:
        """Wait until nothing works any more, at most so many seconds."""
        if self._working:
            await asyncio.wait(set(self._working), timeout=within)

    def close(self) -> None:
        """Let go of the threads; those that still work are not waited for."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def call(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call a plain function. Two exceptions can't be carried by a future: a stray `next()` would hang its run."""
    process = os.getpid()
    try:
        return function(**arguments)
    except (StopIteration, GeneratorExit) as error:
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error
    finally:
        end_child_of(process)
