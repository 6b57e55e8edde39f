"""Which events become a run: the default filters, the author's, and their order."""

import itertools
import logging

import pytest

import opkit
from opkit import ReconcileStrategy
from opkit.flow.sieve import Sieve
from opkit.flow.store import EVERYONE, Change, ChangeType
from opkit.plan.plan import Filters

BY_VERSION = ReconcileStrategy.BY_RESOURCE_VERSION
BY_GENERATION = ReconcileStrategy.BY_GENERATION

CHANGES = {
    "spec": lambda op, ref: op.modify(ref, {"spec": {"n": 2}}),
    "label": lambda op, ref: op.modify(ref, {"metadata": {"labels": {"a": "b"}}}),
    "annotation": lambda op, ref: op.modify(ref, {"metadata": {"annotations": {"a": "b"}}}),
    "status": lambda op, ref: op.modify_status(ref, {"phase": "Ready"}),
}


@pytest.mark.parametrize(
    "strategy, change, runs",
    [
        (BY_GENERATION, "spec", 1), (BY_GENERATION, "label", 0), (BY_GENERATION, "annotation", 0),
        (BY_GENERATION, "status", 0), (BY_VERSION, "spec", 1), (BY_VERSION, "label", 1),
        (BY_VERSION, "annotation", 1), (BY_VERSION, "status", 1),
    ],
)  # fmt: skip
def test_what_the_strategies_accept(webapps, strategy, change, runs):
    """By generation only the spec counts; by resource version every real change does, once."""
    op = webapps(strategy=strategy)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    CHANGES[change](op, web)
    op.settle()
    assert len(op.calls()) == 1 + runs
    assert [one.by for one in op.refused()] == ["default"] * (1 - runs)


@pytest.mark.parametrize("strategy", [BY_GENERATION, BY_VERSION])
def test_a_write_that_changes_nothing_is_no_event(webapps, strategy):
    """The server keeps the version, so nothing comes of it."""
    op = webapps(strategy=strategy)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    op.modify(web, {"spec": {"n": 1}})
    op.settle()
    assert len(op.calls()) == 1 and not op.refused()


def test_kinds_without_generation_are_run_for_every_update(webapps):
    """Where there is no generation there is no telling spec from the rest."""
    op = webapps(resource=("v1", "configmaps"))
    config = op.add("configmaps", "shop", data={"a": "1"})
    op.settle()
    op.modify(config, {"metadata": {"labels": {"a": "b"}}})
    op.settle()
    assert len(op.calls()) == 2


def test_a_generation_that_went_back_is_accepted(webapps):
    """A restored database counts on from a lower generation, with another spec than the one that was seen."""
    op = webapps()
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    op.modify(web, {"spec": {"n": 2}})
    op.settle()
    old = op.get(web)
    old["metadata"].update(resourceVersion="1", generation=1)
    op.inject("MODIFIED", old)
    assert len(op.calls()) == 3 and not op.refused()


def test_our_missing_finalizer_is_a_reason(webapps):
    """Somebody has taken it off: it is put back."""

    async def cleanup():
        pass

    op = webapps(finalizers=[cleanup])
    web = op.add("webapps", "shop")
    op.settle()
    op.modify(web, {"metadata": {"finalizers": []}})
    op.settle()
    assert op.get(web)["metadata"]["finalizers"] == ["example.com/cleanup"]
    assert len(op.calls("nothing")) == 2


@pytest.mark.parametrize("raises_generation", [True, False])
def test_the_mark_of_deletion_always_passes(webapps, raises_generation):
    """Whether the server raises the generation with it or not: the finalizer runs exactly once."""

    async def cleanup():
        pass

    op = webapps(finalizers=[cleanup])
    web = op.add("webapps", "shop", finalizers=["other.io/keep"])
    op.settle()
    if not raises_generation:
        op.watch("webapps").silence()  # the real event is replaced by that of another server
    op.delete(web)
    if not raises_generation:
        marked = op.get(web)
        marked["metadata"].update(generation=1, resourceVersion="999999")
        op.inject("MODIFIED", marked)
    op.settle()
    assert len(op.calls("cleanup")) == 1


