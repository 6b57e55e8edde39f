"""`check_converges`: killed after any step, an operator has to end where it would have ended."""

import asyncio

import pytest

import opkit

CHILD = {"apiVersion": "v1", "kind": "ConfigMap"}


@pytest.fixture
def registry():
    return opkit.Registry()


def level_triggered(registry):
    """An operator that looks at what there is: a child with the spec's value, a status, and a cleanup."""

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile(name, spec, body, cluster, patch):
        await cluster.apply({**CHILD, "metadata": {"name": name}, "data": {"n": str(spec.get("n"))}}, owner=body)
        await asyncio.sleep(1)
        patch.status["ready"] = spec.get("n")

    @opkit.finalizer("example.com", "v1", "webapps", registry=registry)
    async def cleanup(name, cluster):
        await asyncio.sleep(1)
        try:
            await cluster.delete(("v1", "configmaps"), name)
        except opkit.NotFound:
            pass


def play(op):
    web = op.add("webapps", "shop", spec={"n": 1})
    op.drain()
    op.modify(web, {"spec": {"n": 2}})
    op.add("webapps", "other", spec={"n": 7})
    op.advance(0.5)
    op.delete(web)
    op.advance(20)


def test_a_level_triggered_operator_converges(event_injector, registry):
    """Whenever it was killed: the same children, the same status, the same ends."""
    level_triggered(registry)
    op = event_injector(registry)
    play(op)
    op.check_converges()
    assert op.exists("configmaps", "other") and not op.exists("webapps", "shop")


def test_one_that_counts_its_runs_does_not(event_injector, registry):
    """What depends on how often something ran is told, with the field and the step."""

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile(status, patch):
        patch.status["runs"] = status.get("runs", 0) + 1

    op = event_injector(registry)
    op.add("webapps", "shop", spec={"n": 1})
    op.drain()
    with pytest.raises(AssertionError, match=r"(?s)killed after step 1.*status\.runs is 2 instead of 1"):
        op.check_converges()


def test_one_that_needs_an_event_does_not(event_injector, registry):
    """A reaction to a trigger is lost with the process that saw it."""

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile(trigger, cluster, name):
        if opkit.Trigger.MODIFIED in trigger:
            await asyncio.sleep(1)
            await cluster.create({**CHILD, "metadata": {"name": f"changed-{name}"}})

    op = event_injector(registry)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.drain()
    op.modify(web, {"spec": {"n": 2}})
    with pytest.raises(AssertionError, match="changed-shop is missing"):
        op.check_converges()


def test_paths_can_be_left_out(event_injector, registry):
    """What is meant to differ."""

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile(status, patch):
        patch.status["runs"] = status.get("runs", 0) + 1

    op = event_injector(registry)
    op.add("webapps", "shop")
    op.check_converges(ignore=["status.runs"])


def test_stamps_and_times_are_no_difference(event_injector, registry):
    """UIDs in owner references, times in conditions: they differ by nature."""

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile(name, body, cluster, patch, uid):
        loop = asyncio.get_running_loop()
        patch.status["since"] = f"2030-01-01T00:00:{int(loop.time()) % 60:02}Z"
        patch.status["owner"] = uid
        await cluster.apply({**CHILD, "metadata": {"name": name}}, owner=body)

    op = event_injector(registry)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.advance(5)
    op.delete(web)
    op.drain()
    op.add("webapps", "shop", spec={"n": 2})
    op.check_converges()


def test_the_injector_itself_is_left_as_it_is(event_injector, registry):
    """The replays are others: nothing of theirs is seen in its calls."""
    level_triggered(registry)
    op = event_injector(registry)
    play(op)
    op.settle()
    calls = len(op.calls())
    op.check_converges()
    assert len(op.calls()) == calls


def test_the_history_holds_what_was_done_from_outside(event_injector, registry):
    """Each step once, whatever it needs inside; objects by their names."""
    level_triggered(registry)
    op = event_injector(registry)
    web = op.add("webapps", "shop", spec={"n": 1}, status={"x": 1})
    op.modify(web, {"spec": {"n": 2}})
    op.restart()
    op.trigger(web)
    assert [step.method for step in op.history.steps] == ["add", "modify", "restart", "trigger"]
    assert op.history.steps[1].args[0][1:] == ("shop", "default")
