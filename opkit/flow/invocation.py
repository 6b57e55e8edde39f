"""
Invocation: how a function of the author is called.

Takes a handler of the plan and the `Run` that it belongs to; gives what the function returned, or raises what it
raised. Builds only the arguments that the signature asks for. Async functions run in the loop, plain ones in
a thread pool of opkit's own. Never decides what a result means.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Protocol

from opkit.cluster.body import Body, Meta, Raw, clone, metadata
from opkit.cluster.resource import Resource
from opkit.flow import threads as in_threads
from opkit.flow.access import BlockingAccess, ClusterAccess
from opkit.flow.forks import end_child_of
from opkit.flow.threads import Threads
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

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._event: threading.Event | None = None  # made when somebody waits, which few handlers do

    def __bool__(self) -> bool:
        return self._is_set

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most `timeout` seconds; whether it is. Blocks: for threads only."""
        event = self._event
        if event is None:
            event = self._event = threading.Event()
        # Set in between by another thread that has not seen the event.
        return self._is_set or event.wait(timeout)

    def set(self) -> None:
        self._is_set = True
        if self._event is not None:
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

    # Typed here, and made by `__getattr__` on the first look.
    body: Body
    spec: dict[str, Any]
    meta: Meta
    status: dict[str, Any]
    name: str | None
    namespace: str | None
    uid: str | None
    labels: dict[str, str]
    annotations: dict[str, str]
    retry: int
    logger: logging.LoggerAdapter[logging.Logger]
    patch: Patch
    stopping: Stopping
    memo: Memo
    cluster: ClusterAccess | BlockingAccess
    requeue: Requeue
    event: PostEvent
    secondary: Callable[[str], list[Body]]

    def __init__(
        self,
        *,
        raw: Raw,
        resource: Resource,
        controller: str,
        settings: Settings,
        attempt: int,
        trigger: frozenset[Trigger],
        tools: Tools,
        reason: DeleteReason | None = None,
    ) -> None:
        self.raw = raw
        self.resource = resource
        self.controller = controller
        self.settings = settings
        self.attempt = attempt
        self.trigger = trigger
        self.reason = reason
        self.tools = tools
        self.is_async = True

    def __getattr__(self, name: str) -> Any:
        # Only what is missing comes here: faster than properties, of which most runs need few and most need twice.
        make = _MAKERS.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = self.__dict__[name] = make(self)
        return value

    @property
    def made_patch(self) -> Patch | None:
        """The patch, if the handler asked for it and put something in."""
        patch = self.__dict__.get("patch")
        return patch if patch else None

    def stop(self) -> None:
        """Tell the handler to end early, if it can be told."""
        self.stopping.set()


class Tools(Protocol):
    """What a run takes from its controller."""

    def access(self, run: Run) -> ClusterAccess: ...

    def requeue(self, run: Run) -> Requeue: ...

    def post(self, run: Run) -> PostEvent: ...

    def memo(self, run: Run) -> Memo: ...

    def secondary(self, run: Run) -> Callable[[str], list[Body]]: ...


class RunLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that names the object and the controller in each line."""

    def __init__(self, run: Run) -> None:
        super().__init__(logger)
        self._run = run

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        ours = {"k8s_ref": object_reference(self._run.raw), "controller": self._run.controller}
        kwargs["extra"] = {**ours, **(kwargs.get("extra") or {})}
        return msg, kwargs


def _make_cluster(run: Run) -> ClusterAccess | BlockingAccess:
    access = run.tools.access(run)
    return access if run.is_async else BlockingAccess(access, asyncio.get_running_loop())


def _make_body(run: Run) -> Body:
    """The object, of the parts that are arguments of their own: what an author changes in one is seen in the other."""
    body = Body()
    for key, value in run.raw.items():
        body[key] = getattr(run, key) if key in _PARTS and value else clone(value)
    body["metadata"] = run.meta
    return body


_PARTS = frozenset({"spec", "status"})

_MAKERS: dict[str, Callable[[Run], Any]] = {
    # The author's own copies, each only of what is asked for: copying is most of what a small handler costs.
    "body": _make_body,
    "spec": lambda run: clone(run.raw.get("spec") or {}),
    "meta": lambda run: Meta(clone(metadata(run.raw))),
    "status": lambda run: clone(run.raw.get("status") or {}),
    "name": lambda run: metadata(run.raw).get("name"),
    "namespace": lambda run: metadata(run.raw).get("namespace"),
    "uid": lambda run: metadata(run.raw).get("uid"),
    "labels": lambda run: run.meta.labels,
    "annotations": lambda run: run.meta.annotations,
    "retry": lambda run: run.attempt - 1,
    "logger": RunLogger,
    "patch": lambda run: Patch(),
    "stopping": lambda run: Stopping(),
    "memo": lambda run: run.tools.memo(run),
    "cluster": _make_cluster,
    "requeue": lambda run: run.tools.requeue(run),
    "event": lambda run: run.tools.post(run),
    "secondary": lambda run: run.tools.secondary(run),
}

ARGUMENTS = (
    "annotations", "attempt", "body", "cluster", "event", "labels", "logger", "memo", "meta", "name", "namespace",
    "patch", "reason", "requeue", "resource", "retry", "secondary", "settings", "spec", "status", "stopping",
    "trigger", "uid",
)  # fmt: skip
"""What handlers of objects may ask for by name."""

_ALL = tuple(name for name in ARGUMENTS if name != "reason")
"""What a `**kwargs` gets, but in delete handlers."""

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
    """Calls handlers; those that are plain functions in threads."""

    def __init__(
        self,
        threads: Threads,
        clients: Callable[[str], Any] | None = None,
        gate: Callable[[str], Awaitable[None] | None] = lambda handler: None,
    ) -> None:
        self._gate = gate
        self.threads = threads
        self._clients = clients
        self._runs: set[Run] = set()

    async def call(self, handler: Handler, run: Run, timeout: float | None = None) -> Any:
        """
        Call the handler; what it returns.

        Raises what it raises, and `TimeoutError` after `timeout` seconds. An async handler is cancelled then; a
        plain one is told through `stopping` and waited for, since its thread still works on the object.
        """
        run.is_async = handler.is_async
        function = handler.resolve()
        arguments = self._arguments(handler, function, run)
        current_run.set(run)
        self._runs.add(run)
        process = os.getpid()
        try:
            if (gate := self._gate(handler.name)) is not None:
                await gate
            if not handler.is_async:
                return await self._in_thread(function, arguments, handler, run, timeout)
            if timeout is None:
                returned = function(**arguments)
                result = await returned if inspect.isawaitable(returned) else returned
            else:
                async with asyncio.timeout(timeout):
                    result = await _settle(function(**arguments))
            if "cluster" in run.__dict__ and isinstance(run.cluster, ClusterAccess) and run.cluster.calls:
                await run.cluster.calls.check()
            return result
        finally:
            end_child_of(process)
            self._runs.discard(run)

    def stop_runs(self) -> None:
        """Tell everything that runs to end early."""
        for run in self._runs:
            run.stop()

    def _arguments(self, handler: Handler, function: Callable[..., Any], run: Run) -> dict[str, Any]:
        """What the signature asks for."""
        names: Iterable[str] = handler.arguments
        if handler.wants_all(function):
            names = _ALL if run.reason is None else ARGUMENTS
        arguments = {name: getattr(run, name) for name in names}
        if handler.object_argument is not None:
            arguments[handler.object_argument] = run.body
        for parameter, library in handler.clients:
            arguments[parameter] = self.client(library)
        return arguments

    async def _in_thread(
        self, function: Callable[..., Any], arguments: dict[str, Any], handler: Handler, run: Run,
        timeout: float | None,
    ) -> Any:  # fmt: skip
        loop = asyncio.get_running_loop()
        where = f"{run.namespace}/{run.name}" if run.namespace else run.name
        future = self.threads.start(lambda: in_threads.call(function, arguments), f"{handler.name} on {where}")
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

    def client(self, library: str) -> Any:
        """A client of another library, with the operator's credentials. Raises `TypeError` where there is no server."""
        if self._clients is None:
            raise TypeError(f"a client of {library} is only there when a real server is")
        return self._clients(library)


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
