"""What a process does that does not lead, also with what it comes to know of only then."""

import asyncio

import pytest

import opkit
from opkit.testing.definitions import permissive

PRIMARY = ("example.com", "v1", "webs")
DEFINITIONS = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")


@pytest.fixture
def registry():
    return opkit.Registry()


def test_a_resource_that_is_served_later_is_not_run_without_the_lead(event_injector, registry):
    """Its definition comes while another process leads: its objects wait for the lead."""
    seen = []

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def webs(name):
        seen.append(name)

    @opkit.reconcile("example.com", "v1", "gadgets", registry=registry)
    async def gadgets(name):
        seen.append(name)

    op = event_injector(registry)
    definition = ("customresourcedefinitions", "gadgets.example.com")
    op.delete(definition)
    op.settle()
    op.lose_leadership()
    endpoint = op.store.endpoint(*DEFINITIONS)
    op.store.create(endpoint, permissive("gadgets", "Gadget", "example.com"))
    op.advance(60)
    op.add("gadgets", "g")
    op.advance(60)
    assert seen == []
    op.gain_leadership()
    op.settle()
    assert seen == ["g"]


@pytest.mark.parametrize("each", [True, False])
def test_nothing_is_polled_without_the_lead(event_injector, registry, each):
    """The poll goes on when the lead is back; what has changed meanwhile costs at most a spare run."""
    polled, runs, state = [], [], {"a": 1}

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(name):
        runs.append(name)

    async def of_all():
        polled.append(op.now)
        return dict(state)

    async def of_each(name):
        polled.append(op.now)
        return state[name]

    opkit.poll(of=PRIMARY, interval=10, each=each, registry=registry)(of_each if each else of_all)
    op = event_injector(registry)
    op.add("webs", "a")
    op.settle()
    op.lose_leadership()
    polled.clear()
    op.advance(60)
    assert polled == []
    state["a"] = 2
    op.gain_leadership()
    op.advance(60)
    assert len(polled) >= 6 and 2 <= len(runs) <= 3


@pytest.mark.parametrize("strategy", ["per-controller", "shared"])
def test_what_leaves_while_standing_by_keeps_no_finalizer(event_injector, registry, strategy):
    """It is found when the lead is back, also if it was known before, and nothing is run on it."""
    cleaned = []

    @opkit.reconcile(*PRIMARY, label_selector="on=yes", registry=registry)
    async def first():
        pass

    @opkit.reconcile(*PRIMARY, label_selector="other=yes", controller="second", registry=registry)
    async def second():
        pass

    @opkit.finalizer(*PRIMARY, registry=registry)
    async def clean(name):
        cleaned.append(name)

    settings = opkit.Settings()
    settings.watch.strategy = strategy
    op = event_injector(registry, settings)
    leaves, stays, returns = (op.add("webs", name, labels={"on": "yes"}) for name in "abc")
    op.settle()
    op.lose_leadership()
    for web in (leaves, returns):
        op.modify(web, {"metadata": {"labels": {"on": "no"}}})
        op.drain()
    op.modify(returns, {"metadata": {"labels": {"on": "yes"}}})
    op.advance(10)
    assert op.get(leaves).metadata["finalizers"]
    op.gain_leadership()
    op.settle()
    assert not op.get(leaves).metadata.get("finalizers") and cleaned == []
    assert op.get(stays).metadata["finalizers"] and op.get(returns).metadata["finalizers"]


def test_what_was_refused_while_standing_by_is_run_once(event_injector, registry):
    """Changes come back with the lead, as one run of the last state, and not once more with the next event."""
    seen = []

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(spec):
        seen.append(spec["n"])

    op = event_injector(registry)
    web = op.add("webs", "a", spec={"n": 1})
    op.settle()
    op.lose_leadership()
    for n in (2, 3):
        op.modify(web, {"spec": {"n": n}})
        op.drain()
    op.watch("webs").expire()
    op.advance(10)
    assert seen == [1]
    op.gain_leadership()
    op.settle()
    op.modify(web, {"metadata": {"labels": {"a": "b"}}})
    op.settle()
    assert seen == [1, 3]


def test_no_event_is_posted_without_the_lead(event_injector, registry):
    """The process that leads tells of its own work."""

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(event, stopping):
        event("Seen", "It was seen.")

    op = event_injector(registry)
    op.drain()
    op.fail("create", "events").delay(5)
    op.add("webs", "a")
    op.drain()
    op.add("webs", "b")
    op.drain()
    op.lose_leadership()
    op.advance(60)
    assert [one["involvedObject"]["name"] for one in op.list("events")] in ([], ["a"])


def test_a_run_that_ends_with_the_lead_is_no_failure_of_its_handler(event_injector, registry, outcomes):
    """It was cancelled by opkit: no failure, no retry, and it runs again once the lead is back."""

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile():
        await asyncio.sleep(100)

    op = event_injector(registry)
    web = op.add("webs", "a")
    op.advance(10)
    op.lose_leadership()
    op.advance(60)
    assert outcomes(op) == ["cancelled"] and not op.scheduled(web)
    assert not [one for one in op.explain(web) if one["what"] == "run"]
    op.gain_leadership()
    op.advance(200)
    assert outcomes(op) == ["cancelled", "success"]


def test_nothing_is_deleted_without_the_lead(event_injector, registry):
    """A deletion passes the fence of all writes: by a handler that goes on although it was cancelled."""
    refused = []

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(cluster, name):
        try:
            await asyncio.sleep(100)
        finally:
            try:
                await cluster.delete("webs", name)
            except opkit.Forbidden as error:
                refused.append(error)

    op = event_injector(registry)
    web = op.add("webs", "a")
    op.advance(10)
    op.lose_leadership()
    op.advance(60)
    assert len(refused) == 1 and op.exists(web)
