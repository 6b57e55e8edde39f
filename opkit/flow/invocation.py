"""
Invocation: how a function of the author is called.

Takes a handler of the plan and the `Run` that it belongs to; gives what the function returned, or raises what it
raised. Builds only the arguments that the signature asks for. Async functions run in the loop, plain ones in
a thread pool of opkit's own. Never decides what a result means.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from opkit.cluster.body import Body, Meta, Raw, metadata
from opkit.cluster.resource import Resource
from opkit.flow.access import BlockingAccess, ClusterAccess
from opkit.plan.plan import Handler
from opkit.settings import Settings
from opkit.triggers import DeleteReason, Trigger

logger = logging.getLogger("opkit.objects")


class Memo(dict[str, Any]):
    """A place for an author's own values: a dict whose keys are attributes too. One for each object."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError as error:
            raise AttributeError(name) from error


class Patch(dict[str, Any]):
    """
    The changes that a handler wants to its object, sent after the run: a merge patch that grows by use.

    `patch.spec`, `patch.status`, `patch.metadata` (also `patch.meta`) are made when they are first touched.
    """

    @property
    def spec(self) -> dict[str, Any]:
        return self._branch("spec")

    @property
    def status(self) -> dict[str, Any]:
        return self._branch("status")

    @property
    def metadata(self) -> dict[str, Any]:
        return self._branch("metadata")

    meta = metadata

    def _branch(self, name: str) -> dict[str, Any]:
        branch: dict[str, Any] = self.setdefault(name, {})
        return branch


class Stopping:
    """
    A flag that is set when a run should end early: shutdown, leadership lost, timeout.

    For handlers in threads, which can't be cancelled: look at it, or wait on it instead of sleeping.
    """

    def __init__(self) -> None:
        self._event = threading.Event()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most `timeout` seconds; whether it is. Blocks: for threads only."""
        return self._event.wait(timeout)

    def set(self) -> None:
        self._event.set()


class Requeue(Protocol):
    def __call__(self, after: float = 0, name: str | None = None, namespace: str | None = None) -> bool: ...


class PostEvent(Protocol):
    def __call__(self, reason: str, message: str, type: str = "Normal") -> None: ...


class Run:
    """
    One run of a handler for one object: everything that a handler may ask for by name.

    Each argument is made when it is first asked for, and once.
    """

    def __init__(
        self,
        *,
        raw: Raw,
        resource: Resource,
        controller: str,
        settings: Settings,
        attempt: int,
        trigger: frozenset[Trigger],
        access: Callable[[Run], ClusterAccess],
        requeue: Callable[[Run], Requeue],
        post: Callable[[Run], PostEvent],
        memo: Callable[[], Memo],
        secondary: Callable[[Run], Callable[[str], list[Body]]] | None = None,
        reason: DeleteReason | None = None,
    ) -> None:
        self.raw = raw
        self.resource = resource
        self.controller = controller
        self.settings = settings
        self.attempt = attempt
        self.trigger = trigger
        self.reason = reason
        self._access = access
        self._requeue = requeue
        self._post = post
        self._memo = memo
        self._secondary = secondary
        self.is_async = True

    @functools.cached_property
    def body(self) -> Body:
        return Body.of(self.raw)

    @property
    def spec(self) -> dict[str, Any]:
        return self.body.spec

    @property
    def meta(self) -> Meta:
        return self.body.metadata

    @property
    def status(self) -> dict[str, Any]:
        return self.body.status

    @property
    def name(self) -> str | None:
        return metadata(self.raw).get("name")

    @property
    def namespace(self) -> str | None:
        return metadata(self.raw).get("namespace")

    @property
    def uid(self) -> str | None:
        return metadata(self.raw).get("uid")

    @property
    def labels(self) -> dict[str, str]:
        return self.body.labels

    @property
    def annotations(self) -> dict[str, str]:
        return self.body.annotations

    @property
    def retry(self) -> int:
        return self.attempt - 1

    @functools.cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        return logging.LoggerAdapter(logger, {"k8s_ref": object_reference(self.raw), "controller": self.controller})

    @functools.cached_property
    def patch(self) -> Patch:
        return Patch()

    @functools.cached_property
    def stopping(self) -> Stopping:
        return Stopping()

    @property
    def memo(self) -> Memo:
        return self._memo()

    @functools.cached_property
    def cluster(self) -> ClusterAccess | BlockingAccess:
        access = self._access(self)
        return access if self.is_async else BlockingAccess(access, asyncio.get_running_loop())

    @functools.cached_property
    def requeue(self) -> Requeue:
        return self._requeue(self)

    @functools.cached_property
    def event(self) -> PostEvent:
        return self._post(self)

    @functools.cached_property
    def secondary(self) -> Callable[[str], list[Body]]:
        if self._secondary is None:
            raise TypeError(f"controller {self.controller} watches no secondary resources; name them in owns=[...]")
        return self._secondary(self)

    @property
    def made_patch(self) -> Patch | None:
        """The patch, if the handler asked for it and put something in."""
        patch = self.__dict__.get("patch")
        return patch if patch else None

    def stop(self) -> None:
        """Tell the handler to end early, if it can be told."""
        self.stopping.set()


ARGUMENTS = (
    "annotations", "attempt", "body", "cluster", "event", "labels", "logger", "memo", "meta", "name", "namespace",
    "patch", "reason", "requeue", "resource", "retry", "secondary", "settings", "spec", "status", "stopping",
    "trigger", "uid",
)  # fmt: skip
"""What handlers of objects may ask for by name."""

current_run: contextvars.ContextVar[Run | None] = contextvars.ContextVar("opkit_run", default=None)
"""The run that the current code belongs to, in threads too: for whoever writes a log line."""


def object_reference(raw: Raw) -> dict[str, Any]:
    """The object as logs name it: the keys are kopf's."""
    meta = metadata(raw)
    return {
        "apiVersion": raw.get("apiVersion"),
        "kind": raw.get("kind"),
        "name": meta.get("name"),
        "uid": meta.get("uid"),
        "namespace": meta.get("namespace"),
    }


