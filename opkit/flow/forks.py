"""
Forks: a child that a function of the author has forked ends where that function ends.

Takes the process that a call began in; ends a process that is another one by then. What comes out of the call in a
child must reach nobody: the operator around it is its parent's, and a second one would go on there.
"""

from __future__ import annotations

import os
import sys
import traceback


def end_child_of(process: int) -> None:
    """
    End this process if it is a child of the one given; to be called on whatever way a call ends.

    Its exit status is that of a program which ends so: by its end, by `sys.exit()`, or by an exception.
    """
    if os.getpid() == process:
        return
    status = 1  # for whatever happens on the way
    try:
        status = _status(sys.exception())
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _status(error: BaseException | None) -> int:
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
        return 1
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)
    return 1
