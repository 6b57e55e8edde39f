"""
Activities: the functions of the author that are called for the operator, not for an object.

Takes handlers of the plan and what they may ask for; gives what they return. Startup handlers that fail
temporarily are called again, as in kopf; any other failure is the caller's to tell.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opkit.errors import OpkitError
from opkit.flow import threads as in_threads
from opkit.flow.forks import end_child_of
from opkit.flow.results import describe_error, is_temporary
from opkit.flow.stopping import Stop
from opkit.flow.threads import Threads
from opkit.plan.plan import Handler
from opkit.results import seconds

logger = logging.getLogger("opkit.activities")

_PAUSE = 1.0


class StartupError(OpkitError):
    """A startup handler failed for good, so the operator does not start."""


async def call(
    handler: Handler,
    arguments: Mapping[str, Any],
    threads: Threads,
    what: str = "",
    client: Callable[[str], Any] | None = None,
) -> Any:
    """
    Call a function with what it asks for; a plain one runs in a thread, under the name of `what`.

    A cancellation ends an async function; the thread of a plain one works on, and is named as long as it does.
    """
    wanted = dict(arguments) if handler.takes_all else {name: arguments[name] for name in handler.arguments}
    if handler.object_argument is not None:
        wanted[handler.object_argument] = arguments[handler.object_argument]
    for parameter, library in handler.clients:
        if client is None:
            raise TypeError(f"a client of {library} is only there when a real server is")
        wanted[parameter] = client(library)
    function = handler.resolve()
    if handler.is_async:
        process = os.getpid()
        try:
            return await function(**wanted)
        finally:
            end_child_of(process)
    working = threads.start(lambda: in_threads.call(function, wanted), what or handler.name)
    result = await asyncio.shield(working)
    return await result if inspect.isawaitable(result) else result


async def start_up(handlers: Iterable[Handler], arguments: Mapping[str, Any], threads: Threads, stop: Stop) -> None:
    """Call the startup handlers one after the other, until a stop is asked for. Raises `StartupError`."""
    for handler in handlers:
        while not stop.is_asked:
            try:
                await call(handler, arguments, threads, f"startup handler {handler.name}")
                break
            except Exception as error:
                if not is_temporary(error):
                    raise StartupError(
                        f"the startup handler {handler.name} ({handler.file}:{handler.line}) failed: "
                        f"{describe_error(error)}"
                    ) from error
                delay = seconds(getattr(error, "delay", None), "the delay of a TemporaryError")
                logger.warning("The startup handler %s failed, and is called again: %s", handler.name, error)
                await stop.sleep(_PAUSE if delay is None else delay)


async def shut_down(handlers: Iterable[Handler], arguments: Mapping[str, Any], threads: Threads) -> None:
    """Call the shutdown handlers one after the other; the failure of one does not keep the next from its turn."""
    for handler in handlers:
        try:
            await call(handler, arguments, threads, f"shutdown handler {handler.name}")
        except Exception as error:
            logger.error("The shutdown handler %s failed: %s", handler.name, describe_error(error), exc_info=error)


async def call_probes(
    probes: Iterable[tuple[str, Handler]], arguments: Mapping[str, Any], threads: Threads
) -> dict[str, Any]:
    """What the probes give, by their names. What one raises stands there as text."""
    values: dict[str, Any] = {}
    for name, handler in probes:
        try:
            values[name] = await call(handler, arguments, threads, f"probe {name}")
        except Exception as error:
            values[name] = describe_error(error)
    return values
