"""
The end of a process: which threads would hold it up.

Takes the threads that are there; gives the names of those that work and that the interpreter would wait for. Threads
that handlers have started by themselves are among them, and those of `asyncio.to_thread`, which nothing can cancel.
"""

from __future__ import annotations

import concurrent.futures.thread
import sys
import threading
import time

# Seconds between two looks.
_LOOK = 0.05

_POOL = concurrent.futures.thread.__file__


def wait_for_threads(within: float) -> list[str]:
    """Wait until no thread holds up the end any more, at most so many seconds; those that still do."""
    end = time.monotonic() + within
    # Those of pools don't end with their work, so there is nothing to join.
    while (names := holding_up()) and time.monotonic() < end:
        time.sleep(_LOOK)
    return names


def holding_up() -> list[str]:
    """The names of the threads that the interpreter would wait for."""
    frames = sys._current_frames()
    return [
        thread.name
        for thread in threading.enumerate()
        if not thread.daemon and thread is not threading.main_thread() and not _is_idle(frames.get(thread.ident or 0))
    ]


def _is_idle(frame: object) -> bool:
    """Whether a thread of a pool waits for work: it ends by itself when the pool is let go of."""
    code = getattr(frame, "f_code", None)
    return code is None or (code.co_filename == _POOL and code.co_name == "_worker")
