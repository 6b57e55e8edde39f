"""
What a handler takes from its controller: the API, other runs, Events, its secondary objects, the author's memo.

Made for a run when the handler's arguments ask for it (`invocation`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opkit.cluster.body import Body, Raw, identity
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.flow.access import ClusterAccess, Handled
from opkit.flow.events import check as check_event
from opkit.flow.invocation import Memo, PostEvent, Requeue, Run
from opkit.flow.runtime import Runtime
from opkit.results import seconds
from opkit.triggers import Trigger

if TYPE_CHECKING:
    from opkit.flow.secondary import Dependents

# (uid, seconds, trigger) and (name, namespace, seconds, trigger) -> whether a run was asked for.
Schedule = Callable[[str, float, Trigger], bool]
ScheduleNamed = Callable[[str, str | None, float, Trigger], bool]


class HandlerTools:
    """The tools of one controller's handlers."""

    def __init__(
        self,
        *,
        controller: str,
        identity: str,
        manager: str,
        resource: Resource,
        runtime: Runtime,
        memos: dict[str, Memo],
        schedule: Schedule,
        schedule_named: ScheduleNamed,
        is_wanted: Callable[[Raw], bool],
    ) -> None:
        self._controller = controller
        self._identity = identity
        self._manager = manager
        self._resource = resource
        self._runtime = runtime
        self._memos = memos
        self._schedule = schedule
        self._schedule_named = schedule_named
        self._is_wanted = is_wanted
        self._dependents: list[Dependents] = []

    def memo(self, run: Run) -> Memo:
        """The author's own values about the object."""
        uid = identity(run.raw)
        memo = self._memos.get(uid)
        if memo is None:
            memo = self._memos[uid] = Memo(self._runtime.memo)
        return memo

    def access(self, run: Run) -> ClusterAccess:
        """The API for a handler."""
        return ClusterAccess(
            self._runtime.writes,
            manager=self._manager,
            namespace=run.namespace,
            origin=(self._identity, identity(run.raw)),
            handled=Handled(self._resource, run.raw, self._is_wanted),
        )

    def move(self, resource: Resource) -> None:
        """The primary resource is served in another way from now on."""
        self._resource = resource

    def attach(self, dependents: Dependents) -> None:
        """Let handlers ask for these secondary objects."""
        self._dependents.append(dependents)

    def secondary(self, run: Run) -> Callable[[str], list[Body]]:
        """The way for a handler to its secondary objects."""

        def secondary(resource: str) -> list[Body]:
            selector = ResourceSelector.parse(resource)
            found = [one for one in self._dependents if selector.select([one.resource])]
            if not self._dependents:
                raise LookupError(f"{self._controller} watches no secondary resources; name them in owns=[...]")
            if not found:
                watched = ", ".join(sorted(str(one.resource.plural) for one in self._dependents))
                raise LookupError(f"{self._controller} does not watch {resource!r} as secondary; it watches: {watched}")
            bodies = {str(body.uid): body for one in found for body in self._runtime.in_loop(one.of, run.raw)}
            return list(bodies.values())

        return secondary

    def requeue(self, run: Run) -> Requeue:
        """The way for a handler to ask for another run."""

        def requeue(after: float = 0, name: str | None = None, namespace: str | None = None) -> bool:
            wait = seconds(after, "requeue(after=...)") or 0.0
            if name is None:
                return self._runtime.in_loop(self._schedule, identity(run.raw), wait, Trigger.REQUEUE)
            where = namespace if namespace is not None else run.namespace
            return self._runtime.in_loop(self._schedule_named, name, where, wait, Trigger.REQUEUE)

        return requeue

    def post(self, run: Run) -> PostEvent:
        """The way for a handler to post an Event about its object."""

        def event(reason: str, message: str, type: str = "Normal") -> None:
            check_event(reason, type)
            self._runtime.in_loop(self._runtime.events.post, run.raw, reason, message, type)

        return event


def object_arguments(raw: Raw, resource: Resource) -> dict[str, Any]:
    """What functions that are called for an object, without a run, may ask for about it."""
    body = Body.of(raw)
    return {
        "body": body, "spec": body.spec, "meta": body.metadata, "status": body.status, "name": body.name,
        "namespace": body.namespace, "uid": body.uid, "labels": body.labels, "annotations": body.annotations,
        "resource": resource,
    }  # fmt: skip
