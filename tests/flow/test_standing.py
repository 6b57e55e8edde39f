"""What stood at an object's last run, and when a polled value is news."""

import pytest

from opkit.flow.standing import Allowance, Standing


def at(seconds, number=0):
    return float(seconds), number


def ran(standing, seconds, number=0, **options):
    standing.note_run(at(seconds, number), **options)


def test_before_the_first_run_values_are_compared_with_the_first():
    """The first tells nothing; another one does."""
    one = Standing()
    assert [one.take(value, at(0)) for value in (1, 1, 2)] == [False, False, True]


def test_the_first_value_after_a_run_is_what_the_run_has_left():
    """Whatever it is, it is no news; what differs from it later is."""
    one = Standing()
    one.take("wrong", at(0, 1))
    ran(one, 0, 2)
    assert not one.take("right", at(0, 3))
    assert not one.take("right", at(60))
    assert one.take("wrong", at(120))


def test_a_poll_that_began_before_the_end_of_the_run_tells_nothing_of_it():
    """Its value may be of before; the next one counts."""
    one = Standing()
    ran(one, 10, 2)
    assert not one.take("before", at(10, 1))
    assert not one.take("left", at(10, 3))
    assert one.take("before", at(20))


def test_the_same_drift_again_is_news_again():
    """It was repaired in between, which the poll right after the run has shown."""
    one = Standing()
    ran(one, 0, 1)
    one.take("right", at(0, 2))
    for minute in (60, 120, 180):
        assert one.take("wrong", at(minute, 0))
        ran(one, minute, 1)
        assert not one.take("right", at(minute, 2))


@pytest.mark.parametrize("value, is_news", [("right", False), ("wrong", True)])
def test_a_poll_that_comes_too_late_is_compared_with_what_was_known_before_the_run(value, is_news):
    """What has happened since can't be told from what the run has left: a spare run is cheap, a lost one is not."""
    one = Standing()
    one.take("right", at(0))
    ran(one, 10)
    assert one.take(value, at(30)) is is_news


def test_who_could_not_look_right_after_the_run_does_not_know_what_it_has_missed():
    """Polls failed, and nothing was known before: the first value is a reason to run, the same one again is none."""
    one = Standing()
    ran(one, 0, is_blind=True)
    assert one.take(2, at(120))
    ran(one, 120, 1)
    assert not one.take(2, at(120, 2))
    one = Standing()
    ran(one, 0)
    one.note_failure()
    assert one.take(2, at(0.5))


def test_a_first_value_that_is_only_late_is_no_reason_to_run():
    """Where no poll has failed, a queue of polls at the start must not run everything twice."""
    one = Standing()
    ran(one, 0)
    assert not one.take(2, at(30))


def test_the_authors_own_list_may_be_changed_afterwards():
    """What was given is kept as it was."""
    one, value = Standing(), [1]
    one.take(value, at(0))
    value.append(2)
    assert one.take(value, at(1))


def test_what_cannot_be_compared_has_changed():
    """A comparison that raises, or gives something without a truth value."""

    class Odd:
        def __eq__(self, other):
            raise ValueError("no truth here")

        __hash__ = None

    one = Standing()
    one.take(Odd(), at(0))
    assert one.take(Odd(), at(1))


def test_extra_polls_are_allowed_in_a_burst_and_then_one_by_one():
    """Ten at once, then one for each share of the interval."""
    allowance = Allowance(6.0, 0.0)
    for _ in range(10):
        assert allowance.wait(0.0) == 0.0
        allowance.take(0.0)
    assert allowance.wait(0.0) == pytest.approx(6.0)
    assert allowance.wait(3.0) == pytest.approx(3.0)
    allowance.take(6.0)
    assert allowance.wait(6.0) == pytest.approx(6.0)


def test_the_allowance_makes_no_debts_and_saves_no_more_than_a_burst():
    """Regular polls take of it too, and need none; a long calm allows ten, as the beginning did."""
    allowance = Allowance(6.0, 0.0)
    for _ in range(15):
        allowance.take(0.0)
    assert allowance.wait(0.0) == pytest.approx(6.0)
    for _ in range(10):
        assert allowance.wait(6000.0) == 0.0
        allowance.take(6000.0)
    assert allowance.wait(6000.0) == pytest.approx(6.0)


def test_exactly_one_second_after_a_run_is_right_after_it():
    """Later is too late to show what the run has left."""
    for seconds, is_news in ((1.0, False), (1.1, True)):
        one = Standing()
        one.take("right", at(0))
        ran(one, 10)
        assert one.take("wrong", at(10 + seconds, 1)) is is_news
