"""
Served: one resource of the server, with the rooms of all its controllers.

Takes batches of streams and the beginnings and ends of own writes; hands the changes that follow from them to the
pipelines, and to those for whom its objects are secondary. One store for each watch; coordinator, journal and memos
are those of the kind. It may be served in another version, or in another way, later on: what is known of its objects,
and what waits for them, stays. Never opens a stream itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from opkit.cluster.body import Raw, identity, reference
from opkit.cluster.protocol import Batch, Mark, WatchScope
from opkit.cluster.resource import Resource
from opkit.cluster.selector import LabelSelector
from opkit.flow.finalizers import Finalizers
from opkit.flow.kind import Kind
from opkit.flow.leaving import Leaving
from opkit.flow.pipeline import Pipeline, Polls, Shared
from opkit.flow.requests import Request
from opkit.flow.runtime import Runtime
from opkit.flow.secondary import Dependents
from opkit.flow.store import Change, ChangeType, Origin, Store
from opkit.flow.view import View
from opkit.plan.plan import Controller, ResourcePlan
from opkit.settings import OnLeave, WatchStrategy
from opkit.triggers import Trigger

Selector = tuple[str | None, str | None]
"""The label selector and the field selector of a watch."""

EVERYTHING: Selector = (None, None)


class Served:
    """A resource that is served by the operator, as primary, as secondary, or as both."""

    def __init__(
        self, resource: Resource, plans: Iterable[ResourcePlan], runtime: Runtime, kind: Kind | None = None
    ) -> None:
        plans = list(plans)
        self.resource = resource
        self.plans = plans
        self._runtime = runtime
        self._kind = kind = kind or Kind(runtime)
        self.journal = kind.journal
        self.coordinator = kind.coordinator
        declared = [finalizer for plan in plans for finalizer in plan.finalizers]
        self.finalizers = Finalizers(resource, declared, runtime.writes, kind.cleanups)
        self._shared = Shared(
            resource, runtime, self.coordinator, self.finalizers, self.journal, kind.memos, kind.drop_memo
        )
        self.stores: dict[Selector, Store] = {}
        self.pipelines: list[Pipeline] = []
        self._readers: dict[Selector, list[Pipeline]] = {}
        self._dependents: list[Dependents] = []
        controllers = [controller for plan in plans for controller in plan.controllers]
        for controller in controllers:
            self._add_pipeline(controller, alone=len(controllers) == 1)
        # An object can only leave where every controller looks at a part of them.
        narrowed = all(controller.label_selector or controller.field_selector for controller in controllers)
        self._leaving = self._make_leaving() if declared and controllers and narrowed else None
        self._swept: set[str | None] = set()
        self._writing: dict[tuple[str | None, str], list[dict[Selector, Store]]] = {}
        kind.join(self)
        if not runtime.lead.is_held:
            self.suspend()

    def move(self, resource: Resource) -> None:
        """The resource is served in another way from now on. Runs that are under way go on as they began."""
        if self.resource != resource:
            self._shared.before = self.resource
        self.resource = self._shared.resource = resource
        self.finalizers.move(resource)
        if self._leaving is not None:
            self._leaving.move(resource)
        for pipeline in self.pipelines:
            pipeline.results.move(resource)
            pipeline.tools.move(resource)
        for one in self._dependents:
            one.resource = resource

    def _add_pipeline(self, controller: Controller, alone: bool) -> None:
        selector = self._watch_of(controller, alone)
        labels = LabelSelector.parse(controller.label_selector) if controller.label_selector else None
        view = View(
            labels,
            by_server=selector != EVERYTHING,
            fields=controller.field_selector is not None,
            keeps=self._keeps,
        )
        pipeline = Pipeline(controller, self._shared, self._store(selector), view)
        self.pipelines.append(pipeline)
        self._readers.setdefault(selector, []).append(pipeline)

    def _watch_of(self, controller: Controller, alone: bool) -> Selector:
        """The watch that serves a controller (semantics: 3)."""
        if controller.field_selector is not None:
            return (None, controller.field_selector)
        settings = self._runtime.settings
        shared = settings.watch.strategy is WatchStrategy.SHARED and not alone
        watched_on = settings.finalizers.on_leave == OnLeave.KEEP and bool(self.finalizers.declared)
        return EVERYTHING if shared or watched_on else (controller.label_selector, None)

    def _store(self, selector: Selector) -> Store:
        return self.stores.setdefault(selector, Store(self._runtime.settings.watch.keep_managed_fields))

    def _keeps(self, raw: Raw) -> bool:
        return self._runtime.settings.finalizers.on_leave == OnLeave.KEEP and bool(self.finalizers.of(raw))

    def _make_leaving(self) -> Leaving:
        return Leaving(
            resource=self.resource,
            runtime=self._runtime,
            finalizers=self.finalizers,
            coordinator=self.coordinator,
            is_wanted=lambda raw: any(pipeline.wants(raw) for pipeline in self.pipelines),
            finalize=self.pipelines[0].finalize,
        )

    def watch_everything(self) -> Store:
        """Also watch this resource without any selector, for those who need all of its objects."""
        return self._store(EVERYTHING)

    def add_dependents(self, dependents: Dependents) -> None:
        """Tell somebody, for whom its objects are secondary, what changes."""
        self._dependents.append(dependents)
        dependents.adopt()

    def scopes(self, namespaces: Iterable[str | None]) -> Iterator[WatchScope]:
        """The watches that serve this resource in these namespaces."""
        wanted = set(namespaces) if self.resource.namespaced else {None}
        for labels, fields in self.stores:
            for namespace in sorted(wanted, key=str):  # sets have another order in each process
                yield WatchScope(self.resource, namespace, labels, fields)

    # From the streams.

    def apply(self, scope: WatchScope, batch: Batch) -> None:
        """Take what a stream brought."""
        selector = (scope.label_selector, scope.field_selector)
        self._offer(selector, self.stores[selector].apply(scope.namespace, batch))
        if batch is Mark.END_LIST:
            for pipeline in self._readers.get(selector, ()):
                pipeline.offer_lost()

    def listed(self, scope: WatchScope) -> None:
        """A scope has been listed completely."""
        if self._leaving is not None and scope.namespace not in self._swept:
            self._swept.add(scope.namespace)
            self._leaving.sweep(scope.namespace)

    def drop(self, scope: WatchScope) -> None:
        """A scope is not served any more: its objects count as deleted."""
        selector = (scope.label_selector, scope.field_selector)
        self._offer(selector, self.stores[selector].drop(scope.namespace))

    def _offer(self, selector: Selector, changes: list[Change]) -> None:
        readers = self._readers.get(selector, ())
        dependents = self._dependents if selector == EVERYTHING else ()
        for change in changes:
            for pipeline in readers:
                pipeline.offer(change)
            for one in dependents:
                one.offer(change)
            if readers and self._leaving is not None and change.type is not ChangeType.ADDED:
                self._see_leaving(change, readers)
            if change.type is ChangeType.DELETED:
                self._kind.forget(change.uid, reference(change.body))

    def _see_leaving(self, change: Change, readers: Iterable[Pipeline]) -> None:
        """Notice objects that may have left the last selector with our finalizers on them."""
        assert self._leaving is not None
        if change.type is ChangeType.DELETED:
            if any(pipeline.view.may_leave_unseen for pipeline in readers):
                self._leaving.note(change.body)
        elif not any(pipeline.wants(change.body) for pipeline in self.pipelines):
            self._leaving.note(change.body)

    def says_goodbye(self, uid: str) -> bool:
        """Whether a delete handler is still to be told of this object."""
        return any(pipeline.says_goodbye(uid) for pipeline in self.pipelines)

    # From own writes.

    def find(self, name: str, namespace: str | None) -> Raw | None:
        """The newest body of the object that has this name now."""
        for store in self.stores.values():
            if (raw := store.find(name, namespace)) is not None:
                return raw
        return None

    def views(self, name: str, namespace: str | None) -> Sequence[Raw]:
        """The newest body that has this name, as each stream shows it. They differ while one of them lags."""
        return [raw for store in self.stores.values() if (raw := store.find(name, namespace)) is not None]

    def begin_write(self, name: str, namespace: str | None) -> None:
        stores = dict(self.stores)  # a watch that is added during the write knows nothing of its beginning
        self._writing.setdefault((namespace, name), []).append(stores)
        for store in stores.values():
            store.begin_write(name, namespace)

    def end_write(
        self, name: str, namespace: str | None, answer: Raw | None, *, origin: Origin | None, created: bool
    ) -> None:
        begun = self._writing[namespace, name]
        for selector, store in begun.pop().items():
            self._offer(selector, store.end_write(name, namespace, answer, origin=origin, created=created))
        if not begun:
            self._writing.pop((namespace, name), None)

    def note_write(self, uid: str, verb: str, subresource: str | None, sent: bool, why: str) -> None:
        if any(uid in store for store in self.stores.values()):
            self.journal.note(uid, "write", verb, self.resource, subresource, sent, why)

    # From outside.

    def trigger(self, name: str, namespace: str | None, after: float, controller: str | None, trigger: Trigger) -> bool:
        """Ask for runs of the object that has this name now; whether any was accepted."""
        accepted = [
            pipeline.schedule_named(name, namespace, after, trigger)
            for pipeline in self.pipelines
            if controller in (None, pipeline.name)
        ]
        return any(accepted)

    def add_poll(self, poll: Polls) -> None:
        """Let a poll know when objects come to be known, and when they were run."""
        self._shared.polls.append(poll)

    def remove_poll(self, poll: Polls) -> None:
        """It is not called any more."""
        self._shared.polls.remove(poll)

    def explain(self, name: str, namespace: str | None) -> list[dict[str, Any]]:
        """The last decisions about the object that has this name, or had it last."""
        namespace = namespace if self.resource.namespaced else None
        raw = self.find(name, namespace)
        if raw is not None:
            return self.journal.explain(identity(raw))
        return self.journal.explain_gone(f"{namespace}/{name}" if namespace else name)

    def suspend(self) -> None:
        """Another process leads: nothing is run any more."""
        self.coordinator.suspend()
        for pipeline in self.pipelines:
            pipeline.stand_by()

    def resume(self) -> None:
        """This process leads: everything that is known is run, and what has left meanwhile is let go of."""
        self.coordinator.resume()
        self.reconcile_all()
        if self._leaving is not None:
            for namespace in self._swept:
                self._leaving.sweep(namespace)

    def reconcile_all(self) -> None:
        """Ask for runs of everything that is known."""
        for pipeline in self.pipelines:
            for uid in pipeline.store:
                pipeline.schedule(uid, 0.0, Trigger.ADDED)

    def name_of(self, uid: str) -> str:
        """An object's name for people; the UID if it is not known any more."""
        for store in self.stores.values():
            if (raw := store.get(uid)) is not None:
                return reference(raw)
        return uid

    def waiting(self) -> Iterator[tuple[Pipeline, Request]]:
        """All requests that wait, with the pipeline that they wait for."""
        for pipeline in self.pipelines:
            for request in pipeline.lane.queue.waiting():
                yield pipeline, request

    def failing(self) -> dict[str, str]:
        """Objects (UID) whose last run failed, with the message."""
        return {uid: why for pipeline in self.pipelines for uid, why in pipeline.results.failing.items()}
