"""
Polling: outside state, fetched on a timer, and the primary objects whose value has changed.

Takes the author's poll function; gives requests for just the objects that it concerns. Never dies: an error backs off,
and is shown. Has no filters: the function gives nothing but what is relevant.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from opkit.cluster.body import Raw, identity, metadata
from opkit.flow.access import BlockingAccess, ClusterAccess
from opkit.flow.activities import call
from opkit.flow.invocation import Stopping
from opkit.flow.results import describe_error
from opkit.flow.runtime import Runtime
from opkit.flow.secondary import named
from opkit.flow.served import Served
from opkit.flow.tools import object_arguments
from opkit.plan.plan import Poll
from opkit.triggers import Trigger

logger = logging.getLogger("opkit.polling")

# Seconds between two tries of a failing poll at most, unless its own interval is longer.
_LONGEST_PAUSE = 600.0

_MISSING = object()


class Poller:
    """One poll of one resource, for all of its controllers."""

    def __init__(self, poll: Poll, served: Served, runtime: Runtime) -> None:
        self.name = poll.handler.name
        self.error: str | None = None
        """What the last call failed with."""
        self._poll = poll
        self._served = served
        self._runtime = runtime
        self._values: dict[Any, Any] = {}
        self._failures = 0
        self._is_first = True
        self._stopping = Stopping()

    async def run(self) -> None:
        """Poll until cancelled."""
        try:
            while True:
                try:
                    await (self._fetch_each() if self._poll.each else self._fetch_all())
                except Exception as error:
                    self._fail(error)
                else:
                    self._failures, self.error, self._is_first = 0, None, False
                await self._runtime.clock.sleep(self._pause())
        finally:
            self._stopping.set()

    def _pause(self) -> float:
        interval = self._poll.interval
        longest = max(interval, _LONGEST_PAUSE)
        return min(longest, interval * 2.0 ** min(self._failures, 20))

    def _fail(self, error: Exception) -> None:
        self._failures += 1
        self.error = describe_error(error)
        logger.error("The poll %s failed, and is called again in %g s: %s", self.name, self._pause(), self.error,
                     exc_info=error)  # fmt: skip

    # For the whole set.

    async def _fetch_all(self) -> None:
        result = await call(self._poll.handler, self._arguments(None))
        if not isinstance(result, Mapping):
            raise TypeError(f"a poll returns a mapping of primaries to values, not {type(result).__name__}")
        namespaced = self._served.resource.namespaced
        values = {
            key: copy.deepcopy(value)
            for primary, value in result.items()
            for key in named(primary, "default", namespaced=namespaced)
        }
        changed = [
            key for key in values.keys() | self._values.keys()
            if values.get(key, _MISSING) != self._values.get(key, _MISSING)
        ]  # fmt: skip
        self._values = values
        if not self._is_first:  # what there is at the start, the first runs have seen
            for namespace, name in changed:
                self._served.trigger(name, namespace, 0.0, None, Trigger.POLL)

    # For each object.

    async def _fetch_each(self) -> None:
        known = {identity(raw): raw for raw in self._objects()}
        self._values = {uid: value for uid, value in self._values.items() if uid in known}
        limit = asyncio.Semaphore(self._runtime.settings.parallel.limit)
        failed: list[Exception] = []

        async def fetch(uid: str, raw: Raw) -> None:
            async with limit:
                try:
                    self._take(uid, await call(self._poll.handler, self._arguments(raw)))
                except Exception as error:
                    failed.append(error)

        await asyncio.gather(*(fetch(uid, raw) for uid, raw in known.items()))
        if failed:
            raise failed[0]

    def _take(self, uid: str, value: Any) -> None:
        before = self._values.get(uid, _MISSING)
        self._values[uid] = copy.deepcopy(value)
        if before is not _MISSING and before != value:
            for pipeline in self._served.pipelines:
                pipeline.schedule(uid, 0.0, Trigger.POLL)

    def _objects(self) -> Iterable[Raw]:
        for pipeline in self._served.pipelines:
            for uid in pipeline.store:
                raw = pipeline.store.get(uid)
                if raw is not None and pipeline.view.matches(raw):
                    yield raw

    def _arguments(self, raw: Raw | None) -> dict[str, Any]:
        runtime = self._runtime
        access = ClusterAccess(
            runtime.writes,
            manager=runtime.settings.name,
            namespace=metadata(raw).get("namespace") if raw is not None else None,
        )
        arguments: dict[str, Any] = {
            "settings": runtime.settings,
            "memo": runtime.memo,
            "logger": logger,
            "stopping": self._stopping,
            "cluster": access if self._poll.handler.is_async else BlockingAccess(access, runtime.loop),
        }
        if raw is not None:
            arguments.update(object_arguments(raw, self._served.resource))
            if self._poll.handler.object_argument is not None:
                arguments[self._poll.handler.object_argument] = arguments["body"]
        return arguments
