"""
Signals: the first asks the operator to stop, the second ends the process; neither waits for a loop that is blocked.

Takes an operator; ends the process itself where nothing else does: what blocks the loop for longer than the grace
allows, and what is left behind once the operator has ended (threads, processes, tasks that go on). Never judges what is
worth waiting for within the grace.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import Protocol

from opkit.settings import Settings

logger = logging.getLogger("opkit.run")

# Seconds beyond the grace: for the ways of the operator's own, which end in order what the grace has cut off.
_BEYOND = 5.0


class Stoppable(Protocol):
    @property
    def is_stopping(self) -> bool: ...

    settings: Settings

    def stop(self) -> None: ...


class Signals:
    """What this process has heard, and what it does about it."""

    def __init__(self, operator: Stoppable) -> None:
        self._operator = operator
        self._first = 0
        self._at: float | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hear signals from now on. To be called in the main thread, in this loop."""
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop, number)
            # The loop hears of it too, as soon as it turns. This is called even while something blocks the loop.
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._at is not None or self._operator.is_stopping:
            try:
                logger.warning("Stopped at once by a second signal.")
            finally:
                _leave(128 + number)
        self._first, self._at = number, time.monotonic()

    def _stop(self, number: signal.Signals) -> None:
        logger.info("Stopping on %s: running handlers may finish; a second signal ends them.", number.name)
        self._operator.stop()

    def patience(self) -> float | None:
        """Seconds for which a loop that is blocked may still be waited for; `None` as long as nothing is to stop."""
        if self._at is None:
            return None
        return max(0.0, self._at + self._operator.settings.shutdown.grace - time.monotonic()) + _BEYOND

    def give_up(self, who: str) -> None:
        """The loop is blocked for too long: end the process, as a second signal would."""
        try:
            logger.error("The event loop is still blocked by %s, so nothing can stop in order: the process ends.", who)
        finally:
            _leave(128 + self._first)

    def bound_the_end(self, status: int) -> None:
        """The operator has ended, by a signal: what goes on in this process gets what is left of the grace."""
        patience = self.patience()
        if patience is not None:
            last = threading.Timer(patience, lambda: leave_behind(_left(), status))
            last.daemon = True
            last.start()


def leave_behind(what: Sequence[str], status: int) -> None:
    """Name what nothing can end but the end of the process, and end it."""
    try:
        for one in what:
            logger.warning("%s, and is left behind.", one)
    finally:
        _leave(status)


def _left() -> list[str]:
    """What keeps an interpreter from its end."""
    threads = [one.name for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
    processes = [one.name for one in multiprocessing.active_children() if not one.daemon]
    return [f"The thread {one} still runs" for one in threads] + [f"The process {one} still runs" for one in processes]


def _leave(status: int) -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)
