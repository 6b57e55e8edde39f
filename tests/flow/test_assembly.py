"""The order of start and stop, Kubernetes Events, loops, and the record of decisions."""

import asyncio
import logging

import pytest

import opkit
from opkit import ReconcileStrategy, Settings
from opkit.simulation.cluster import SimulatedCluster


def with_grace(seconds):
    settings = Settings()
    settings.shutdown.grace = seconds
    return settings


def test_startup_handlers_run_before_the_first_event_and_shutdown_handlers_after_the_last(webapps, registry):
    """In declared order, once."""
    order = []
    for name in ("first", "second"):

        def start(settings, name=name):
            order.append(f"start {name}")

        opkit.startup(registry=registry)(start)

    @opkit.shutdown(registry=registry)
    async def stop(settings):
        order.append("stop")

    async def reconcile():
        order.append("run")

    op = webapps(reconcile)
    op.add("webapps", "shop")
    op.settle()
    op.close()
    assert order == ["start first", "start second", "run", "stop"]


def test_settings_are_frozen_after_the_startup_handlers(webapps, registry):
    """Which may change them."""
    seen = []

    @opkit.startup(registry=registry)
    def start(settings):
        settings.reconcile.resync = 50.0

    async def reconcile(settings):
        seen.append(settings.reconcile.resync)
        settings.reconcile.resync = 1.0

    op = webapps(reconcile)
    op.add("webapps", "shop")
    op.drain()
    assert seen == [50.0] and isinstance(op.calls()[0].error, AttributeError)


def test_a_startup_handler_that_fails_temporarily_is_called_again(webapps, registry):
    """After the delay that it asks for."""
    tries = []

    @opkit.startup(registry=registry)
    async def start():
        tries.append(asyncio.get_running_loop().time())
        if len(tries) < 3:
            raise opkit.TemporaryError("not yet", delay=7)

    op = webapps()
    op.add("webapps", "shop")
    op.advance(20)
    assert tries == [0, 7, 14] and len(op.calls()) == 1


def test_a_shutdown_handler_that_fails_keeps_no_other_from_its_turn(webapps, registry, caplog):
    """It is logged."""
    order = []

    @opkit.shutdown(registry=registry)
    async def breaks():
        raise RuntimeError("oh")

    @opkit.shutdown(registry=registry)
    async def works():
        order.append("works")

    op = webapps()
    op.drain()
    op.close()
    assert order == ["works"] and "breaks" in caplog.text


@pytest.mark.parametrize("takes, outcome", [(3, "success"), (30, "cancelled")])
def test_running_handlers_get_their_grace_and_are_cancelled_then(webapps, caplog, takes, outcome):
    """What did not finish is named."""

    async def slow():
        await asyncio.sleep(takes)

    op = webapps(slow, settings=with_grace(10))
    op.add("webapps", "shop")
    op.advance(1)
    op.close()
    assert [str(call.outcome) for call in op.calls()] == [outcome]
    assert ("default/shop did not end within 10 s" in caplog.text) is (outcome == "cancelled")


def test_no_new_run_starts_once_the_stop_has_begun(webapps):
    """Neither what waits nor what comes."""

    async def slow(requeue):
        await asyncio.sleep(3)
        return opkit.success(requeue_after=0)

    settings = with_grace(10)
    settings.parallel.limit = 1
    op = webapps(slow, settings=settings)
    op.add("webapps", "a")
    op.add("webapps", "b")
    op.advance(1)
    op.close()
    assert len(op.calls()) == 1


# Kubernetes Events.


def test_an_event_is_posted_about_the_object(webapps):
    """In the operator's name, in the object's namespace."""

    async def reconcile(event):
        event("Scaled", "to 3 replicas", type="Warning")

    op = webapps(reconcile)
    web = op.add("webapps", "shop")
    op.settle()
    (posted,) = op.list(("v1", "events"))
    assert (posted["reason"], posted["message"], posted["type"], posted.namespace) == (
        "Scaled", "to 3 replicas", "Warning", "default",
    )  # fmt: skip
    assert posted["involvedObject"]["uid"] == web.uid and posted["source"]["component"] == "opkit"


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
def test_equal_events_are_counted_up(webapps, is_async):
    """Rather than posted again; from threads too."""

    async def asynchronous(event):
        event("Scaled", "to 3 replicas")

    def plain(event):
        event("Scaled", "to 3 replicas")

    op = webapps(asynchronous if is_async else plain)
    web = op.add("webapps", "shop")
    op.settle()
    for _ in range(2):
        op.trigger(web)
    op.settle()
    (posted,) = op.list(("v1", "events"))
    assert posted["count"] == 3


@pytest.mark.parametrize("reason, kind", [("", "Normal"), ("Scaled", "Odd")])
def test_a_nonsense_event_is_an_error_of_the_run(webapps, reason, kind):
    """No server would take it."""

    async def reconcile(event):
        event(reason, "text", type=kind)

    op = webapps(reconcile)
    op.add("webapps", "shop")
    op.drain()
    assert isinstance(op.calls()[0].error, ValueError)