def test_status_writes_on_a_marked_object_are_refused(webapps):
    """Only what moves the deletion on is a reason: else each status write of a finalizer would run it again."""

    async def cleanup():
        return opkit.failure("not yet", requeue_after=100)

    op = webapps(finalizers=[cleanup])
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    op.drain()
    op.modify_status(web, {"phase": "Terminating"})
    op.drain()
    assert len(op.calls("cleanup")) == 1 and op.refused()[-1].by == "default"


@pytest.mark.parametrize("change", [{"metadata": {"finalizers": ["example.com/cleanup"]}}, {"spec": {"force": True}}])
def test_what_moves_a_deletion_on_is_accepted(webapps, change):
    """Another's finalizer that went, or a changed spec: the finalizer looks again."""

    async def cleanup():
        return opkit.failure("not yet", requeue_after=100)

    op = webapps(finalizers=[cleanup])
    web = op.add("webapps", "shop", finalizers=["other.io/keep"])
    op.settle()
    op.delete(web)
    op.drain()
    op.modify(web, change)
    op.drain()
    assert len(op.calls("cleanup")) == 2


def all_filters(**answers):
    """Filters that write down that they were asked, and answer what they are told."""
    asked = []

    def make(kind):
        def ask(*bodies):
            asked.append((kind, len(bodies)))
            return answers.get(kind, True)

        return ask

    options = {
        "on_add": opkit.filter.add(make("add")),
        "on_update": opkit.filter.update(make("update")),
        "on_delete": opkit.filter.delete(make("delete")),
        "generic": opkit.filter.generic(make("generic")),
    }
    return asked, options


def test_an_addition_meets_generic_and_add_only(webapps):
    """Never the default filters."""
    asked, options = all_filters()
    op = webapps(**options)
    op.add("webapps", "shop")
    op.settle()
    assert asked == [("generic", 1), ("add", 1)] and len(op.calls()) == 1


def test_an_update_meets_default_generic_and_update_in_this_order(webapps):
    """And the first refusal ends it."""
    asked, options = all_filters()
    op = webapps(**options)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    asked.clear()
    op.modify_status(web, {"phase": "Ready"})
    op.settle()
    assert asked == []
    op.modify(web, {"spec": {"n": 2}})
    op.settle()
    assert asked == [("generic", 1), ("update", 2)]


def test_a_deletion_meets_generic_and_delete_only(webapps):
    """With the same generation as before: no update filter can hide the only sign of a hard deletion."""
    asked, options = all_filters()
    told = []

    async def gone(name):
        told.append(name)

    op = webapps(delete=gone, **options)
    web = op.add("webapps", "shop")
    op.settle()
    asked.clear()
    op.delete(web)
    op.settle()
    assert [kind for kind, _ in asked] == ["generic", "delete"] and told == ["shop"]


@pytest.mark.parametrize("refusing, asked_then", [("generic", ["generic"]), ("update", ["generic", "update"])])
def test_the_first_refusal_ends_it(webapps, refusing, asked_then):
    """What comes after it is not asked, and the refusal names who decided."""
    asked, options = all_filters(**{refusing: False})
    op = webapps(**{**options, "on_add": None})
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    asked.clear()
    op.modify(web, {"spec": {"n": 2}})
    op.settle()
    assert [kind for kind, _ in asked] == asked_then
    assert "ask" in op.refused()[-1].by


@pytest.mark.parametrize(
    "event, generic, specific",
    list(itertools.product(["ADDED", "MODIFIED", "DELETED"], [None, True, False], [None, True, False])),
)
def test_a_missing_filter_accepts(webapps, event, generic, specific):
    """Specific AND generic, each of them optional, for each kind of event."""
    told = []

    async def reconcile(trigger):
        told.append("ADDED" if opkit.Trigger.ADDED in trigger else "MODIFIED")

    async def gone():
        told.append("DELETED")

    kind = {"ADDED": "add", "MODIFIED": "update", "DELETED": "delete"}[event]
    armed = []
    options = {}
    if generic is not None:
        options["generic"] = opkit.filter.generic(lambda body: generic or not armed)
    if specific is not None:
        one = getattr(opkit.filter, kind)
        takes_two = kind == "update"
        options[f"on_{kind}"] = one(
            (lambda new, old: specific or not armed) if takes_two else (lambda body: specific or not armed)
        )
    op = webapps(reconcile, delete=gone, **options)
    if event != "ADDED":
        web = op.add("webapps", "shop", spec={"n": 1})
        op.settle()
    armed.append(True)
    told.clear()
    {
        "ADDED": lambda: op.add("webapps", "shop"),
        "MODIFIED": lambda: op.modify(web, {"spec": {"n": 2}}),
        "DELETED": lambda: op.delete(web),
    }[event]()
    op.settle()
    assert told == ([event] if generic is not False and specific is not False else [])


