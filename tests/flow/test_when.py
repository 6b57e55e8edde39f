"""`when=`: a condition on the object that is asked before every run."""

import pytest

import opkit

PRIMARY = ("example.com", "v1", "webs")


@opkit.filter.generic
def is_paused(body):
    return body.spec.get("paused", False)


@pytest.fixture
def registry():
    return opkit.Registry()


@pytest.fixture
def calls(registry):
    """What the reconcile handler of a controller with `when=~is_paused` saw: the value of `n` each time."""
    seen = []

    @opkit.reconcile(*PRIMARY, when=~is_paused, owns=[("v1", "configmaps")], resync=1000, registry=registry)
    async def reconcile(spec):
        seen.append(spec.get("n"))
        return opkit.success(requeue_after=spec["again"]) if "again" in spec else None

    return seen


@pytest.fixture
def op(event_injector, registry, calls):
    return event_injector(registry)


def child_of(web):
    owner = {"apiVersion": "example.com/v1", "kind": "Web", "name": web.name, "uid": web.uid}
    return {"ownerReferences": [owner]}


REASONS = {
    "event": lambda op, web: op.modify(web, {"spec": {"n": 2}}),
    "secondary": lambda op, web: op.add("configmaps", "child", metadata=child_of(web)),
    "trigger": lambda op, web: op.trigger(web),
    "requeue": lambda op, web: op.advance(60),
    "resync": lambda op, web: op.advance(1200),
}


@pytest.mark.parametrize("reason", REASONS)
def test_while_it_is_false_nothing_runs_whatever_the_reason(op, calls, reason):
    """An event, a child, a person, a wish of the run before, the resync: refused by the condition's name."""
    web = op.add("webs", "a", spec={"n": 1, **({"again": 50} if reason == "requeue" else {})})
    op.drain()
    op.modify(web, {"spec": {"paused": True, "again": None}})
    op.drain()
    calls.clear()
    REASONS[reason](op, web)
    op.drain()
    assert calls == []
    assert "is_paused" in op.refused(web)[-1].by
    assert any("is_paused" in str(one) for one in op.explain(web)[-2:])


def test_a_retry_is_a_reason_like_any_other(event_injector, registry):
    """An object that fails and is paused is not tried again until it is not paused any more."""

    @opkit.reconcile(*PRIMARY, when=~is_paused, registry=registry)
    async def reconcile():
        raise OSError("down")

    op = event_injector(registry)
    web = op.add("webs", "a")
    op.drain()
    op.modify(web, {"spec": {"paused": True}})
    op.advance(1000)
    assert len(op.calls()) == 1
    op.modify(web, {"spec": {"paused": False}})
    op.drain()
    assert [call.attempt for call in op.calls()] == [1, 1]


@pytest.mark.parametrize(
    "pause, resume",
    [
        ({"spec": {"paused": True}}, {"spec": {"paused": False}}),
        ({"metadata": {"labels": {"paused": "yes"}}}, {"metadata": {"labels": {"paused": None}}}),
    ],
    ids=["spec", "label"],
)
def test_a_change_that_makes_it_true_passes_the_default_filters(event_injector, registry, pause, resume):
    """Also one of a label, which is no reason to run by itself; what changed meanwhile is seen."""
    seen = []

    @opkit.filter.generic
    def is_held(body):
        return body.spec.get("paused", False) or body.labels.get("paused") == "yes"

    @opkit.reconcile(*PRIMARY, when=~is_held, registry=registry)
    async def reconcile(spec):
        seen.append(spec["n"])

    op = event_injector(registry)
    web = op.add("webs", "a", spec={"n": 1})
    op.settle()
    op.modify(web, pause)
    op.settle()
    op.modify(web, {"spec": {"n": 2}})
    op.settle()
    assert seen == [1]
    op.modify(web, resume)
    op.settle()
    assert seen == [1, 2]


def test_one_that_is_new_and_paused_waits(op, calls):
    """Its first run comes with the change that lets it go."""
    web = op.add("webs", "a", spec={"n": 1, "paused": True})
    op.settle()
    assert calls == []
    op.modify(web, {"spec": {"paused": None}})
    op.settle()
    assert calls == [1]


def test_finalizers_are_excepted(event_injector, registry, calls):
    """A paused object can be deleted like any other; a finalizer is not put on while nothing runs."""
    cleaned = []

    @opkit.finalizer(*PRIMARY, registry=registry)
    async def clean(name):
        cleaned.append(name)

    op = event_injector(registry)
    paused, never = op.add("webs", "a"), op.add("webs", "b", spec={"paused": True})
    op.settle()
    op.modify(paused, {"spec": {"paused": True}})
    op.settle()
    assert op.get(paused).metadata["finalizers"] and not op.get(never).metadata.get("finalizers")
    op.delete(paused)
    op.delete(never)
    op.settle()
    assert cleaned == ["a"] and not op.exists(paused) and not op.exists(never)


def test_one_that_raises_lets_the_object_run(event_injector, registry, caplog):
    """As with filters: a spare run is cheap, a lost one is not."""

    @opkit.reconcile(*PRIMARY, when=lambda body: body["nothing"], registry=registry)
    async def reconcile():
        pass

    op = event_injector(registry)
    op.add("webs", "a")
    op.settle()
    assert len(op.calls()) == 1 and "raised on default/a" in caplog.text


def test_it_must_be_a_filter_of_the_body(registry):
    """A mistake is told with all others."""

    @opkit.reconcile(*PRIMARY, when=opkit.filter.update(lambda new, old: True), registry=registry)
    async def reconcile():
        pass

    with pytest.raises(opkit.RegistrationError, match="when wants a filter of kind generic"):
        registry.compile()


def test_the_plan_shows_it(registry, calls):
    """`opkit check` says what is asked before every run."""
    plan = registry.compile()
    assert "when       ~is_paused" in str(plan)
    assert plan.as_dict()["resources"][0]["controllers"][0]["when"] == "~is_paused"


def test_what_the_condition_refuses_is_resynced(event_injector, registry):
    """A condition that looks at more than the object is asked again at each resync."""
    state = {"open": False}
    is_open = opkit.filter.generic(lambda body: state["open"])

    @opkit.reconcile(*PRIMARY, when=is_open, resync=1000, registry=registry)
    async def reconcile():
        pass

    op = event_injector(registry)
    op.add("webs", "a")
    op.drain()
    state["open"] = True
    op.advance(1200)
    assert [call.trigger for call in op.calls()] == [{opkit.Trigger.RESYNC}]


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("change", ["status", "label"])
def test_a_condition_that_stays_as_it_is_makes_no_reason_of_what_is_none(op, calls, change, paused):
    """Only the change that turns it from false to true passes the default filters."""
    web = op.add("webs", "a", spec={"n": 1, "paused": paused})
    op.settle()
    if change == "status":
        op.modify_status(web, {"phase": "Ready"})
    else:
        op.modify(web, {"metadata": {"labels": {"a": "b"}}})
    op.settle()
    assert calls == ([] if paused else [1]) and op.refused(web)[-1].by == "default"
