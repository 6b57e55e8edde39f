"""The coordinator: slot and lock together, fair turns, conflict strategies, the way back of an outcome."""

import asyncio
import collections
import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opkit.clock import LoopClock
from opkit.flow.coordinator import Coordinator, Lane
from opkit.flow.queue import Added, InMemoryQueue
from opkit.flow.requests import Request
from opkit.settings import ConflictStrategy
from opkit.testing.virtual import VirtualLoop
from opkit.triggers import Trigger

MODIFIED = frozenset({Trigger.MODIFIED})
REQUEUE = frozenset({Trigger.REQUEUE})


@dataclasses.dataclass
class Workshop:
    """A coordinator with lanes whose runs take as long as a test says, and what happened in them."""

    loop: VirtualLoop
    coordinator: Coordinator
    takes: float = 1.0
    running: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    most: int = 0
    doubled: list = dataclasses.field(default_factory=list)
    started: list = dataclasses.field(default_factory=list)
    ended: list = dataclasses.field(default_factory=list)
    outcome: object = None
    lanes: dict = dataclasses.field(default_factory=dict)

    def lane(self, name, urgent=False):
        lane = Lane(name, InMemoryQueue(), lambda request: self.serve(name, request), urgent=urgent)
        self.coordinator.join(lane)
        self.lanes[name] = lane
        return lane

    async def serve(self, name, request):
        key = request.key
        if self.running[key]:
            self.doubled.append(key)
        self.running[key] += 1
        self.most = max(self.most, sum(self.running.values()))
        self.started.append((self.loop.time(), name, key))
        try:
            await asyncio.sleep(self.takes(key) if callable(self.takes) else self.takes)
            return self.outcome(request) if self.outcome is not None else None
        finally:
            self.running[key] -= 1
            self.ended.append((self.loop.time(), name, key))

    def add(self, lane, key, delay=0.0, triggers=MODIFIED):
        return self.coordinator.add(lane, Request(key, self.loop.time() + delay, triggers))


@pytest.fixture
def workshop(loop):
    return lambda **options: make(loop, **options)


def make(loop, limit=2, takes=1.0, **options):
    async def build():
        return Coordinator(clock=LoopClock(), limit=limit, **options)

    task = loop.create_task(build())
    loop.run_now()
    return Workshop(loop, task.result(), takes)


def test_no_two_runs_of_one_object(workshop):
    """The lock of an object is held for the whole run; what comes meanwhile runs right after."""
    shop = workshop(limit=4)
    lane = shop.lane("a")
    shop.add(lane, "x")
    shop.loop.run_until(0.5)
    shop.add(lane, "x")
    shop.loop.run_until(10)
    assert [at for at, _, _ in shop.started] == [0, 1] and not shop.doubled


def test_controllers_of_one_resource_share_the_lock(workshop):
    """Two lanes with the same object take turns."""
    shop = workshop(limit=4)
    for name in "ab":
        shop.add(shop.lane(name), "x")
    shop.loop.run_until(10)
    assert [(at, name) for at, name, _ in shop.started] == [(0, "a"), (1, "b")]


def test_a_lane_that_joins_late_respects_the_locks(workshop):
    """What runs already is held in a lane that joins while it runs."""
    shop = workshop(limit=4)
    shop.add(shop.lane("a"), "x")
    shop.loop.run_until(0.5)
    shop.add(shop.lane("b"), "x")
    shop.loop.run_until(10)
    assert [(at, name) for at, name, _ in shop.started] == [(0, "a"), (1, "b")]


def test_the_budget_is_never_exceeded(workshop):
    """No more than the limit run at once, and the budget is used."""
    shop = workshop(limit=3)
    lane = shop.lane("a")
    for number in range(10):
        shop.add(lane, str(number))
    shop.loop.run_until(100)
    assert shop.most == 3 and len(shop.ended) == 10 and shop.loop.time() == 100
    assert shop.coordinator.statistics().most_running == 3


