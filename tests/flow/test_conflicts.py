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


@pytest.mark.parametrize("comes_back", ["event", "status", "relist"])
def test_the_echo_of_the_runs_own_write_hides_nothing_that_was_discarded(event_injector, registry, comes_back):
    """The run that was in the way writes the status; the dropped change is still unseen, and comes back once."""
    seen = []

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(spec, patch):
        seen.append(spec["n"])
        patch.status["n"] = spec["n"]

    op, web = start(event_injector, registry, opkit.ConflictStrategy.DISCARD)
    change_during_a_run(op, web)
    op.settle()
    assert seen == [0, 1]
    for _ in range(2):
        if comes_back == "relist":
            op.watch("webs").expire()
        elif comes_back == "event":
            op.modify(web, {"metadata": {"labels": {"now": str(op.now)}}})
        else:
            op.modify_status(web, {"by": op.now})
        op.settle()
        op.advance(1)
        assert seen == [0, 1, 2]


def test_a_discarded_change_meets_an_update_filter_as_if_it_came_only_now(event_injector, registry):
    """The filter looks for one difference, which the later event does not have by itself."""
    seen = []

    @opkit.reconcile(*PRIMARY, on_update=lambda new, old: new.spec["n"] != old.spec["n"], registry=registry)
    async def reconcile(spec):
        seen.append(spec["n"])

    op, web = start(event_injector, registry, opkit.ConflictStrategy.DISCARD)
    change_during_a_run(op, web)
    op.settle()
    op.modify(web, {"metadata": {"labels": {"a": "b"}}})
    op.settle()
    assert seen == [0, 1, 2]


def test_an_object_that_comes_back_during_a_run_is_not_lost(event_injector, registry):
    """Its addition is dropped by DISCARD: the next event counts as one."""
    seen = []

    @opkit.reconcile(*PRIMARY, label_selector="on=yes", controller="main", registry=registry)
    async def reconcile(spec):
        seen.append(spec["n"])

    settings = opkit.Settings()
    settings.parallel.conflict = opkit.ConflictStrategy.DISCARD
    op = event_injector(registry, settings)
    web = op.add("webs", "a", spec={"n": 0}, labels={"on": "yes"})
    op.settle()
    with op.hold("reconcile"):
        op.trigger(web)
        op.drain()
        op.modify(web, {"metadata": {"labels": {"on": "no"}}, "spec": {"n": 1}})
        op.drain()
        op.modify(web, {"metadata": {"labels": {"on": "yes"}}})
        op.drain()
    op.settle()
    seen.clear()
    op.modify(web, {"metadata": {"annotations": {"a": "b"}}})
    op.settle()
    assert seen == [1]


@pytest.mark.parametrize("strategy", list(opkit.ConflictStrategy))
def test_the_start_of_a_deletion_is_never_dropped(event_injector, registry, strategy):
    """It comes during a run: the cleanup follows that run at once."""

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile():
        pass

    @opkit.finalizer(*PRIMARY, registry=registry)
    async def clean():
        pass

    settings = opkit.Settings()
    settings.parallel.conflict = strategy
    op = event_injector(registry, settings)
    web = op.add("webs", "a")
    op.settle()
    with op.hold("reconcile"):
        op.trigger(web)
        op.drain()
        op.delete(web)
        op.drain()
    op.drain()
    assert not op.exists(web)
