"""One controller at work: what runs when, requeues, goodbyes, and what is left of an object that is gone."""

import asyncio
import threading

import pytest

import opkit
from opkit import Settings, Trigger
from opkit.retry import Retry


def test_a_thousand_events_during_a_run_make_one_more_run(webapps):
    """Which sees the last change."""
    seen = []

    async def reconcile(spec):
        seen.append(spec["n"])
        await asyncio.sleep(2)

    op = webapps(reconcile)
    web = op.add("webapps", "shop", spec={"n": 0})
    op.advance(1)
    for n in range(1, 21):
        op.modify(web, {"spec": {"n": n}})
        op.advance(0.04)
    op.settle()
    assert seen == [0, 20]


def test_a_burst_of_events_is_one_run(webapps):
    """Equal keys collapse while they wait."""
    op = webapps()
    web = op.add("webapps", "shop", spec={"n": 0})
    op.settle()
    with op.burst():
        for n in range(1, 100):
            op.modify(web, {"spec": {"n": n}})
    op.settle()
    assert len(op.calls()) == 2


def test_a_refused_event_does_not_clear_the_mark_of_an_accepted_one(webapps):
    """The echo of the own status write comes between the change and its run."""
    seen = []

    async def reconcile(spec, patch):
        seen.append(spec["n"])
        patch.status["n"] = spec["n"]

    op = webapps(reconcile)
    with op.hold("reconcile"):
        web = op.add("webapps", "shop", spec={"n": 1})
        op.drain()
        op.modify(web, {"spec": {"n": 2}})
        op.drain()
        op.modify_status(web, {"other": 1})
        op.drain()
    op.settle()
    assert seen == [1, 2] and op.get(web).status["n"] == 2


def test_a_run_gets_the_newest_body_not_the_queued_one(webapps):
    """And no GET is sent for it."""
    seen = []

    async def reconcile(spec):
        seen.append(spec["n"])

    settings = Settings()
    settings.parallel.limit = 1
    op = webapps(reconcile, settings=settings)
    op.fail("get").times(1000, status=500)
    with op.hold("reconcile"):
        op.add("webapps", "first", spec={"n": 0})
        op.drain()
        web = op.add("webapps", "shop", spec={"n": 1})
        op.drain()
        op.modify(web, {"spec": {"n": 2}})
        op.drain()
    op.settle()
    assert seen == [0, 2]


def test_an_object_that_is_created_again_is_another_one(webapps):
    """The generation is the same, the UID is not: two runs, the new one with attempts of its own."""
    op = webapps()
    first = op.add("webapps", "shop")
    op.settle()
    op.delete(first)
    second = op.add("webapps", "shop")
    op.settle()
    assert [(call.uid, call.attempt) for call in op.calls()] == [(first.uid, 1), (second.uid, 1)]


def test_what_waits_is_cancelled_with_the_object(webapps):
    """Nothing runs at its time, for a namesake neither."""

    async def reconcile(spec):
        return opkit.success(requeue_after=spec["after"]) if "after" in spec else None

    op = webapps(reconcile)
    web = op.add("webapps", "shop", spec={"after": 10})
    op.advance(5)
    op.delete(web)
    again = op.add("webapps", "shop", spec={})
    op.advance(20)
    assert [call.uid for call in op.calls()] == [web.uid, again.uid]


def test_the_requeue_of_a_run_whose_object_went_meanwhile_is_dropped(webapps):
    """The late result of the former is nothing to the namesake."""

    async def reconcile(spec):
        await asyncio.sleep(1)
        return opkit.success(requeue_after=5) if spec.get("first") else None

    op = webapps(reconcile)
    first = op.add("webapps", "shop", spec={"first": True})
    op.advance(0.5)
    op.delete(first)
    second = op.add("webapps", "shop", spec={"first": False})
    op.advance(100)
    assert [call.uid for call in op.calls()] == [first.uid, second.uid]