def test_without_default_filters_and_without_own_every_update_is_accepted(webapps):
    """The author's filters alone are in charge, and there are none."""
    op = webapps(default_filters=False)
    web = op.add("webapps", "shop")
    op.settle()
    op.modify_status(web, {"phase": "Ready"})
    op.settle()
    assert len(op.calls()) == 2


def test_without_default_filters_the_own_filter_alone_decides(webapps):
    """Also against what the default ones would accept."""
    op = webapps(default_filters=False, on_update=opkit.filter.update(lambda new, old: new.status != old.status))
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    op.modify(web, {"spec": {"n": 2}})
    op.settle()
    assert len(op.calls()) == 1
    op.modify_status(web, {"phase": "Ready"})
    op.settle()
    assert len(op.calls()) == 2


def test_own_filters_only_narrow(webapps):
    """Nothing forces an event past the default filters."""
    op = webapps(on_update=opkit.filter.update(lambda new, old: True), generic=opkit.filter.generic(lambda body: True))
    web = op.add("webapps", "shop")
    op.settle()
    op.modify_status(web, {"phase": "Ready"})
    op.settle()
    assert len(op.calls()) == 1 and op.refused()[0].by == "default"


def test_a_declared_filter_holds_for_the_controllers_of_its_resource(webapps, registry):
    """In addition to those that the controller names itself."""

    @opkit.filter.generic("example.com", "v1", "webapps", registry=registry)
    def public(body):
        return body.spec.get("public", False)

    op = webapps(on_add=opkit.filter.add(lambda body: body.name != "hidden"))
    for name, is_public in (("a", True), ("b", False), ("hidden", True)):
        op.add("webapps", name, spec={"public": is_public})
    op.settle()
    assert [call.name for call in op.calls()] == ["a"]
    assert "public" in op.refused(("webapps", "b"))[0].by


def test_a_filter_that_raises_accepts_and_is_logged_once_a_minute(webapps, caplog):
    """A spare reconciliation is cheap, a lost one is not."""
    op = webapps(
        resource=("v1", "configmaps"),
        on_update=opkit.filter.update(lambda new, old: new["data"]["k"] != old["data"]["k"]),
    )
    config = op.add("configmaps", "shop")
    op.settle()
    with caplog.at_level(logging.ERROR, "opkit.sieve"):
        for number in range(5):
            op.modify(config, {"metadata": {"labels": {"n": str(number)}}})
            op.drain()
        assert len(op.calls()) == 6 and len(caplog.records) == 1
        assert "default/shop" in caplog.text
        op.advance(61)
        op.modify(config, {"metadata": {"labels": {"n": "again"}}})
        op.drain()
    assert len(caplog.records) == 2


def test_a_filter_that_raises_does_not_stop_the_stream(webapps):
    """The event after it is judged as ever."""
    op = webapps(on_add=opkit.filter.add(lambda body: body.spec["size"] > 1))
    for name, spec in (("a", {}), ("b", {"size": 5}), ("c", {"size": 1})):
        op.add("webapps", name, spec=spec)
    op.settle()
    assert sorted(call.name for call in op.calls()) == ["a", "b"]


def test_filters_may_change_what_they_are_given(webapps):
    """Nobody else sees that: neither the handler nor the next filter."""
    seen = []

    def spoil(new, old):
        new["spec"]["n"] = old["spec"]["n"] = "spoilt"
        return True

    async def reconcile(spec):
        seen.append(spec["n"])

    op = webapps(reconcile, on_update=opkit.filter.update(spoil))
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    for n in (2, 3):
        op.modify(web, {"spec": {"n": n}})
        op.settle()
    assert seen == [1, 2, 3]