def test_controllers_share_the_budget(workshop):
    """The limit is the resource's, not each controller's."""
    shop = workshop(limit=2)
    for name in "ab":
        lane = shop.lane(name)
        for number in range(5):
            shop.add(lane, f"{name}{number}")
    shop.loop.run_until(100)
    assert shop.most == 2 and len(shop.ended) == 10


def test_no_slot_is_held_by_one_who_waits(workshop):
    """A hot object with a long run does not cost the others anything but its own slot."""
    shop = workshop(limit=2, takes=lambda key: 100.0 if key == "hot" else 1.0)
    lane = shop.lane("a")
    for _ in range(1000):
        shop.add(lane, "hot")
    shop.loop.run_until(0.1)
    for number in range(10):
        shop.add(lane, "hot")
        shop.add(lane, str(number))
    shop.loop.run_until(50)
    assert sum(key != "hot" for _, _, key in shop.ended) == 10
    shop.loop.run_until(1000)
    assert sum(key == "hot" for _, _, key in shop.ended) == 2


def test_controllers_take_turns(workshop):
    """A controller with a long queue does not starve another with a short one."""
    shop = workshop(limit=1)
    busy, other = shop.lane("busy"), shop.lane("other")
    for number in range(10):
        shop.add(busy, f"b{number}")
    for number in range(3):
        shop.add(other, f"o{number}")
    shop.loop.run_until(100)
    assert [name for _, name, _ in shop.started[:6]] == ["busy", "other"] * 3


def test_an_urgent_lane_goes_first(workshop):
    """What is urgent is served before all that is not, but under the same lock."""
    shop = workshop(limit=1)
    lane, urgent = shop.lane("a"), shop.lane("urgent", urgent=True)
    for key in "xyz":
        shop.add(lane, key)
    shop.loop.run_until(0.5)
    shop.add(urgent, "x")
    shop.loop.run_until(10)
    assert [name for _, name, _ in shop.started] == ["a", "urgent", "a", "a"]


def test_what_is_due_later_runs_later(workshop):
    """The timer is set for the earliest due time, and a new earlier one moves it."""
    shop = workshop()
    lane = shop.lane("a")
    shop.add(lane, "late", delay=50)
    shop.add(lane, "later", delay=60)
    shop.add(lane, "soon", delay=5)
    shop.loop.run_until(100)
    assert [(at, key) for at, _, key in shop.started] == [(5, "soon"), (50, "late"), (60, "later")]


def test_what_is_due_later_runs_in_time_though_others_run_before(workshop):
    """The timer that waits for it is kept as long as nothing is due earlier, and set anew when it has gone off."""
    shop = workshop(takes=0.1)
    lane = shop.lane("a")
    shop.add(lane, "later", delay=5)
    for number in range(4):
        shop.loop.run_until(number)
        shop.add(lane, f"at {number}")
    shop.add(lane, "last", delay=4)
    shop.loop.run_until(20)
    assert [(round(at, 3), key) for at, _, key in shop.started][-2:] == [(5, "later"), (7, "last")]


def test_wait_keeps_what_meets_a_run(workshop):
    """WAIT: merged, and run right after."""
    shop = workshop()
    lane = shop.lane("a")
    shop.add(lane, "x")
    shop.loop.run_until(0.5)
    assert shop.add(lane, "x") is Added.SCHEDULED
    assert shop.add(lane, "x") is Added.MERGED
    shop.loop.run_until(10)
    assert [at for at, _, _ in shop.started] == [0, 1]


def test_discard_drops_and_counts_what_meets_a_run(workshop):
    """DISCARD: it is gone, and statistics tell of it."""
    shop = workshop(conflict=ConflictStrategy.DISCARD)
    lane = shop.lane("a")
    shop.add(lane, "x")
    shop.loop.run_until(0.5)
    assert shop.add(lane, "x") is None
    shop.loop.run_until(10)
    assert len(shop.started) == 1 and shop.coordinator.statistics().discarded == 1


