"""The fake event injector: every call of its table, and each failure told as what it is."""

import asyncio
import datetime
import random
import subprocess
import sys
import textwrap
import time
import unittest

import pytest

import opkit
from opkit import Settings, Trigger
from opkit.testing import FakeEventInjector
from opkit.testing.failures import LeftRunning, NotSettled, RuntimeFailed
from opkit.testing.references import UnknownResource
from opkit.testing.virtual import Endless, RealSleep


def operator(function, **options):
    """An operator of webapps with one handler."""
    registry = opkit.Registry()
    opkit.reconcile("example.com", "v1", "webapps", registry=registry, **options)(function)
    return registry


async def noop():
    """Content with everything."""


async def fails():
    raise ValueError("of the author")


@pytest.fixture
def op(event_injector):
    return event_injector(operator(noop))


# The world outside.


def test_add_follows_a_servers_rules(op):
    """UID, version and generation are the server's; status goes to its subresource."""
    web = op.add("webapps", "shop", spec={"n": 1}, status={"phase": "Ready"}, labels={"a": "b"})
    body = op.get(web)
    assert body.uid == web.uid and body.metadata["generation"] == 1 and body.status == {"phase": "Ready"}
    op.modify_status(web, {"phase": "Other"})
    assert op.get(web).metadata["generation"] == 1
    op.modify(web, {"spec": {"n": 2}})
    assert op.get(web).metadata["generation"] == 2
    version = op.get(web).metadata["resourceVersion"]
    op.modify(web, {"spec": {"n": 2}})
    assert op.get(web).metadata["resourceVersion"] == version


def test_deletion_follows_a_servers_rules(op):
    """With finalizers it is a mark, without it is the end."""
    web = op.add("webapps", "shop", finalizers=["other.io/x"])
    op.delete(web)
    assert op.get(web).metadata.deletion_timestamp
    op.modify(web, {"metadata": {"finalizers": None}})
    assert not op.exists(web)


@pytest.mark.parametrize("ref", [("webapps", "shop"), ("Webapp", "shop", "default"), ["webapp", "shop"]], ids=str)
def test_objects_can_be_named_in_several_ways(op, ref):
    """By plural, singular or kind, with or without a namespace; or by a handle."""
    web = op.add("webapps", "shop")
    op.drain()
    assert op.get(ref[0], ref[1]).uid == web.uid
    assert len(op.calls(ref=ref)) == len(op.calls(ref=web)) == 1


def test_a_handle_means_the_very_object(op):
    """A namesake is another one."""
    first = op.add("webapps", "shop")
    op.drain()
    op.delete(first)
    second = op.add("webapps", "shop")
    op.drain()
    assert not op.exists(first) and op.exists(second)
    assert [len(op.calls(ref=one)) for one in (first, second)] == [1, 1]


@pytest.mark.parametrize("ref", ["shop", ("webapps",), ("a", "b", "c", "d")], ids=repr)
def test_nonsense_for_a_reference_is_told(op, ref):
    """In one sentence."""
    with pytest.raises(TypeError, match="name an object"):
        op.modify(ref, {})


def test_a_resource_that_nobody_serves_is_told(op):
    """With what to do."""
    with pytest.raises(UnknownResource, match="CustomResourceDefinition"):
        op.add("gizmos", "x")


def test_list_shows_the_store(op):
    """In one namespace or all."""
    op.add("webapps", "a")
    op.add("webapps", "b", "other")
    assert [len(op.list("webapps", namespace)) for namespace in (None, "default", "other")] == [2, 1, 1]


@pytest.mark.parametrize("type_, calls", [("ADDED", 1), ("MODIFIED", 1), ("DELETED", 0), ("BOOKMARK", 0)])
def test_inject_sends_one_raw_event_past_the_store(op, type_, calls):
    """What no server would send can be sent."""
    meta = {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "9", "generation": 1}
    body = {"apiVersion": "example.com/v1", "kind": "Webapp", "metadata": meta}
    op.inject(type_, body)
    assert len(op.calls()) == calls and not op.exists("webapps", "x")