def test_the_delete_filter_may_ask_whether_the_final_state_is_known(webapps):
    """True for an object that was missing in a list."""
    asked = []

    def ask(body, final_state_unknown):
        asked.append((body.name, final_state_unknown))
        return True

    op = webapps(on_delete=opkit.filter.delete(ask))
    for name in "ab":
        op.add("webapps", name)
    op.settle()
    op.delete(("webapps", "a"))
    op.drain()
    stream = op.watch("webapps")
    op.delete(("webapps", "b"))
    stream.expire()
    op.settle()
    assert asked == [("a", False), ("b", True)]


def test_filters_compare_across_a_relist(webapps):
    """Old is the last body that was seen, also when the update happened while nobody was watching."""
    compared = []

    def compare(new, old):
        compared.append((new.spec["n"], old.spec["n"]))
        return True

    op = webapps(on_update=opkit.filter.update(compare))
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    stream = op.watch("webapps")
    op.modify(web, {"spec": {"n": 2}})
    stream.expire()
    op.settle()
    assert compared == [(2, 1)] and len(op.calls()) == 2


def test_the_first_sight_after_a_restart_is_an_addition(webapps):
    """There is no old body, so no update filter is asked, and the default ones neither."""
    asked, options = all_filters()
    op = webapps(**options)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    op.restart()
    asked.clear()
    op.modify(web, {"spec": {"n": 5}})
    op.settle()
    assert [kind for kind, _ in asked] == ["generic", "add"]


def test_intermediate_states_are_judged_one_by_one(webapps):
    """Coalescing comes after the filters: each event is judged from the one before it."""
    compared = []

    def compare(new, old):
        compared.append((old.spec["n"], new.spec["n"]))
        return True

    op = webapps(on_update=opkit.filter.update(compare))
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    with op.burst():
        for n in (2, 3, 4):
            op.modify(web, {"spec": {"n": n}})
    op.settle()
    assert compared == [(1, 2), (2, 3), (3, 4)]
    assert len(op.calls()) == 2


# What was accepted last.


def recorded(answers):
    """An update filter that writes down what it was asked, as (new, old) values of `n`, and what it answered."""
    asked = []

    @opkit.filter.update
    def asks(new, old):
        asked.append((new.spec.get("n"), old.spec.get("n")))
        return answers(new, old)

    return asked, asks


def test_what_a_label_had_paused_counts_again_when_the_label_goes(webapps):
    """The generation has changed while the filter refused: that is compared with what was accepted last."""
    op = webapps(generic=lambda body: "paused" not in body.labels)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    op.modify(web, {"metadata": {"labels": {"paused": "yes"}}})
    op.modify(web, {"spec": {"n": 2}})
    op.settle()
    assert len(op.calls()) == 1
    op.modify(web, {"metadata": {"labels": {"paused": None}}})
    op.settle()
    assert len(op.calls()) == 2
    op.modify(web, {"metadata": {"labels": {"other": "yes"}}})
    op.settle()
    assert len(op.calls()) == 2


def test_what_was_new_and_paused_by_a_label_is_run_when_the_label_goes(webapps):
    """None of it was ever accepted, so the first event that passes is as good as its addition."""
    op = webapps(generic=lambda body: "paused" not in body.labels)
    web = op.add("webapps", "shop", spec={"n": 1}, labels={"paused": "yes"})
    op.settle()
    op.modify(web, {"metadata": {"labels": {"paused": None}}})
    op.settle()
    assert len(op.calls()) == 1


def test_what_an_update_filter_has_refused_is_not_run_by_the_next_change_of_a_label(webapps):
    """The filter is asked about the whole difference since what was accepted last, and refuses it again."""
    asked, asks = recorded(lambda new, old: new.spec["n"] - old.spec["n"] > 10)
    op = webapps(on_update=asks)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    op.modify(web, {"spec": {"n": 2}})
    op.modify(web, {"metadata": {"labels": {"a": "b"}}})
    op.settle()
    assert len(op.calls()) == 1 and asked == [(2, 1), (2, 1)]


def test_a_run_for_whatever_reason_has_seen_it_all(webapps):
    """After it, a label is no reason any more."""
    op = webapps(on_update=lambda new, old: "now" in new.labels)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    op.modify(web, {"spec": {"n": 2}})
    op.settle()
    op.trigger(web)
    op.settle()
    assert len(op.calls()) == 2
    op.modify(web, {"metadata": {"labels": {"now": "yes"}}})
    op.settle()
    assert len(op.calls()) == 2


