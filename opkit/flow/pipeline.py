"""
A pipeline: the rooms of one controller, connected.

    store --change--> sieve --request--> lane (queue, coordinator) --> reconcile --report--> results --request--> lane

Takes changes of its store; owns the controller's sieve, queue, reconciler and results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Protocol

from opkit.cluster.body import Raw, identity, is_deleting, metadata
from opkit.cluster.resource import Resource
from opkit.cluster.selector import FieldSelector
from opkit.flow.coordinator import Coordinator, Lane
from opkit.flow.finalizers import Finalizers
from opkit.flow.goodbyes import Goodbyes
from opkit.flow.invocation import Memo, Run
from opkit.flow.journal import Journal
from opkit.flow.loops import LoopDetector
from opkit.flow.onlooker import Refusal
from opkit.flow.queue import Added, InMemoryQueue, Queue
from opkit.flow.reconcile import Reconciler, Steps
from opkit.flow.report import Outcome, Report
from opkit.flow.requests import Request
from opkit.flow.results import Policy, Results, logger
from opkit.flow.runtime import Runtime
from opkit.flow.sieve import Sieve
from opkit.flow.store import Change, ChangeType, Store
from opkit.flow.tools import HandlerTools
from opkit.flow.view import View
from opkit.flow.writes import field_manager
from opkit.plan.plan import Controller
from opkit.settings import QueueStrategy
from opkit.triggers import DeleteReason, Trigger

# A change that comes so soon after a run of its object is taken for the run's own doing.
_OWN_DOING = 1.0

_ADDED = frozenset({Trigger.ADDED})
_MODIFIED = frozenset({Trigger.MODIFIED})
_FINALIZER = frozenset({Trigger.FINALIZER})
_RESYNC = frozenset({Trigger.RESYNC})


@dataclasses.dataclass(slots=True, eq=False)
class Shared:
    """What the pipelines of one resource share."""

    resource: Resource
    runtime: Runtime
    coordinator: Coordinator
    finalizers: Finalizers
    journal: Journal
    memos: dict[str, Memo]
    drop_memo: Callable[[str], None]
    """Forgets the author's values about an object that nobody knows any more."""
    pipelines: list[Pipeline] = dataclasses.field(default_factory=list)
    polls: list[Polls] = dataclasses.field(default_factory=list)
    before: Resource | None = None
    """The version that it was served in before it moved to the one that it is served in now."""


class Polls(Protocol):
    """Who wants to know when objects come to be known, and when they were run."""

    def note_known(self, uid: str) -> None: ...

    def note_run(self, uid: str) -> None: ...


