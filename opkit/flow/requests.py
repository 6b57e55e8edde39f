"""
Requests: what waits in a queue for its object's next run.

Takes nothing from other rooms; gives `Request` and the one rule by which two of them become one (`merge`).
Never knows why an object wants a run beyond the names of the triggers.
"""

from __future__ import annotations

import dataclasses

from opkit.cluster.body import Raw
from opkit.triggers import Trigger

CHANGES = frozenset({Trigger.ADDED, Trigger.MODIFIED, Trigger.SECONDARY, Trigger.POLL, Trigger.FINALIZER})
"""Triggers that come from outside events. They may overtake a backoff once; explicit wishes always do."""


@dataclasses.dataclass(slots=True, eq=False)
class Request:
    """
    One object's wish to be run. At most one of them waits per object and controller.

    Times are the clock's monotonic seconds.
    """

    key: str
    """The object's UID."""
    due: float
    triggers: frozenset[Trigger]
    attempt: int = 1
    generation: int | None = None
    """The newest `metadata.generation` that asked for this run; `None` for kinds that have none."""
    body: Raw | None = None
    """The newest body known when it was asked for. A run reads the store again; a durable queue may want it."""
    retry_due: float | None = None
    """When the retry is due that an event has overtaken: a failure goes back to it, with the same attempt."""
    overtaken: bool = False
    """The one early run of this backoff has been granted; further events wait for the retry."""
    conflicts: int = 0
    """409 answers in a row that ended its runs."""
    afresh: bool = False
    """It waits for no backoff of what failed before, whatever its generation: the object's deletion has begun."""
    entry: object = None
    """The queue's own mark: where it keeps this request."""

    @property
    def in_backoff(self) -> bool:
        """Whether it waits because a run failed."""
        return Trigger.RETRY in self.triggers or self.retry_due is not None


_RESYNC = frozenset({Trigger.RESYNC})


def merge(waiting: Request, arriving: Request) -> bool:
    """
    Merge a request into the one that waits for the same key; whether it became due earlier.

    Field by field (semantics: 4): due the earlier one, triggers the union, body the newest, attempt kept unless a
    change with a new generation arrived, then back to 1. During a backoff a change without a new generation
    may run the object early, once; it keeps the attempt and the time of the retry (semantics: 6).
    """
    before = waiting.due
    if (
        waiting.attempt == 1 == arriving.attempt
        and waiting.retry_due is None is arriving.retry_due
        and Trigger.RETRY not in waiting.triggers
        and Trigger.RETRY not in arriving.triggers
    ):
        # Nobody has failed, so there is no backoff to weigh: the path of nearly every event.
        waiting.due = min(before, arriving.due)
    elif _starts_afresh(waiting, arriving):
        waiting.attempt, waiting.conflicts = 1, 0
        waiting.retry_due, waiting.overtaken = None, False
        waiting.due = min(waiting.due, arriving.due)
    elif _revives(waiting, arriving):
        waiting.attempt, waiting.conflicts = 1, 0
        waiting.due = min(waiting.due, arriving.due)
    elif waiting.in_backoff != arriving.in_backoff:
        _overtake(waiting, arriving)
    else:
        waiting.due = min(waiting.due, arriving.due)
        waiting.attempt = max(waiting.attempt, arriving.attempt)
        waiting.conflicts = max(waiting.conflicts, arriving.conflicts)
        waiting.overtaken = waiting.overtaken or arriving.overtaken
        if arriving.retry_due is not None:
            waiting.retry_due = arriving.retry_due
    # A finished run tells of the state that it saw; a change that came meanwhile is newer, whatever the numbers say:
    # a database that was restored counts generations from a lower one on (semantics: 13.2).
    generation = arriving.generation
    if generation not in (None, waiting.generation) and (
        waiting.generation is None or not arriving.triggers.isdisjoint(CHANGES)
    ):
        waiting.generation = generation
    waiting.triggers = _union(waiting.triggers, arriving.triggers)
    waiting.afresh = waiting.afresh or arriving.afresh
    if arriving.body is not None:
        waiting.body = arriving.body
    return waiting.due < before


def _starts_afresh(one: Request, other: Request) -> bool:
    """Whether one of them is a change that the other's failed runs have not seen: a new generation, or the deletion."""
    return _is_news(one, other) or _is_news(other, one)


def _is_news(change: Request, failed: Request) -> bool:
    if change.in_backoff or change.triggers.isdisjoint(CHANGES) or not (failed.attempt > 1 or failed.in_backoff):
        return False
    if change.afresh:
        return True
    return None not in (change.generation, failed.generation) and change.generation != failed.generation


def _revives(one: Request, other: Request) -> bool:
    """
    Whether one of them gave up retrying (only the resync is left of it) and the other makes a new start.

    A wish from outside does; so does a change of a kind without generations, where each may be the new state.
    """
    for given_up, arriving in ((one, other), (other, one)):
        if given_up.triggers == _RESYNC and given_up.attempt > 1:
            return Trigger.MANUAL in arriving.triggers or (arriving.generation is None and arriving.triggers <= CHANGES)
    return False


def _union(one: frozenset[Trigger], other: frozenset[Trigger]) -> frozenset[Trigger]:
    """Both, but a resync, which always waits somewhere, is named as a reason only where it is the only one."""
    if one == other:
        return one
    return (one | other) - _RESYNC


def _overtake(waiting: Request, arriving: Request) -> None:
    """Merge a request that waits out a backoff with one that does not, whichever of them came first."""
    backoff, other = (waiting, arriving) if waiting.in_backoff else (arriving, waiting)
    retry_due = backoff.retry_due if backoff.retry_due is not None else backoff.due
    explicit = not other.triggers <= CHANGES
    due = min(backoff.due, other.due) if explicit or not backoff.overtaken else backoff.due
    overtaken = backoff.overtaken or (not explicit and due < retry_due)
    waiting.attempt = max(backoff.attempt, other.attempt)
    waiting.conflicts = max(backoff.conflicts, other.conflicts)
    waiting.due, waiting.retry_due, waiting.overtaken = due, retry_due, overtaken