def test_an_injected_error_ends_the_streams(op):
    """And they come back."""
    op.add("webapps", "shop")
    op.settle()
    op.inject("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
    op.add("webapps", "other")
    op.settle()
    assert len(op.calls()) == 2


# Time.


def test_nothing_happens_before_time_moves(op):
    """Not even the start."""
    op.add("webapps", "shop")
    assert not op.calls()
    op.drain()
    assert len(op.calls()) == 1


def test_drain_runs_what_is_due_now_only(event_injector):
    """And `advance` moves the clock, by seconds or a timedelta."""

    async def later():
        return opkit.success(requeue_after=60)

    op = event_injector(operator(later))
    op.add("webapps", "shop")
    op.drain()
    assert (op.now, len(op.calls())) == (0, 1)
    op.advance(59.9)
    assert len(op.calls()) == 1
    op.advance(datetime.timedelta(seconds=0.1))
    assert (round(op.now, 6), len(op.calls())) == (60, 2)


def test_settle_goes_on_until_nothing_but_resyncs_is_due(event_injector):
    """And stops there: a resync in ten hours is no business of a test."""
    answers = [opkit.success(requeue_after=100), opkit.success(requeue_after=200), None]

    async def later():
        return answers.pop(0)

    op = event_injector(operator(later))
    op.add("webapps", "shop")
    op.settle()
    assert op.now == 300 and [one.trigger for one in op.scheduled()] == [{Trigger.RESYNC}]


def test_settle_says_who_waits_for_what(event_injector):
    """If it takes too long."""

    async def for_ever():
        return opkit.success(requeue_after=100)

    op = event_injector(operator(for_ever))
    op.add("webapps", "shop")
    with pytest.raises(NotSettled, match=r"for_ever of default/shop is due in \d+ s \(REQUEUE\)"):
        op.settle()


def test_a_hang_is_an_error_that_says_who_waits(event_injector):
    """Nothing can wake it up any more."""

    async def hangs():
        await asyncio.Event().wait()

    op = event_injector(operator(hangs))
    op.add("webapps", "shop")
    with pytest.raises(NotSettled, match=r"(?s)hangs of default/shop has run since 0 s.*nothing can wake"):
        op.settle()


def test_time_that_stands_still_for_ever_is_an_error(event_injector, monkeypatch):
    """A loop around sleep(0), or requeues after 0 s."""
    monkeypatch.setattr("opkit.testing.virtual.MOST_ROUNDS", 10_000)

    async def spins():
        return opkit.success(requeue_after=0)

    op = event_injector(operator(spins))
    op.add("webapps", "shop")
    with pytest.raises(Endless, match="requeue after 0 s"):
        op.drain()
    op._process.kill()


def test_a_year_of_resyncs_is_a_year_of_runs(event_injector):
    """Virtual time is not waited for."""
    op = event_injector(operator(noop))
    op.add("webapps", "shop")
    op.advance(datetime.timedelta(days=365))
    assert 700 < len(op.calls()) < 1100


def test_the_time_of_day_moves_along(event_injector):
    """From a start that a test may choose."""
    start = datetime.datetime(2040, 5, 6, tzinfo=datetime.UTC)
    op = event_injector(operator(noop), start=start)
    op.advance(3600)
    op.add("webapps", "late")
    assert op.get("webapps", "late").metadata.creation_timestamp == "2040-05-06T01:00:00Z"


# What the operator did.


def test_calls_tell_all_of_a_run(event_injector):
    """Who, what, when, why, how long, and what came of it."""

    async def works(attempt):
        await asyncio.sleep(2)
        if attempt == 1:
            raise ValueError("x")
        return opkit.success(requeue_after=1000)

    op = event_injector(operator(works), Settings(retry=opkit.Retry(initial=5, jitter=0)))
    web = op.add("webapps", "shop")
    op.advance(20)
    first, second = op.calls("works", web)
    assert (first.handler, first.name, first.namespace, first.uid) == ("works", "shop", "default", web.uid)
    assert (first.attempt, first.trigger, first.at, first.duration, first.outcome) == (
        1, {Trigger.ADDED}, 0, 2, "failure",
    )  # fmt: skip
    assert isinstance(first.error, ValueError) and second.result.requeue_after == 1000
    assert (second.attempt, second.trigger, second.at) == (2, {Trigger.RETRY}, 7)


def test_scheduled_tells_what_waits(event_injector):
    """The earliest first."""

    async def later(name):
        return opkit.success(requeue_after={"a": 50, "b": 20}[name])

    op = event_injector(operator(later))
    for name in "ab":
        op.add("webapps", name)
    op.drain()
    assert [(one.due_in, one.attempt, one.controller) for one in op.scheduled()] == [(20, 1, "later"), (50, 1, "later")]
    assert len(op.scheduled(("webapps", "a"))) == 1


def test_refused_writes_and_explain_are_data(event_injector):
    """Why there was no run, what was written and what was not."""

    async def writes(patch):
        patch.status["phase"] = "Ready"

    op = event_injector(operator(writes))
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    op.modify(web, {"metadata": {"labels": {"a": "b"}}})
    op.trigger(web)
    assert [(one.type, one.by) for one in op.refused(web)] == [("MODIFIED", "write-echo"), ("MODIFIED", "default")]
    assert [(one.verb, one.name, one.subresource) for one in op.writes(web)] == [("patch", "shop", "status")]
    assert len(op.skipped_writes(web)) == 1
    assert {one["what"] for one in op.explain(web)} == {"event", "request", "run", "write", "next"}


def test_the_timeline_is_readable(event_injector):
    """Who did what when, and which rule decided."""
    op = event_injector(operator(noop))
    web = op.add("webapps", "shop")
    op.advance(5)
    op.modify_status(web, {"a": 1})
    op.drain()
    text = op.timeline()
    assert "call noop for default/shop (attempt 1; ADDED): success" in text and "by default" in text


# Acting in the middle.


def test_burst_lets_events_pile_up(op):
    """They arrive together when it ends."""
    with op.burst():
        for n in range(5):
            op.add("webapps", f"w{n}")
        op.drain()
        assert not op.calls()
    op.drain()
    assert len(op.calls()) == 5


def test_hold_keeps_the_next_run_inside(op):
    """Only the next one, until the block ends."""
    with op.hold("noop"):
        op.add("webapps", "a")
        op.drain()
        op.add("webapps", "b")
        op.drain()
        assert [call.outcome for call in op.calls()] == [None, "success"]
    op.drain()
    assert [call.outcome for call in op.calls()] == ["success", "success"]


def test_restart_stops_in_order_and_starts_anew(event_injector):
    """What runs is finished; what was in memory is gone."""

    async def slow():
        await asyncio.sleep(5)

    op = event_injector(operator(slow))
    op.add("webapps", "shop")
    op.advance(1)
    op.restart()
    op.settle()
    assert [call.outcome for call in op.calls()] == ["success", "success"]


def test_a_kill_finishes_nothing(event_injector):
    """Not even the patch that was about to be sent."""

    async def slow(patch):
        patch.status["n"] = 1
        await asyncio.sleep(5)

    op = event_injector(operator(slow))
    web = op.add("webapps", "shop")
    op.advance(1)
    op.restart(kill=True)
    assert op.calls()[0].outcome != "success" and op.get(web).status == {}
    op.settle()
    assert op.get(web).status == {"n": 1}


def test_leadership_comes_and_goes(op):
    """Without it nothing runs; with it everything known does."""
    op.add("webapps", "a")
    op.drain()
    op.lose_leadership()
    op.add("webapps", "b")
    op.settle()
    assert len(op.calls()) == 1
    op.gain_leadership()
    op.settle()
    assert sorted(call.name for call in op.calls()[1:]) == ["a", "b"]


@pytest.mark.parametrize("fault", ["disconnect", "expire", "silence", "error"])
def test_streams_can_go_wrong(op, fault):
    """And what was missed meanwhile is made up for."""
    op.add("webapps", "a")
    op.add("webapps", "b")
    op.settle()
    stream = op.watch("webapps")
    getattr(stream, fault)(*([500] if fault == "error" else []))
    op.add("webapps", "c")
    op.delete(("webapps", "a"))
    op.settle()
    assert [call.name for call in op.calls()] == ["a", "b", "c"]
    assert not op.trigger(("webapps", "a"))


@pytest.mark.parametrize("how", ["once", "times", "unreachable", "reply_lost", "delay"])
def test_requests_can_go_wrong(event_injector, how):
    """Refused, lost on the way there or back, or late."""

    async def writes(patch):
        patch.status["phase"] = "Ready"

    op = event_injector(operator(writes), Settings(retry=opkit.Retry(jitter=0)))
    fault = op.fail("patch_status", "webapps")
    getattr(fault, how)(*{"once": [409], "times": [2, 500], "delay": [3]}.get(how, []))
    web = op.add("webapps", "shop")
    op.settle()
    assert op.get(web).status == {"phase": "Ready"}
    assert len(op.calls()) == {"once": 2, "times": 3, "unreachable": 2, "reply_lost": 2, "delay": 1}[how]


def test_check_idempotent_finds_what_is_written_again(event_injector):
    """With what was written."""

    async def counts(patch, status):
        patch.status["runs"] = status.get("runs", 0) + 1

    op = event_injector(operator(counts))
    web = op.add("webapps", "shop")
    with pytest.raises(AssertionError, match=r"(?s)not idempotent.*patch webapps/status shop.*runs"):
        op.check_idempotent(web)


def test_check_idempotent_is_content_with_the_rest(op):
    """Nothing changes, nothing is said."""
    op.check_idempotent(op.add("webapps", "shop"))


# Seeds.


async def race(name, cluster):
    """Reads, awaits and writes without a version: two of them lose an update."""
    total = await cluster.get(("v1", "configmaps"), "total")
    n = int(total["data"]["n"])
    await cluster.patch(("v1", "configmaps"), "total", None, {"data": {"n": str(n + 1), name: "counted"}})


def story(seed):
    """A history with some choice in it, as text."""

    async def writes(name, cluster, requeue):
        await asyncio.sleep(0)
        await cluster.patch("webapps", name, None, {"metadata": {"labels": {"by": name}}})

    settings = Settings()
    settings.parallel.limit = 4
    with FakeEventInjector(operator(writes), settings, seed=seed) as op:
        for name in "abcdefgh":
            op.add("webapps", name)
        op.settle()
        return op.timeline()


def test_the_same_seed_gives_the_same_history_and_another_one_another():
    """Among what is due at the same moment."""
    assert story(3) == story(3)
    assert len({story(seed) for seed in range(6)}) > 1


@pytest.mark.parametrize("seed", [0, 5])
def test_the_history_does_not_depend_on_the_process(seed):
    """Nor on how it hashes: a seed that failed elsewhere fails here."""
    code = textwrap.dedent(f"""
        import importlib.util, sys
        spec = importlib.util.spec_from_file_location("tests_of_promises", {__file__.replace("injector", "promises")!r})
        module = importlib.util.module_from_spec(spec)
        sys.modules["tests_of_promises"] = module
        spec.loader.exec_module(module)
        import logging, random
        logging.disable()
        with module.FakeEventInjector(module.World().registry, seed={seed}) as op:
            module.history(op, random.Random({seed}))
            op.settle(within=3600)
            print(op.timeline())
    """)
    told = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": hashing}, text=True, check=True,
                       capture_output=True).stdout
        for hashing in ("1", "2")
    }  # fmt: skip
    assert len(told) == 1 and "call reconcile" in told.pop()


