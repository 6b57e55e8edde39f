"""
Queues: what every implementation of the queue protocol has to keep, as tests that it can inherit.

    class TestMyQueue(QueueConformance):
        def make_queue(self):
            return MyQueue()

The protocol itself is `opkit.flow.queue.Queue`.
"""

from __future__ import annotations

import random

from opkit.flow.queue import Added, Queue
from opkit.flow.requests import Request
from opkit.triggers import Trigger

_MODIFIED = frozenset({Trigger.MODIFIED})
_RETRY = frozenset({Trigger.RETRY})


def request(key: str, due: float = 0.0, *, generation: int | None = None, attempt: int = 1) -> Request:
    """A request for tests; one with a later attempt waits for its retry."""
    triggers = _RETRY if attempt > 1 else _MODIFIED
    return Request(key, due, triggers, generation=generation, attempt=attempt)


class QueueConformance:
    """Inherit from it, and implement `make_queue`. Each test states one promise of the protocol."""

    def make_queue(self) -> Queue:
        """A new, empty, open queue."""
        raise TypeError(f"{type(self).__name__} has to implement make_queue()")

    def test_nothing_comes_out_of_an_empty_queue(self) -> None:
        """An empty queue gives nothing, and is due never."""
        queue = self.make_queue()
        assert queue.take(1e9) is None
        assert queue.next_due() is None
        assert len(queue) == 0

    def test_a_request_comes_out_once_and_not_before_its_time(self) -> None:
        """What is added is taken exactly once, when it is due."""
        queue = self.make_queue()
        assert queue.add(request("a", 5.0)) is Added.SCHEDULED
        assert queue.next_due() == 5.0
        assert queue.take(4.9) is None
        taken = queue.take(5.0)
        assert taken is not None
        assert taken.key == "a"
        assert queue.take(1e9) is None
        assert len(queue) == 0

    def test_one_request_waits_for_a_key(self) -> None:
        """Additions for one key are merged: due the earlier time, and told which it was."""
        queue = self.make_queue()
        queue.add(request("a", 5.0))
        assert queue.add(request("a", 9.0)) is Added.MERGED
        assert queue.add(request("a", 1.0)) is Added.MERGED_EARLIER
        assert len(queue) == 1
        taken = queue.take(1.0)
        assert taken is not None
        assert queue.take(1e9) is None

    def test_a_new_generation_starts_afresh(self) -> None:
        """A change that the failed runs have not seen sets the attempt back to 1, and runs now."""
        queue = self.make_queue()
        queue.add(request("a", 60.0, generation=1, attempt=4))
        queue.add(request("a", 0.0, generation=2))
        taken = queue.take(0.0)
        assert taken is not None
        assert taken.attempt == 1

    def test_a_backoff_is_overtaken_once(self) -> None:
        """A change without a new generation runs early, with its attempt; the next one waits for the retry."""
        queue = self.make_queue()
        queue.add(request("a", 60.0, generation=1, attempt=4))
        queue.add(request("a", 0.0, generation=1))
        taken = queue.take(0.0)
        assert taken is not None
        assert (taken.attempt, taken.retry_due) == (4, 60.0)
        taken.due, taken.triggers, taken.entry, taken.retry_due = 60.0, _RETRY, None, None
        queue.add(taken)
        queue.add(request("a", 1.0, generation=1))
        assert queue.take(59.9) is None
        assert queue.take(60.0) is not None

    def test_a_held_key_is_kept_and_let_go(self) -> None:
        """While a key is held its request waits and merges; then it comes out once."""
        queue = self.make_queue()
        queue.hold("a")
        queue.add(request("a", 0.0))
        queue.add(request("b", 1.0))
        for number in range(100):
            queue.add(request("a", float(number)))
        taken = queue.take(1e9)
        assert taken is not None
        assert taken.key == "b"
        assert queue.take(1e9) is None
        assert queue.next_due() is None
        queue.release("a")
        taken = queue.take(0.0)
        assert taken is not None
        assert taken.key == "a"
        assert queue.take(1e9) is None

    def test_a_request_is_held_that_waited_before(self) -> None:
        """Holding counts for what waits already, too."""
        queue = self.make_queue()
        queue.add(request("a"))
        queue.hold("a")
        assert queue.take(1e9) is None
        assert queue.get("a") is not None
        queue.release("a")
        assert queue.take(1e9) is not None

    def test_a_cancelled_request_is_gone(self) -> None:
        """Cancelling gives the request back, and leaves nothing."""
        queue = self.make_queue()
        queue.add(request("a"))
        cancelled = queue.cancel("a")
        assert cancelled is not None
        assert cancelled.key == "a"
        assert queue.cancel("a") is None
        assert queue.take(1e9) is None
        assert list(queue.waiting()) == []

    def test_a_closed_queue_refuses(self) -> None:
        """Closed, it refuses additions and keeps what waits; opened again, it takes them."""
        queue = self.make_queue()
        queue.add(request("a"))
        queue.close()
        assert queue.add(request("b")) is Added.REFUSED
        assert len(queue) == 1
        queue.open()
        assert queue.add(request("b")) is Added.SCHEDULED

    def test_clearing_leaves_the_holds(self) -> None:
        """A cleared queue is empty, and a held key stays held."""
        queue = self.make_queue()
        queue.hold("a")
        queue.add(request("a"))
        queue.clear()
        assert len(queue) == 0
        queue.add(request("a"))
        assert queue.take(1e9) is None

    def test_nothing_is_lost_or_doubled(self) -> None:
        """After any history, each key comes out exactly once after its last addition."""
        for seed in range(20):
            self._check_history(random.Random(seed))

    def _check_history(self, chance: random.Random) -> None:
        queue = self.make_queue()
        waiting: set[str] = set()
        held: set[str] = set()
        for step in range(300):
            key = f"k{chance.randrange(12)}"
            what = chance.choice(("add", "add", "add", "hold", "release", "cancel", "take", "take"))
            if what == "add":
                queue.add(request(key, step + chance.randrange(10)))
                waiting.add(key)
            elif what == "hold":
                queue.hold(key)
                held.add(key)
            elif what == "release":
                queue.release(key)
                held.discard(key)
            elif what == "cancel":
                assert (queue.cancel(key) is not None) is (key in waiting)
                waiting.discard(key)
            elif (taken := queue.take(float(step))) is not None:
                assert taken.key in waiting - held
                assert taken.due <= step
                waiting.discard(taken.key)
            assert len(queue) == len(waiting)
        for key in sorted(held):
            queue.release(key)
        left = [taken.key for taken in iter(lambda: queue.take(1e9), None)]
        assert sorted(left) == sorted(waiting)
