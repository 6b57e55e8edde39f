"""Failures of a test that are not its own assertions, each told as what it is."""

from __future__ import annotations

from collections.abc import Sequence

from opkit.errors import OpkitError


class NotSettled(OpkitError):
    """Virtual time went on, or came to a halt, with work left; the text says who waits for what."""


class LeftRunning(OpkitError):
    """Tasks that a handler has started were still running when the operator had stopped."""


class RuntimeFailed(OpkitError):
    """Something failed inside opkit itself, or in a task that nobody waits for."""


def verify(errors: Sequence[BaseException], leftovers: Sequence[str]) -> None:
    """Raise for what went wrong outside of the author's functions while a test ran."""
    for error in errors:
        if isinstance(error, OpkitError):
            raise error
        raise RuntimeFailed(
            f"{type(error).__name__} outside of any handler's run: {error}. Either a task that a handler has started "
            "and forgotten, or a bug in opkit"
        ) from error
    if leftovers:
        raise LeftRunning(f"still running after the operator has stopped: {', '.join(leftovers)}")
