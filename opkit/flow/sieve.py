"""
The sieve: which changes are worth a run of one controller.

Takes a `Change`, gives a `Verdict` that names who decided. For each kind of change the checks stand in a fixed
order and the first refusal ends it (semantics: 2):

    the default filters (updates of primary objects only) AND generic AND the filter of the event's kind

What was refused by the author's filters, or accepted and lost on its way to the queue, is not over with that: later
changes are compared with the body that was accepted last (semantics: 13.3). Never writes, waits or raises: a filter
that raises accepts, since a spare run is cheap and a lost one is not.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection

from opkit.cluster.body import Body, Raw, finalizers, is_deleting, reference
from opkit.filter.defaults import accepts_update, moves_deletion
from opkit.filter.expressions import Filter
from opkit.flow.store import EVERYONE, Change, ChangeType
from opkit.plan.plan import Filters, Finalizer
from opkit.settings import ReconcileStrategy

logger = logging.getLogger("opkit.sieve")

# Seconds between two log lines about one filter that keeps raising.
_ERROR_LOG_INTERVAL = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a change is worth a run, and who said so: a filter's printed form, or one of opkit's own rules."""

    accepted: bool
    by: str


_ACCEPTED = Verdict(True, "")
_BY_DEFAULT = Verdict(False, "default")
_BY_ECHO = Verdict(False, "write-echo")


@dataclasses.dataclass(frozen=True, slots=True)
class _Behind:
    """An object with changes that have led to no run."""

    accepted: Raw | None
    """The body that was accepted last; `None` if none was yet."""
    dropped: bool
    """The filters accepted them all, but no queue took the request."""


class Sieve:
    """The filters of one controller over its primary resource, or over one of its secondary ones."""

    def __init__(
        self,
        *,
        controller: str,
        filters: Filters,
        strategy: ReconcileStrategy,
        default_filters: bool = True,
        finalizers: Collection[Finalizer] = (),
        when: Filter | None = None,
        now: Callable[[], float],
    ) -> None:
        self._controller = controller
        self._filters = filters
        self._strategy = strategy
        self._default_filters = default_filters
        self._ours = frozenset(finalizer.name for finalizer in finalizers)
        self._always = tuple(finalizer.name for finalizer in finalizers if finalizer.when is None)
        self._conditional = tuple(finalizer for finalizer in finalizers if finalizer.when is not None)
        self._when = when
        self._now = now
        self._logged: dict[str, float] = {}
        self._behind: dict[str, _Behind] = {}

    # Judging.

    def judge(self, change: Change) -> Verdict:
        """Whether this change is worth a run."""
        # A controller knows of what it writes to the object that it is run for, and of nothing else that it writes.
        if change.origin is not None and change.origin in (EVERYONE, (self._controller, change.uid)):
            return _BY_ECHO
        if change.type is ChangeType.DELETED:
            return self._ask(
                (self._filters.generic, (change.body,)),
                (self._filters.delete, (change.body,)),
                final_state_unknown=change.final_state_unknown,
            )
        behind = self._behind.get(change.uid) if self._behind else None
        if behind is None:
            verdict = self._judge_difference(change.body, change.old)
        else:
            verdict = self._judge_all_since(change, behind)
        if self._default_filters and not verdict.accepted and verdict is not _BY_DEFAULT:
            self._behind[change.uid] = behind or _Behind(change.old, dropped=False)
        return verdict

    def _judge_all_since(self, change: Change, behind: _Behind) -> Verdict:
        if behind.dropped:
            # As if it came only now: filters that look for one certain difference would not find it any more.
            return self._judge_difference(change.body, behind.accepted)
        verdict = self._judge_difference(change.body, change.old)
        if verdict is _BY_DEFAULT:
            # Nothing by itself, but what was refused before it may pass with it: a label that had paused an object.
            return self._judge_difference(change.body, behind.accepted)
        return verdict

    def _judge_difference(self, new: Raw, old: Raw | None) -> Verdict:
        filters = self._filters
        if old is None:
            if (filters.generic is None and filters.add is None) or self._is_for_finalizers(new):
                return _ACCEPTED
            return self._ask((filters.generic, (new,)), (filters.add, (new,)))
        if self._default_filters and not self._by_default(new, old):
            return _BY_DEFAULT
        if filters.generic is None and filters.update is None:
            return _ACCEPTED
        if self._is_for_finalizers(new) and moves_deletion(new, old):
            return _ACCEPTED
        return self._ask((filters.generic, (new,)), (filters.update, (new, old)))

    def _is_for_finalizers(self, raw: Raw) -> bool:
        """A deletion with a finalizer of ours reaches it, whatever the author's filters say (semantics: 13.4)."""
        return is_deleting(raw) and not self._ours.isdisjoint(finalizers(raw))

    def _by_default(self, new: Raw, old: Raw) -> bool:
        wanted = self._always
        if self._conditional and not is_deleting(new):
            wanted += tuple(finalizer.name for finalizer in self._conditional if self.wants(finalizer, new))
        if accepts_update(new, old, strategy=self._strategy, finalizers=wanted):
            return True
        return not self.admits(old).accepted and self.admits(new).accepted

    def wants(self, finalizer: Finalizer, raw: Raw) -> bool:
        """Whether a finalizer is meant for this object. A condition that raises means yes."""
        return self._ask((finalizer.when, (raw,))).accepted

    def admits(self, raw: Raw) -> Verdict:
        """Whether the condition on the object (`when=`) lets it be run at all (semantics: 13.5)."""
        return self._ask((self._when, (raw,)))

    # What became of it.

    def seen(self, uid: str) -> None:
        """The object is run with its newest body, or is about to be: all its changes so far are done with."""
        if self._behind:
            self._behind.pop(uid, None)

    def dropped(self, change: Change) -> None:
        """A change was accepted, and no queue took the request: it is to come back (semantics: 13.3)."""
        behind = self._behind.get(change.uid)
        self._behind[change.uid] = _Behind(behind.accepted if behind is not None else change.old, dropped=True)

    def lost(self) -> list[str]:
        """Objects (UID) with dropped changes."""
        return [uid for uid, behind in self._behind.items() if behind.dropped]

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._behind.pop(uid, None)

    # Asking.

    def _ask(
        self, *questions: tuple[Filter | None, tuple[Raw, ...]], final_state_unknown: bool | None = None
    ) -> Verdict:
        """Ask one filter after the other, each with copies of its own, until one refuses."""
        for filter_, bodies in questions:
            if filter_ is None:
                continue
            arguments: list[object] = [Body.of(raw) for raw in bodies]
            if final_state_unknown is not None:
                arguments.append(final_state_unknown)
            decision = filter_.decide(*arguments)
            if decision.error is not None:
                self._report(str(decision.by), decision.error, bodies[0])
            if not decision.accepted:
                return Verdict(False, str(decision.by))
        return _ACCEPTED

    def _report(self, name: str, error: BaseException, raw: Raw) -> None:
        now = self._now()
        if now - self._logged.get(name, -_ERROR_LOG_INTERVAL) < _ERROR_LOG_INTERVAL:
            return
        self._logged[name] = now
        logger.error(
            "The filter %s of %s raised on %s, so the event is accepted. Filters must cope with absent fields.",
            name, self._controller, reference(raw), exc_info=error,
        )  # fmt: skip
