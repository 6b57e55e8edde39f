"""
Reconcile: one run of one object.

Takes a request; reads the newest body from the store; attaches finalizers and calls the reconcile handler, or, for
an object that is being deleted, runs its finalizers. Gives a report. Never enqueues, never decides on retries.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

from opkit.clock import Clock
from opkit.cluster.body import Raw, identity, is_deleting, metadata
from opkit.errors import ApiError
from opkit.flow.finalizers import Finalizers
from opkit.flow.invocation import Invoker, Run
from opkit.flow.report import Call, Outcome, Report, skipped
from opkit.flow.requests import Request
from opkit.flow.results import describe_error
from opkit.flow.sieve import Verdict
from opkit.flow.writes import Gone
from opkit.plan.plan import Finalizer, Handler
from opkit.results import Result
from opkit.triggers import DeleteReason

MakeRun = Callable[[Raw, Request, DeleteReason | None], Run]


@dataclasses.dataclass(frozen=True, slots=True)
class Steps:
    """What a reconciler does with an object, and how long it may take."""

    reconcile: Handler
    delete: Handler | None
    timeout: float | None
    manager: str
    auto_attach: bool = True
    auto_detach: bool = True


class Reconciler:
    """Runs the handlers of one controller."""

    def __init__(
        self,
        *,
        steps: Steps,
        finalizers: Finalizers,
        wants: Callable[[Finalizer, Raw], bool],
        read: Callable[[str], Raw | None],
        matches: Callable[[Raw], bool],
        admits: Callable[[Raw], Verdict] | None,
        is_wanted: Callable[[Raw], bool],
        make_run: MakeRun,
        send_patch: Callable[[Run], Any],
        invoker: Invoker,
        clock: Clock,
        interrupted: Callable[[str], bool],
        on_call: Callable[[Call], None] | None = None,
    ) -> None:
        self._steps = steps
        self._finalizers = finalizers
        self._wants = wants
        self._read = read
        self._matches = matches
        self._admits = admits
        self._is_wanted = is_wanted
        self._make_run = make_run
        self._send_patch = send_patch
        self._invoker = invoker
        self._clock = clock
        self._interrupted = interrupted
        self._on_call = on_call
        self._attaches = steps.auto_attach and bool(finalizers.declared)

    async def run(self, request: Request) -> Report:
        """Bring the object closer to what it should be; never raises but for its own cancellation and bugs."""
        raw = self._read(request.key)
        if raw is None:
            return skipped("the object is gone")
        if not self._matches(raw):
            return skipped("the selector does not match any more")
        if is_deleting(raw):
            return await self.finalize(raw, request)
        if self._admits is not None and not (verdict := self._admits(raw)).accepted:
            return Report(Outcome.SKIPPED, why=f"refused by {verdict.by}", refused_by=verdict.by)
        if self._attaches:
            attached = await self._attach(raw)
            if isinstance(attached, Report):
                return attached
            raw = attached
            if is_deleting(raw):
                return await self.finalize(raw, request)
        return await self._call(self._steps.reconcile, self._make_run(raw, request, None), self._steps.timeout)

    async def _attach(self, raw: Raw) -> Raw | Report:
        """Put our finalizers on the object; the body to go on with, or why there is nothing to go on with."""
        missing = self._finalizers.missing(raw, self._wants)
        if not missing:
            return raw
        try:
            # Asked again for each newer body: it may have left its selector while the patch was on its way, and nobody
            # would take the finalizer off again.
            attached = await self._finalizers.attach(
                raw,
                lambda body: self._finalizers.missing(body, self._wants) if self._is_wanted(body) else [],
                self._steps.manager,
            )
        except Gone:
            return skipped("the object went away before its finalizer was attached")
        except ApiError as error:
            return _refused(f"attaching {', '.join(missing)}", error)
        return attached if self._matches(attached) else skipped("the selector does not match any more")

    async def run_delete(self, request: Request, reason: DeleteReason) -> Report:
        """Tell the delete handler about the end of an object."""
        assert self._steps.delete is not None and request.body is not None
        run = self._make_run(request.body, request, reason)
        return await self._call(self._steps.delete, run, self._steps.timeout)

    # Finalizers.

    async def finalize(self, raw: Raw, request: Request) -> Report:
        """Run ours one after the other, each taken off right after it succeeded."""
        report = skipped("being deleted, and nothing of ours stands on it")
        for finalizer in self._finalizers.of(raw):
            report = await self._finalize_one(finalizer, raw, request)
            report.finalizing = True
            if report.outcome not in (Outcome.SUCCESS, Outcome.SKIPPED):
                return report
            if not self._steps.auto_detach:
                continue
            try:
                left = await self._finalizers.detach(raw, finalizer.name, self._steps.manager)
            except ApiError as error:
                refused = _refused(f"removing the finalizer {finalizer.name}", error)
                refused.finalizing = True
                return refused
            if left is None:
                break
            # A change of the spec during the deletion is seen by the next finalizer.
            raw = self._read(request.key) or left
        report.run = None  # its patch was sent before the finalizer was removed
        return report

    async def _finalize_one(self, finalizer: Finalizer, raw: Raw, request: Request) -> Report:
        if self._finalizers.has_succeeded(raw, finalizer.name):
            return skipped(f"{finalizer.name} has succeeded already")
        run = self._make_run(raw, request, None)
        report = await self._call(finalizer.handler, run, self._steps.timeout)
        if report.outcome is Outcome.SUCCESS:
            try:
                await self._send_patch(run)
            except ApiError as error:
                # The object is about to go: its status matters less than its end.
                run.logger.warning("The patch of %s was not taken: %s", finalizer.handler.name, error)
        return report

    # Calling.

    async def _call(self, handler: Handler, run: Run, timeout: float | None) -> Report:
        started = self._clock.now()
        call = None if self._on_call is None else _call_of(handler, run, started)
        if call is not None and self._on_call is not None:
            self._on_call(call)
        try:
            try:
                returned = await self._invoker.call(handler, run, timeout)
            finally:
                # A cancellation that the handler has not met any more is to strike here, and not what comes after it.
                if _is_cancelling():
                    await asyncio.sleep(0)
            report = _report_of(returned, handler, run)
        except asyncio.CancelledError as error:
            if self._interrupted(identity(run.raw)):
                if call is not None:
                    call.outcome, call.duration = Outcome.CANCELLED, self._clock.now() - started
                raise
            _withdraw_cancellation()
            report = _failed(run, error, "the handler was cancelled, and not by opkit")
        except TimeoutError as error:
            expired = timeout is not None and self._clock.now() - started >= timeout and not str(error)
            report = _failed(run, error, f"took longer than {timeout} s" if expired else describe_error(error))
        except BaseException as error:
            # A handler must not end the operator, whatever it raises: SystemExit is a failure of this run.
            report = _failed(run, error, describe_error(error))
        report.handler, report.duration = handler.name, self._clock.now() - started
        if call is not None:
            call.duration = report.duration
            call.outcome, call.result, call.error = report.outcome, report.result, report.error
            report.call = call
        return report


def _call_of(handler: Handler, run: Run, started: float) -> Call:
    return Call(
        handler=handler.name, name=metadata(run.raw).get("name"), namespace=run.namespace, uid=identity(run.raw),
        attempt=run.attempt, trigger=run.trigger, at=started, controller=run.controller,
    )  # fmt: skip


def _report_of(returned: Any, handler: Handler, run: Run) -> Report:
    if returned is None:
        return Report(Outcome.SUCCESS, run=run)
    if not isinstance(returned, Result):
        error = TypeError(
            f"{handler.name} returned {type(returned).__name__}; return None, opkit.success(...) or opkit.failure(...)"
        )
        return _failed(run, error, str(error))
    if returned.ok:
        return Report(Outcome.SUCCESS, result=returned, run=run)
    return Report(Outcome.FAILURE, why=returned.message, result=returned, error=returned.error, run=run)


def _failed(run: Run, error: BaseException, why: str) -> Report:
    return Report(Outcome.FAILURE, why=why, error=error, run=run)


def _refused(what: str, error: ApiError) -> Report:
    return Report(Outcome.FAILURE, why=f"{what}: {error}", error=error, by_runtime=True, handler=what)


def _is_cancelling() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _withdraw_cancellation() -> None:
    """The handler cancelled its own task: that must not end the run of the rooms around it."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
