"""
Polling: outside state, fetched on a timer, and the primary objects whose value has changed.

Takes the author's poll function; gives requests for just the objects that it concerns (`standing` tells which those
are). An object is polled as soon as it is known, and again right after each run, to learn what the run has left. Never
dies: an error backs off, and is shown; one object's error concerns no other. Has no filters: the function gives nothing
but what is relevant. Nothing is polled while another process leads.
"""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
import itertools
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from opkit.cluster.body import Raw, metadata, reference
from opkit.flow.access import BlockingAccess, ClusterAccess
from opkit.flow.activities import call
from opkit.flow.invocation import Stopping
from opkit.flow.results import describe_error
from opkit.flow.runtime import Runtime
from opkit.flow.secondary import named
from opkit.flow.served import Served
from opkit.flow.standing import Allowance, Moment, Standing
from opkit.flow.tools import object_arguments
from opkit.flow.writes import field_manager
from opkit.plan.plan import Poll
from opkit.triggers import Trigger

logger = logging.getLogger("opkit.polling")

# Seconds between two tries of a failing poll at most, unless its own interval is longer.
_LONGEST_PAUSE = 600.0

# Seconds that the poll of one object may take, unless its interval is longer: others wait for its place.
_LONGEST_FETCH = 60.0

# The share of the interval after which one more extra poll is allowed.
_EXTRA_SHARE = 0.1

# Seconds that a poll of the whole set waits at most for runs that are under way.
_CALM = 1.0

_MISSING = object()

_ALL = ""
"""The key of a poll that fetches the whole set."""


@dataclasses.dataclass(slots=True, eq=False)
class _Turn:
    """When something is polled next: one object, or the whole set."""

    due: float
    allowance: Allowance
    failures: int = 0
    error: str | None = None
    is_running: bool = False
    is_wanted: bool = False
    """Asked for while it was running: once more, right after that."""