class Invoker:
    """Calls handlers. Owns the threads for those that are plain functions."""

    def __init__(
        self,
        threads: int,
        clients: Callable[[str], Any] | None = None,
        gate: Callable[[str], Awaitable[None] | None] = lambda handler: None,
    ) -> None:
        self._gate = gate
        self._threads = threads
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._clients = clients
        self.in_threads: dict[int, str] = {}
        """What runs in threads at this moment, for the report of what did not finish."""
        self._runs: set[Run] = set()

    async def call(self, handler: Handler, run: Run, timeout: float | None = None) -> Any:
        """
        Call the handler; what it returns.

        Raises what it raises, and `TimeoutError` after `timeout` seconds. An async handler is cancelled then; a
        plain one is told through `stopping` and waited for, since its thread still works on the object.
        """
        run.is_async = handler.is_async
        arguments = self.arguments(handler, run)
        current_run.set(run)
        function = handler.resolve()
        self._runs.add(run)
        try:
            if (gate := self._gate(handler.name)) is not None:
                await gate
            if not handler.is_async:
                return await self._in_thread(function, arguments, handler, run, timeout)
            if timeout is None:
                return await _settle(function(**arguments))
            async with asyncio.timeout(timeout):
                return await _settle(function(**arguments))
        finally:
            self._runs.discard(run)

    def stop_runs(self) -> None:
        """Tell everything that runs to end early."""
        for run in self._runs:
            run.stop()

    def arguments(self, handler: Handler, run: Run) -> dict[str, Any]:
        """What the signature asks for."""
        names = _names_for_all(run) if handler.takes_all else handler.arguments
        arguments = {name: getattr(run, name) for name in names}
        if handler.object_argument is not None:
            arguments[handler.object_argument] = run.body
        for parameter, library in handler.clients:
            if self._clients is None:
                raise TypeError(f"a client of {library} is only there when a real server is")
            arguments[parameter] = self._clients(library)
        return arguments

    async def _in_thread(
        self, function: Callable[..., Any], arguments: Mapping[str, Any], handler: Handler, run: Run,
        timeout: float | None,
    ) -> Any:  # fmt: skip
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        call = functools.partial(context.run, functools.partial(_call, function, arguments))
        future = loop.run_in_executor(self._executor(), call)
        self.in_threads[id(future)] = f"{handler.name} on {run.namespace or ''}/{run.name}".replace(" /", " ")
        future.add_done_callback(lambda done: self.in_threads.pop(id(done), None))
        if timeout is None:
            return await _settle(await _uncancelled(future, run))
        late = loop.call_later(timeout, run.stop)
        started = loop.time()
        try:
            result = await _uncancelled(future, run)
        finally:
            late.cancel()
        if loop.time() - started >= timeout:
            raise TimeoutError(f"took {loop.time() - started:.1f} s; a handler in a thread can't be interrupted")
        return await _settle(result)

    def _executor(self) -> concurrent.futures.ThreadPoolExecutor:
        if self._pool is None:
            self._pool = concurrent.futures.ThreadPoolExecutor(self._threads, thread_name_prefix="opkit-handler")
        return self._pool

    def close(self) -> None:
        """Let go of the threads; those that still work are not waited for."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _names_for_all(run: Run) -> list[str]:
    """What a `**kwargs` gets: all that there is for this run."""
    absent = {name for name, there in (("reason", run.reason), ("secondary", run._secondary)) if there is None}
    return [name for name in ARGUMENTS if name not in absent]


def _call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a plain function. Two exceptions can't be carried by a future: a stray `next()` would hang its run."""
    try:
        return function(**arguments)
    except (StopIteration, GeneratorExit) as error:
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error


async def _settle(result: Any) -> Any:
    """What a function returned; awaited where that is what it returned, as mocks and wrappers do."""
    return await result if inspect.isawaitable(result) else result


async def _uncancelled(future: asyncio.Future[Any], run: Run) -> Any:
    """
    Wait for a thread. A cancellation tells the handler to stop, and is passed on when it has: until then its thread
    works on the object, whose lock must be held. Only a second cancellation lets go of it.
    """
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        run.stop()
        await asyncio.wait({future})
        raise
