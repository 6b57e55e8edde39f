"""
The coordinator: which request runs now.

Takes requests for the controllers of one resource, gives each a slot of the resource's budget and the lock of its
object together, so that no slot is ever held by one who waits. Turns the outcome of a run into queue
operations: this is the only way back. Never calls Kubernetes, never sees a handler.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import weakref
from collections.abc import Awaitable, Callable, Iterable

from opkit.clock import Clock
from opkit.cluster.body import metadata
from opkit.flow.queue import Added, Queue
from opkit.flow.requests import CHANGES, Request
from opkit.settings import ConflictStrategy

logger = logging.getLogger("opkit.coordinator")

Serve = Callable[[Request], Awaitable[Request | None]]
"""Runs a request; gives what is to wait for the object next, or `None` for nothing."""

# After a fault of opkit's own the request is put back, so that nothing is lost; not at once, so that it can't spin.
_AFTER_A_BUG = 30.0

# Seconds for cancelled runs to end; one that swallows its cancellation must not hold up the exit.
_LAST_WORDS = 3.0


@dataclasses.dataclass(eq=False, slots=True)
class Lane:
    """One controller's way through the coordinator: its queue, and who serves what comes out of it."""

    name: str
    queue: Queue
    serve: Serve
    urgent: bool = False
    """Served before all lanes that are not."""


@dataclasses.dataclass(frozen=True, slots=True)
class CoordinatorStatistics:
    """A snapshot of the coordinator."""

    limit: int
    running: int
    most_running: int
    """The most that ever ran at once."""
    waiting: int
    discarded: int
    """Requests that `ConflictStrategy.DISCARD` dropped."""