class Poller:
    """One poll of one resource, for all of its controllers."""

    def __init__(self, poll: Poll, served: Served, runtime: Runtime) -> None:
        self.name = poll.handler.name
        self._poll = poll
        self._served = served
        self._runtime = runtime
        self._standings: dict[str, Standing] = {}
        self._turns: dict[str, _Turn] = {}
        self._line: list[tuple[float, int, str]] = []
        self._serial = itertools.count()
        self._running: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._stopping = Stopping()

    @property
    def error(self) -> str | None:
        """What a call failed with that has not succeeded since."""
        return next((turn.error for turn in self._turns.values() if turn.error is not None), None)

    async def run(self) -> None:
        """Poll until cancelled."""
        for pipeline in self._served.pipelines:
            for uid in pipeline.store:
                self.note_known(uid)
        if not self._poll.each:
            self._ask(_ALL)
        try:
            while True:
                await self._runtime.lead.wait()
                self._wake.clear()
                self._start_due()
                await self._wait()
        finally:
            self._stopping.set()
            for task in self._running:
                task.cancel()
            if self._running:
                await asyncio.wait(self._running)

    # What happens to objects.

    def note_known(self, uid: str) -> None:
        """An object is there: it is polled at once."""
        if uid not in self._standings:
            self._standings[uid] = Standing()
            self._ask(uid if self._poll.each else _ALL)

    def note_run(self, uid: str) -> None:
        """An object was run: what that has left is looked at."""
        standing, key = self._standings.get(uid), uid if self._poll.each else _ALL
        if standing is not None:
            standing.note_run(self._moment(), is_blind=self._turns[key].failures > 0)
            self._ask(key)

    def _moment(self) -> Moment:
        return self._runtime.clock.now(), next(self._serial)

    # Turns.

    def _ask(self, key: str) -> None:
        """Poll as soon as that may be: not while it backs off, and not again and again."""
        now = self._runtime.clock.now()
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = _Turn(now, Allowance(self._poll.interval * _EXTRA_SHARE, now))
        elif turn.is_running:
            turn.is_wanted = True
            return
        elif turn.failures:
            return
        else:
            before, turn.due = turn.due, min(turn.due, now + turn.allowance.wait(now))
            if turn.due == before:
                return  # it waits in the line for that already
        self._enter(key, turn)

    def _enter(self, key: str, turn: _Turn) -> None:
        heapq.heappush(self._line, (turn.due, next(self._serial), key))
        self._wake.set()

    def _start_due(self) -> None:
        """Start what is due, as many at once as runs are allowed."""
        now = self._runtime.clock.now()
        while self._line and self._line[0][0] <= now and len(self._running) < self._runtime.settings.parallel.limit:
            due, _, key = heapq.heappop(self._line)
            turn = self._turns.get(key)
            if turn is None or turn.is_running or turn.due != due:
                continue  # an entry that counts no more: it was asked for earlier, or runs
            raw = self._body(key) if key != _ALL else None
            if key != _ALL and raw is None:
                self._forget(key)
                continue
            turn.is_running = True
            turn.allowance.take(now)
            task = self._runtime.loop.create_task(
                self._take_turn(key, turn, raw), name=f"poll {self.name} {key}".strip()
            )
            self._running.add(task)
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._wake.set()

    async def _wait(self) -> None:
        """Wait until something is due, or was asked for, or has ended."""
        has_room = len(self._running) < self._runtime.settings.parallel.limit
        timer = None
        if self._line and has_room:
            timer = self._runtime.clock.call_at(self._line[0][0], self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _take_turn(self, key: str, turn: _Turn, raw: Raw | None) -> None:
        try:
            await (self._fetch_all(turn) if raw is None else self._fetch(key, raw))
        except BaseException as error:
            # A poll must not end the operator, whatever it raises; only our own cancellation is not its failure.
            if isinstance(error, asyncio.CancelledError) and self._stopping.is_set():
                raise
            self._fail(key, turn, raw, error)
        else:
            turn.failures, turn.error = 0, None
        turn.is_running = False
        self._next_turn(key, turn)  # what is gone by then is found out when that turn begins

    def _next_turn(self, key: str, turn: _Turn) -> None:
        now = self._runtime.clock.now()
        is_extra = turn.is_wanted and not turn.failures
        turn.due = now + (turn.allowance.wait(now) if is_extra else self._pause(turn))
        turn.is_wanted = False
        self._enter(key, turn)

    def _pause(self, turn: _Turn) -> float:
        interval = self._poll.interval
        longest = max(interval, _LONGEST_PAUSE)
        return min(longest, interval * 2.0 ** min(turn.failures, 20))

    def _fail(self, key: str, turn: _Turn, raw: Raw | None, error: BaseException) -> None:
        turn.failures += 1
        described = describe_error(error)
        is_news, turn.error = described != turn.error, described
        for uid in self._standings if key == _ALL else [key]:
            self._standings[uid].note_failure()
        logger.log(
            logging.ERROR if is_news else logging.DEBUG, "The poll %s%s failed, and is called again in %g s: %s",
            self.name, f" of {reference(raw)}" if raw is not None else "", self._pause(turn), described,
            exc_info=error if is_news else None,
        )  # fmt: skip

    def _forget(self, uid: str) -> None:
        self._turns.pop(uid, None)
        self._standings.pop(uid, None)

    # Fetching.

    async def _fetch(self, uid: str, raw: Raw) -> None:
        begun = self._moment()
        async with asyncio.timeout(max(_LONGEST_FETCH, self._poll.interval)):
            value = await self._call(raw)
        self._take(uid, value, begun)

    async def _fetch_all(self, turn: _Turn) -> None:
        # Runs that belong together, as those of the start, are looked at together.
        await self._served.coordinator.wait_idle(_CALM)
        begun, turn.is_wanted = self._moment(), False
        result = await self._call(None)
        if not isinstance(result, Mapping):
            raise TypeError(f"a poll returns a mapping of primaries to values, not {type(result).__name__}")
        values = dict(self._named(result))
        for uid in list(self._standings):
            raw = self._body(uid)
            if raw is None:
                self._standings.pop(uid)
                continue
            meta = metadata(raw)
            self._take(uid, values.get((meta.get("namespace"), str(meta.get("name"))), _MISSING), begun)

    def _named(self, result: Mapping[Any, Any]) -> Iterator[tuple[tuple[str | None, str], Any]]:
        """The values by namespace and name. A key that names nothing is told of, and concerns no other."""
        for primary, value in result.items():
            try:
                for key in named(primary, "default", namespaced=self._served.resource.namespaced):
                    yield key, value
            except TypeError as error:
                logger.error("The poll %s gave a key that names no primary: %s", self.name, error)

    def _take(self, uid: str, value: Any, begun: Moment) -> None:
        try:
            is_changed = self._standings[uid].take(None if value is _MISSING else (value,), begun)
        except Exception as error:  # a value that can't be copied
            logger.error("What the poll %s gave can't be kept: %s", self.name, describe_error(error))
            return
        if is_changed:
            for pipeline in self._served.pipelines:
                pipeline.schedule(uid, 0.0, Trigger.POLL)

    def _body(self, uid: str) -> Raw | None:
        """The newest body of an object, if a controller is for it."""
        for pipeline in self._served.pipelines:
            raw = pipeline.store.get(uid)
            if raw is not None and pipeline.view.matches(raw):
                return raw
        return None

    async def _call(self, raw: Raw | None) -> Any:
        handler = self._poll.handler
        access = ClusterAccess(
            self._runtime.writes,
            manager=field_manager(self._runtime.settings.name, self.name),
            namespace=metadata(raw).get("namespace") if raw is not None else None,
        )
        arguments: dict[str, Any] = {
            "settings": self._runtime.settings,
            "memo": self._runtime.memo,
            "logger": logger,
            "stopping": self._stopping,
            "cluster": access if handler.is_async else BlockingAccess(access, self._runtime.loop),
        }
        if raw is not None:
            arguments.update(object_arguments(raw, self._served.resource))
            if handler.object_argument is not None:
                arguments[handler.object_argument] = arguments["body"]
        what = f"{self.name} on {reference(raw)}" if raw is not None else self.name
        value = await call(handler, arguments, self._runtime.threads, what, self._runtime.invoker.client)
        await access.calls.check()
        return value
