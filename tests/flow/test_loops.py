"""Which changes look like a handler that wakes itself up."""

import sys

from opkit.flow.loops import LIMIT, WINDOW, LoopDetector


def body(generation=1, **status):
    return {"metadata": {"generation": generation}, "status": status}


class Time:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self):
        return self.now


def test_only_what_changed_lately_is_named():
    """Keys that came and went hours ago are neither kept nor blamed."""
    clock = Time()
    loops = LoopDetector(clock)
    for number in range(500):
        clock.now += WINDOW / 2
        assert loops.note("u", body(**{f"old{number}": 1}), body()) is None
    trail = loops._trails["u"]
    assert sum(len(paths) for _, paths in trail.seen) <= 3
    told = [loops.note("u", body(n=number), body(n=number - 1)) for number in range(1, LIMIT + 1)]
    (warned,) = [paths for paths in told if paths]
    assert warned[0] == "status.n" and set(warned[1:]) <= {"status.old498", "status.old499"}


def test_a_hot_loop_is_not_kept_in_memory():
    """Thousands of changes within the window: the last of them tell enough."""
    clock = Time()
    loops = LoopDetector(clock)
    told = [loops.note("u", body(n=number), body(n=number - 1)) for number in range(5000)]
    assert [paths for paths in told if paths] == [["status.n"]]
    assert sys.getsizeof(loops._trails["u"].seen) < 5000


def test_a_new_generation_starts_afresh():
    """What the author of the object does is no loop."""
    clock = Time()
    loops = LoopDetector(clock)
    assert not any(loops.note("u", body(number, n=number), body(number - 1)) for number in range(100))


def test_nothing_is_kept_of_what_is_gone():
    """By its end, all is forgotten."""
    loops = LoopDetector(Time())
    for number in range(3):
        loops.note("u", body(n=number), body())
    loops.forget("u")
    assert not loops._trails and not loops._first
