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
import datetime
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

from opkit.cluster.body import Raw, clone, metadata
from opkit.settings import Settings
from opkit.simulation.faults import StreamFailure
from opkit.simulation.store import Store
from opkit.testing.convergence import History, check, remembered
from opkit.testing.definitions import define
from opkit.testing.failures import NotSettled, verify
from opkit.testing.observations import Observations
from opkit.testing.outside import describe
from opkit.testing.process import Process
from opkit.testing.recorder import Gate, Recorder
from opkit.testing.references import Reference, ResourceName, UnknownResource
from opkit.testing.sources import Code, Handlers
from opkit.testing.virtual import VirtualLoop, no_real_sleep
from opkit.triggers import Trigger

START = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
"""The time of day at which tests begin, unless they say otherwise."""

_RESYNC = frozenset({Trigger.RESYNC})


class FakeEventInjector(Observations):
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
        handlers: Handlers | Code,
        settings: Settings | None = None,
        seed: int = 0,
        start: datetime.datetime | None = None,
        *,
        namespaces: Sequence[str] = (),
        clients: Mapping[str, Any] | None = None,
    ) -> None:
        self.seed = seed
        self._code = handlers if isinstance(handlers, Code) else Code.of(handlers)
        self._owns_code = True
        self._settings = settings or Settings()
        self._start = start or START
        self._namespaces = tuple(namespaces)
        self._clients = clients
        self._loop = VirtualLoop(seed)
        self._loop.set_exception_handler(self._on_loop_error)
        try:
            store, plan = Store(self._wall, random.Random(seed)), self._code.registry.compile(self._settings)
            super().__init__(store, plan, Recorder(self._loop.time))
            define(store, plan, self._code.folders)
        except BaseException:
            self._loop.close()
            self._code.close()
            raise
        self.history = History()
        """What was done from outside so far."""
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
            if self._owns_code:
                self._code.close()
        ended = self._process.error() if self._process is not None else None
        errors = [*self._errors, *self._loop.errors, *self._recorder.bugs, *self._recorder.take_mistakes(),
                  *([ended] if ended is not None else [])]  # fmt: skip
        verify([error for error in errors if error not in self._told], leftovers)

    @contextlib.contextmanager
    def _running(self) -> Iterator[Process]:
        """The operator, started if it is not, with real sleeps forbidden; raises what ended or broke it."""
        if self._process is None:
            self._process = self._new_process()
        with no_real_sleep(self._loop), self._code.in_place():
            yield self._process
        self._raise_errors()

    def _new_process(self) -> Process:
        return Process(
            loop=self._loop, store=self.store, faults=self._faults, registry=self._code.registry,
            settings=self._settings, recorder=self._recorder, seed=self.seed, start=self._start,
            namespaces=self._namespaces, clients=self._clients,
        )  # fmt: skip

    def _raise_errors(self) -> None:
        errors = [*self._loop.errors, *self._recorder.bugs, *self._recorder.take_mistakes()]
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
        A new process over the same store: what was in memory is gone, in the modules of the handlers too (they are run
        again; a registry can't be). What the test has patched in them stays patched.

        The old one stops in order first, or, with `kill`, dies at once: nothing that it was about to do happens.
        """
        with self._running() as process:
            self._recorder.note("restart", "killed" if kill else "stopped in order")
            if kill:
                process.kill()
            else:
                process.stop()
            self._code.restart()
            self._process = self._new_process()

    # Time.

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
        return not streaming or silent or bool(statistics.running) or operator.next_due(ignoring=_RESYNC) is not None

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

    # What goes wrong, or can't be.

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

    def watch(self, resource: ResourceName = "*") -> StreamFailure:
        """Say which streams go wrong; the methods of what it gives say how: `.disconnect()` and so on."""
        self.drain()
        plural = resource if resource == "*" else self._names.resource(resource).plural
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

    @remembered
    def trigger(self, ref: Reference, after: float = 0, controller: str | None = None) -> bool:
        """Ask for a run from outside, as `Operator.trigger` does."""
        target = self._target(ref)
        with self._running() as process:
            self._loop.run_now()

            def ask() -> None:
                answers.append(
                    process.operator.trigger(tuple(target.resource), target.name, target.namespace, after, controller)
                )

            answers: list[bool] = []
            self._loop.call_soon(ask)
            self._loop.run_now()
        return answers[0]

    # Promises to check.

    def check_idempotent(self, ref: Reference) -> None:
        """
        Reconcile once more: as nothing has changed, nothing may change. Raises `AssertionError` with what was written.

        An apply that leaves the object as it is is no change: only the server can tell that.
        """
        self.settle()
        before, version = len(self._recorder.writes), self.store.version
        if not self.trigger(ref):
            raise AssertionError(f"{describe(self._target(ref))} can't be reconciled: the operator does not know it")
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
            self._code.restart()
            injector = FakeEventInjector(
                self._code, copy.deepcopy(self._settings), self.seed, self._start, namespaces=self._namespaces,
                clients=self._clients,
            )  # fmt: skip
            injector._owns_code = False
            return injector

        with self._code.tried():
            check(self.history, self.store, fresh, ignore)
