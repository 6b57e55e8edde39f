"""The recorder: sees what an operator under test does, and keeps it for the test's questions and the timeline."""

from __future__ import annotations

import asyncio
import dataclasses
import reprlib
from collections.abc import Awaitable, Callable, Iterator

from opkit.errors import ForgottenAwait
from opkit.flow.onlooker import Onlooker, Refusal, Write
from opkit.flow.report import Call, Outcome


@dataclasses.dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened: when (virtual seconds), what kind of thing, and the thing itself."""

    at: float
    kind: str
    what: object


class Recorder(Onlooker):
    """Keeps everything, in order."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.moments: list[Moment] = []
        self.calls: list[Call] = []
        self.refusals: list[Refusal] = []
        self.writes: list[Write] = []
        self.skipped: list[Write] = []
        self.bugs: list[BaseException] = []
        self._open: list[Call] = []
        self.gates: dict[str, Gate] = {}

    def note(self, kind: str, what: object) -> None:
        """Write down that something happened now."""
        self.moments.append(Moment(self.now(), kind, what))

    def on_call(self, call: Call) -> None:
        self.calls.append(call)
        self._open.append(call)
        self.note("call", call)

    def take_mistakes(self) -> list[BaseException]:
        """What the author forgot in calls that have ended since this was asked last: a test must not pass with it."""
        ended = [call for call in self._open if call.outcome is not None]
        self._open = [call for call in self._open if call.outcome is None]
        return [call.error for call in ended if isinstance(call.error, ForgottenAwait)]

    def on_refusal(self, refusal: Refusal) -> None:
        self.refusals.append(refusal)
        self.note("refused", refusal)

    def on_write(self, write: Write) -> None:
        self.writes.append(write)
        self.note("write", write)

    def on_skipped_write(self, write: Write) -> None:
        self.skipped.append(write)
        self.note("skipped write", write)

    def on_bug(self, error: BaseException) -> None:
        self.bugs.append(error)
        self.note("bug in opkit", error)

    def gate(self, handler: str) -> Awaitable[None] | None:
        gate = self.gates.pop(handler, None)
        return gate.wait() if gate is not None else None

    def timeline(self, last: int | None = None) -> str:
        """What happened, readable, one line each; with `last` only the end of it."""
        moments = self.moments if last is None else self.moments[-last:]
        left_out = len(self.moments) - len(moments)
        lines = [f"{moment.at:10.3f}  {line}" for moment in moments for line in _lines(moment)]
        return "\n".join([f"({left_out} earlier moments are left out)", *lines] if left_out else lines)


class Gate:
    """Holds one call until it is opened."""

    def __init__(self) -> None:
        self._opened = asyncio.Event()

    async def wait(self) -> None:
        await self._opened.wait()

    def open(self) -> None:
        self._opened.set()


def _lines(moment: Moment) -> Iterator[str]:
    what = moment.what
    if isinstance(what, Call):
        yield _call(what)
    elif isinstance(what, Refusal):
        meta = what.body.get("metadata") or {}
        yield f"refused {what.type} of {meta.get('name')} for {what.controller} by {what.by}"
    elif isinstance(what, Write):
        where = f"{what.namespace}/{what.name}" if what.namespace else what.name
        sub = f"/{what.subresource}" if what.subresource else ""
        body = reprlib.repr(what.body) if what.body else ""
        yield f"{moment.kind}: {what.verb} {what.resource.plural}{sub} {where} {body}".rstrip()
    else:
        yield f"{moment.kind}: {what}"


def _call(call: Call) -> str:
    where = f"{call.namespace}/{call.name}" if call.namespace else call.name
    triggers = ", ".join(sorted(call.trigger))
    line = f"call {call.handler} for {where} (attempt {call.attempt}; {triggers})"
    if call.outcome is None:
        return f"{line}: still running"
    took = f" after {call.duration:g} s" if call.duration else ""
    why = ""
    if call.error is not None:
        why = f": {type(call.error).__name__}: {call.error}"
    elif call.result is not None and call.outcome is Outcome.FAILURE:
        why = f": {call.result.message}"
    elif call.result is not None and call.result.requeue_after is not None:
        why = f", again in {call.result.requeue_after:g} s"
    return f"{line}: {call.outcome}{took}{why}"