def test_interleavings_catch_a_race():
    """Some legal order of what is concurrently due loses an update."""
    totals = set()
    for seed in range(20):
        settings = Settings()
        settings.parallel.limit = 4
        with FakeEventInjector(operator(race), settings, seed=seed) as op:
            op.add("configmaps", "total", data={"n": "0"})
            for name in "abcd":
                op.add("webapps", name)
            op.settle()
            totals.add(op.get("configmaps", "total")["data"]["n"])
    assert totals != {"4"}


# What goes wrong is told as what it is.


def test_an_error_of_the_author_is_a_failed_call(event_injector):
    """The test goes on, and can look at it."""
    op = event_injector(operator(fails))
    op.add("webapps", "shop")
    op.drain()
    assert isinstance(op.calls()[0].error, ValueError)


def test_an_authors_error_has_no_context_of_the_tools(event_injector):
    """Its traceback is the author's."""
    op = event_injector(operator(fails))
    op.add("webapps", "shop")
    op.drain()
    assert op.calls()[0].error.__context__ is None


def test_a_startup_handler_that_fails_is_told(event_injector):
    """By its name and place."""
    registry = operator(noop)

    @opkit.startup(registry=registry)
    async def start():
        raise ValueError("no database")

    op = event_injector(registry)
    with pytest.raises(opkit.OpkitError, match=r"start \(.*test_injector.py:\d+\) failed: ValueError: no database"):
        op.drain()


