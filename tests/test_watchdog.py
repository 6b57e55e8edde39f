"""What blocks the event loop is named: with its object, and the line that does it."""

import asyncio
import functools
import logging
import threading
import time

import pytest

import opkit
from opkit import filter
from opkit.simulation.cluster import SimulatedCluster
from opkit.testing import FakeEventInjector
from opkit.watchdog import Watchdog


class Told(logging.Handler):
    """Collects what the watchdog says about one thing; `first` is set with the first of it."""

    def __init__(self):
        super().__init__()
        self.about = ""
        self.records = []
        self.first = threading.Event()

    def emit(self, record):
        if self.about in record.getMessage():
            self.records.append(record)
            self.first.set()


@pytest.fixture
def told():
    handler = Told()
    logger = logging.getLogger("opkit.watchdog")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(handler)


def watched(main, limit=0.05):
    async def run():
        with Watchdog(asyncio.get_running_loop(), limit=limit, pause=0.01):
            await main()

    asyncio.run(run())


def serve(registry, done):
    """A real operator on a real loop over a store that holds one object, watched until `done` is set."""
    with FakeEventInjector(registry) as injector:
        injector.add("webapps", "shop")
        operator = opkit.Operator(registry=registry, cluster=SimulatedCluster(injector.store))

        async def main():
            running = asyncio.create_task(operator.run())
            await asyncio.to_thread(done.wait, 20)
            operator.stop()
            await running

        watched(main)


def test_a_handler_that_blocks_is_named_with_its_object_and_line(told):
    """Once, however long it blocks: the handler waits here until it was told, and then some."""
    told.about = "stubborn"
    registry = opkit.Registry()
    done = threading.Event()

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def stubborn():
        assert told.first.wait(10)
        threading.Event().wait(0.1)
        done.set()

    serve(registry, done)
    (record,) = told.records
    message = record.getMessage()
    assert "by stubborn on default/shop" in message
    assert f"{__file__}:" in message and "in stubborn, `assert told.first.wait(10)`" in message
    assert (record.k8s_ref["name"], record.controller) == ("shop", "stubborn")


def test_a_filter_that_blocks_is_named_by_its_line(told):
    """Filters are called in the loop."""
    told.about = "in slow"
    registry = opkit.Registry()
    done = threading.Event()

    @filter.generic
    def slow(body):
        assert told.first.wait(10)
        return True

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry, generic=slow)
    async def reconcile():
        done.set()

    serve(registry, done)
    (record,) = told.records
    assert "in slow, `assert told.first.wait(10)`" in record.getMessage()


def test_each_block_is_told_anew(told):
    """Two blocks are two lines."""
    told.about = "in main"

    async def main():
        for count in (1, 2):
            deadline = time.monotonic() + 10
            while len(told.records) < count and time.monotonic() < deadline:
                threading.Event().wait(0.001)
            await asyncio.sleep(0.05)

    watched(main)
    assert len(told.records) == 2


def test_what_waits_or_works_in_a_thread_is_no_block(told):
    """Neither an idle loop, nor plain functions in threads, nor many short steps."""
    told.about = "in main"

    async def main():
        await asyncio.sleep(0.6)
        await asyncio.to_thread(time.sleep, 0.6)
        for _ in range(1000):
            time.monotonic()
            await asyncio.sleep(0)

    watched(main, limit=0.5)
    assert not told.records


def test_what_is_nobodys_doing_is_no_warning(told):
    """A start on a slow machine loads modules for more than a second: the author can't help it."""
    told.about = "by something"

    async def main():
        asyncio.get_running_loop().call_soon(_block_by, told.first)
        await asyncio.sleep(0.01)

    _block_by = functools.partial(threading.Event.wait, timeout=10)
    watched(main)
    (record,) = told.records
    assert record.levelno == logging.DEBUG


def test_it_ends_with_its_block():
    """Its thread is gone, and the loop is left in peace."""
    watched(lambda: asyncio.sleep(0))
    assert "opkit-watchdog" not in [thread.name for thread in threading.enumerate()]


def test_no_watchdog_in_virtual_time(event_injector):
    """The injector has means of its own, and starts no thread."""
    registry = opkit.Registry()

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile():
        assert "opkit-watchdog" not in [thread.name for thread in threading.enumerate()]

    op = event_injector(registry)
    op.add("webapps", "shop")
    op.drain()
    assert [call.outcome for call in op.calls()] == ["success"]
