"""Conflict strategies: what becomes of a change whose object is being run."""

import pytest

import opkit

PRIMARY = ("example.com", "v1", "webs")


@pytest.fixture
def registry():
    return opkit.Registry()


@pytest.fixture
def specs(registry):
    seen = []

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(spec):
        seen.append(spec["n"])

    return seen


def start(event_injector, registry, strategy):
    settings = opkit.Settings()
    settings.parallel.conflict = strategy
    op = event_injector(registry, settings)
    web = op.add("webs", "a", spec={"n": 0})
    op.settle()
    return op, web


def change_during_a_run(op, web):
    with op.hold("reconcile"):
        op.modify(web, {"spec": {"n": 1}})
        op.drain()
        op.modify(web, {"spec": {"n": 2}})
        op.drain()


def test_wait_runs_the_last_state_right_after(event_injector, registry, specs):
    """WAIT keeps the change, and runs it at the end of the run."""
    op, web = start(event_injector, registry, opkit.ConflictStrategy.WAIT)
    change_during_a_run(op, web)
    op.drain()
    assert specs == [0, 1, 2]


def test_requeue_after_delay_runs_it_later(event_injector, registry, specs):
    """REQUEUE_AFTER_DELAY puts it back for the delay, and keeps its attempt."""
    op, web = start(event_injector, registry, opkit.ConflictStrategy.REQUEUE_AFTER_DELAY)
    change_during_a_run(op, web)
    op.drain()
    assert specs == [0, 1]
    op.advance(4.9)
    assert specs == [0, 1]
    op.advance(0.1)
    assert specs == [0, 1, 2]
    assert op.calls()[-1].attempt == 1


def test_discard_drops_it(event_injector, registry, specs):
    """DISCARD does not run the change, and counts it."""
    op, web = start(event_injector, registry, opkit.ConflictStrategy.DISCARD)
    change_during_a_run(op, web)
    op.settle()
    assert specs == [0, 1]
    served = next(iter(op._process.operator._watches))
    assert served.coordinator.statistics().discarded == 1


def test_what_was_discarded_comes_back_with_a_later_event(event_injector, registry, specs):
    """The dropped change stays unseen: even an event that changes no spec brings it back."""
    op, web = start(event_injector, registry, opkit.ConflictStrategy.DISCARD)
    change_during_a_run(op, web)
    op.settle()
    op.modify(web, {"metadata": {"labels": {"a": "b"}}})
    op.settle()
    assert specs == [0, 1, 2]
    op.modify(web, {"metadata": {"labels": {"a": "c"}}})
    op.settle()
    assert specs == [0, 1, 2]


def test_what_was_discarded_comes_back_with_a_relist(event_injector, registry, specs):
    """A list that shows the same version again brings it back, too."""
    op, web = start(event_injector, registry, opkit.ConflictStrategy.DISCARD)
    change_during_a_run(op, web)
    op.settle()
    op.watch("webs").expire()
    op.settle()
    assert specs == [0, 1, 2]
    op.watch("webs").expire()
    op.settle()
    assert specs == [0, 1, 2]


def test_what_was_discarded_comes_back_with_the_resync(event_injector, registry, specs):
    """The resync reads the newest body, whatever was dropped."""
    op, web = start(event_injector, registry, opkit.ConflictStrategy.DISCARD)
    change_during_a_run(op, web)
    op.settle()
    op.advance(40_000)
    assert specs[-1] == 2
