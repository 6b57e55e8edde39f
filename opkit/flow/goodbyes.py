"""
Goodbyes: the delete handler of one controller, and the objects that it is still to be told of.

Takes the deletions that the sieve let through; runs the delete handler for each, after the run of that object that is
under way (semantics: 9). An object that comes back is told no goodbye any more: it would undo what the next run does.
Never says that an object is deleted which may live on.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

from opkit.cluster.body import Raw, identity, metadata, reference
from opkit.cluster.resource import Resource
from opkit.errors import ApiError, NotFound
from opkit.flow.coordinator import Coordinator, Lane
from opkit.flow.queue import Added, InMemoryQueue
from opkit.flow.reconcile import Reconciler
from opkit.flow.report import Outcome, Report
from opkit.flow.requests import Request
from opkit.flow.results import Results
from opkit.flow.runtime import Runtime
from opkit.flow.store import Change
from opkit.triggers import DeleteReason, Trigger

logger = logging.getLogger("opkit.objects")

# Times that a failed delete handler is called again: it is told for information (semantics: 9).
_RETRIES = 2

# Times that it is asked whether an object lives on that a watch with a selector shows no more. Without an answer the
# handler waits; in the end it is told that nobody knows.
_DOUBTS = 5

_MODIFIED = frozenset({Trigger.MODIFIED})


@dataclasses.dataclass(slots=True, eq=False)
class _Goodbye:
    """The delete handler is still to be told of an object."""

    reason: DeleteReason
    doubts: int = 0


class Goodbyes:
    """What one controller's delete handler is still to be told."""

    def __init__(
        self,
        *,
        controller: str,
        resource: Callable[[], Resource],
        runtime: Runtime,
        coordinator: Coordinator,
        reconciler: Reconciler,
        results: Results,
        asks: bool,
        on_run: Callable[[Request, Report], None],
        on_told: Callable[[str], None],
    ) -> None:
        """`asks` tells that a deletion in the stream may only mean that the object has left the selector."""
        self._controller = controller
        self._resource = resource
        self._runtime = runtime
        self._coordinator = coordinator
        self._reconciler = reconciler
        self._results = results
        self._asks = asks
        self._on_run = on_run
        self._on_told = on_told
        self._pending: dict[str, _Goodbye] = {}
        # A lane of its own, which comes first: what it tells never mixes with requests of another object of the name.
        self._lane = Lane(f"{controller} (delete)", InMemoryQueue(), self._serve, urgent=True)
        coordinator.join(self._lane)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pending

    def say(self, change: Change) -> None:
        """Tell the delete handler of this deletion, when its turn has come."""
        reason = (
            DeleteReason.LEFT_SELECTOR if change.left
            else DeleteReason.UNKNOWN if change.final_state_unknown
            else DeleteReason.DELETED
        )  # fmt: skip
        self._pending[change.uid] = _Goodbye(reason)
        # No conflict strategy concerns it: this is no change of what is being run.
        request = Request(change.uid, self._runtime.clock.now(), _MODIFIED, body=change.body, afresh=True)
        if self._coordinator.add(self._lane, request) is Added.REFUSED:
            self._drop(change.uid)

    def cancel(self, uid: str) -> None:
        """The object is back."""
        if self._pending.pop(uid, None) is not None:
            self._lane.queue.cancel(uid)

    def drop_all(self) -> None:
        """Another process leads, and tells its own delete handlers."""
        for uid in list(self._pending):
            self._drop(uid)

    def _drop(self, uid: str) -> None:
        self._pending.pop(uid, None)
        self._on_told(uid)

    async def _serve(self, request: Request) -> Request | None:
        goodbye = self._pending.get(request.key)
        if goodbye is None:
            return None
        again: Request | None = None
        try:
            again = await self._tell(request, goodbye)
        finally:
            # Another one, or none, if the object came back meanwhile: what follows from this one is nothing then.
            is_current = self._pending.get(request.key) is goodbye
            if is_current and again is None:
                self._drop(request.key)
        return again if is_current else None

    async def _tell(self, request: Request, goodbye: _Goodbye) -> Request | None:
        """Tell the delete handler; the request that comes next, if it is to be told again."""
        if not await self._is_sure(request, goodbye):
            return self._again(request, goodbye.doubts, request.attempt)
        if self._pending.get(request.key) is not goodbye:
            return None
        report = await self._reconciler.run_delete(request, goodbye.reason)
        await self._results.send_last_patch(report, lives=goodbye.reason is DeleteReason.LEFT_SELECTOR)
        self._on_run(request, report)
        if report.outcome is not Outcome.FAILURE:
            return None
        if request.attempt <= _RETRIES:
            return self._again(request, request.attempt, request.attempt + 1)
        logger.warning("The delete handler failed for good, which nothing depends on: %s", report.why)
        return None

    def _again(self, request: Request, failures: int, attempt: int) -> Request:
        due = self._runtime.clock.now() + self._results.delay(failures)
        return dataclasses.replace(request, due=due, attempt=attempt, entry=None)

    async def _is_sure(self, request: Request, goodbye: _Goodbye) -> bool:
        """
        Find out why the object is gone for this controller; whether it could be told.

        The server tells a watch with a selector nothing but that: whether the object lives on has to be asked for.
        """
        body = request.body
        if goodbye.reason is DeleteReason.LEFT_SELECTOR or not self._asks or body is None:
            return True
        meta = metadata(body)
        try:
            raw = await self._runtime.writes.cluster.get(self._resource(), meta["name"], meta.get("namespace"))
        except ApiError as error:
            is_gone = isinstance(error, NotFound) and error.is_about_an_object
            return is_gone or self._gives_up(body, goodbye, error)
        if identity(raw) == request.key:
            goodbye.reason = DeleteReason.LEFT_SELECTOR
        return True

    def _gives_up(self, body: Raw, goodbye: _Goodbye, error: ApiError) -> bool:
        """The server could not be asked; whether that is the end of asking."""
        goodbye.doubts += 1
        if goodbye.doubts < _DOUBTS:
            return False
        goodbye.reason = DeleteReason.UNKNOWN
        logger.warning(
            "Whether %s is deleted, or has only left the selector of %s, can't be found out: %s",
            reference(body), self._controller, error,
        )  # fmt: skip
        return True
