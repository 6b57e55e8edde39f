"""Exactly as many runs as there should be, against a real API server."""

import asyncio

import pytest

import opkit

from ..behaviour.client import eventually
from .conftest import GROUP, Things

pytestmark = pytest.mark.kube

THINGS = (GROUP, "v1", "things")
COUNT = 100


@pytest.fixture
def counted(registry):
    """A handler that writes status on each run, two finalizers and a delete handler; who was called, in order."""
    calls = []

    @opkit.reconcile(*THINGS, registry=registry)
    async def reconcile(name, spec, patch):
        calls.append(("reconcile", name, spec.get("n")))
        patch.status["seen"] = spec.get("n")

    @opkit.finalizer(*THINGS, registry=registry)
    async def first(name):
        calls.append(("first", name))

    @opkit.finalizer(*THINGS, registry=registry)
    def second(name):
        calls.append(("second", name))

    @opkit.delete(*THINGS, registry=registry)
    async def gone(name, reason):
        calls.append((str(reason), name))

    return calls


@pytest.mark.parametrize(
    ("strategy", "runs_per_patch"),
    [
        pytest.param("by-generation", 0, id="by-generation"),
        pytest.param("by-resource-version", 1, id="by-resource-version"),
    ],
)
def test_each_change_that_counts_is_one_run(running, registry, things, counted, strategy, runs_per_patch):
    """Objects from before and after the start, label and status patches, own writes, and deletions."""
    settings = opkit.Settings()
    settings.reconcile.strategy = opkit.ReconcileStrategy(strategy)
    for number in range(COUNT):
        things.create(f"before-{number}", {"n": number})
    with running(registry, settings) as operator:
        for number in range(COUNT):
            things.create(f"after-{number}", {"n": number})
        eventually(lambda: len(operator.watcher.ended("reconcile")) >= 2 * COUNT, 30)
        operator.quiet()
        names = [call[1] for call in counted]
        assert len(names) == len(set(names)) == 2 * COUNT
        assert things.get("before-7")["status"] == {"seen": 7}
        counted.clear()

        for number in range(COUNT):
            things.patch(f"before-{number}", {"metadata": {"labels": {"n": str(number)}}})
            things.patch(f"after-{number}", {"status": {"other": number}}, "/status")
        eventually(lambda: len(counted) >= 2 * COUNT * runs_per_patch, 30)
        operator.quiet()
        names = [call[1] for call in counted]
        assert len(names) == len(set(names)) == 2 * COUNT * runs_per_patch
        counted.clear()

        for number in range(10):
            things.delete(f"before-{number}")
        eventually(lambda: len([call for call in counted if call[0] == "DELETED"]) == 10, 30)
        operator.quiet()
        for number in range(10):
            name = f"before-{number}"
            assert [call[0] for call in counted if call[1] == name] == ["first", "second", "DELETED"]


def test_changes_during_a_run_make_one_more(running, registry, things):
    """20 changes of one object during a run of 2 s make one more run, which sees the last change."""
    seen = []

    @opkit.reconcile(*THINGS, registry=registry)
    async def reconcile(spec):
        seen.append(spec["n"])
        await asyncio.sleep(2)

    with running(registry) as operator:
        things.create("hot", {"n": 0})
        eventually(lambda: seen == [0])
        for number in range(1, 21):
            things.patch("hot", {"spec": {"n": number}})
        operator.quiet(3)
    assert seen == [0, 20]


def test_no_overlap_and_no_more_than_the_limit(running, registry, things):
    """Whatever is thrown at it, one object is run once at a time, and not more than the limit at once."""
    active, most, overlaps = set(), [0], []

    @opkit.reconcile(*THINGS, registry=registry)
    async def reconcile(name):
        if name in active:
            overlaps.append(name)
        active.add(name)
        most[0] = max(most[0], len(active))
        await asyncio.sleep(0.02)
        active.discard(name)

    settings = opkit.Settings()
    settings.parallel.limit = 3
    with running(registry, settings) as operator:
        for number in range(10):
            things.create(f"x{number}", {"n": 0})
        for change in range(1, 20):
            for number in range(10):
                things.patch(f"x{number}", {"spec": {"n": change}})
        operator.quiet()
    assert overlaps == []
    assert most[0] == 3


def test_requeue_and_retry(running, registry, things):
    """A result that asks to come back is run again; a failure is retried with its attempt."""
    seen = []

    @opkit.reconcile(*THINGS, retry=opkit.Retry(initial=0.1), registry=registry)
    async def reconcile(name, attempt, trigger):
        seen.append((attempt, *sorted(trigger)))
        if len(seen) <= 2:
            raise ValueError("not yet")
        if len(seen) == 3:
            return opkit.success(requeue_after=0.1)
        return None

    with running(registry) as operator:
        things.create("x")
        eventually(lambda: len(seen) == 4)
        operator.quiet()
    assert seen == [(1, "ADDED"), (2, "RETRY"), (3, "RETRY"), (1, "REQUEUE")]


def test_a_conflict_in_a_handler_is_tried_again_at_once(running, registry, things):
    """409 from the API is retried within a second, and is no failed attempt yet."""
    attempts = []
    somebody = Things(things.api.clone(), things.namespace)

    @opkit.reconcile(*THINGS, registry=registry)
    async def reconcile(body, attempt, cluster):
        attempts.append(attempt)
        if len(attempts) == 1:
            somebody.patch("x", {"metadata": {"annotations": {"somebody": "else"}}})
        await cluster.replace({**body, "spec": {"n": "from the handler"}})

    with running(registry) as operator:
        things.create("x")
        eventually(lambda: len(attempts) == 2)
        operator.quiet()
    somebody.api.close()
    assert attempts == [1, 1]
    assert things.get("x")["spec"] == {"n": "from the handler"}


def test_an_object_made_again_under_one_name_is_another(running, registry, things, counted):
    """Deleted and created again: the old one is cleaned up and told as gone, the new one is reconciled."""
    with running(registry) as operator:
        things.create("x", {"n": 1})
        eventually(lambda: ("reconcile", "x", 1) in counted)
        operator.quiet()
        things.delete("x")
        eventually(lambda: not things.exists("x"))
        things.create("x", {"n": 1})
        eventually(lambda: counted.count(("reconcile", "x", 1)) == 2)
        operator.quiet()
    assert [call[0] for call in counted] == ["reconcile", "first", "second", "DELETED", "reconcile"]


def test_a_trigger_and_an_explanation(running, registry, things, counted):
    """A run can be asked for from outside, and every run is explained."""
    with running(registry) as operator:
        things.create("x", {"n": 1})
        eventually(lambda: len(counted) == 1)
        operator.quiet()
        assert operator.operator.trigger("things", "x", things.namespace)
        assert not operator.operator.trigger("things", "nobody", things.namespace)
        eventually(lambda: len(counted) == 2)
        operator.quiet()
        decisions = operator.operator.explain("things", "x", things.namespace)
        assert [one["trigger"] for one in decisions if one["what"] == "run"] == [["ADDED"], ["MANUAL"]]
