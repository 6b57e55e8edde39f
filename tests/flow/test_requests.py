"""How two requests of one object become one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opkit.flow.requests import CHANGES, Request, merge
from opkit.triggers import Trigger

ADDED, MODIFIED, RESYNC, REQUEUE, RETRY, MANUAL = (
    Trigger.ADDED, Trigger.MODIFIED, Trigger.RESYNC, Trigger.REQUEUE, Trigger.RETRY, Trigger.MANUAL,
)  # fmt: skip


def request(due, *triggers, **fields):
    return Request("a", float(due), frozenset(triggers), **fields)


def merged(waiting, arriving):
    """The request that is left, and whether it became due earlier."""
    return waiting, merge(waiting, arriving)


def both_ways(one, other):
    """The same two requests, whichever of them waits."""
    yield merged(one(), other())[0]
    yield merged(other(), one())[0]


@pytest.mark.parametrize("first, second, due, earlier", [(5, 2, 2, True), (2, 5, 2, False), (2, 2, 2, False)])
def test_the_earlier_due_time_wins(first, second, due, earlier):
    """Due is the earlier one, and merging tells whether it moved."""
    request_, moved = merged(request(first, MODIFIED), request(second, MODIFIED))
    assert (request_.due, moved) == (due, earlier)


def test_triggers_are_the_union():
    """Every reason is remembered for the log."""
    assert merged(request(0, ADDED), request(0, MODIFIED, REQUEUE))[0].triggers == {ADDED, MODIFIED, REQUEUE}


def test_a_resync_is_a_reason_only_where_it_is_the_only_one():
    """It waits for every object, so beside another reason it says nothing."""
    assert merged(request(100, RESYNC), request(0, MODIFIED))[0].triggers == {MODIFIED}
    assert merged(request(100, RESYNC), request(50, RESYNC))[0].triggers == {RESYNC}


def test_the_body_is_the_newest():
    """The one that arrived last, but never none instead of one."""
    request_ = merged(request(0, ADDED, body={"v": 1}), request(0, MODIFIED, body={"v": 2}))[0]
    assert request_.body == {"v": 2}
    assert merged(request_, request(0, REQUEUE))[0].body == {"v": 2}


def test_attempts_are_kept_without_a_new_generation():
    """A change that is nothing new to the failed runs does not clear them."""
    for left in both_ways(
        lambda: request(10, RETRY, attempt=4, generation=2), lambda: request(0, MODIFIED, generation=2)
    ):
        assert left.attempt == 4


def test_a_new_generation_starts_afresh():
    """The attempts are 1, the backoff is forgotten, and it is due at once."""
    for left in both_ways(
        lambda: request(300, RETRY, attempt=4, generation=2, conflicts=2),
        lambda: request(0, MODIFIED, generation=3),
    ):
        assert (left.attempt, left.due, left.conflicts, left.retry_due, left.generation) == (1, 0, 0, None, 3)


def test_an_event_overtakes_a_backoff_once():
    """It runs early, keeps the attempt, and remembers when the retry was due."""
    for left in both_ways(
        lambda: request(100, RETRY, attempt=2, generation=1), lambda: request(5, MODIFIED, generation=1)
    ):
        assert (left.due, left.attempt, left.retry_due, left.overtaken) == (5, 2, 100, True)


def test_further_events_wait_for_the_retry():
    """The one early run of the backoff is spent."""
    for left in both_ways(
        lambda: request(100, RETRY, attempt=2, generation=1, overtaken=True),
        lambda: request(5, MODIFIED, generation=1),
    ):
        assert (left.due, left.attempt) == (100, 2)


@pytest.mark.parametrize("wish", [REQUEUE, MANUAL])
def test_an_explicit_wish_always_overtakes(wish):
    """What a run or a person asks for is no event."""
    left = merged(request(100, RETRY, attempt=2, overtaken=True), request(5, wish))[0]
    assert (left.due, left.attempt) == (5, 2)


def test_an_event_after_the_retry_is_due_changes_nothing():
    """There is nothing to overtake any more: the early run is not spent."""
    left = merged(request(100, RETRY, attempt=2, generation=1), request(120, MODIFIED, generation=1))[0]
    assert (left.due, left.overtaken) == (100, False)


def test_a_trigger_revives_what_was_given_up():
    """Only the resync is left of it; somebody asks: the attempts start over."""
    for left in both_ways(lambda: request(36_000, RESYNC, attempt=6), lambda: request(0, MANUAL)):
        assert (left.attempt, left.due) == (1, 0)


def test_an_event_does_not_revive_what_was_given_up():
    """It runs, but it has no attempts left."""
    left = merged(
        request(36_000, RESYNC, attempt=6, generation=1), request(0, MODIFIED, generation=1)
    )[0]  # fmt: skip
    assert (left.attempt, left.due) == (6, 0)


requests = st.builds(
    lambda due, triggers, attempt, generation: Request(
        "a", due, triggers, attempt=attempt if RETRY in triggers else 1, generation=generation
    ),
    st.integers(0, 100).map(float),
    st.sampled_from([frozenset({trigger}) for trigger in Trigger]),
    st.integers(1, 5),
    st.sampled_from([None, 1, 2, 3]),
)


@given(requests, requests)
def test_merging_never_makes_a_request_later_than_both(one, other):
    """Whatever is merged: it is due no later than the later of the two, and never before the earlier."""
    first, second = one.due, other.due
    merge(one, other)
    assert min(first, second) <= one.due <= max(first, second)


@given(st.lists(requests, min_size=2, max_size=6))
def test_a_wish_for_now_is_granted_unless_it_is_an_event_in_a_backoff(several):
    """Of requests outside of a backoff none is held up by merging."""
    waiting, *rest = several
    for arriving in rest:
        before = min(waiting.due, arriving.due)
        event_in_backoff = (waiting.in_backoff != arriving.in_backoff) and (
            (arriving if waiting.in_backoff else waiting).triggers <= CHANGES
        )
        merge(waiting, arriving)
        if not event_in_backoff:
            assert waiting.due == before
        waiting.overtaken = waiting.overtaken and waiting.in_backoff


@given(requests, requests)
def test_the_generation_is_that_of_the_last_change(one, other):
    """Never none where one is known; what a finished run asks for is older than a change that came meanwhile."""
    before, change = one.generation, not other.triggers.isdisjoint(CHANGES)
    merge(one, other)
    newest = other.generation if before is None or (change and other.generation is not None) else before
    assert one.generation == newest


@pytest.mark.parametrize("generation", [1, 3, 4])
def test_any_other_generation_starts_afresh(generation):
    """Also a lower one: the database was restored."""
    for left in both_ways(
        lambda: request(300, RETRY, attempt=4, generation=2), lambda: request(0, MODIFIED, generation=generation)
    ):
        assert (left.attempt, left.due) == (1, 0)


def test_the_start_of_a_deletion_waits_for_no_backoff():
    """Not even for one whose early run is spent, and without any generation."""
    for left in both_ways(
        lambda: request(300, RETRY, attempt=4, overtaken=True, retry_due=300.0),
        lambda: request(0, MODIFIED, Trigger.FINALIZER, afresh=True),
    ):
        assert (left.attempt, left.due, left.overtaken, left.retry_due) == (1, 0, False, None)


def test_a_backoff_of_the_first_attempt_is_overtaken_once_too():
    """A server that asks to slow down costs no attempt; it is a backoff all the same."""
    for left in both_ways(
        lambda: request(60, RETRY, overtaken=True, generation=1), lambda: request(1, MODIFIED, generation=1)
    ):
        assert left.due == 60


def test_an_explicit_wish_is_not_the_one_early_run_of_a_backoff():
    """Events keep theirs: the run that a person asks for takes nothing from them."""
    for left in both_ways(lambda: request(100, RETRY, attempt=3), lambda: request(10, MANUAL)):
        assert (left.due, left.retry_due, left.overtaken) == (10, 100, False)


@pytest.mark.parametrize("generations", [(2, None), (None, 2)], ids=["change-has-none", "failed-has-none"])
def test_where_one_has_no_generation_there_is_no_new_one(generations):
    """Nothing tells that a change is news to the failed runs: they keep their attempts and their backoff."""
    failed, change = generations
    for left in both_ways(
        lambda: request(100, RETRY, attempt=3, generation=failed), lambda: request(0, MODIFIED, generation=change)
    ):
        assert (left.attempt, left.retry_due, left.overtaken) == (3, 100, True)


def test_the_time_of_the_retry_stays_however_often_it_is_overtaken():
    """By the one early run that an event has, and by wishes before and after it."""
    left, _ = merged(request(100, RETRY, attempt=3), request(10, MODIFIED))
    for wish in (request(5, MANUAL), request(20, MODIFIED), request(50, REQUEUE)):
        left, _ = merged(left, wish)
        assert (left.due, left.retry_due) == (min(10, left.due), 100)
    assert left.due == 5