class Coordinator:
    """Slots and locks of one resource, shared by all of its controllers."""

    def __init__(
        self,
        *,
        clock: Clock,
        limit: int,
        conflict: ConflictStrategy = ConflictStrategy.WAIT,
        requeue_delay: float = 5.0,
        on_bug: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._clock = clock
        self._limit = limit
        self._conflict = conflict
        self._requeue_delay = requeue_delay
        self._on_bug = on_bug
        self._loop = asyncio.get_running_loop()
        self._lanes: list[Lane] = []
        self._urgent: list[Lane] = []
        self._ordinary: list[Lane] = []
        self._turn = 0
        self._running: dict[str, tuple[Lane, asyncio.Task[None]]] = {}
        self._cancelled: weakref.WeakSet[asyncio.Task[None]] = weakref.WeakSet()
        self._most_running = 0
        self._discarded = 0
        self._awake = False
        self._closed: frozenset[str | None] = frozenset()
        self._gated: dict[str, str | None] = {}
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due: float | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def join(self, lane: Lane) -> None:
        """Serve one more lane."""
        lane.queue.bind(self.wake)
        for key in (*self._running, *self._gated):
            lane.queue.hold(key)
        self._lanes.append(lane)
        (self._urgent if lane.urgent else self._ordinary).append(lane)

    # Requests come in.

    def add(self, lane: Lane, request: Request) -> Added | None:
        """
        Take a request; what became of it. `None`: dropped by `ConflictStrategy.DISCARD`.

        Only changes from outside meet the conflict strategy; what a run or a person asks for is always kept, and so is
        the start of a deletion. Urgent lanes are not about what is being run, so nothing of theirs meets it.
        """
        if self._conflict is not ConflictStrategy.WAIT and not lane.urgent and self._conflicts(request):
            if self._conflict is ConflictStrategy.DISCARD:
                self._discarded += 1
                return None
            request.due += self._requeue_delay
        if self._closed and request.body is not None:
            self._keep_back(request.key, metadata(request.body).get("namespace"))
        added = lane.queue.add(request)
        if added is not Added.MERGED:
            self.wake()
        return added

    def _keep_back(self, key: str, namespace: str | None) -> None:
        if namespace in self._closed and key not in self._running:
            self._gated[key] = namespace
            for lane in self._lanes:
                lane.queue.hold(key)

    def _conflicts(self, request: Request) -> bool:
        return request.key in self._running and request.triggers <= CHANGES and not request.afresh

    def wake(self) -> None:
        """Look for work in the next turn of the loop; many calls before that are one."""
        if not self._awake and not self._stopped:
            self._awake = True
            self._loop.call_soon(self._pump)

    # Runs start and end.

    def _pump(self) -> None:
        """Start all that can start now, and set the timer for what comes next."""
        self._awake = False
        if self._stopped or None in self._closed:
            return
        now = self._clock.now()
        while len(self._running) < self._limit:
            if (found := self._next(now)) is None:
                break
            self._start(*found)
        self._set_timer(now)

    def _next(self, now: float) -> tuple[Lane, Request] | None:
        """The request whose turn it is: urgent lanes first, the others one after another."""
        for lane in self._urgent:
            if (request := lane.queue.take(now)) is not None:
                return lane, request
        lanes = self._ordinary
        for step in range(len(lanes)):
            position = (self._turn + step) % len(lanes)
            if (request := lanes[position].queue.take(now)) is not None:
                self._turn = (position + 1) % len(lanes)
                return lanes[position], request
        return None

    def _set_timer(self, now: float) -> None:
        due = None
        if len(self._running) < self._limit:  # else the end of a run looks again
            dues = [due for lane in self._lanes if (due := lane.queue.next_due()) is not None]
            due = max(min(dues), now) if dues else None
        if due is not None and due == self._timer_due and self._timer is not None:
            return  # most runs end without moving what is due next
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_due = due
        if due is not None:
            self._timer = self._clock.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.wake()

    def _start(self, lane: Lane, request: Request) -> None:
        for other in self._lanes:
            other.queue.hold(request.key)
        self._idle.clear()
        task = self._loop.create_task(self._run(lane, request), name=f"{lane.name} {request.key}")
        self._running[request.key] = (lane, task)
        self._most_running = max(self._most_running, len(self._running))

    async def _run(self, lane: Lane, request: Request) -> None:
        again: Request | None = None
        try:
            again = await lane.serve(request)
        except asyncio.CancelledError:
            pass  # only the coordinator cancels here: it stops, or the lead is lost, and the queue goes with it
        except BaseException as error:
            again = self._after_a_bug(request, error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._finish(lane, request.key, again)

    def _after_a_bug(self, request: Request, error: BaseException) -> Request:
        logger.error("opkit itself failed while it served %s; this is a bug in opkit", request.key, exc_info=error)
        if self._on_bug is not None:
            self._on_bug(error)
        request.due = self._clock.now() + _AFTER_A_BUG
        return request

    def _finish(self, lane: Lane, key: str, again: Request | None) -> None:
        """The one place where the outcome of a run becomes queue operations."""
        del self._running[key]
        if again is not None:
            lane.queue.add(again)
        for other in self._lanes:
            other.queue.release(key)
        if not self._running:
            self._idle.set()
        self.wake()

    # The end, and looking on.

    async def wait_idle(self, within: float) -> None:
        """Wait until nothing runs, at most so many seconds."""
        try:
            async with asyncio.timeout(within):
                while not self._idle.is_set():
                    await self._idle.wait()
                    await asyncio.sleep(0)  # what is due next begins in the turn after the end of a run
                    await asyncio.sleep(0)
        except TimeoutError:
            pass

    def is_running(self, key: str) -> bool:
        return key in self._running

    def running(self) -> Iterable[tuple[str, str]]:
        """What runs now, as (lane's name, key)."""
        return [(lane.name, key) for key, (lane, _) in self._running.items()]

    def waiting(self) -> Iterable[tuple[str, Request]]:
        """What waits now, as (lane's name, request)."""
        return [(lane.name, request) for lane in self._lanes for request in lane.queue.waiting()]

    def next_due(self, ignore: Callable[[Request], bool]) -> float | None:
        """When the next request is due that is not to be ignored, held ones included."""
        dues = (request.due for lane in self._lanes for request in lane.queue.waiting() if not ignore(request))
        return min(dues, default=None)

    def set_gates(self, closed: frozenset[str | None]) -> None:
        """
        Close the gates of these namespaces, and open all others; `None` stands for everything.

        Requests for objects behind a closed gate are taken and merged, and do not start until it is opened.
        """
        self._closed = closed
        for key in [key for key, namespace in self._gated.items() if namespace not in closed]:
            del self._gated[key]
            for lane in self._lanes:
                lane.queue.release(key)
        self.wake()

    def suspend(self) -> None:
        """
        Refuse requests, drop what waits and cancel what runs, until `resume`: another process works now.

        Runs in threads can't be cancelled; their locks are held until they end.
        """
        for lane in self._lanes:
            lane.queue.close()
            lane.queue.clear()
        tasks = [task for _, task in self._running.values()]
        self._cancelled.update(tasks)
        for task in tasks:
            task.cancel()

    def resume(self) -> None:
        """Accept requests again."""
        for lane in self._lanes:
            lane.queue.open()
        self.wake()

    def close(self) -> None:
        """Refuse requests and start nothing any more. What runs, runs."""
        self._stopped = True
        for lane in self._lanes:
            lane.queue.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def drain(self, grace: float) -> list[tuple[str, str]]:
        """
        Wait for what runs, at most `grace` seconds; then cancel it. To be called after `close`.

        Gives what had to be cancelled, as (lane's name, key).
        """
        await self.wait_idle(grace)
        unfinished = list(self.running())
        tasks = [task for _, task in self._running.values()]
        self._cancelled.update(tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_WORDS)
        return unfinished

    def is_cancelling(self, key: str) -> bool:
        """Whether the run of this key is being cancelled by the runtime, not by its own doing."""
        running = self._running.get(key)
        return running is not None and running[1] in self._cancelled

    def statistics(self) -> CoordinatorStatistics:
        return CoordinatorStatistics(
            limit=self._limit,
            running=len(self._running),
            most_running=self._most_running,
            waiting=sum(len(lane.queue) for lane in self._lanes),
            discarded=self._discarded,
        )