def test_requeue_after_delay_puts_back_what_meets_a_run(workshop):
    """REQUEUE_AFTER_DELAY: it comes back after the delay, counted from its arrival."""
    shop = workshop(conflict=ConflictStrategy.REQUEUE_AFTER_DELAY, requeue_delay=5.0)
    lane = shop.lane("a")
    shop.add(lane, "x")
    shop.loop.run_until(0.5)
    shop.add(lane, "x")
    shop.loop.run_until(20)
    assert [at for at, _, _ in shop.started] == [0, 5.5]


@pytest.mark.parametrize("conflict", list(ConflictStrategy))
def test_what_a_run_asks_for_is_always_kept(workshop, conflict):
    """The conflict strategy is for changes from outside; a requeue is no such thing."""
    shop = workshop(conflict=conflict)
    lane = shop.lane("a")
    shop.add(lane, "x")
    shop.loop.run_until(0.5)
    assert shop.add(lane, "x", triggers=REQUEUE) is Added.SCHEDULED
    shop.loop.run_until(20)
    assert [at for at, _, _ in shop.started] == [0, 1]


@pytest.mark.parametrize("conflict", list(ConflictStrategy))
def test_the_conflict_strategy_does_not_touch_what_meets_no_run(workshop, conflict):
    """An object that only waits is merged as ever."""
    shop = workshop(conflict=conflict, limit=1)
    lane = shop.lane("a")
    shop.add(lane, "x")
    shop.add(lane, "y")
    shop.loop.run_until(0.5)
    assert shop.add(lane, "y") is Added.MERGED


def test_the_outcome_of_a_run_is_put_back(workshop):
    """What `serve` gives waits next, merged with what came during the run."""
    shop = workshop()
    lane = shop.lane("a")
    shop.outcome = lambda request: Request(request.key, shop.loop.time() + 10, REQUEUE)
    shop.add(lane, "x")
    shop.loop.run_until(30)
    assert [at for at, _, _ in shop.started] == [0, 11, 22]


def test_a_fault_of_the_runtime_loses_no_request(workshop):
    """A bug is reported, and the request is put back, but not at once."""
    bugs = []
    shop = workshop(on_bug=bugs.append)
    lane = shop.lane("a")

    def broken(request):
        if not bugs:
            raise ZeroDivisionError

    shop.outcome = broken
    shop.add(lane, "x")
    shop.loop.run_until(100)
    assert [type(bug) for bug in bugs] == [ZeroDivisionError]
    assert len(shop.started) == 2 and shop.started[1][0] > 10


def test_closing_refuses_and_starts_nothing(workshop):
    """What runs goes on; nothing else begins."""
    shop = workshop(limit=1)
    lane = shop.lane("a")
    shop.add(lane, "x")
    shop.add(lane, "y")
    shop.loop.run_until(0.5)
    shop.coordinator.close()
    assert shop.add(lane, "z") is Added.REFUSED
    shop.loop.run_until(10)
    assert [key for _, _, key in shop.started] == ["x"] and len(shop.ended) == 1


@pytest.mark.parametrize("grace, unfinished, ended", [(2.0, [], 1.0), (0.25, [("a", "x")], 0.25)], ids=["ends", "cut"])
def test_draining_waits_for_the_grace_and_then_cancels(workshop, grace, unfinished, ended):
    """What does not end within the grace is cancelled, and named."""
    shop = workshop()
    shop.add(shop.lane("a"), "x")
    shop.loop.run_now()
    shop.coordinator.close()
    drained = shop.loop.create_task(shop.coordinator.drain(grace))
    shop.loop.run_until(10)
    assert drained.result() == unfinished
    assert [at for at, _, _ in shop.ended] == [ended]


