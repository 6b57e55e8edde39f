"""
The fake event injector: handlers, unmodified, in the whole runtime, over a faithful store, in virtual time.

    def test_scales_up(event_injector):
        op = event_injector("handlers.py")
        web = op.add("webapps", "shop", spec={"replicas": 2})
        op.drain()
        assert op.get("deployments", "shop")["spec"]["replicas"] == 2

Writes by someone else go to the store, and reach the operator as watch events when time moves: `drain`, `advance` and
`settle` move it. No sockets, no sleeping; the same seed gives the same history.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Literal

from opkit.cluster.body import Body, Raw, clone, metadata
from opkit.cluster.resource import Resource
from opkit.declaration.registry import Registry
from opkit.flow.onlooker import Write
from opkit.flow.report import Call
from opkit.settings import Settings
from opkit.simulation.deletion import DeleteOptions
from opkit.simulation.faults import Failure, FaultPlan, StreamFailure
from opkit.simulation.store import Store
from opkit.simulation.watchers import Selection
from opkit.simulation.writes import Options
from opkit.testing.convergence import History, check, remembered
from opkit.testing.definitions import define
from opkit.testing.failures import NotSettled, verify
from opkit.testing.process import Process
from opkit.testing.recorder import Gate, Recorder
from opkit.testing.references import (
    Handle,
    Reference,
    ResourceName,
    Target,
    UnknownResource,
    endpoint_of,
    find_resource,
    resolve,
)
from opkit.testing.sources import registry_of
from opkit.testing.virtual import VirtualLoop, no_real_sleep
from opkit.triggers import Trigger

START = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
"""The time of day at which tests begin, unless they say otherwise."""

_OUTSIDE = Options(manager="someone-else")
_RESYNC = frozenset({Trigger.RESYNC})

Handlers = str | Path | ModuleType | Registry | Sequence[str | Path]


@dataclasses.dataclass(frozen=True, slots=True)
class Scheduled:
    """A request that waits. `due_in` is in seconds; negative if it is overdue, because its object is being run."""

    uid: str
    due_in: float
    trigger: frozenset[Trigger]
    attempt: int
    controller: str


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """An event that did not become a request, and who decided that."""

    type: str
    by: str
    controller: str
    uid: str


class FakeEventInjector:
    """
    One operator under test.

    `handlers` are a path, a module or a registry; `settings` are as in production; `seed` picks the interleaving of
    what is due at the same moment (0 is the natural order) and all jitter; `start` is the time of day.

    `namespaces` are those that it serves (default: all). `clients` stand in for those of other libraries that handlers
    ask for by annotation: `{"kubernetes": mock}`.

    A context manager: at its end the operator is stopped, and whatever went wrong unnoticed is raised.
    """

    def __init__(
        self,
        handlers: Handlers,
        settings: Settings | None = None,
        seed: int = 0,
        start: datetime.datetime | None = None,
        *,
        namespaces: Sequence[str] = (),
        clients: Mapping[str, Any] | None = None,
    ) -> None:
        self.seed = seed
        self._registry, folders = registry_of(handlers)
        self._settings = settings or Settings()
        self._start = start or START
        self._namespaces = tuple(namespaces)
        self._clients = clients
        self._loop = VirtualLoop(seed)
        self._loop.set_exception_handler(self._on_loop_error)
        self._recorder = Recorder(self._loop.time)
        self.store = Store(self._wall, random.Random(seed))
        self._faults = FaultPlan()
        define(self.store, self._registry.compile(self._settings), folders)
        self.history = History()
        """What was done from outside so far."""
        self._process: Process | None = None
        self._errors: list[BaseException] = []
        self._told: list[BaseException] = []
        self._closed = False

    def _wall(self) -> datetime.datetime:
        return self._start + datetime.timedelta(seconds=self._loop.time())

    def _on_loop_error(self, _loop: object, context: dict[str, Any]) -> None:
        self._errors.append(context.get("exception") or RuntimeError(str(context.get("message"))))

    # Life.

    def __enter__(self) -> FakeEventInjector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            with contextlib.suppress(BaseException):  # the test's own error is what has to be seen
                self.close()

    def close(self) -> None:
        """
        Stop the operator. Raises what went wrong in the runtime unnoticed: a bug, a task that is left, a real sleep.
        """
        if self._closed:
            return
        self._closed = True
        leftovers: list[str] = []
        try:
            if self._process is not None and not self._process.has_ended:
                with self._running():
                    self._process.stop()
                    leftovers = self._process.leftovers()
                    self._process.kill()
        finally:
            self._loop.close()
        ended = self._process.error() if self._process is not None else None
        errors = [*self._errors, *self._loop.errors, *self._recorder.bugs, *([ended] if ended is not None else [])]
        verify([error for error in errors if error not in self._told], leftovers)

    @contextlib.contextmanager
    def _running(self) -> Iterator[Process]:
        """The operator, started if it is not, with real sleeps forbidden; raises what ended or broke it."""
        if self._process is None:
            self._process = self._new_process()
        with no_real_sleep(self._loop):
            yield self._process
        self._raise_errors()

    def _new_process(self) -> Process:
        return Process(
            loop=self._loop, store=self.store, faults=self._faults, registry=self._registry, settings=self._settings,
            recorder=self._recorder, seed=self.seed, start=self._start, namespaces=self._namespaces,
            clients=self._clients,
        )  # fmt: skip

    def _raise_errors(self) -> None:
        errors = [*self._loop.errors, *self._recorder.bugs]
        self._loop.errors.clear()
        self._recorder.bugs.clear()
        if self._process is not None and (ended := self._process.error()) is not None:
            errors.append(ended)
        errors = [error for error in errors if error not in self._told]
        self._told += errors[:1]
        verify(errors, ())

    @remembered
    def restart(self, kill: bool = False) -> None:
        """
        A new process over the same store: what was in memory is gone.

        The old one stops in order first, or, with `kill`, dies at once: nothing that it was about to do happens.
        """
        with self._running() as process:
            self._recorder.note("restart", "killed" if kill else "stopped in order")
            if kill:
                process.kill()
            else:
                process.stop()
            self._process = self._new_process()

    # Time.

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self._loop.time()

    @remembered
    def drain(self) -> None:
        """Run all that is due now, and all that follows from it at once."""
        with self._running():
            self._loop.run_now()

    @remembered
    def advance(self, seconds: float | datetime.timedelta) -> None:
        """Move the clock, and run all that becomes due on the way."""
        if isinstance(seconds, datetime.timedelta):
            seconds = seconds.total_seconds()
        with self._running():
            self._loop.run_until(self._loop.time() + seconds)

    @remembered
    def settle(self, within: float = 600) -> None:
        """
        Go on until nothing but resyncs is due.

        Raises `NotSettled`, which says who waits for what, if that takes more than `within` virtual seconds.
        """
        deadline = self._loop.time() + within
        with self._running() as process:
            self._loop.run_now()
            while self._is_busy(process):
                timer = self._loop.next_timer()
                if timer is None or timer > deadline:
                    raise NotSettled(self._who_waits(within, timer))
                self._loop.run_until(timer)
                self._raise_errors()

    def _is_busy(self, process: Process) -> bool:
        operator = process.operator
        statistics = operator.statistics()
        # Those that are open: a stream may have had failures long ago, and be a healthy one.
        open_streams = list(self._faults.streams())
        streaming = statistics.listed and len(open_streams) >= len(statistics.streams)
        silent = any(stream.is_silent for stream in open_streams)
        return (
            not streaming or silent or bool(statistics.running) or operator.next_due(ignoring=_RESYNC) is not None
        )

    def _who_waits(self, within: float, timer: float | None) -> str:
        running = [call for call in self._recorder.calls if call.outcome is None]
        lines = [f"{call.handler} of {call.namespace}/{call.name} has run since {call.at:g} s" for call in running]
        for one in self.scheduled():
            if one.trigger != _RESYNC:
                triggers = ", ".join(sorted(one.trigger))
                lines.append(f"{one.controller} of {self._name_of(one.uid)} is due in {one.due_in:g} s ({triggers})")
        if timer is None and running:
            lines.append("nothing can wake them any more; what waits: " + "; ".join(self._loop.waiting_tasks()))
        return f"not settled within {within:g} s of virtual time:\n  " + "\n  ".join(lines or ["a stream is down"])

    def _name_of(self, uid: str) -> str:
        process = self._process
        for served in process.operator._watches or () if process is not None else ():
            if (name := served.name_of(uid)) != uid:
                return name
        return uid

    @contextlib.contextmanager
    def burst(self) -> Iterator[None]:
        """Let events pile up until the block ends; they arrive together then."""
        self.drain()
        self._faults.watch().hold()
        try:
            yield
        finally:
            self._faults.watch().release()

    @contextlib.contextmanager
    def hold(self, handler: str) -> Iterator[None]:
        """The next run of this handler stays inside until the block ends, so that a test can act in the middle."""
        gate = self._recorder.gates[handler] = Gate()
        try:
            yield
        finally:
            self._recorder.gates.pop(handler, None)
            gate.open()

    # The world outside.

    @remembered
    def add(
        self,
        resource: ResourceName,
        name: str,
        namespace: str = "default",
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        finalizers: Sequence[str] | None = None,
        **body: Any,
    ) -> Handle:
        """
        Somebody creates an object, by a server's rules; the namespace is made if it is missing.

        `body` is what stands at the top of it: `spec`, `data`, `status`, ...
        """
        found = find_resource(self.store, resource)
        place = namespace if found.namespaced else None
        if place is not None:
            self._ensure_namespace(place)
        meta = {**body.pop("metadata", {}), "name": name}
        given = {"labels": labels, "annotations": annotations, "finalizers": finalizers}
        meta.update({key: clone(value) for key, value in given.items() if value is not None})
        raw = {"apiVersion": found.api_version, "kind": found.kind, "metadata": meta, **clone(body)}
        endpoint = endpoint_of(self.store, found)
        record = self.store.create(endpoint, raw, place, _OUTSIDE)
        handle = Handle(found, name, place, metadata(endpoint.decode(record))["uid"])
        self._recorder.note("added", handle)
        if body.get("status") and "status" in found.subresources:
            self.modify_status(handle, body["status"])
        return handle

    @remembered
    def apply(self, *paths: str | Path) -> None:
        """Create all that stands in these YAML files: definitions first, then namespaces, then the rest."""
        from opkit.apiserver.manifests import load

        for raw in load(paths):
            endpoint = self.store.endpoint_of(raw)
            namespace = (metadata(raw).get("namespace") or "default") if endpoint.kind.namespaced else None
            if namespace is not None:
                self._ensure_namespace(namespace)
            self.store.create(endpoint, raw, namespace, _OUTSIDE)
            self._recorder.note("added", f"{raw.get('kind')} {metadata(raw).get('name')}")

    def _ensure_namespace(self, name: str) -> None:
        namespaces = self.store.endpoint("", "v1", "namespaces")
        if self.store.find(namespaces, name) is None:
            self.store.create(namespaces, {"metadata": {"name": name}}, None, _OUTSIDE)

    @remembered
    def modify(self, ref: Reference, merge_patch: Mapping[str, Any]) -> None:
        """Somebody patches an object with a JSON merge patch."""
        target = self._target(ref)
        self._recorder.note("modified", f"{_where(target)} {dict(merge_patch)}")
        self.store.patch(
            endpoint_of(self.store, target.resource), target.name, target.namespace, clone(dict(merge_patch)),
            "merge", _OUTSIDE,
        )  # fmt: skip

    @remembered
    def modify_status(self, ref: Reference, patch: Mapping[str, Any]) -> None:
        """Somebody patches an object's status: `patch` is what stands under `status`."""
        target = self._target(ref)
        body = dict(patch) if "status" in patch and len(patch) == 1 else {"status": dict(patch)}
        options = _OUTSIDE
        if "status" in target.resource.subresources:
            options = dataclasses.replace(_OUTSIDE, subresource="status")
        self._recorder.note("status", f"{_where(target)} {body}")
        self.store.patch(
            endpoint_of(self.store, target.resource), target.name, target.namespace, clone(body), "merge", options
        )

    @remembered
    def delete(self, ref: Reference) -> None:
        """Somebody deletes an object; with finalizers it is only marked."""
        target = self._target(ref)
        self._recorder.note("deleted", _where(target))
        endpoint = endpoint_of(self.store, target.resource)
        self.store.delete(endpoint, target.name, target.namespace, DeleteOptions(uid=target.uid))

    def inject(self, type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"], body: Raw) -> None:
        """
        Send one raw watch event, past the store, down the streams of the kind that the body names.

        An `ERROR`'s body is a Status; it goes to all streams.
        """
        self.drain()
        self._recorder.note("injected", f"{type} {metadata(body).get('name') or body.get('message') or ''}")
        plural = "*" if type == "ERROR" else self.store.endpoint_of(body).kind.plural
        if not self._faults.watch(plural).send(type, clone(body)):
            raise UnknownResource(f"the operator does not watch {plural}")
        self.drain()

    # What went wrong outside.

    def fail(self, verb: str, resource: ResourceName = "*", subresource: str | None = None) -> Failure:
        """Say which requests go wrong; the methods of what it gives say how: `.once(status=409)` and so on."""
        plural = resource if resource == "*" else find_resource(self.store, resource).plural
        self._recorder.note("fault", f"{verb} {plural}{f'/{subresource}' if subresource else ''}")
        if verb == "patch_status":
            subresource = subresource or "status"
        return self._faults.fail(verb, str(plural), subresource)

    def watch(self, resource: ResourceName = "*") -> StreamFailure:
        """Say which streams go wrong; the methods of what it gives say how: `.disconnect()` and so on."""
        self.drain()
        plural = resource if resource == "*" else find_resource(self.store, resource).plural
        self._recorder.note("fault", f"watch of {plural}")
        return self._faults.watch(str(plural))

    @remembered
    def lose_leadership(self) -> None:
        """Another replica takes the lead: intake closes, runs are cancelled, nothing is written any more."""
        with self._running() as process:
            self._loop.run_now()
            self._recorder.note("leadership", "lost")
            process.operator.lose_lead()
            self._loop.run_now()

    @remembered
    def gain_leadership(self) -> None:
        """This process leads (again): every object that it knows is reconciled."""
        with self._running() as process:
            self._recorder.note("leadership", "gained")
            process.operator.gain_lead()
            self._loop.run_now()

    # What the store holds.

    def get(self, resource: ResourceName | Handle, name: str | None = None, namespace: str = "default") -> Body:
        """An object as it is in the store. Raises `NotFound`."""
        target = self._named(resource, name, namespace)
        endpoint = endpoint_of(self.store, target.resource)
        return Body.of(endpoint.decode(self.store.get(endpoint, target.name, target.namespace)))

    def list(self, resource: ResourceName, namespace: str | None = None) -> Sequence[Body]:
        """All objects of a resource, in one namespace or all."""
        found = find_resource(self.store, resource)
        endpoint = endpoint_of(self.store, found)
        return [Body.of(endpoint.decode(one)) for one in self.store.list(endpoint, Selection(namespace)).records]

    def exists(self, resource: ResourceName | Handle, name: str | None = None, namespace: str = "default") -> bool:
        """Whether there is such an object; for a handle, that very one."""
        target = self._named(resource, name, namespace)
        endpoint = endpoint_of(self.store, target.resource)
        record = self.store.find(endpoint, target.name, target.namespace)
        return record is not None and target.uid in (None, metadata(endpoint.decode(record))["uid"])

    def _named(self, resource: ResourceName | Handle, name: str | None, namespace: str) -> Target:
        if isinstance(resource, Handle):
            return resolve(self.store, resource)
        if name is None:
            assert not isinstance(resource, Resource)
            return resolve(self.store, resource)
        found = find_resource(self.store, resource)
        return Target(found, name, namespace if found.namespaced else None)

    def _target(self, ref: Reference) -> Target:
        return resolve(self.store, ref)

    def _uid(self, ref: Reference | None) -> str | None:
        """The UID that is meant; for a name, that of the object that has it, or had it last."""
        if ref is None:
            return None
        target = self._target(ref)
        if target.uid is not None:
            return target.uid
        endpoint = endpoint_of(self.store, target.resource)
        record = self.store.find(endpoint, target.name, target.namespace)
        if record is not None:
            return str(metadata(endpoint.decode(record))["uid"])
        named = [c.uid for c in self._recorder.calls if (c.name, c.namespace) == (target.name, target.namespace)]
        return named[-1] if named else ""

    # What the operator did.

    def calls(self, handler: str | None = None, ref: Reference | None = None) -> Sequence[Call]:
        """The calls of handlers, in order: of one handler, or for one object, or all."""
        uid = self._uid(ref)
        return [
            call for call in self._recorder.calls
            if handler in (None, call.handler) and uid in (None, call.uid)
        ]  # fmt: skip

    def scheduled(self, ref: Reference | None = None) -> Sequence[Scheduled]:
        """What waits for its time, the earliest first."""
        uid = self._uid(ref)
        found = []
        process = self._process
        for served in (process.operator._watches or ()) if process is not None else ():
            for pipeline, request in served.waiting():
                if uid in (None, request.key):
                    due_in = request.due - self._loop.time()
                    found.append(
                        Scheduled(request.key, due_in, request.triggers, request.attempt, pipeline.name)
                    )
        return sorted(found, key=lambda one: one.due_in)

    def refused(self, ref: Reference | None = None) -> Sequence[Refused]:
        """The events that did not become requests."""
        uid = self._uid(ref)
        return [
            Refused(one.type, one.by, one.controller, one.uid)
            for one in self._recorder.refusals
            if uid in (None, one.uid)
        ]

    def writes(self, ref: Reference | None = None) -> Sequence[Write]:
        """What opkit and the handlers have sent, in order."""
        return self._of_object(self._recorder.writes, ref)

    def skipped_writes(self, ref: Reference | None = None) -> Sequence[Write]:
        """What was not sent, because it would have changed nothing."""
        return self._of_object(self._recorder.skipped, ref)

    def _of_object(self, writes: Sequence[Write], ref: Reference | None) -> Sequence[Write]:
        if ref is None:
            return [*writes]
        target = self._target(ref)
        wanted = (target.resource, target.name, target.namespace)
        return [write for write in writes if (write.resource, write.name, write.namespace) == wanted]

    def explain(self, ref: Reference) -> Sequence[dict[str, Any]]:
        """The decisions about an object, as data."""
        target = self._target(ref)
        process = self._process
        if process is None:
            return []
        return process.operator.explain(tuple(target.resource), target.name, target.namespace)

    @remembered
    def trigger(self, ref: Reference, after: float = 0, controller: str | None = None) -> bool:
        """Ask for a run from outside, as `Operator.trigger` does."""
        target = self._target(ref)
        with self._running() as process:
            self._loop.run_now()

            def ask() -> None:
                answers.append(
                    process.operator.trigger(
                        tuple(target.resource), target.name, target.namespace, after, controller
                    )
                )

            answers: list[bool] = []
            self._loop.call_soon(ask)
            self._loop.run_now()
        return answers[0]

    def timeline(self, last: int | None = None) -> str:
        """The history, readable: what happened when, and which rule decided. With `last` only so many moments."""
        return self._recorder.timeline(last)

    # Promises to check.

    def check_idempotent(self, ref: Reference) -> None:
        """
        Reconcile once more: as nothing has changed, nothing may change. Raises `AssertionError` with what was written.

        An apply that leaves the object as it is is no change: only the server can tell that.
        """
        self.settle()
        before, version = len(self._recorder.writes), self.store.version
        if not self.trigger(ref):
            raise AssertionError(f"{_where(self._target(ref))} can't be reconciled: the operator does not know it")
        self.settle()
        written = self._recorder.writes[before:]
        if self.store.version != version:
            lines = "\n  ".join(
                f"{w.verb} {w.resource.plural}{f'/{w.subresource}' if w.subresource else ''} {w.name}: {w.body}"
                for w in written
            )
            raise AssertionError(f"not idempotent: reconciling again, with nothing changed, wrote\n  {lines}")

    def check_converges(self, *, ignore: Collection[str] = ()) -> None:
        """
        Play all that was done from outside again, with a kill after each step: each time everything has to end as here.

        That is what level-triggered means. Compared is what the store holds once nothing but resyncs is due, without
        UIDs, versions and times; `ignore` are dotted paths to leave out besides. Faults are not played again, and what
        handlers keep outside of the cluster stays as it is. Raises `AssertionError` with what differs.
        """
        self.settle()

        def fresh() -> FakeEventInjector:
            return FakeEventInjector(
                self._registry, copy.deepcopy(self._settings), self.seed, self._start, namespaces=self._namespaces
            )

        check(self.history, self.store, fresh, ignore)


def _where(target: Target) -> str:
    return f"{target.resource.plural} {f'{target.namespace}/' if target.namespace else ''}{target.name}"
