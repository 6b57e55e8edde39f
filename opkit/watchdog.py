"""
The watchdog: says who blocks the event loop.

Takes the loop of the thread that makes it; gives a warning, once for each time that the loop does not turn for
longer than the limit, with the handler, its object and the line where it blocks. Once there is an end to the patience,
since a stop was asked for, it tells who has outlasted it. A thread of its own, since whoever is blocked can't tell.
Only for real time: the command line starts it, tests in virtual time have their own means.
"""

from __future__ import annotations

import asyncio
import linecache
import logging
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from opkit.flow.invocation import Run, object_reference
from opkit.plan.plan import Handler

logger = logging.getLogger("opkit.watchdog")

LIMIT = 1.0
"""Seconds for which the loop may be busy with one thing."""

# Seconds between two looks: a block is noticed after the limit and at most this.
_PAUSE = 0.25

_OURS = os.path.join(Path(__file__).parent, "")
_LIBRARIES = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "purelib", "platlib"))

# Where a loop waits for something to happen: asyncio's in a selector, uvloop's below the runner or the loop's own call.
_LOOP = (os.path.join("asyncio", "runners.py"), os.path.join("asyncio", "base_events.py"))
_IDLE = ("selectors.py", *_LOOP)

# Who blocks the loop, where no handler does.
_SOMETHING = "something"


class Watchdog:
    """Watches the loop of the current thread for the time of a `with` block."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        limit: float = LIMIT,
        pause: float = _PAUSE,
        patience: Callable[[], float | None] = lambda: None,
        give_up: Callable[[str], None] = lambda who: None,
    ) -> None:
        self._loop = loop
        self._limit = limit
        self._pause = pause
        self._patience = patience
        self._give_up = give_up
        self._watched = threading.get_ident()
        self._turned = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="opkit-watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._turned.set()  # the loop can't turn now: this is its thread
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(self._pause):
            self._turned = turned = threading.Event()
            try:
                self._loop.call_soon_threadsafe(turned.set)
            except RuntimeError:  # the loop is closed
                return
            if turned.wait(self._limit) or self._stopped.is_set():
                continue
            self._report()
            self._wait_for(turned)

    def _wait_for(self, turned: threading.Event) -> None:
        """Wait until the loop turns; for as long as there is patience, beginning with the first look that finds one."""
        until: float | None = None
        while not turned.wait(self._pause) and not self._stopped.is_set():
            if until is not None and time.monotonic() >= until:
                self._give_up(self._blocking())
                return
            if until is None and (patience := self._patience()) is not None:
                until = time.monotonic() + patience

    def _frames(self) -> list[FrameType]:
        return list(_frames_in_loop(sys._current_frames().get(self._watched)))

    def _blocking(self) -> str:
        """Who blocks the loop now, and where."""
        frames = self._frames()
        if not frames:
            return _SOMETHING
        what, _ = _named(frames)
        return f"{what}, at {_place(next((frame for frame in frames if _is_authors(frame)), frames[0]))}"

    def _report(self) -> None:
        frames = self._frames()
        # A process that was stopped and goes on looks late, though nothing blocks it.
        if not frames or frames[0].f_code.co_filename.endswith(_IDLE):
            return
        what, run = _named(frames)
        extra: dict[str, Any] = {}
        if run is not None:
            extra = {"k8s_ref": object_reference(run.raw), "controller": run.controller}
        authors = next((frame for frame in frames if _is_authors(frame)), None)
        # A start on a slow machine loads modules for this long, which nobody can help.
        level = logging.DEBUG if authors is None and what == _SOMETHING else logging.WARNING
        logger.log(
            level, "The event loop has been blocked for more than %g s by %s, at %s. Nothing else runs meanwhile: "
            "await, or make it a plain function (`def`), which runs in a thread.",
            self._limit, what, _place(authors or frames[0]), extra=extra,
        )  # fmt: skip


def _frames_in_loop(innermost: FrameType | None) -> Iterator[FrameType]:
    """From the innermost outward, as far as the loop; what has started the loop is no part of it."""
    frame = innermost
    while frame is not None:
        yield frame
        frame = frame.f_back
        if frame is not None and frame.f_code.co_filename.endswith(_LOOP):
            return


def _named(frames: Sequence[FrameType]) -> tuple[str, Run | None]:
    """What is being called, for people, and its run."""
    handler, run = _running(frames)
    what = handler.name if handler is not None else _SOMETHING
    if run is not None:
        what = f"{what} on {f'{run.namespace}/' if run.namespace else ''}{run.name}"
    return what, run


def _running(frames: Sequence[FrameType]) -> tuple[Handler | None, Run | None]:
    """The handler that is being called, and its run: looked up in opkit's own frames, never in an author's."""
    handler: Handler | None = None
    for frame in frames:
        if not frame.f_code.co_filename.startswith(_OURS):
            continue
        values = list(frame.f_locals.values())
        handler = handler or next((value for value in values if isinstance(value, Handler)), None)
        run = next((value for value in values if isinstance(value, Run)), None)
        if run is not None:
            return handler, run
    return handler, None


def _is_authors(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith((_OURS, *_LIBRARIES, "<"))


def _place(frame: FrameType) -> str:
    file, line = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(file, line).strip()
    return f"{file}:{line} in {frame.f_code.co_name}" + (f", `{source}`" if source else "")
