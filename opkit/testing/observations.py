"""
Observations: what a test may ask about the operator under test.

Takes questions; answers from what the recorder has seen and from what waits in the operator. Never moves time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from opkit.flow.onlooker import Write
from opkit.flow.report import Call
from opkit.testing.outside import Outside
from opkit.testing.process import Process
from opkit.testing.references import Reference
from opkit.triggers import Trigger


@dataclasses.dataclass(frozen=True, slots=True)
class Scheduled:
    """A request that waits. `due_in` is in seconds; negative if it is overdue, because its object is being run."""

    uid: str
    due_in: float
    trigger: frozenset[Trigger]
    attempt: int
    controller: str


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """An event that did not become a request, and who decided that."""

    type: str
    by: str
    controller: str
    uid: str


class Observations(Outside):
    """The answers."""

    _process: Process | None = None

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self._recorder.now()

    def calls(self, handler: str | None = None, ref: Reference | None = None) -> Sequence[Call]:
        """The calls of handlers, in order: of one handler, or for one object, or all."""
        uid = self._uid(ref)
        return [
            call for call in self._recorder.calls
            if handler in (None, call.handler) and uid in (None, call.uid)
        ]  # fmt: skip

    def scheduled(self, ref: Reference | None = None) -> Sequence[Scheduled]:
        """What waits for its time, the earliest first."""
        uid = self._uid(ref)
        found = []
        process = self._process
        for served in (process.operator._watches or ()) if process is not None else ():
            for pipeline, request in served.waiting():
                if uid in (None, request.key):
                    due_in = request.due - self.now
                    found.append(Scheduled(request.key, due_in, request.triggers, request.attempt, pipeline.name))
        return sorted(found, key=lambda one: one.due_in)

    def refused(self, ref: Reference | None = None) -> Sequence[Refused]:
        """The events that did not become requests."""
        uid = self._uid(ref)
        return [
            Refused(one.type, one.by, one.controller, one.uid)
            for one in self._recorder.refusals
            if uid in (None, one.uid)
        ]

    def writes(self, ref: Reference | None = None) -> Sequence[Write]:
        """What opkit and the handlers have sent, in order."""
        return self._of_object(self._recorder.writes, ref)

    def skipped_writes(self, ref: Reference | None = None) -> Sequence[Write]:
        """What was not sent, because it would have changed nothing."""
        return self._of_object(self._recorder.skipped, ref)

    def _of_object(self, writes: Sequence[Write], ref: Reference | None) -> Sequence[Write]:
        if ref is None:
            return [*writes]
        target = self._target(ref)
        wanted = (target.resource, target.name, target.namespace)
        return [write for write in writes if (write.resource, write.name, write.namespace) == wanted]

    def explain(self, ref: Reference) -> Sequence[dict[str, Any]]:
        """The decisions about an object, as data."""
        target = self._target(ref)
        process = self._process
        if process is None:
            return []
        return process.operator.explain(tuple(target.resource), target.name, target.namespace)

    def timeline(self, last: int | None = None) -> str:
        """The history, readable: what happened when, and which rule decided. With `last` only so many moments."""
        return self._recorder.timeline(last)