def test_an_addition_that_its_filter_refused_stays_refused(webapps):
    """A label is no reason to run what the author does not want to be run when it is new."""
    op = webapps(on_add=lambda body: False)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.modify(web, {"metadata": {"labels": {"a": "b"}}})
    op.modify_status(web, {"a": "b"})
    op.settle()
    assert not op.calls()
    op.modify(web, {"spec": {"n": 2}})
    op.settle()
    assert len(op.calls()) == 1


# Deletions.

REFUSING = {
    "update": {"on_update": lambda new, old: False},
    "generic": {"generic": lambda body: False},
    "both-alone": {"on_update": lambda new, old: False, "generic": lambda body: False, "default_filters": False},
    "by-version": {"on_update": lambda new, old: False, "strategy": BY_VERSION},
    "add": {"on_add": lambda body: False},
    "raises": {"on_update": lambda new, old: new["nothing"]},
}


@pytest.mark.parametrize("restart", [False, True], ids=["seen-living", "found-at-the-start"])
@pytest.mark.parametrize("options", REFUSING)
def test_a_deletion_reaches_its_finalizer_whatever_the_filters_say(webapps, options, restart):
    """Also after a restart, when it is the first that is seen of the object."""
    cleaned = []

    async def cleanup(name):
        cleaned.append(name)

    op = webapps(finalizers=[cleanup], **REFUSING[options])
    web = op.add("webapps", "shop", finalizers=["example.com/cleanup"])
    op.settle()
    if restart:
        op.lose_leadership()
        op.delete(web)
        op.drain()
        op.restart(kill=True)
    else:
        op.delete(web)
    op.drain()
    assert cleaned == ["shop"] and not op.exists(web)


def test_a_deletion_without_a_finalizer_of_ours_meets_the_filters(webapps):
    """There is nothing to reach: the object of others is theirs."""
    op = webapps(on_update=lambda new, old: False)
    web = op.add("webapps", "shop", finalizers=["other.io/keep"])
    op.settle()
    op.delete(web)
    op.settle()
    assert op.exists(web) and op.refused()[-1].by != "default"


def test_a_status_write_during_a_deletion_still_meets_the_filters(webapps):
    """What does not move the deletion on is an update like any other, where every version counts."""

    async def cleanup():
        return opkit.failure("not yet", requeue_after=100)

    op = webapps(finalizers=[cleanup], strategy=BY_VERSION, on_update=lambda new, old: False)
    web = op.add("webapps", "shop", finalizers=["example.com/cleanup"])
    op.settle()
    op.delete(web)
    op.drain()
    op.modify_status(web, {"phase": "Terminating"})
    op.drain()
    assert len(op.calls("cleanup")) == 1


# What has led to no run is compared with what was accepted last.


def moved_by_ten(new, old):
    return abs(new["data"]["n"] - old["data"]["n"]) >= 10


@pytest.fixture
def sieve():
    """A sieve that accepts steps of ten, and a way to show it one body after the other."""
    sieve = Sieve(
        controller="c", filters=Filters(update=opkit.filter.update(moved_by_ten)), strategy=BY_GENERATION, now=float
    )

    def body(n, generation):
        return {"metadata": {"name": "a", "uid": "u", "generation": generation}, "data": {"n": n}}

    def show(*states):
        bodies = [body(*state) for state in states]
        return [Change(ChangeType.UPDATED, "u", new, old) for old, new in itertools.pairwise(bodies)]

    return sieve, show


def test_several_refused_steps_are_measured_from_the_body_that_was_accepted_last(sieve):
    """Not from the last refused one: the next change, which is nothing by itself, brings what they add up to."""
    one, show = sieve
    verdicts = [one.judge(change).accepted for change in show((0, 1), (6, 2), (12, 3), (12, 3))]
    assert verdicts == [False, False, True]


def test_what_no_queue_took_is_measured_from_the_body_that_was_accepted_last(sieve):
    """Also where a refused change came before it."""
    one, show = sieve
    refused, accepted, later = show((0, 1), (6, 2), (16, 3), (14, 4))
    assert [one.judge(refused).accepted, one.judge(accepted).accepted] == [False, True]
    one.dropped(accepted)
    assert one.lost() == ["u"] and one.judge(later).accepted
    one.seen("u")
    assert one.lost() == [] and not one.judge(later).accepted


