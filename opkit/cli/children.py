"""
Children: processes that handlers fork get signals of their own.

A fork inherits how its parent hears of signals: the handlers, and the socket that wakes the parent's loop. A signal
to the child would be told to the operator, which would stop, while the child would go on. So a child goes back to what
a new process does.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

# Forks can't be unregistered from, so it is done once, and counts while an operator runs.
_registered = False
_running = 0


@contextlib.contextmanager
def children_hear_their_own_signals() -> Iterator[None]:
    """While the block runs, forked children get the usual signal handlers."""
    global _registered, _running
    if not _registered:
        os.register_at_fork(after_in_child=_reset)
        _registered = True
    _running += 1
    try:
        yield
    finally:
        _running -= 1


def _reset() -> None:
    """What a new process does with signals. Runs in the child, in whichever thread has forked: now the main one."""
    if not _running:
        return
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
