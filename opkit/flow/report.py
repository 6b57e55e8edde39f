"""
Reports: what a run amounts to, as values. Made by reconcile, read by results, shown by `explain` and tests.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from opkit.results import Result
from opkit.triggers import Trigger

if TYPE_CHECKING:
    from opkit.flow.invocation import Run


class Outcome(enum.StrEnum):
    """How a call, or a whole run, ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    """No function of the author was called: there was nothing to do."""


@dataclasses.dataclass(slots=True)
class Call:
    """One call of one function of the author. Times are the clock's monotonic seconds."""

    handler: str
    name: str | None
    namespace: str | None
    uid: str
    attempt: int
    trigger: frozenset[Trigger]
    at: float
    duration: float = 0.0
    outcome: Outcome | None = None
    """`None` while it runs."""
    result: Result | None = None
    error: BaseException | None = None
    controller: str = ""


@dataclasses.dataclass(slots=True)
class Report:
    """What a run amounts to."""

    outcome: Outcome
    why: str = ""
    """For a run that was skipped or failed: one sentence."""
    result: Result | None = None
    error: BaseException | None = None
    run: Run | None = None
    """The run whose patch is still to be sent."""
    finalizing: bool = False
    by_runtime: bool = False
    """A failure of a request that opkit itself made, not of the author's function."""
    refused_by: str = ""
    """The condition on the object (`when=`) that refused the run."""
    call: Call | None = None
    """What onlookers see of it: a patch that the server refuses makes a failed call of it."""
    handler: str = ""
    duration: float = 0.0

    def fail(self, why: str, error: BaseException) -> None:
        """Make a failure of what had succeeded: its patch was not taken."""
        self.outcome, self.why, self.error = Outcome.FAILURE, why, error
        if self.call is not None:
            self.call.outcome, self.call.error = Outcome.FAILURE, error


def skipped(why: str) -> Report:
    return Report(Outcome.SKIPPED, why=why)