def test_a_bug_in_opkit_is_told_as_one(monkeypatch):
    """It is not the author's."""
    op = FakeEventInjector(operator(noop))
    monkeypatch.setattr("opkit.flow.results.Results.settle", lambda self, request, report: 1 / 0)
    op.add("webapps", "shop")
    with pytest.raises(RuntimeFailed, match=r"ZeroDivisionError.*a bug in opkit"):
        op.drain()
    op.close()


def test_a_bug_that_nobody_saw_fails_the_end(monkeypatch):
    """The last chance to tell of it."""
    op = FakeEventInjector(operator(noop))
    op.drain()
    op._recorder.on_bug(ZeroDivisionError("oh"))
    with pytest.raises(RuntimeFailed, match="a bug in opkit"):
        op.close()


def test_a_task_that_is_left_running_is_told_by_name():
    """A handler has started and forgotten it."""
    kept = []

    async def forgets():
        kept.append(asyncio.create_task(asyncio.sleep(1e6), name="the forgotten one"))

    op = FakeEventInjector(operator(forgets))
    op.add("webapps", "shop")
    op.drain()
    with pytest.raises(LeftRunning, match="the forgotten one"):
        op.close()


def test_a_real_sleep_is_told_by_name_in_the_loop():
    """An async handler that blocks."""

    async def sleeps():
        time.sleep(0.001)  # noqa: ASYNC251  # the mistake that is to be told

    op = FakeEventInjector(operator(sleeps))
    op.add("webapps", "shop")
    with pytest.raises(RealSleep, match=r"sleeps \(.*test_injector.py:\d+\) sleeps for real"):
        op.drain()
    op.close()