class Pipeline:
    """One controller at work."""

    def __init__(self, controller: Controller, shared: Shared, store: Store, view: View) -> None:
        self.name = controller.name
        self.logger = logger
        self.controller = controller
        self.store = store
        self._shared = shared
        shared.pipelines.append(self)
        self._runtime = runtime = shared.runtime
        settings = runtime.settings
        self.identity = f"{controller.name}@{shared.resource}"
        self.manager = field_manager(settings.name, controller.name)
        self.view = view
        self.tools = HandlerTools(
            controller=self.name,
            identity=self.identity,
            manager=self.manager,
            resource=shared.resource,
            runtime=runtime,
            memos=shared.memos,
            schedule=self.schedule,
            schedule_named=self.schedule_named,
            is_wanted=self._is_wanted,
        )
        self.sieve = Sieve(
            controller=self.identity,
            filters=controller.filters,
            strategy=controller.strategy or settings.reconcile.strategy,
            default_filters=controller.default_filters,
            finalizers=shared.finalizers.declared,
            when=controller.when,
            now=runtime.clock.now,
        )
        self.results = Results(
            controller=self.identity,
            resource=shared.resource,
            policy=Policy(
                retry=controller.retry or settings.retry,
                resync=controller.resync if controller.resync_set else settings.reconcile.resync,
            ),
            writes=runtime.writes,
            manager=self.manager,
            now=runtime.clock.now,
            random=runtime.random,
        )
        self._tells_refusals = runtime.onlooker.wants("on_refusal")
        self._reconciler = self._make_reconciler()
        self._loops = LoopDetector(runtime.clock.now)
        self.lane = Lane(self.name, _make_queue(settings.queue.strategy), self._serve)
        self._goodbyes = self._make_goodbyes() if controller.delete is not None else None
        shared.coordinator.join(self.lane)

    def _make_goodbyes(self) -> Goodbyes:
        return Goodbyes(
            controller=self.name,
            resource=lambda: self._shared.resource,
            runtime=self._runtime,
            coordinator=self._shared.coordinator,
            reconciler=self._reconciler,
            results=self.results,
            asks=self.view.may_leave_unseen,
            on_run=self._note_run,
            on_told=self._shared.drop_memo,
        )

    def _make_reconciler(self) -> Reconciler:
        controller, settings = self.controller, self._runtime.settings
        return Reconciler(
            steps=Steps(
                reconcile=controller.reconcile,
                delete=controller.delete,
                timeout=controller.timeout if controller.timeout_set else settings.reconcile.timeout,
                manager=self.manager,
                auto_attach=settings.finalizers.auto_attach,
                auto_detach=settings.finalizers.auto_detach,
            ),
            finalizers=self._shared.finalizers,
            wants=self.sieve.wants,
            read=self.store.get,
            matches=self.view.matches,
            admits=self.sieve.admits if controller.when is not None else None,
            is_wanted=self._is_wanted,
            make_run=self._make_run,
            send_patch=self.results.send_patch,
            invoker=self._runtime.invoker,
            clock=self._runtime.clock,
            interrupted=self._shared.coordinator.is_cancelling,
            on_call=self._runtime.onlooker.on_call if self._runtime.onlooker.wants("on_call") else None,
        )

    # Changes come in.

    def offer(self, change: Change) -> None:
        """Judge a change of the store, and act on it: a request, a goodbye, or nothing."""
        seen = self.view.of(change)
        if seen is None:
            return
        if seen.type is ChangeType.ADDED:
            self._welcome(seen.uid)
        verdict = self.sieve.judge(seen)
        self._shared.journal.note(
            seen.uid, "event", seen.type, self.name, verdict.accepted, verdict.by or "every filter"
        )
        if seen.type is ChangeType.DELETED:
            self._end(seen)
        if not verdict.accepted:
            if self._tells_refusals:
                self._tell_refusal(_WIRE[seen.type], verdict.by, seen.uid, seen.body)
        elif seen.type is not ChangeType.DELETED:
            self._accept(seen)
        elif self._goodbyes is not None:
            self._goodbyes.say(seen)

    def _welcome(self, uid: str) -> None:
        """The object is (back) here."""
        if self._goodbyes is not None:
            self._goodbyes.cancel(uid)
        for poll in self._shared.polls:
            poll.note_known(uid)

    def offer_lost(self) -> None:
        """A complete list has been seen: what was dropped on its way to the queue comes back with it."""
        for uid in self.sieve.lost():
            if (raw := self.store.get(uid)) is not None:
                self.offer(Change(ChangeType.UPDATED, uid, raw, raw))

    def _tell_refusal(self, type_: str, by: str, uid: str, body: Raw) -> None:
        self.refuse(Refusal(type_, by, self.name, self._shared.resource, uid, body))

    def refuse(self, refusal: Refusal) -> None:
        """Tell that a change was refused."""
        self._runtime.onlooker.on_refusal(refusal)

    def _accept(self, change: Change) -> None:
        triggers = _ADDED if change.type is ChangeType.ADDED else _MODIFIED
        begins_deletion = False
        if is_deleting(change.body):
            triggers |= _FINALIZER
            # The start of a deletion is not held up by the backoff of what came before it.
            begins_deletion = change.old is None or not is_deleting(change.old)
        if change.old is not None:
            self._watch_for_loops(change, change.old)
        request = Request(
            change.uid, self._runtime.clock.now(), triggers,
            generation=metadata(change.body).get("generation"), body=change.body, afresh=begins_deletion,
        )  # fmt: skip
        if not self.add(request):
            self.sieve.dropped(change)

    def add(self, request: Request) -> bool:
        """Hand a request to the coordinator; whether it was accepted."""
        added = self._shared.coordinator.add(self.lane, request)
        now = self._runtime.clock.now()
        self._shared.journal.note(
            request.key, "request", self.name, request.triggers,
            added or "discarded", max(0.0, request.due - now), request.attempt,
        )  # fmt: skip
        return added is not None and added is not Added.REFUSED

    def _watch_for_loops(self, change: Change, old: Raw) -> None:
        ended = self.results.last_run.get(change.uid)
        recent = ended is not None and self._runtime.clock.now() - ended < _OWN_DOING
        if not recent and not self._shared.coordinator.is_running(change.uid):
            return
        paths = self._loops.note(change.uid, change.body, old)
        if paths is not None:
            message = (
                f"{self.name} seems to wake itself up: it runs again and again after its own writes, though the spec "
                f"has not changed. What keeps changing: {', '.join(paths) or 'nothing but the version'}"
            )
            logger.warning(message, extra={"k8s_ref": {"name": metadata(change.body).get("name"),
                           "namespace": metadata(change.body).get("namespace")}})  # fmt: skip
            self._shared.journal.note(change.uid, "warning", message)

    # Ends.

    def _end(self, change: Change) -> None:
        """Clean up after an object that is gone, whatever the filters say about telling the author."""
        self.lane.queue.cancel(change.uid)
        self.results.forget(change.uid)
        self.sieve.forget(change.uid)
        self._loops.forget(change.uid)

    def says_goodbye(self, uid: str) -> bool:
        """Whether the delete handler is still to be told of this object."""
        return self._goodbyes is not None and uid in self._goodbyes

    def stand_by(self) -> None:
        """Another process leads, and tells its own delete handlers."""
        if self._goodbyes is not None:
            self._goodbyes.drop_all()

    # Runs.

    async def _serve(self, request: Request) -> Request | None:
        if request.triggers == _RESYNC:
            request.attempt, request.conflicts = 1, 0  # what was given up is tried afresh
        self.sieve.seen(request.key)
        report = await self._reconciler.run(request)
        again = await self.results.settle(request, report)
        self._note_run(request, report)
        if report.refused_by and self._tells_refusals:
            body = self.store.get(request.key) or request.body or {}
            self._tell_refusal(_reason_of(request), report.refused_by, request.key, body)
        if request.key not in self.store:
            self.results.forget(request.key)
            return None
        if report.outcome is not Outcome.SKIPPED:
            for poll in self._shared.polls:
                poll.note_run(request.key)
        if again is not None:
            self._shared.journal.note(
                request.key, "next", self.name, again.due - self._runtime.clock.now(), again.triggers, again.attempt
            )
        return again

    def _note_run(self, request: Request, report: Report) -> None:
        if report.outcome is Outcome.SKIPPED and not report.handler:
            self._shared.journal.note(request.key, "dropped", self.name, report.why)
            return
        self._shared.journal.note(
            request.key, "run", self.name, report.handler, request.attempt, request.triggers,
            report.outcome, report.duration, report.why,
        )  # fmt: skip

    def _make_run(self, raw: Raw, request: Request, reason: DeleteReason | None) -> Run:
        return Run(
            raw=raw,
            resource=self._shared.resource if self._shared.before is None else self._resource_of(raw),
            controller=self.name,
            settings=self._runtime.settings,
            attempt=request.attempt,
            trigger=request.triggers,
            tools=self.tools,
            reason=reason,
        )

    def _resource_of(self, raw: Raw) -> Resource:
        """The resource that shows a body so: while it moves, the store may still show the old version."""
        resource, before = self._shared.resource, self._shared.before
        return before if before is not None and raw.get("apiVersion") == before.api_version else resource

    def wants(self, raw: Raw) -> bool:
        """Whether this controller is for an object that may not be in its store."""
        controller = self.controller
        if controller.field_selector and not FieldSelector.parse(controller.field_selector).matches(raw):
            return False
        return self.view.matches(raw)

    def _is_wanted(self, raw: Raw) -> bool:
        """Whether any controller of the resource is for this object."""
        return any(pipeline.wants(raw) for pipeline in self._shared.pipelines)

    def finalize(self, raw: Raw, request: Request) -> Awaitable[Report]:
        """Run the finalizers that stand on an object, and take them off."""
        return self._reconciler.finalize(raw, request)

    def schedule(self, uid: str, after: float, trigger: Trigger) -> bool:
        """Ask for a run of a known object; `False` if it is not known or the queue is closed."""
        raw = self.store.get(uid)
        if raw is None or not self.view.matches(raw):
            return False
        due = self._runtime.clock.now() + after
        generation = metadata(raw).get("generation")
        return self.add(Request(uid, due, frozenset({trigger}), generation=generation, body=raw))

    def schedule_named(self, name: str, namespace: str | None, after: float, trigger: Trigger) -> bool:
        """Ask for a run of the object that has this name now."""
        raw = self.store.find(name, namespace if self._shared.resource.namespaced else None)
        return raw is not None and self.schedule(identity(raw), after, trigger)


def _reason_of(request: Request) -> str:
    """Why a run was asked for, in one word: that of the event, if there was one."""
    for trigger in (Trigger.ADDED, Trigger.MODIFIED):
        if trigger in request.triggers:
            return str(trigger)
    return min(map(str, request.triggers))


_WIRE = {ChangeType.ADDED: "ADDED", ChangeType.UPDATED: "MODIFIED", ChangeType.DELETED: "DELETED"}


def _make_queue(strategy: object) -> Queue:
    if isinstance(strategy, QueueStrategy):
        return InMemoryQueue()
    return strategy  # type: ignore[return-value]  # checked when the plan was compiled: it has the queue's methods