def test_nothing_is_left_of_an_object_that_is_gone(webapps):
    """Requests, attempts, memos, decisions, own writes: all numbers are zero."""
    refuse = []

    async def reconcile(memo, name, requeue, patch):
        memo["big"] = "x" * 1000
        patch.status["seen"] = True
        requeue(after=50)
        if name.endswith("3"):
            raise RuntimeError

    async def gone(memo):
        assert memo["big"]

    op = webapps(reconcile, delete=gone, on_delete=opkit.filter.delete(lambda body: body.name not in refuse))
    for number in range(10):
        op.add("webapps", f"w{number}")
    refuse.extend(["w5", "w6"])
    op.drain()
    for number in range(10):
        op.delete(("webapps", f"w{number}"))
    op.settle()
    (served,) = op._process.operator._watches
    (pipeline,) = served.pipelines
    left = {
        "waiting": served.coordinator.statistics().waiting, "memos": len(served._shared.memos),
        "decisions": len(served.journal), "failing": len(served.failing()), "runs": len(pipeline.results.last_run),
        "objects": pipeline.store.statistics().objects, "writes": len(served._writing),
    }  # fmt: skip
    assert left == dict.fromkeys(left, 0)


# Requeue.


def test_requeue_schedules_the_object_itself(webapps):
    """After so many seconds, with its own trigger."""
    triggers = []

    async def reconcile(requeue, trigger):
        triggers.append(set(trigger))
        if len(triggers) == 1:
            assert requeue(after=30) is True

    op = webapps(reconcile)
    op.add("webapps", "shop")
    op.settle()
    assert [call.at for call in op.calls()] == [0, 30] and triggers[1] == {Trigger.REQUEUE}


def test_requeue_and_a_results_requeue_after_go_through_the_same_door(webapps):
    """The earlier of both wins, and there is one run."""

    async def reconcile(requeue, trigger):
        if Trigger.ADDED in trigger:
            requeue(after=10)
            return opkit.success(requeue_after=40)

    op = webapps(reconcile)
    op.add("webapps", "shop")
    op.settle()
    assert [call.at for call in op.calls()] == [0, 10]


@pytest.mark.parametrize("name, namespace, accepted", [
    ("other", None, True), ("other", "default", True), ("nobody", None, False), ("other", "elsewhere", False),
])  # fmt: skip
def test_requeue_can_name_another_object(webapps, name, namespace, accepted):
    """In the same namespace, or in a given one; `False` where there is no such object."""
    answers = []

    async def reconcile(requeue, trigger):
        if Trigger.ADDED in trigger and not answers:
            answers.append(requeue(after=5, name=name, namespace=namespace))

    op = webapps(reconcile)
    op.add("webapps", "other")
    op.add("webapps", "shop")
    op.settle()
    assert answers == [accepted]


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf"), "5", True], ids=repr)
def test_a_nonsense_delay_is_an_error_of_that_run_only(webapps, after):
    """Other timers go on."""

    async def reconcile(requeue, name):
        if name == "bad":
            requeue(after=after)
        return opkit.success(requeue_after=30) if name == "good" else None

    op = webapps(reconcile)
    op.add("webapps", "good")
    op.add("webapps", "bad")
    op.advance(100)
    assert len(op.calls(ref=("webapps", "good"))) == 4
    assert op.calls(ref=("webapps", "bad"))[0].outcome == "failure"


@pytest.mark.parametrize("after", [3 * 365 * 86400, 1e12, 1e300])
def test_an_absurdly_long_delay_is_kept_at_a_sane_one(webapps, after):
    """It overflows nothing."""
    op = webapps(lambda requeue: requeue(after=after) and None)
    op.add("webapps", "shop")
    op.drain()
    (waiting,) = op.scheduled()
    assert 0 < waiting.due_in <= 10 * 365 * 86400


def test_requeue_works_from_the_thread_of_a_plain_function(webapps):
    """It goes through the loop, and is answered."""
    answers = []

    def reconcile(requeue, trigger):
        if Trigger.ADDED in trigger:
            answers.append((requeue(after=7), threading.current_thread() is threading.main_thread()))

    op = webapps(reconcile)
    op.add("webapps", "shop")
    op.settle()
    assert answers == [(True, False)] and [call.at for call in op.calls()] == [0, 7]


