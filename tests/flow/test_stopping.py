"""Stop means stop: whatever of the author's is under way gets the grace, and no more."""

import asyncio
import contextlib
import datetime
import random

import pytest

import opkit
from opkit.clock import LoopClock
from opkit.flow.stopping import Stop, Stopped
from opkit.simulation.cluster import SimulatedCluster
from opkit.simulation.store import Store
from opkit.testing.definitions import permissive

PRIMARY = ("example.com", "v1", "webs")


@pytest.fixture
def registry():
    made = opkit.Registry()

    @opkit.reconcile(*PRIMARY, registry=made)
    async def reconcile():
        pass

    return made


class Run:
    """An operator's `run()` in virtual time, and when it ended."""

    def __init__(self, loop, registry, grace=5.0, connect=None):
        store = Store(lambda: datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC), random.Random(0))
        endpoint = store.endpoint("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        store.create(endpoint, permissive("webs", "Web", "example.com"))
        settings = opkit.Settings()
        settings.shutdown.grace = grace
        self.loop = loop
        self.operator = opkit.Operator(registry=registry, settings=settings, cluster=SimulatedCluster(store))
        if connect is not None:
            self.operator._connect = connect
        self.ended = None
        self.task = loop.create_task(self._run())

    async def _run(self):
        try:
            await self.operator.run()
        finally:
            self.ended = self.loop.time()

    def stop_at(self, seconds):
        self.loop.run_until(seconds)
        self.operator.stop()
        self.loop.run_until(seconds + 100)
        return self.ended - seconds


def test_a_startup_handler_that_waits_for_ever_is_cut_off(loop, registry, caplog):
    """After the grace, with a line that says so; nothing is served and no shutdown handler is called."""
    called = []

    @opkit.startup(registry=registry)
    async def wait():
        await asyncio.sleep(10_000)

    @opkit.startup(registry=registry)
    async def never():
        called.append("second")

    run = Run(loop, registry)
    assert run.stop_at(2) == pytest.approx(5)
    assert run.task.exception() is None and called == []
    assert "A startup handler did not end within 5 s and is cut off" in caplog.text


def test_a_startup_handler_may_end_within_the_grace(loop, registry):
    """What it does is done; the next is not called any more."""
    called = []

    @opkit.startup(registry=registry)
    async def slow():
        await asyncio.sleep(4)
        called.append("first")

    @opkit.startup(registry=registry)
    async def never():
        called.append("second")

    assert Run(loop, registry).stop_at(2) == pytest.approx(2)
    assert called == ["first"]


@pytest.mark.parametrize("delay", [None, 1, 10_000])
def test_a_startup_handler_that_is_retried_is_not_called_again(loop, registry, delay):
    """Between two tries the stop is at once."""
    called = []

    @opkit.startup(registry=registry)
    async def connect():
        called.append(loop.time())
        raise opkit.TemporaryError("not yet", delay=delay)

    run = Run(loop, registry)
    assert run.stop_at(2.5) == pytest.approx(0)
    assert max(called) <= 2.5


def test_the_grace_that_a_startup_handler_sets_counts(loop, registry):
    """It is asked for when it is needed."""

    @opkit.startup(registry=registry)
    async def wait(settings):
        settings.shutdown.grace = 1
        await asyncio.sleep(10_000)

    assert Run(loop, registry).stop_at(2) == pytest.approx(1)


def test_one_that_refuses_its_cancellation_does_not_hold_up_the_end(loop, registry):
    """It gets some last seconds, and is left."""

    @opkit.startup(registry=registry)
    async def stubborn():
        for _ in range(5):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(10_000)

    assert Run(loop, registry).stop_at(2) < 10


def test_a_login_that_hangs_is_cut_off(loop, registry):
    """Credentials that do not come must not keep the process."""

    @contextlib.asynccontextmanager
    async def connect(settings):
        await asyncio.sleep(10_000)
        yield None

    run = Run(loop, registry, connect=connect)
    assert run.stop_at(2) == pytest.approx(5) and run.task.exception() is None


def test_a_shutdown_handler_that_hangs_is_cut_off(loop, registry):
    """It shares the grace with the handlers before it, and gets a few seconds of its own at least."""

    @opkit.shutdown(registry=registry)
    async def wait():
        await asyncio.sleep(10_000)

    assert Run(loop, registry).stop_at(2) == pytest.approx(5)
    assert Run(loop, registry, grace=0).stop_at(loop.time() + 2) == pytest.approx(3)


def test_shutdown_handlers_get_a_turn_after_handlers_that_took_all_of_the_grace(event_injector):
    """Closing a connection is more than an afterthought."""
    told = []
    registry = opkit.Registry()

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile():
        await asyncio.sleep(10_000)

    @opkit.shutdown(registry=registry)
    async def last():
        await asyncio.sleep(1)
        told.append("closed")

    settings = opkit.Settings()
    settings.shutdown.grace = 2
    op = event_injector(registry, settings)
    op.add("webs", "a")
    op.advance(1)
    began = op.now
    op.restart()
    assert told == ["closed"] and op.now - began < 2 + 3 + 3


def test_the_stop_is_bound_to_the_moment_of_the_first_signal(loop):
    """Asking again gives no new grace."""

    async def main():
        stop = Stop(LoopClock(), lambda: 10.0)
        assert stop.remaining == 10.0
        stop.ask()
        await asyncio.sleep(4)
        stop.ask()
        assert stop.remaining == pytest.approx(6.0)
        with pytest.raises(Stopped):
            await stop.bound(asyncio.sleep(100), "This")
        assert stop.remaining == 0.0 and asyncio.get_running_loop().time() == pytest.approx(10.0)
        assert await stop.bound(asyncio.sleep(1, "done"), "That", at_least=2.0) == "done"

    task = loop.create_task(main())
    loop.run_until(100)
    assert task.done() and task.exception() is None


def test_what_bounded_work_raises_comes_through(loop):
    """With or without a stop."""

    async def fails():
        await asyncio.sleep(1)
        raise OSError("down")

    async def main():
        stop = Stop(LoopClock(), lambda: 10.0)
        for _ in range(2):
            with pytest.raises(OSError, match="down"):
                await stop.bound(fails(), "This")
            stop.ask()

    task = loop.create_task(main())
    loop.run_until(100)
    assert task.exception() is None


def test_work_that_nobody_waits_for_any_more_is_cancelled(loop):
    """Who cancels the waiting, cancels the work, and goes on when that has ended."""
    events = []

    async def work():
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            events.append(("cancelled", loop.time()))
            raise

    async def wait():
        try:
            await Stop(LoopClock(), lambda: 5.0).bound(work(), "the work")
        finally:
            events.append(("over", loop.time()))

    task = loop.create_task(wait())
    loop.run_until(10)
    task.cancel()
    loop.run_until(100)
    assert task.cancelled() and events == [("cancelled", 11), ("over", 11)]
