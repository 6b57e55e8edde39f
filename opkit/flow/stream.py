"""
The stream: one watch, kept alive.

Takes a scope; gives batches of events, with marks around each complete list, to whoever is given as `sink`. Goes on
from the last version where it can and lists again where it must; whatever fails, it starts again after a while, for
as long as it is served (semantics: 1). Never knows handlers or queues.

The states of one connection, and what may follow:

    listing      (no version)  -> watching when the list is complete; -> waiting when it fails
    watching     (a version)   -> watching when the server ends it cleanly; -> waiting when it fails
    waiting      (a backoff)   -> watching from the last version, after one failure in a row
                               -> listing, after several, or when the version is too old (410)
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import random
from collections.abc import Callable

from opkit.clock import Clock
from opkit.cluster.pacing import TOO_SHORT, Pacing
from opkit.cluster.protocol import Batch, Cluster, Mark, WatchScope
from opkit.errors import ApiError
from opkit.settings import WatchSettings

logger = logging.getLogger("opkit.stream")

# Watches in a row that end at once without having shown anything. Some servers say by them that a version is too old,
# instead of 410.
_SUSPICIOUS = 3

# Failures in a row after which the version is given up, and the state is listed anew.
_RELIST_AFTER = 2

_ADVICE = {
    401: "the server refuses the credentials; check the kubeconfig, or the service account's token",
    403: "permission is missing; grant list and watch on it to the operator's user or service account",
    404: "the server does not serve it (any more); apply its CustomResourceDefinition",
}


@dataclasses.dataclass(frozen=True, slots=True)
class StreamStatistics:
    """A snapshot of a stream. Times are the clock's monotonic seconds."""

    scope: WatchScope
    listed: bool
    """A complete list has been seen."""
    last_sign: float
    """When something came last: an event, a bookmark, or the connection itself."""
    failures: int
    """In a row, up to now."""
    pausing: bool
    """It waits before it connects again."""
    lists: int
    watches: int


class Stream:
    """One scope's stream."""

    def __init__(
        self,
        scope: WatchScope,
        *,
        cluster: Cluster,
        clock: Clock,
        random: random.Random,
        settings: WatchSettings,
        sink: Callable[[Batch], None],
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        self.scope = scope
        self._cluster = cluster
        self._clock = clock
        self._settings = settings
        self._sink = sink
        self._on_progress = on_progress
        self._version: str | None = None
        self._listed = False
        self._nothing_seen = True
        self._last_sign = clock.now()
        self._pacing = Pacing(settings.reconnect_backoff, random.random)
        self._empty = 0
        self._just_listed = False
        self._pausing = False
        self._reported: int | None = None
        self._lists = 0
        self._watches = 0

    async def run(self) -> None:
        """Stream until cancelled. Nothing else ends it."""
        while True:
            started, shown = self._clock.now(), False
            try:
                shown = await self._connect()
            except ApiError as error:
                await self._fail(error, self._clock.now() - started)
            except Exception as error:
                logger.exception("The stream of %s failed in a way that opkit does not know.", self.scope)
                await self._fail(ApiError(str(error), status=500), self._clock.now() - started)
            else:
                await self._end(self._clock.now() - started, shown)

    async def _connect(self) -> bool:
        """One connection: a list if there is no version to go on from, then a watch. Whether it showed anything."""
        since, shown = self._version, False
        if since is None:
            self._lists += 1
        else:
            self._watches += 1
        # What lags behind can't take back what was seen before only as long as nothing was. And it is tried once: the
        # cache may be what is wrong.
        cached = self._settings.cached_first_list and self._nothing_seen and not self._pacing.failures
        batches = self._cluster.watch(
            self.scope, since=since, cached=cached, patience=self._settings.inactivity_timeout
        )
        async with contextlib.aclosing(batches):
            async for batch in batches:
                self._last_sign = self._clock.now()
                shown = self._take(batch) or shown
        return shown

    def _take(self, batch: Batch) -> bool:
        """Pass a batch on; whether it showed that the watch is alive, not only the list before it."""
        self._sink(batch)
        if isinstance(batch, Mark):
            self._just_listed = batch is Mark.END_LIST
            if batch is Mark.BEGIN_LIST:
                self._version = None
            else:
                self._listed = True
                self._on_progress()
            return False
        if batch:
            self._nothing_seen = False
            self._remember_version(batch)
        # The version of the list comes as a bookmark right after it, before the watch is even asked for.
        alive = bool(batch) and not self._just_listed and batch[-1][0] != "LISTED"
        self._just_listed = False
        if alive and self._reported is not None:
            self._reported = None
            logger.info("%s is watched again.", self.scope)
        return alive

    def _remember_version(self, batch: Batch) -> None:
        """The version of the last event or bookmark is where to go on. Those of listed objects are not."""
        assert not isinstance(batch, Mark)
        type_, raw = batch[-1]
        if type_ != "LISTED" and isinstance(raw, dict):
            self._version = (raw.get("metadata") or {}).get("resourceVersion") or self._version

    async def _end(self, lasted: float, shown: bool) -> None:
        """The server ended the stream cleanly: go on, unless this looks like a refusal without words."""
        pause = self._pacing.ended(lasted)
        self._empty = 0 if shown or lasted >= TOO_SHORT else self._empty + 1
        if self._empty >= _SUSPICIOUS:
            self._empty, self._version = 0, None
        if pause:
            await self._pause(pause)

    async def _fail(self, error: ApiError, lasted: float) -> None:
        pause = self._pacing.failed(lasted, at_least=error.retry_after)
        if error.status == 410:
            self._version = None
            if self._pacing.failures == 1:
                return  # nothing is wrong with a version that has grown old: list at once
        elif self._pacing.failures >= _RELIST_AFTER or _is_of_the_future(error):
            self._version = None
        self._report(error)
        self._on_progress()
        await self._pause(pause)

    def _report(self, error: ApiError) -> None:
        """Say what is wrong once, and again when it becomes something else."""
        if error.status == self._reported:
            logger.debug("The stream of %s failed again: %s", self.scope, error)
            return
        if self._pacing.failures < 2 and error.status not in _ADVICE and self._listed:
            logger.debug("The stream of %s was interrupted: %s", self.scope, error)
            return
        self._reported = error.status
        advice = _ADVICE.get(error.status)
        logger.warning("%s can't be watched: %s. It is tried again until it works.", self.scope,
                       f"{advice} ({error})" if advice else error)  # fmt: skip

    async def _pause(self, seconds: float) -> None:
        self._pausing = True
        try:
            await self._clock.sleep(seconds)
        finally:
            self._pausing = False

    def statistics(self) -> StreamStatistics:
        return StreamStatistics(
            scope=self.scope,
            listed=self._listed,
            last_sign=self._last_sign,
            failures=self._pacing.failures,
            pausing=self._pausing,
            lists=self._lists,
            watches=self._watches,
        )


def _is_of_the_future(error: ApiError) -> bool:
    """Whether the server has never come to the version that was asked for: it was set back, and only a list helps."""
    return error.status == 504 and "too large resource version" in error.message.lower()