def test_objects_without_uid_can_be_requeued_and_triggered(webapps):
    """They have an identity of their own."""
    answers = []

    async def reconcile(requeue, trigger):
        if Trigger.ADDED in trigger:
            answers.append(requeue(after=7))

    op = webapps(reconcile, resource=("v1", "configmaps"))
    op.drain()
    meta = {"name": "old", "namespace": "default", "creationTimestamp": "2030-01-01T00:00:00Z", "resourceVersion": "1"}
    op.inject("ADDED", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    op.advance(10)
    assert answers == [True] and len(op.calls()) == 2
    assert op.trigger(("configmaps", "old"))
    assert len(op.calls()) == 3


# Goodbyes.


def test_the_delete_handler_gets_the_last_known_body_and_why(webapps):
    """Once; reported by the server."""
    told = []

    async def gone(body, reason, name):
        told.append((name, body.spec, str(reason)))

    op = webapps(delete=gone)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    op.modify(web, {"spec": {"n": 2}})
    op.delete(web)
    op.settle()
    assert told == [("shop", {"n": 2}, "DELETED")]


def test_a_deletion_that_nobody_saw_is_told_as_unknown(webapps):
    """From the comparison with a complete list."""
    told = []

    async def gone(name, reason):
        told.append((name, str(reason)))

    op = webapps(delete=gone)
    for name in "ab":
        op.add("webapps", name)
    op.settle()
    stream = op.watch("webapps")
    op.delete(("webapps", "a"))
    stream.expire()
    op.settle()
    assert told == [("a", "UNKNOWN")]


def test_nobody_is_told_of_what_went_while_the_operator_was_down(webapps):
    """The delete handler has no guarantee."""

    async def gone():
        pass

    op = webapps(delete=gone)
    web = op.add("webapps", "shop")
    op.settle()
    op.restart()
    op.delete(web)
    op.settle()
    assert not op.calls("gone")


def test_the_delete_handler_waits_for_a_run_under_way(webapps):
    """They share the object's lock."""
    order = []

    async def reconcile():
        await asyncio.sleep(2)
        order.append("reconciled")

    async def gone():
        order.append("gone")

    op = webapps(reconcile, delete=gone)
    web = op.add("webapps", "shop")
    op.advance(1)
    op.delete(web)
    op.settle()
    assert order == ["reconciled", "gone"]


def test_a_failed_delete_handler_is_retried_twice_and_then_logged(webapps, caplog):
    """Nothing depends on it."""

    async def gone():
        raise RuntimeError("no")

    op = webapps(delete=gone, settings=Settings(retry=Retry(jitter=0)))
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    op.settle()
    op.advance(10_000)
    assert [call.attempt for call in op.calls("gone")] == [1, 2, 3]
    assert "for good" in caplog.text


def test_a_namesake_does_not_disturb_the_goodbye(webapps):
    """Each is told with the body of its own UID."""
    told = []

    async def gone(uid):
        told.append(uid)
        if len(told) == 1:
            raise RuntimeError

    op = webapps(delete=gone, settings=Settings(retry=Retry(initial=10, jitter=0)))
    first = op.add("webapps", "shop")
    op.settle()
    op.delete(first)
    op.drain()
    op.add("webapps", "shop")
    op.settle()
    assert told == [first.uid, first.uid] and len(op.calls("nothing")) == 2


def test_a_trigger_from_outside_runs_the_object(webapps):
    """`False` for what is not known."""
    op = webapps()
    web = op.add("webapps", "shop")
    op.settle()
    assert op.trigger(web) is True and op.trigger(("webapps", "nobody")) is False
    assert op.calls()[-1].trigger == {Trigger.MANUAL}
    assert op.trigger(web, after=5) is True
    op.advance(10)
    assert len(op.calls()) == 3