def test_suspending_cancels_and_clears_until_it_is_resumed(workshop):
    """Another process leads: nothing runs, waits or is accepted; then again as before."""
    shop = workshop(limit=1)
    lane = shop.lane("a")
    shop.add(lane, "x")
    shop.add(lane, "y")
    shop.loop.run_until(0.5)
    shop.coordinator.suspend()
    shop.loop.run_until(5)
    assert shop.add(lane, "z") is Added.REFUSED
    assert shop.coordinator.statistics().waiting == shop.coordinator.statistics().running == 0
    shop.coordinator.resume()
    shop.add(lane, "z")
    shop.loop.run_until(10)
    assert [key for _, _, key in shop.started] == ["x", "z"]


histories = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),  # the controller
        st.sampled_from("uvwxyz"),  # the object
        st.sampled_from([0.0, 0.0, 0.3, 2.0]),  # how long until the next event
        st.sampled_from([0.0, 0.0, 1.0, 3.0]),  # how long until this one is due
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(histories, st.integers(1, 4), st.integers(0, 3), st.sampled_from(["requeue", "none"]))
def test_any_history_keeps_the_promises(history, limit, seed, outcome):
    """Never two runs of one object, never more than the budget, and each object runs after its last event."""
    loop = VirtualLoop(seed)
    shop = make(loop, limit=limit, takes=lambda key: 0.5 + "uvwxyz".index(key) / 3)
    lanes = {name: shop.lane(name) for name in "ab"}
    requeued = collections.Counter()

    def again(request):
        requeued[request.key] += 1
        if outcome == "none" or requeued[request.key] > 3:
            return None
        return Request(request.key, loop.time() + 1, REQUEUE)

    shop.outcome = again
    last = {}
    for name, key, pause, delay in history:
        shop.add(lanes[name], key, delay)
        last[name, key] = loop.time()
        loop.run_until(loop.time() + pause)
    loop.run_until(loop.time() + 1000)
    assert not shop.doubled
    assert shop.most <= limit
    runs = collections.defaultdict(list)
    for at, name, key in shop.started:
        runs[name, key].append(at)
    for which, at in last.items():
        assert runs[which] and runs[which][-1] >= at
    assert shop.coordinator.statistics().running == shop.coordinator.statistics().waiting == 0
    loop.close()


def test_a_timer_that_fires_too_early_is_set_again(loop):
    """Loops may fire within their clock's resolution before the time: nothing is due yet, and nothing is lost."""

    class Early(LoopClock):
        def call_at(self, when, *args):
            return super().call_at(when - 0.25 if when - self.now() > 0.5 else when, *args)

    async def build():
        return Coordinator(clock=Early(), limit=2)

    task = loop.create_task(build())
    loop.run_now()
    shop = Workshop(loop, task.result())
    shop.add(shop.lane("a"), "x", delay=10)
    loop.run_until(100)
    assert shop.started == [(10, "a", "x")]


def behind(shop, key, namespace="ns"):
    """A request for an object of this namespace."""
    return Request(key, shop.loop.time(), MODIFIED, body={"metadata": {"namespace": namespace}})


def test_only_first_runs_wait_at_a_gate(workshop):
    """What ran when it came goes on; what waits starts when the gate of its namespace is opened."""
    shop = workshop(limit=4)
    lane = shop.lane("a")
    shop.coordinator.add(lane, behind(shop, "ran"))
    shop.loop.run_until(0.5)
    shop.coordinator.set_gates(frozenset({"ns"}))
    for request in (behind(shop, "ran"), behind(shop, "new"), behind(shop, "elsewhere", "other")):
        shop.coordinator.add(lane, request)
    shop.loop.run_until(5)
    assert [(at, key) for at, _, key in shop.started] == [(0, "ran"), (0.5, "elsewhere"), (1, "ran")]
    late = shop.lane("late")  # and is held for what waits, but not for what has run
    for key in ("ran", "new"):
        shop.add(late, key)
    shop.loop.run_until(8)
    assert [(at, name, key) for at, name, key in shop.started[3:]] == [(5, "late", "ran")]
    shop.coordinator.set_gates(frozenset())
    shop.loop.run_until(20)
    assert sorted((name, key) for _, name, key in shop.started[4:]) == [("a", "new"), ("late", "new")]
    assert shop.started[4][0] == 8