def test_a_real_sleep_is_told_by_name_in_a_thread():
    """A plain handler that sleeps."""

    def sleeps():
        time.sleep(0.001)

    op = FakeEventInjector(operator(sleeps))
    op.add("webapps", "shop")
    with pytest.raises(RealSleep, match="sleeps"):
        op.drain()
    op.close()


def test_a_thread_that_blocks_for_real_is_told_by_name(monkeypatch):
    """On something that virtual time knows nothing of."""
    import threading

    monkeypatch.setattr("opkit.testing.virtual.PATIENCE", 0.05)
    event = threading.Event()

    def blocks():
        event.wait(5)

    op = FakeEventInjector(operator(blocks))
    op.add("webapps", "shop")
    with pytest.raises(RealSleep, match="blocks"):
        op.drain()
    with pytest.raises(LeftRunning, match="blocks"):
        op.close()
    event.set()


# Where it works.


def test_it_works_inside_of_a_running_loop():
    """A test that is a coroutine; a real sleep is told there too."""

    async def main():
        with FakeEventInjector(operator(noop)) as op:
            op.add("webapps", "shop")
            op.settle()
            return len(op.calls())

    assert asyncio.run(main()) == 1

    async def sleeps():
        time.sleep(0.001)  # noqa: ASYNC251  # the mistake that is to be told

    async def sleepy():
        op = FakeEventInjector(operator(sleeps))
        op.add("webapps", "shop")
        with pytest.raises(RealSleep):
            op.drain()
        op.close()

    asyncio.run(sleepy())


def test_it_works_in_a_unittest_test_case():
    """As a context manager."""

    class Case(unittest.TestCase):
        def test_it(self):
            with FakeEventInjector(operator(noop)) as op:
                op.add("webapps", "shop")
                op.settle()
                self.assertEqual(len(op.calls()), 1)

    result = unittest.TestResult()
    Case("test_it").run(result)
    assert result.wasSuccessful() and result.testsRun == 1


def test_an_error_of_the_test_is_what_is_seen():
    """Not what the end of the injector has to say after it."""
    with pytest.raises(KeyError, match="of the test"), FakeEventInjector(operator(noop)) as op:
        op._recorder.on_bug(ZeroDivisionError())
        raise KeyError("of the test")


def test_ten_thousand_events_end_in_the_last_state():
    """Whatever was merged on the way."""
    chance = random.Random(1)
    seen = {}

    async def remember(name, spec):
        seen[name] = spec["n"]

    with FakeEventInjector(operator(remember)) as op:
        for number in range(100):
            op.add("webapps", f"w{number}", spec={"n": 0})
        op.drain()
        for number in range(10_000):
            op.modify(("webapps", f"w{chance.randrange(100)}"), {"spec": {"n": number}})
            if number % 100 == 0:
                op.drain()
        op.drain()
        assert seen == {f"w{number}": op.get("webapps", f"w{number}")["spec"]["n"] for number in range(100)}