def test_an_event_that_is_refused_fails_no_run(webapps, outcomes):
    """It is news, not state."""

    async def reconcile(event):
        event("Scaled", "text")

    op = webapps(reconcile)
    op.fail("create", "events").times(10, status=403)
    op.add("webapps", "shop")
    op.settle()
    assert outcomes(op) == ["success"]


# Loops.


def test_a_handler_that_wakes_itself_up_is_named_once_a_minute_with_the_fields(webapps, caplog):
    """More than ten times in a minute, with the same generation."""

    async def reconcile(body):
        await asyncio.sleep(0.5)
        stamp = asyncio.get_running_loop().time()
        op.modify(("webapps", body.name), {"metadata": {"annotations": {"stamp": str(stamp)}}})  # by another client

    op = webapps(reconcile, strategy=ReconcileStrategy.BY_RESOURCE_VERSION)
    op.add("webapps", "shop")
    with caplog.at_level(logging.WARNING):
        op.advance(50)
        warnings = [record for record in caplog.records if "wake itself up" in record.getMessage()]
        assert len(warnings) == 1 and "metadata.annotations" in warnings[0].getMessage()
        op.advance(60)
    warnings = [record for record in caplog.records if "wake itself up" in record.getMessage()]
    assert len(warnings) == 2


def test_changes_by_others_are_no_loop(webapps, caplog):
    """However many, when they don't follow a run."""
    op = webapps(strategy=ReconcileStrategy.BY_RESOURCE_VERSION)
    web = op.add("webapps", "shop")
    op.settle()
    for n in range(20):
        op.advance(2)
        op.modify(web, {"metadata": {"annotations": {"n": str(n)}}})
    op.drain()
    assert len(op.calls()) == 21 and "wake itself up" not in caplog.text


# Decisions.


def test_the_last_fifty_decisions_are_kept(webapps):
    """As plain data, the oldest first."""
    op = webapps()
    web = op.add("webapps", "shop", spec={"n": 0})
    for n in range(40):
        op.modify(web, {"spec": {"n": n + 1}})
        op.advance(1)
    decisions = op.explain(web)
    assert len(decisions) == 50
    assert [one["at"] for one in decisions] == sorted(one["at"] for one in decisions)
    assert decisions[-1]["what"] == "next"


def test_the_end_of_an_object_can_be_explained_by_its_name(webapps):
    """Its goodbye included."""

    async def gone():
        pass

    op = webapps(delete=gone)
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    op.settle()
    decisions = op.explain(("webapps", "shop"))
    assert [one["what"] for one in decisions][-1] == "run" and decisions[-1]["handler"] == "gone"
    assert any(one["what"] == "event" and one["type"] == "DELETED" for one in decisions)


def test_credentials_that_expire_later_do_not_end_the_operator(event_injector, registry, monkeypatch):
    """Once it has worked, a refused discovery is tried again: new credentials may be on their way."""
    original, asked = SimulatedCluster.topology, []

    async def topology(self, *args):
        asked.append(args)
        async for found in original(self, *args):
            if len(asked) != 2:
                yield found
            if len(asked) <= 2:
                raise opkit.ApiError("expired", status=401)

    monkeypatch.setattr(SimulatedCluster, "topology", topology)
    seen = []

    @opkit.reconcile("example.com", "v1", "webs", registry=registry)
    async def reconcile(name):
        seen.append(name)

    op = event_injector(registry)
    op.advance(600)
    op.add("webs", "a")
    op.settle()
    assert len(asked) == 3 and seen == ["a"]


def test_an_event_that_has_expired_is_posted_again(event_injector, registry):
    """The server forgets Events after a while: the next equal one is not lost with it."""

    @opkit.reconcile("example.com", "v1", "webs", registry=registry)
    async def reconcile(event):
        event("Seen", "It was seen.")

    op = event_injector(registry)
    web = op.add("webs", "a")
    op.settle()
    (posted,) = op.list("events")
    op.delete(("events", posted.name))
    op.modify(web, {"spec": {"n": 1}})
    op.settle()
    assert [one["reason"] for one in op.list("events")] == ["Seen"]


def test_a_long_message_is_cut_to_what_servers_take(webapps):
    """A server refuses an Event whose message is longer than 1024 characters, and nobody would read of it."""

    async def reconcile(event):
        event("Long", "x" * 5000)

    op = webapps(reconcile)
    op.add("webapps", "shop")
    op.settle()
    (posted,) = op.list("events")
    assert posted["message"] == "x" * 1024


def test_nothing_is_ready_before_it_is_known_what_is_served(registry):
    """An operator that has not asked yet has listed nothing."""

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile():
        pass

    async def main():
        class Silent:
            async def topology(self, *_):
                await asyncio.Event().wait()
                yield

        operator = opkit.Operator(registry=registry, cluster=Silent())
        running = asyncio.create_task(operator.run())
        for _ in range(50):
            await asyncio.sleep(0)
        ready, listed = operator.is_ready, operator.statistics().listed
        operator.stop()
        await running
        return ready, listed

    assert asyncio.run(main()) == (False, False)
