"""
Virtual time: an event loop whose clock stands still while there is something to do, and jumps when there is not.

Takes callbacks and timers as any asyncio loop does; `run_until(when)` runs them up to a moment of its own time. All
of asyncio's sleeps, timeouts and timers follow it, in the author's code too. Plain functions that are handed to
threads run one at a time, and time stands still for them as well. No sockets, no sleeping.

With a seed other than 0, tasks that can go on at the same moment do so in another order: each seed is one legal
interleaving, and always the same.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import heapq
import random
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from opkit.errors import OpkitError

T = TypeVar("T")

# Real seconds for which a thread may work before it counts as one that sleeps or hangs for real.
PATIENCE = 2.0

# Rounds of the loop at one moment of its time, after which there is no hope that it ends: many times what a hundred
# thousand objects need.
MOST_ROUNDS = 300_000

_REALLY_SLEEP = time.sleep


class RealSleep(OpkitError):
    """Something under test slept for real, or blocked for so long that it must have."""


class Endless(OpkitError):
    """Virtual time stands still, because something goes on for ever without letting it pass."""


class _Job:
    """A plain function in a thread of its own. It and the loop take turns: only one of them runs."""

    def __init__(self, loop: VirtualLoop, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.future: asyncio.Future[Any] = loop.create_future()
        self._loop = loop
        self._call = (function, args)
        self._may_run = threading.Semaphore(0)
        self._parked = threading.Semaphore(0)
        self._answer: concurrent.futures.Future[Any] | None = None
        self.thread = threading.Thread(target=self._work, name="opkit-handler", daemon=True)

    def turn(self) -> None:
        """Let the thread run until it waits for the loop or is done. Called by the loop."""
        if not self.thread.is_alive():
            self.thread.start()
        self._may_run.release()
        if not self._parked.acquire(timeout=PATIENCE):
            self._loop.fail(
                RealSleep(f"{describe(self._call[0])} blocks its thread for more than {PATIENCE:g} s of real time")
            )

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for it. Called by the thread."""
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._loop.call_soon(self._begin, coroutine, answer)
        self._parked.release()
        self._may_run.acquire()
        return answer.result()

    def _begin(self, coroutine: Coroutine[Any, Any, Any], answer: concurrent.futures.Future[Any]) -> None:
        task = self._loop.create_task(coroutine)
        task.add_done_callback(lambda done: self._finish(done, answer))

    def _finish(self, task: asyncio.Task[Any], answer: concurrent.futures.Future[Any]) -> None:
        if task.cancelled():
            answer.cancel()
        elif (error := task.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(task.result())
        self.turn()

    def _work(self) -> None:
        self._may_run.acquire()
        function, args = self._call
        _job.current = self
        result, failure = None, None
        try:
            result = function(*args)
        except BaseException as error:
            failure = error
        if not self._loop.is_closed():  # else the test was over long before this thread
            self._loop.call_soon(_settle, self.future, result, failure)
        self._parked.release()


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class _Current(threading.local):
    current: _Job | None = None


_job = _Current()


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop. Not thread-safe but for the jobs that it runs itself."""

    # What the base class keeps, and its published types leave out.
    _scheduled: list[Any]
    _ready: collections.deque[asyncio.Handle]
    _thread_id: int | None

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._now = 0.0
        self._limit = 0.0
        self._random = random.Random(seed) if seed else None
        self._jobs: set[_Job] = set()
        self._rounds = 0
        self.errors: list[BaseException] = []
        """What went wrong in the loop itself, rather than in what it runs."""

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self._now

    def run_in_executor(  # type: ignore[override]  # a plain Future, as the base class returns too
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        job = _Job(self, func, args)
        self._jobs.add(job)
        job.future.add_done_callback(lambda _: self._jobs.discard(job))
        self.call_soon(job.turn)
        return job.future

    def wait_from_thread(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The portal for threads: see `opkit.flow.portal`."""
        job = _job.current
        if job is None:
            coroutine.close()
            raise RuntimeError("only a handler's own thread can wait for a loop with virtual time")
        return job.wait(coroutine)

    def call_soon_threadsafe(  # type: ignore[override]  # the base class takes any context as well
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        # Threads and loop take turns, so this is as safe as any other call.
        return self.call_soon(callback, *args, context=context)

    def _check_thread(self) -> None:
        """In debug mode asyncio forbids other threads to call; here they only do in their turn."""

    def _run_once(self) -> None:
        """One iteration: everything that can run now, or else a jump of the clock to the next timer."""
        scheduled, ready = self._scheduled, self._ready
        while scheduled and (scheduled[0]._cancelled or scheduled[0]._when <= self._now):
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            if not timer._cancelled:
                ready.append(timer)
        if not ready:
            if scheduled and scheduled[0]._when <= self._limit:
                self._now = scheduled[0]._when
                self._rounds = 0
            else:
                self._stopping = True
            return
        self._rounds += 1
        if self._rounds > MOST_ROUNDS:
            self._rounds = 0
            raise Endless(
                f"there is always something left to do at {self._now:g} s, so time can't go on. A requeue after 0 s, "
                f"or a loop around sleep(0)? What runs: {'; '.join(self.waiting_tasks())}"
            )
        batch = list(ready)
        ready.clear()
        if self._random is not None and len(batch) > 1:
            self._shuffle(batch)
        for handle in batch:
            if not handle._cancelled:
                handle._run()

    def _shuffle(self, batch: list[asyncio.Handle]) -> None:
        """Let tasks go on in another order. Plain callbacks keep theirs, which asyncio promises."""
        assert self._random is not None
        places = [place for place, handle in enumerate(batch) if _is_step(handle)]
        steps = [batch[place] for place in places]
        self._random.shuffle(steps)
        for place, handle in zip(places, steps, strict=True):
            batch[place] = handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when their time comes, or when they are many."""
        self._cancelled_timers = getattr(self, "_cancelled_timers", 0) + 1
        scheduled = self._scheduled
        if self._cancelled_timers > 100 and self._cancelled_timers * 2 > len(scheduled):
            self._cancelled_timers = 0
            scheduled[:] = [timer for timer in scheduled if not timer._cancelled]
            heapq.heapify(scheduled)

    # For whoever drives it.

    def run_until(self, when: float) -> None:
        """
        Run everything that is due up to this moment of virtual time, and be at that moment then.

        Works inside of a running loop too: it moves to a thread of its own for as long as it takes.
        """
        self._limit = when
        self._rounds = 0
        _apart_from_running_loop(self.run_forever)
        self._now = max(self._now, when)

    def run_now(self) -> None:
        """Run everything that is due now."""
        self.run_until(self._now)

    def next_timer(self) -> float | None:
        """When the next timer is due."""
        times = [timer._when for timer in self._scheduled if not timer._cancelled]
        return min(times, default=None)

    def fail(self, error: BaseException) -> None:
        """Take note of something that must fail the test."""
        self.errors.append(error)

    def waiting_tasks(self) -> list[str]:
        """Who waits for what, for an error that says so."""
        return [f"{task.get_name()}: {_where(task)}" for task in asyncio.all_tasks(self)]


_STEPS = ("TaskStepMethWrapper", "TaskWakeupMethWrapper")


def _is_step(handle: asyncio.Handle) -> bool:
    """Whether a handle makes a task go on."""
    callback = getattr(handle, "_callback", None)
    owner = getattr(callback, "__self__", None)
    return isinstance(owner, asyncio.Task) or type(callback).__name__ in _STEPS


def _where(task: asyncio.Task[Any]) -> str:
    stack = task.get_stack(limit=1)
    if not stack:
        return "nowhere"
    frame = stack[0]
    return f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"


def _in_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _apart_from_running_loop(run: Callable[[], None]) -> None:
    """Call it here, or, where another event loop runs in this thread, in a thread apart."""
    if not _in_running_loop():
        run()  # not in an except block: every error of the author's would show it as its context
        return
    errors: collections.deque[BaseException] = collections.deque()

    def call() -> None:
        try:
            run()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call, name="virtual time")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def describe(function: Any) -> str:
    """A function by its name and place, through the wrappers around it."""
    inner = function
    while True:
        if getattr(inner, "func", None) is not None:
            args = getattr(inner, "args", ())
            inner = args[0] if args and callable(args[0]) else inner.func
        elif getattr(inner, "__wrapped__", None) is not None:
            inner = inner.__wrapped__
        else:
            break
    code = getattr(inner, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"{getattr(inner, '__name__', inner)}{where}"


@contextlib.contextmanager
def no_real_sleep(loop: VirtualLoop) -> Iterator[None]:
    """Report every `time.sleep` of what the loop runs, by the name of who called it, for the time of the block."""

    def sleep(seconds: Any) -> None:
        if threading.get_ident() != loop._thread_id and _job.current is None:
            _REALLY_SLEEP(seconds)  # a thread that is none of ours
            return
        instead = "use `await asyncio.sleep()`, or a result's requeue_after"
        loop.fail(RealSleep(f"{_caller()} sleeps for real; {instead}"))

    before, time.sleep = time.sleep, sleep  # whoever imported the module sleeps by its attribute
    try:
        yield
    finally:
        time.sleep = before


def _caller() -> str:
    frame = sys._getframe(2)
    return f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"
