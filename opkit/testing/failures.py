"""Failures of a test that are not its own assertions, each told as what it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opkit.errors import OpkitError

if TYPE_CHECKING:
    from opkit.testing.process import Process


class NotSettled(OpkitError):
    """Virtual time went on, or came to a halt, with work left; the text says who waits for what."""


class LeftRunning(OpkitError):
    """Tasks that a handler has started were still running when the operator had stopped."""


class RuntimeFailed(OpkitError):
    """Something failed inside opkit itself, or in a task that nobody waits for."""


def verify(errors: Sequence[BaseException], leftovers: Sequence[str], process: Process | None) -> None:
    """Raise for what went wrong unnoticed while a test ran."""
    ended = process.error() if process is not None else None
    for error in [*errors, *([ended] if ended is not None else [])]:
        if isinstance(error, OpkitError):
            raise error
        raise RuntimeFailed(
            f"{type(error).__name__} outside of any handler's run: {error}. Either a task that a handler has started "
            "and forgotten, or a bug in opkit"
        ) from error
    if leftovers:
        raise LeftRunning(f"still running after the operator has stopped: {', '.join(leftovers)}")
