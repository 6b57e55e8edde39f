"""
Leaving: objects that no controller's selector matches any more, and our finalizers on them.

Such an object must not become undeletable (semantics: 8). Takes the UIDs and last bodies of objects that seem to have
left; asks the server what has become of them, and takes our finalizers off, after running them if the settings say
so. Also finds, once at the start, those that left while nobody was watching.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from opkit.cluster.body import Raw, identity, reference
from opkit.cluster.resource import Resource
from opkit.errors import ApiError
from opkit.flow.coordinator import Coordinator, Lane
from opkit.flow.finalizers import Finalizers
from opkit.flow.queue import InMemoryQueue
from opkit.flow.report import Outcome, Report
from opkit.flow.requests import Request
from opkit.flow.runtime import Runtime
from opkit.flow.writes import Gone
from opkit.settings import OnLeave
from opkit.triggers import Trigger

logger = logging.getLogger("opkit.finalizers")

_FINALIZER = frozenset({Trigger.FINALIZER})
_SWEEP = "sweep "


class Leaving:
    """The finalizers of one resource on objects that have left."""

    def __init__(
        self,
        *,
        resource: Resource,
        runtime: Runtime,
        finalizers: Finalizers,
        coordinator: Coordinator,
        is_wanted: Callable[[Raw], bool],
        finalize: Callable[[Raw, Request], Awaitable[Report]],
    ) -> None:
        self._resource = resource
        self._runtime = runtime
        self._finalizers = finalizers
        self._is_wanted = is_wanted
        self._finalize = finalize
        self._policy = runtime.settings.finalizers.on_leave
        self._coordinator = coordinator
        # Urgent, since it is about the same objects as goodbyes: nothing of theirs is waited for by others.
        self._lane = Lane(f"{resource.plural} (leaving)", InMemoryQueue(), self._serve, urgent=True)
        coordinator.join(self._lane)

    def move(self, resource: Resource) -> None:
        """The resource is served in another way from now on."""
        self._resource = resource

    def note(self, body: Raw) -> None:
        """An object seems to have left the selector that showed it."""
        if self._finalizers.of(body) and self._policy is not OnLeave.KEEP:
            self._add(identity(body), body, 0.0)

    def sweep(self, namespace: str | None) -> None:
        """Look once for objects that left while nobody was watching, in this namespace or everywhere."""
        if self._finalizers.declared and self._policy is not OnLeave.KEEP:
            self._add(f"{_SWEEP}{namespace or ''}", {}, 0.0)

    def _add(self, key: str, body: Raw, after: float, attempt: int = 1) -> None:
        due = self._runtime.clock.now() + after
        self._coordinator.add(self._lane, Request(key, due, _FINALIZER, attempt=attempt, body=body))

    async def _serve(self, request: Request) -> Request | None:
        try:
            if request.key.startswith(_SWEEP):
                await self._look_around(request.key.removeprefix(_SWEEP) or None)
                return None
            done = await self._let_go(request)
        except ApiError as error:
            logger.warning("What has left %s can't be cleaned up yet: %s", self._resource, error)
            done = False
        return None if done else self._again(request)

    def _again(self, request: Request) -> Request:
        retry = self._runtime.settings.retry
        delay = retry.delay(request.attempt, self._runtime.random.random())
        due = self._runtime.clock.now() + delay
        return Request(request.key, due, _FINALIZER, attempt=request.attempt + 1, body=request.body)

    async def _let_go(self, request: Request) -> bool:
        """Take our finalizers off an object, if it is still there and nobody wants it; whether that is done."""
        assert request.body is not None
        try:
            raw = await self._runtime.writes.fresh(self._resource, request.body)
        except Gone:
            return True
        if self._is_wanted(raw):
            return True
        if self._policy is OnLeave.FINALIZE:
            report = await self._finalize(raw, request)
            return report.outcome in (Outcome.SUCCESS, Outcome.SKIPPED)
        logger.info("%s is not selected any more: its finalizers are taken off without running them.", reference(raw))
        await self._finalizers.strip(raw, self._runtime.settings.name)
        return True

    async def _look_around(self, namespace: str | None) -> None:
        for raw in await self._runtime.writes.cluster.list(self._resource, namespace):
            if self._finalizers.of(raw) and not self._is_wanted(raw):
                self._add(identity(raw), raw, 0.0)
