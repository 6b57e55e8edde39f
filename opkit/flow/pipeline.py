"""
A pipeline: the rooms of one controller, connected.

    store --change--> sieve --request--> lane (queue, coordinator) --> reconcile --report--> results --request--> lane

Takes changes of its store; owns the controller's sieve, queue, reconciler and results. The delete handler has a
lane of its own, which goes first: what it is told never mixes with requests of another object of the name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable

from opkit.cluster.body import Raw, identity, is_deleting, metadata
from opkit.cluster.resource import Resource
from opkit.cluster.selector import FieldSelector
from opkit.errors import ApiError
from opkit.flow.coordinator import Coordinator, Lane
from opkit.flow.finalizers import Finalizers
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
from opkit.plan.plan import Controller
from opkit.settings import QueueStrategy
from opkit.triggers import DeleteReason, Trigger

# Times that a failed delete handler is called again: it is told for information (semantics: 9).
_DELETE_RETRIES = 2

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
    before: Resource | None = None
    """The version that it was served in before it moved to the one that it is served in now."""


class Pipeline:
    """One controller at work."""

    def __init__(self, controller: Controller, shared: Shared, store: Store, view: View) -> None:
        self.name = controller.name
        self.logger = logger
        self.controller = controller
        self.store = store
        self._shared = shared
        self._runtime = runtime = shared.runtime
        settings = runtime.settings
        self.identity = f"{controller.name}@{shared.resource}"
        self.view = view
        self.tools = HandlerTools(
            controller=self.name,
            identity=self.identity,
            resource=shared.resource,
            runtime=runtime,
            memos=shared.memos,
            schedule=self.schedule,
            schedule_named=self.schedule_named,
        )
        self.sieve = Sieve(
            controller=self.identity,
            filters=controller.filters,
            strategy=controller.strategy or settings.reconcile.strategy,
            default_filters=controller.default_filters,
            finalizers=shared.finalizers.declared,
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
            now=runtime.clock.now,
            random=runtime.random,
        )
        self._tells_refusals = runtime.onlooker.wants("on_refusal")
        self._reconciler = self._make_reconciler()
        self._loops = LoopDetector(runtime.clock.now)
        self.lane = Lane(self.name, _make_queue(settings.queue.strategy), self._serve)
        self._goodbyes = Lane(f"{self.name} (delete)", InMemoryQueue(), self._serve_delete, urgent=True)
        self._reasons: dict[str, DeleteReason] = {}
        if controller.delete is not None:
            shared.coordinator.join(self._goodbyes)
        shared.coordinator.join(self.lane)

    def _make_reconciler(self) -> Reconciler:
        controller, settings = self.controller, self._runtime.settings
        return Reconciler(
            steps=Steps(
                reconcile=controller.reconcile,
                delete=controller.delete,
                timeout=controller.timeout if controller.timeout is not None else settings.reconcile.timeout,
                auto_attach=settings.finalizers.auto_attach,
                auto_detach=settings.finalizers.auto_detach,
            ),
            finalizers=self._shared.finalizers,
            wants=self.sieve.wants,
            read=self.store.get,
            matches=self.view.matches,
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
        verdict = self.sieve.judge(seen)
        self._shared.journal.note(
            seen.uid, "event", seen.type, self.name, verdict.accepted, verdict.by or "every filter"
        )
        if seen.type is ChangeType.DELETED:
            self._end(seen)
        if not verdict.accepted:
            if self._tells_refusals:
                self.refuse(
                    Refusal(_WIRE[seen.type], verdict.by, self.name, self._shared.resource, seen.uid, seen.body)
                )
        elif seen.type is ChangeType.DELETED:
            self._say_goodbye(seen)
        else:
            self._accept(seen)

    def refuse(self, refusal: Refusal) -> None:
        """Tell that a change was refused."""
        self._runtime.onlooker.on_refusal(refusal)

    def _accept(self, change: Change) -> None:
        triggers = _ADDED if change.type is ChangeType.ADDED else _MODIFIED
        if is_deleting(change.body):
            triggers |= _FINALIZER
            if change.old is None or not is_deleting(change.old):
                # The start of a deletion is not held up by the backoff of what came before it.
                self.lane.queue.cancel(change.uid)
        if change.old is not None:
            self._watch_for_loops(change, change.old)
        generation = metadata(change.body).get("generation")
        request = Request(change.uid, self._runtime.clock.now(), triggers, generation=generation, body=change.body)
        if not self.add(request):
            self.store.unsee(change)

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
        self._loops.forget(change.uid)

    def says_goodbye(self, uid: str) -> bool:
        """Whether the delete handler is still to be told of this object."""
        return uid in self._reasons

    def _say_goodbye(self, change: Change) -> None:
        if self.controller.delete is None:
            return
        self._reasons[change.uid] = (
            DeleteReason.LEFT_SELECTOR if change.left
            else DeleteReason.UNKNOWN if change.final_state_unknown
            else DeleteReason.DELETED
        )  # fmt: skip
        request = Request(change.uid, self._runtime.clock.now(), _MODIFIED, body=change.body)
        self._shared.coordinator.add(self._goodbyes, request)

    async def _serve_delete(self, request: Request) -> Request | None:
        report = await self._reconciler.run_delete(request, await self._reason(request))
        self._note_run(request, report)
        if report.outcome is Outcome.FAILURE and request.attempt <= _DELETE_RETRIES:
            delay = self.results_delay(request.attempt)
            return dataclasses.replace(
                request, due=self._runtime.clock.now() + delay, attempt=request.attempt + 1, entry=None
            )
        if report.outcome is Outcome.FAILURE:
            logger.warning("The delete handler failed for good, which nothing depends on: %s", report.why)
        del self._reasons[request.key]
        if request.key not in self.store:
            self._shared.memos.pop(request.key, None)
        return None

    async def _reason(self, request: Request) -> DeleteReason:
        """
        Why the object is gone for this controller.

        The server tells a watch with a selector nothing but that: whether the object lives on has to be asked for.
        """
        reason = self._reasons[request.key]
        if reason is DeleteReason.LEFT_SELECTOR or not self.view.may_leave_unseen or request.body is None:
            return reason
        meta = metadata(request.body)
        try:
            raw = await self._runtime.writes.cluster.get(self._shared.resource, meta["name"], meta.get("namespace"))
        except ApiError:
            return reason
        if identity(raw) == request.key:
            self._reasons[request.key] = DeleteReason.LEFT_SELECTOR
        return self._reasons[request.key]

    def results_delay(self, failures: int) -> float:
        """The retry policy's delay after so many failures."""
        retry = self.controller.retry or self._runtime.settings.retry
        return retry.delay(failures, self._runtime.random.random())

    # Runs.

    async def _serve(self, request: Request) -> Request | None:
        if request.triggers == _RESYNC:
            request.attempt, request.conflicts = 1, 0  # what was given up is tried afresh
        report = await self._reconciler.run(request)
        again = await self.results.settle(request, report)
        self._note_run(request, report)
        if request.key not in self.store:
            self.results.forget(request.key)
            return None
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
            resource=self._resource_of(raw),
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


_WIRE = {ChangeType.ADDED: "ADDED", ChangeType.UPDATED: "MODIFIED", ChangeType.DELETED: "DELETED"}


def _make_queue(strategy: object) -> Queue:
    if isinstance(strategy, QueueStrategy):
        return InMemoryQueue()
    return strategy  # type: ignore[return-value]  # checked when the plan was compiled: it has the queue's methods
