"""
Results: what follows from a run.

Takes a report; sends the handler's patch, also after a failed run, and gives the request that is to wait for the
object next. Applies the retry policy (semantics: 6). Never runs the author's code, never touches a queue.
"""

from __future__ import annotations

import dataclasses
import logging
import random
from collections.abc import Callable
from typing import Any

from opkit.cluster.body import identity, metadata
from opkit.cluster.resource import Resource
from opkit.errors import ApiError, NotFound
from opkit.flow.delivery import Delivery
from opkit.flow.invocation import Run, object_reference
from opkit.flow.report import Outcome, Report
from opkit.flow.requests import Request
from opkit.flow.writes import Gone, Writes
from opkit.results import seconds
from opkit.retry import Retry
from opkit.triggers import Trigger

logger = logging.getLogger("opkit.objects")

# A 409 means that the handler read something old: the fresh body is on its way, so it is tried again soon and
# for free, until it looks like more than a race.
_FREE_CONFLICTS = 2

# The share of the resync interval over which resyncs are spread around it.
_RESYNC_JITTER = 0.1


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """What one controller's runs are followed by. Times are seconds."""

    retry: Retry
    resync: float | None


class Results:
    """The results of one controller's runs."""

    def __init__(
        self,
        *,
        controller: str,
        resource: Resource,
        policy: Policy,
        writes: Writes,
        manager: str,
        now: Callable[[], float],
        random: random.Random,
    ) -> None:
        self._controller = controller
        self._resource = resource
        self._policy = policy
        self._writes = writes
        self._manager = manager
        self._now = now
        self._random = random
        self.last_run: dict[str, float] = {}
        """When the last run of each object (UID) ended."""
        self.failing: dict[str, str] = {}
        """Objects (UID) whose last run failed, with the message."""

    async def settle(self, request: Request, report: Report) -> Request | None:
        """Send what the run wants to be written; give the request that comes next, if any."""
        run = report.run
        if run is not None and run.made_patch is not None and report.outcome is not Outcome.CANCELLED:
            await self._send_patch(report)
        self._log(request, report)
        again = self._next(request, report)
        if report.outcome is not Outcome.SKIPPED:
            self.last_run[request.key] = self._now()
        return again

    # Writing.

    async def _send_patch(self, report: Report) -> None:
        """Send the run's patch. If that fails, the run has failed, unless it had failed already."""
        run = report.run
        assert run is not None
        try:
            await self.send_patch(run)
        except ApiError as error:
            if isinstance(error, NotFound) and error.is_about_an_object:
                return  # the object is gone, and its deletion is on its way to us
            if report.outcome is Outcome.FAILURE:
                run.logger.warning("The patch of the failed run was not taken either: %s", error)
                return
            report.by_runtime = True
            report.fail(f"the patch was not taken: {error}", error)
        except (TypeError, ValueError, RecursionError) as error:
            # Not JSON, or no mapping where one belongs: what the author put in.
            if report.outcome is not Outcome.FAILURE:
                report.fail(f"the patch can't be sent: {describe_error(error)}", error)

    async def send_patch(self, run: Run) -> None:
        """
        Send a run's patch: the status to its subresource where there is one, the rest to the object.

        Each part is a request of its own, and the refusal of one does not hold up the other. Raises `ApiError`.
        """
        patch = run.made_patch
        if patch is None:
            return
        if run.resource.namespaced != self._resource.namespaced:
            raise Gone.was(run.raw)
        wanted = dict(patch)
        run.patch.clear()
        # The run's own version fits its patch. Once that is withdrawn, the one that is served now has to do.
        as_it_began = self._resource if run.resource == self._resource else run.resource
        try:
            await self._deliver(as_it_began, run, wanted)
        except NotFound as error:
            if error.is_about_an_object or as_it_began == self._resource:
                raise
            await self._deliver(self._resource, run, wanted)

    async def _deliver(self, resource: Resource, run: Run, patch: dict[str, Any]) -> None:
        delivery = Delivery(
            self._writes, resource, str(run.name), run.namespace,
            origin=(self._controller, identity(run.raw)), manager=self._manager, only=run.raw,
        )  # fmt: skip
        await delivery.send(patch)

    async def send_last_patch(self, report: Report, *, lives: bool) -> None:
        """Send the patch of a delete handler, if the object lives on and has only left the selector."""
        run = report.run
        if run is None or run.made_patch is None:
            return
        if lives:
            await self._send_patch(report)
        else:
            run.logger.warning("%s has a patch for an object that is gone: it is not sent. What must be written before "
                               "an object goes is a finalizer's work.", report.handler)  # fmt: skip

    def move(self, resource: Resource) -> None:
        """The resource is served in another way from now on."""
        self._resource = resource

    # Deciding.

    def _next(self, request: Request, report: Report) -> Request | None:
        """From verdict to what waits next: the whole policy in one place."""
        if report.refused_by:
            return self._resync(request)  # else nothing would ever look again at what its condition has held up
        if report.outcome in (Outcome.CANCELLED, Outcome.SKIPPED):
            return None
        if report.outcome is Outcome.SUCCESS:
            self.failing.pop(request.key, None)
            return self._after_success(request, report)
        self.failing[request.key] = report.why
        if report.run is not None:
            # What the failure stands for is the state that was run: a change of another generation starts afresh.
            request.generation = metadata(report.run.raw).get("generation")
        if (again := self._after_conflict(request, report)) is not None:
            return again
        return self._after_failure(request, report)

    def _after_success(self, request: Request, report: Report) -> Request | None:
        after = report.result.requeue_after if report.result is not None else None
        if after is not None:
            return self._request(request, after, Trigger.REQUEUE)
        if report.finalizing:
            return None  # nothing of ours is left to do on it, and its end will be told
        return self._resync(request)

    def _after_conflict(self, request: Request, report: Report) -> Request | None:
        if not isinstance(report.error, ApiError) or report.error.status != 409:
            return None
        if request.conflicts >= _FREE_CONFLICTS:
            return None
        again = self._request(request, 0.1 + 0.8 * self._random.random(), Trigger.RETRY)
        again.attempt, again.conflicts = request.attempt, request.conflicts + 1
        again.retry_due, again.overtaken = request.retry_due, request.overtaken
        return again

    def _after_failure(self, request: Request, report: Report) -> Request | None:
        retry, failures = self._policy.retry, request.attempt
        delay = self._delay_asked_for(report)
        if delay is None and request.retry_due is not None and request.retry_due > self._now():
            return self._back_to_backoff(request)
        if not report.finalizing and (is_permanent(report.error) or retry.exhausted(failures)):
            return self._give_up(request, report)
        if delay is None:
            delay = self.delay(failures)
        again = self._request(request, delay, Trigger.RETRY)
        # A server that asks us to slow down says nothing about the object.
        throttled = report.by_runtime and isinstance(report.error, ApiError) and report.error.status == 429
        again.attempt = failures if throttled else failures + 1
        # One event may bring a failed object forward; a delay that it is asked to keep makes no new right to that.
        again.overtaken = request.retry_due is not None and request.retry_due > self._now()
        return again

    def _delay_asked_for(self, report: Report) -> float | None:
        """The seconds that the author, or a server that wants us to slow down, asks for."""
        if report.result is not None and report.result.requeue_after is not None:
            return report.result.requeue_after
        delay = getattr(report.error, "delay", None) if is_temporary(report.error) else None
        if delay is not None:
            try:
                return seconds(delay, "the delay of a TemporaryError")
            except (TypeError, ValueError) as error:
                logger.error("%s; the retry policy's delay is used", error)
        if isinstance(report.error, ApiError) and report.error.retry_after is not None:
            return max(0.0, float(report.error.retry_after)) * (1 + 0.1 * self._random.random())
        return None

    def _back_to_backoff(self, request: Request) -> Request:
        """The run that an event had brought forward failed: the retry comes when it was due, as if nothing was."""
        assert request.retry_due is not None
        again = self._request(request, request.retry_due - self._now(), Trigger.RETRY)
        again.attempt, again.overtaken = request.attempt, True
        return again

    def _give_up(self, request: Request, report: Report) -> Request | None:
        logger.error(
            "Given up after %d attempts until the object changes, is triggered or resynced: %s",
            request.attempt, report.why, extra=_about(report),
        )  # fmt: skip
        again = self._resync(request)
        if again is not None:
            again.attempt = request.attempt + 1
        return again

    def _resync(self, request: Request) -> Request | None:
        interval = self._policy.resync
        if interval is None:
            return None
        # Objects that were run together, as all are at the start, don't come back together.
        share = 1 + _RESYNC_JITTER * (2 * self._random.random() - 1)
        return self._request(request, interval * share, Trigger.RESYNC)

    def _request(self, request: Request, after: float, trigger: Trigger) -> Request:
        return Request(request.key, self._now() + after, _TRIGGERS[trigger], generation=request.generation)

    def delay(self, failures: int) -> float:
        """The retry policy's delay after so many failures."""
        return self._policy.retry.delay(failures, self._random.random())

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self.last_run.pop(uid, None)
        self.failing.pop(uid, None)

    # Telling.

    def _log(self, request: Request, report: Report) -> None:
        if report.outcome is Outcome.SUCCESS:
            if logger.isEnabledFor(logging.INFO):
                triggers = ", ".join(sorted(request.triggers))
                logger.info("%s succeeded in %.3f s (%s).", report.handler, report.duration, triggers,
                            extra=_about(report))  # fmt: skip
        elif report.outcome is Outcome.FAILURE:
            expected = report.by_runtime or report.error is None or is_temporary(report.error) or isinstance(
                report.error, ApiError
            ) or is_permanent(report.error)  # fmt: skip
            logger.log(
                logging.WARNING if expected else logging.ERROR,
                "%s failed (attempt %d): %s", report.handler, request.attempt, report.why,
                exc_info=None if expected else report.error, extra=_about(report),
            )  # fmt: skip


_TRIGGERS = {trigger: frozenset({trigger}) for trigger in Trigger}


def _about(report: Report) -> dict[str, Any]:
    if report.run is None:
        return {}
    return {"k8s_ref": object_reference(report.run.raw), "controller": report.run.controller}


def is_temporary(error: BaseException | None) -> bool:
    """opkit's TemporaryError, or kopf's: they mean the same."""
    return _is_named(error, "TemporaryError")


def is_permanent(error: BaseException | None) -> bool:
    """opkit's PermanentError, or kopf's: they mean the same."""
    return _is_named(error, "PermanentError")


def _is_named(error: BaseException | None, name: str) -> bool:
    # By name, so that kopf need not be imported to know its errors: whoever raises one has imported it.
    return any(
        cls.__name__ == name and cls.__module__.partition(".")[0] in ("opkit", "kopf") for cls in type(error).__mro__
    )


def describe_error(error: BaseException) -> str:
    """An error in one line."""
    kind = type(error).__name__
    try:
        text = str(error).strip().splitlines()
    except Exception as failure:  # the author's own class, which must not fail the runtime
        return f"{kind} (its text raised {type(failure).__name__})"
    return f"{kind}: {text[0]}" if text else kind
