"""
The sieve: which changes are worth a run of one controller.

Takes a `Change`, gives a `Verdict` that names who decided. For each kind of change the checks stand in a fixed
order and the first refusal ends it (semantics: 2):

    the default filters (updates of primary objects only) AND generic AND the filter of the event's kind

Never writes, waits or raises: a filter that raises accepts, since a spare run is cheap and a lost one is not.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection

from opkit.cluster.body import Body, Raw, is_deleting, reference
from opkit.filter.defaults import accepts_update
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


class Sieve:
    """The filters of one controller over its primary resource."""

    def __init__(
        self,
        *,
        controller: str,
        filters: Filters,
        strategy: ReconcileStrategy,
        default_filters: bool = True,
        finalizers: Collection[Finalizer] = (),
        now: Callable[[], float],
    ) -> None:
        self._controller = controller
        self._filters = filters
        self._strategy = strategy
        self._default_filters = default_filters
        self._always = tuple(finalizer.name for finalizer in finalizers if finalizer.when is None)
        self._conditional = tuple(finalizer for finalizer in finalizers if finalizer.when is not None)
        self._now = now
        self._logged: dict[str, float] = {}
        self.errors = 0
        """How many times a filter raised."""

    def judge(self, change: Change) -> Verdict:
        """Whether this change is worth a run."""
        if change.origin is not None and change.origin in (EVERYONE, self._controller):
            return _BY_ECHO
        filters = self._filters
        if change.type is ChangeType.UPDATED:
            old = change.old
            assert old is not None
            if self._default_filters and not self._by_default(change.body, old):
                return _BY_DEFAULT
            if filters.generic is None and filters.update is None:
                return _ACCEPTED
            return self._ask((filters.generic, (change.body,)), (filters.update, (change.body, old)))
        if change.type is ChangeType.ADDED:
            if filters.generic is None and filters.add is None:
                return _ACCEPTED
            return self._ask((filters.generic, (change.body,)), (filters.add, (change.body,)))
        return self._ask(
            (filters.generic, (change.body,)),
            (filters.delete, (change.body,)),
            final_state_unknown=change.final_state_unknown,
        )

    def _by_default(self, new: Raw, old: Raw) -> bool:
        if self._strategy is ReconcileStrategy.BY_RESOURCE_VERSION:
            return accepts_update(new, old, strategy=self._strategy)
        wanted = self._always
        if self._conditional and not is_deleting(new):
            wanted += tuple(finalizer.name for finalizer in self._conditional if self.wants(finalizer, new))
        return accepts_update(new, old, strategy=self._strategy, finalizers=wanted)

    def wants(self, finalizer: Finalizer, raw: Raw) -> bool:
        """Whether a finalizer is meant for this object. A condition that raises means yes."""
        return finalizer.when is None or self._ask((finalizer.when, (raw,))).accepted

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
        self.errors += 1
        now = self._now()
        if now - self._logged.get(name, -_ERROR_LOG_INTERVAL) < _ERROR_LOG_INTERVAL:
            return
        self._logged[name] = now
        logger.error(
            "The filter %s of %s raised on %s, so the event is accepted. Filters must cope with absent fields.",
            name, self._controller, reference(raw), exc_info=error,
        )  # fmt: skip
