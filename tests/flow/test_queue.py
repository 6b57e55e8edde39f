"""The queue, against a model that has nothing clever in it: a dict of what waits."""

import dataclasses

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from opkit.flow.queue import Added, InMemoryQueue
from opkit.flow.requests import Request
from opkit.triggers import Trigger

KEYS = st.sampled_from("abcde")
TRIGGERS = st.sampled_from([Trigger.ADDED, Trigger.MODIFIED, Trigger.REQUEUE, Trigger.RESYNC, Trigger.RETRY])


def request(key="a", due=0.0, trigger=Trigger.MODIFIED, **fields):
    return Request(key, due, frozenset({trigger}), **fields)


@dataclasses.dataclass
class Waiting:
    """What the model knows of one waiting request: when it is due, and since when it stands in line for that time."""

    due: float
    place: int


class QueueMachine(RuleBasedStateMachine):
    """Adds, takes, holds, releases, cancels and clears, in any order."""

    def __init__(self):
        super().__init__()
        self.queue = InMemoryQueue()
        self.waiting = {}
        self.held = set()
        self.now = 0.0
        self.places = 0
        self.closed = False

    def next_place(self):
        self.places += 1
        return self.places

    @rule(key=KEYS, delay=st.integers(0, 5), trigger=TRIGGERS)
    def add(self, key, delay, trigger):
        due = self.now + delay
        waited = self.queue.get(key)
        before = None if waited is None else waited.due
        added = self.queue.add(request(key, due, trigger))
        if self.closed:
            assert added is Added.REFUSED
            return
        if before is None:
            assert added is Added.SCHEDULED
            self.waiting[key] = Waiting(due, self.next_place())
            return
        assert added is (Added.MERGED_EARLIER if self.queue.get(key).due < before else Added.MERGED)
        if self.queue.get(key).due != before:
            self.waiting[key] = Waiting(self.queue.get(key).due, self.next_place())

    @rule()
    def take(self):
        due = [
            (one.due, one.place, key)
            for key, one in self.waiting.items()
            if key not in self.held and one.due <= self.now
        ]
        taken = self.queue.take(self.now)
        if not due:
            assert taken is None
            return
        assert (taken.due, taken.key) == (min(due)[0], min(due)[2])
        del self.waiting[taken.key]

    @rule(key=KEYS)
    def hold(self, key):
        self.queue.hold(key)
        self.held.add(key)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data):
        key = data.draw(st.sampled_from(sorted(self.held)))
        self.queue.release(key)
        self.held.discard(key)
        if key in self.waiting:
            self.waiting[key].place = self.next_place()

    @rule(key=KEYS)
    def cancel(self, key):
        cancelled = self.queue.cancel(key)
        assert (cancelled is None) == (self.waiting.pop(key, None) is None)
        assert cancelled is None or cancelled.key == key

    @rule()
    def clear(self):
        self.queue.clear()
        self.waiting.clear()

    @rule(closed=st.booleans())
    def close_or_open(self, closed):
        (self.queue.close if closed else self.queue.open)()
        self.closed = closed

    @rule(seconds=st.integers(1, 3))
    def time_passes(self, seconds):
        self.now += seconds

    @invariant()
    def no_key_is_lost_or_doubled(self):
        keys = [one.key for one in self.queue.waiting()]
        assert sorted(keys) == sorted(self.waiting)
        assert len(self.queue) == len(keys)

    @invariant()
    def next_due_is_that_of_the_first_which_is_not_held(self):
        dues = [one.due for key, one in self.waiting.items() if key not in self.held]
        assert self.queue.next_due() == min(dues, default=None)

    @invariant()
    def statistics_tell_the_same(self):
        statistics = self.queue.statistics()
        assert (statistics.waiting, statistics.held, statistics.closed) == (
            len(self.waiting), len(self.held), self.closed,
        )  # fmt: skip


TestQueueAgainstModel = QueueMachine.TestCase
TestQueueAgainstModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_stale_entries_are_swept_out():
    """A key that is cancelled and added for ever leaves no growing heap behind."""
    queue = InMemoryQueue()
    for number in range(10_000):
        queue.add(request("a", float(number)))
        queue.cancel("a")
    assert queue.statistics().stale <= 100


def test_requests_due_at_the_same_time_come_in_the_order_in_which_they_were_added():
    """Nobody overtakes among equals."""
    queue = InMemoryQueue()
    for key in "dacb":
        queue.add(request(key, 1.0))
    assert [queue.take(1.0).key for _ in range(4)] == list("dacb")


def test_what_was_given_out_is_not_given_out_again():
    """One addition, one taking."""
    queue = InMemoryQueue()
    queue.add(request("a"))
    assert queue.take(0.0).key == "a"
    assert queue.take(0.0) is None and len(queue) == 0


@pytest.mark.parametrize("held_first", [True, False], ids=["held, then added", "added, then held"])
def test_a_request_of_a_held_key_waits_for_its_release(held_first):
    """A thousand additions during a run are one request, which is given out right after it."""
    queue = InMemoryQueue()
    if held_first:
        queue.hold("a")
    for _ in range(1000):
        queue.add(request("a"))
    queue.hold("a")
    assert queue.take(5.0) is None and queue.next_due() is None
    queue.release("a")
    assert queue.take(5.0).key == "a"
    assert queue.take(5.0) is None


def test_a_held_key_does_not_hold_up_the_others():
    """The next key is given out although the first one is held."""
    queue = InMemoryQueue()
    queue.add(request("a", 0.0))
    queue.add(request("b", 1.0))
    queue.hold("a")
    assert queue.take(1.0).key == "b"