@pytest.mark.parametrize(
    "origin, is_echo",
    [
        (None, False), (EVERYONE, True), (("c", "u"), True), (("c", "other"), False), (("other", "u"), False),
        (("other", "other"), False),
    ],
)  # fmt: skip
def test_only_what_the_run_of_this_object_wrote_is_an_echo(origin, is_echo):
    """Of the same controller and the same object; or of opkit itself, which is nobody's business (semantics: 13.1)."""
    sieve = Sieve(controller="c", filters=Filters(), strategy=BY_GENERATION, now=float)
    change = Change(ChangeType.UPDATED, "u", body_of(2), body_of(1), origin=origin)
    verdict = sieve.judge(change)
    assert (verdict.accepted, verdict.by) == ((False, "write-echo") if is_echo else (True, ""))


def body_of(generation, **labels):
    """A body of this generation."""
    return {"metadata": {"name": "a", "uid": "u", "generation": generation, "labels": labels}}


@pytest.mark.parametrize("wanted", [True, False])
def test_a_conditional_finalizer_counts_as_missing_only_where_it_is_wanted(registry, event_injector, wanted):
    """An update that changes nothing else is a reason only to put on what belongs on the object."""

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile(name): ...

    @opkit.finalizer(
        "example.com", "v1", "webapps", name="example.com/f",
        when=lambda body: "x" in body["metadata"].get("labels", {}), registry=registry,
    )  # fmt: skip
    async def cleanup(name): ...

    op = event_injector(registry)
    web = op.add("webapps", "shop")
    op.settle()
    op.modify(web, {"metadata": {"labels": {"x" if wanted else "y": "1"}}})
    op.settle()
    assert len(op.calls("reconcile")) == (2 if wanted else 1)
    assert op.get(web)["metadata"].get("finalizers", []) == (["example.com/f"] if wanted else [])


def refuses_all(*bodies):
    """An author's filter that wants nothing."""
    return False


@pytest.mark.parametrize(
    "filters, default_filters, generations, kept",
    [
        pytest.param(Filters(), True, (1, 1), 0, id="refused-by-default"),
        pytest.param(Filters(), True, (1, 2), 0, id="accepted"),
        pytest.param(Filters(update=opkit.filter.update(refuses_all)), True, (1, 2), 1, id="refused-by-the-author"),
        pytest.param(Filters(update=opkit.filter.update(refuses_all)), False, (1, 2), 0, id="secondary"),
    ],
)
def test_only_what_the_author_refused_of_a_primary_is_kept_in_mind(filters, default_filters, generations, kept):
    """A body is kept for each object that is, so nothing else may be (semantics: 13.3)."""
    sieve = Sieve(controller="c", filters=filters, strategy=BY_GENERATION, default_filters=default_filters, now=float)
    old, new = map(body_of, generations)
    sieve.judge(Change(ChangeType.UPDATED, "u", new, old))
    assert len(sieve._behind) == kept
    sieve.forget("u")
    assert not sieve._behind


def test_a_status_change_after_an_accepted_one_is_still_nothing():
    """It waits to be reconciled already; what comes meanwhile is judged by itself."""
    sieve = Sieve(controller="c", filters=Filters(), strategy=BY_GENERATION, now=float)
    assert sieve.judge(Change(ChangeType.UPDATED, "u", body_of(2), body_of(1))).accepted
    assert sieve.judge(Change(ChangeType.UPDATED, "u", body_of(2, a="b"), body_of(2))).by == "default"


def test_a_conditional_finalizer_is_not_missed_on_what_is_being_deleted(registry, event_injector):
    """None is put on any more, so a status change is no reason to try."""

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile(name): ...

    @opkit.finalizer("example.com", "v1", "webapps", name="example.com/f", when=lambda body: True, registry=registry)
    async def cleanup(name): ...

    op = event_injector(registry)
    web = op.add("webapps", "shop", finalizers=["other.io/keep"])
    op.settle()
    op.delete(web)
    op.settle()
    before = len(op.refused())
    op.modify_status(web, {"phase": "x"})
    op.settle()
    assert [one.by for one in op.refused()[before:]] == ["default"]
    assert op.get(web)["metadata"]["finalizers"] == ["other.io/keep"]
