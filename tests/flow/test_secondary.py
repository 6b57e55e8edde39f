"""Secondary resources: owned ones, mapped ones, and what handlers see of them."""

import types

import pytest

import opkit
from opkit.cluster.resource import Resource
from opkit.flow.secondary import Dependents
from opkit.flow.sieve import Sieve
from opkit.flow.store import Store
from opkit.plan.plan import Filters

PRIMARY = ("example.com", "v1", "webs")
W = ("example.com", "v1", "widgets")
DEPLOYMENTS = ("apps", "v1", "deployments")


@pytest.fixture
def registry():
    return opkit.Registry()


def deployment(name, replicas=1):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }


@pytest.fixture
def owning(registry):
    """An operator that keeps a Deployment for each object, as it was read from `secondary`."""
    seen = []

    @opkit.reconcile(*PRIMARY, owns=[DEPLOYMENTS], registry=registry)
    async def reconcile(web, spec, cluster, secondary):
        seen.append([child.spec["replicas"] for child in secondary("deployments")])
        await cluster.apply(deployment(web.name, spec.get("replicas", 1)), owner=web, force=True)

    return seen


def test_a_child_changed_by_hand_is_repaired_once(event_injector, registry, owning):
    """Drift of an owned object leads to one run of its owner, which repairs it."""
    op = event_injector(registry)
    op.add("webs", "a", spec={"replicas": 2})
    op.settle()
    before = len(op.calls())
    op.modify(("deployments", "a"), {"spec": {"replicas": 9}})
    op.settle()
    assert op.get("deployments", "a").spec["replicas"] == 2
    assert len(op.calls()) == before + 1
    assert op.calls()[-1].trigger == {opkit.Trigger.SECONDARY}


def test_an_unrelated_object_causes_nothing(event_injector, registry, owning):
    """Objects of the secondary resource that belong to nobody lead to no run."""
    op = event_injector(registry)
    op.add("webs", "a", spec={})
    op.settle()
    before = len(op.calls())
    body = deployment("other")
    op.add("deployments", "other", spec=body["spec"])
    op.modify(("deployments", "other"), {"spec": {"replicas": 5}})
    op.settle()
    assert len(op.calls()) == before


def test_a_handlers_own_writes_of_its_children_cause_no_run(event_injector, registry, owning):
    """Creating and updating an own child is an echo, not an event."""
    op = event_injector(registry)
    web = op.add("webs", "a", spec={"replicas": 1})
    op.settle()
    op.modify(web, {"spec": {"replicas": 3}})
    op.settle()
    assert len(op.calls()) == 2
    assert {one.by for one in op.refused()} == {"write-echo"}


def test_a_deleted_child_is_made_again(event_injector, registry, owning):
    """The end of an owned object leads to a run of its owner."""
    op = event_injector(registry)
    op.add("webs", "a", spec={})
    op.settle()
    op.delete(("deployments", "a"))
    op.settle()
    assert op.exists("deployments", "a")


def test_the_first_run_sees_the_children_that_are_there(event_injector, registry, owning):
    """After a restart, primaries wait until their secondary objects are listed."""
    op = event_injector(registry)
    op.add("webs", "a", spec={"replicas": 4})
    op.settle()
    owning.clear()
    op.restart()
    op.settle()
    assert owning == [[4]]


@pytest.mark.parametrize("is_controller", [True, False], ids=["controller", "plain-owner"])
def test_any_owner_reference_counts(event_injector, registry, owning, is_controller):
    """An owner reference leads back to the owner, whether it names the controller or not."""
    op = event_injector(registry)
    web = op.add("webs", "a", spec={})
    op.settle()
    before = len(op.calls())
    reference = {"apiVersion": "example.com/v1", "kind": "Web", "name": "a", "uid": web.uid}
    op.add(
        "deployments", "extra", spec=deployment("extra")["spec"],
        metadata={"ownerReferences": [{**reference, "controller": is_controller}]},
    )  # fmt: skip
    op.settle()
    assert len(op.calls()) == before + 1


def test_a_namesake_of_the_owner_is_not_the_owner(event_injector, registry, owning):
    """Owner references count by UID: an object of the same name that came later is another one."""
    op = event_injector(registry)
    op.add("webs", "a", spec={})
    op.settle()
    before = len(op.calls())
    reference = {"apiVersion": "example.com/v1", "kind": "Web", "name": "a", "uid": "somebody-else"}
    op.add("deployments", "x", spec=deployment("x")["spec"], metadata={"ownerReferences": [reference]})
    op.settle()
    assert len(op.calls()) == before


def mapping(registry, result, **filters):
    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(name, secondary):
        reconcile.seen[name] = [child.name for child in secondary("configmaps")]

    reconcile.seen = {}

    @opkit.secondary("v1", "configmaps", of=PRIMARY, registry=registry, **filters)
    def mapper(body):
        return result(body)

    return reconcile


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(lambda body: None, set(), id="none"),
        pytest.param(lambda body: "a", {"a"}, id="a-name"),
        pytest.param(lambda body: ("default", "b"), {"b"}, id="a-pair"),
        pytest.param(lambda body: ["a", ("default", "b")], {"a", "b"}, id="many"),
        pytest.param(lambda body: (name for name in ["a", "b"]), {"a", "b"}, id="a-generator"),
        pytest.param(lambda body: "not-there", set(), id="an-unknown-name"),
    ],
)
def test_a_mapper_names_many_primaries_or_none(event_injector, registry, result, expected):
    """What a mapper names is reconciled, and nothing else."""
    mapping(registry, result)
    op = event_injector(registry)
    for name in ("a", "b", "c"):
        op.add("webs", name)
    op.settle()
    before = len(op.calls())
    op.add("configmaps", "cm", data={})
    op.settle()
    assert {call.name for call in op.calls()[before:]} == expected


def test_a_mapper_is_asked_for_the_old_and_the_new_body(event_injector, registry):
    """A secondary object that moves from one primary to another concerns both."""
    handler = mapping(registry, lambda body: body["data"]["for"])
    op = event_injector(registry)
    for name in ("a", "b", "c"):
        op.add("webs", name)
    op.add("configmaps", "cm", data={"for": "a"})
    op.settle()
    before = len(op.calls())
    op.modify(("configmaps", "cm"), {"data": {"for": "b"}})
    op.settle()
    assert {call.name for call in op.calls()[before:]} == {"a", "b"}
    assert handler.seen == {"a": [], "b": ["cm"], "c": []}


def test_secondary_filters_have_no_defaults(event_injector, registry):
    """Every update of a secondary object passes, if its own filters don't refuse it."""
    refuse = opkit.filter.update(lambda new, old: "quiet" not in new.labels)
    mapping(registry, lambda body: "a", on_update=refuse)
    op = event_injector(registry)
    op.add("webs", "a")
    op.add("configmaps", "cm", data={})
    op.settle()
    before = len(op.calls())
    op.modify(("configmaps", "cm"), {"metadata": {"annotations": {"x": "y"}}})
    op.settle()
    assert len(op.calls()) == before + 1
    op.modify(("configmaps", "cm"), {"metadata": {"labels": {"quiet": ""}}})
    op.settle()
    assert len(op.calls()) == before + 1


def test_a_mapper_that_raises_harms_nobody(event_injector, registry, caplog):
    """It is logged with the object's name, and the stream goes on."""
    mapping(registry, lambda body: body["data"]["missing"])
    op = event_injector(registry)
    op.add("webs", "a")
    op.add("configmaps", "cm", data={})
    op.settle()
    assert "cm" in caplog.text
    assert len(op.calls()) == 1


def test_one_watch_however_many_controllers(event_injector, registry):
    """Two controllers that own Deployments share one watch of them."""
    for number in (1, 2):

        async def reconcile(name):
            pass

        opkit.reconcile(
            *PRIMARY, controller=f"c{number}", label_selector=f"n!={number}", owns=[DEPLOYMENTS], registry=registry
        )(reconcile)
    op = event_injector(registry)
    op.drain()
    assert len(list(op._faults.streams("deployments"))) == 1


def test_asking_for_what_is_not_watched_says_what_is(event_injector, registry):
    """`secondary("pods")` without a watch of Pods is the author's mistake, and told as that."""

    @opkit.reconcile(*PRIMARY, owns=[DEPLOYMENTS], registry=registry)
    async def reconcile(secondary):
        secondary("pods")

    op = event_injector(registry)
    op.add("webs", "a")
    op.drain()
    assert "does not watch 'pods' as secondary; it watches: deployments" in str(op.calls()[0].error)


# Writers, and members that are bad.


@pytest.mark.parametrize("way", ["mapper", "owners"])
def test_a_primary_that_is_named_twice_is_named_once(event_injector, way):
    """Two references to one object are common; the change after that must reach everybody it concerns."""
    registry, seen = opkit.Registry(), []

    @opkit.reconcile(*W, registry=registry, owns=[("v1", "configmaps")] if way == "owners" else [])
    async def reconcile(name, secondary):
        seen.append((name, len(secondary("configmaps"))))

    @opkit.secondary("v1", "configmaps", of=W, registry=registry)
    def users(body):
        return body["data"]["used-by"].split(",") if way == "mapper" or body.name == "d" else None

    op = event_injector(registry)
    a, b = op.add("widgets", "a"), op.add("widgets", "b")
    owners = [{"apiVersion": f"example.com/{one}", "kind": "Widget", "name": "a", "uid": a.uid} for one in ("v1", "v2")]
    meta = {"ownerReferences": owners} if way == "owners" else {}
    op.add("configmaps", "c", data={"used-by": "a,a"}, metadata=meta)
    op.add("configmaps", "d", data={"used-by": "b"})
    op.settle()
    seen.clear()
    with op.burst():
        op.modify(("configmaps", "c"), {"data": {"used-by": "b"}, "metadata": {"ownerReferences": None}})
        op.modify(("configmaps", "d"), {"data": {"x": "y"}})
    op.settle()
    assert {name for name, _ in seen} == {"a", "b"}
    seen.clear()
    op.delete(("configmaps", "c"))
    op.delete(("configmaps", "d"))
    op.trigger(a)
    op.trigger(b)
    op.settle()
    assert seen[-2:] == [("a", 0), ("b", 0)]


@pytest.mark.parametrize("how", ["patch", "create", "delete-and-create"])
def test_a_run_that_writes_another_primary_wakes_it(event_injector, how):
    """For that one it is a change from outside, whoever wrote it; its own status is none."""
    registry = opkit.Registry()

    @opkit.reconcile(*W, registry=registry)
    async def reconcile(name, spec, cluster, patch):
        if name == "a" and spec.get("go"):
            if how == "patch":
                await cluster.patch("widgets", "b", "default", {"spec": {"n": 7}})
            else:
                if how != "create":
                    await cluster.delete("widgets", "b")
                body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "b"}, "spec": {"n": 7}}
                await cluster.create(body)
        patch.status["seen"] = spec.get("n")

    op = event_injector(registry)
    a = op.add("widgets", "a", spec={})
    if how != "create":
        op.add("widgets", "b", spec={"n": 1})
    op.settle()
    op.modify(a, {"spec": {"go": True}})
    op.settle()
    assert op.get("widgets", "b").status.get("seen") == 7
    assert [call.name for call in op.calls()].count("a") == 2


@pytest.mark.parametrize("owner", ["own", "other"])
def test_a_child_of_another_primary_wakes_that_one(event_injector, owner):
    """A run writes a child: its own object hears nothing of it, the object that the child belongs to does."""
    registry = opkit.Registry()

    @opkit.reconcile(*W, owns=[("v1", "configmaps")], registry=registry)
    async def reconcile(name, spec, cluster):
        if spec.get("go"):
            await cluster.patch(("v1", "configmaps"), spec["go"], "default", {"data": {"n": "2"}})

    op = event_injector(registry)
    webs = {name: op.add("widgets", name) for name in "ab"}
    for name, web in webs.items():
        reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": name, "uid": web.uid}
        op.add("configmaps", name, data={"n": "1"}, metadata={"ownerReferences": [reference]})
    op.settle()
    before = len(op.calls(ref=webs["b"]))
    op.modify(webs["a"], {"spec": {"go": "a" if owner == "own" else "b"}})
    op.settle()
    assert len(op.calls(ref=webs["b"])) - before == (0 if owner == "own" else 1)
    assert len(op.calls(ref=webs["a"])) <= 3


@pytest.mark.parametrize("bad", [5, {"a": 1}, ["a", 5], "raise"], ids=["number", "dict", "half-bad", "raises"])
def test_a_mapper_that_fails_for_one_object_harms_no_other(event_injector, bad, caplog):
    """It is told by name; the others of the same batch are mapped."""
    registry, seen = opkit.Registry(), []

    @opkit.reconcile(*W, registry=registry)
    async def reconcile(name):
        seen.append(name)

    @opkit.secondary("v1", "configmaps", of=W, registry=registry)
    def users(body):
        if body.name != "bad":
            return body["data"]["used-by"]
        if bad == "raise":
            raise RuntimeError("can't map this")
        return bad

    op = event_injector(registry)
    op.add("widgets", "a")
    op.settle()
    seen.clear()
    with op.burst():
        op.add("configmaps", "bad", data={})
        op.add("configmaps", "good", data={"used-by": "a"})
    op.settle()
    assert seen == ["a"] and "failed on default/bad" in caplog.text


def test_a_child_that_one_controller_writes_is_news_to_the_other(event_injector, registry):
    """Both are for the same object: only the one whose own run has written knows of it."""

    seen, wanted = [], []

    @opkit.reconcile(*PRIMARY, owns=[W], registry=registry)
    async def writer(web, cluster):
        for n in wanted:
            body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "child"}}
            await cluster.apply({**body, "spec": {"n": n}}, owner=web)

    @opkit.reconcile(*PRIMARY, owns=[W], controller="reader", registry=registry)
    async def reader(secondary):
        seen.append([child.spec["n"] for child in secondary("widgets")])

    op = event_injector(registry)
    web = op.add("webs", "a", spec={})
    op.settle()
    wanted.append(1)
    assert op.trigger(web, controller="writer")
    op.settle()
    assert seen == [[], [1]] and op.calls("reader")[-1].trigger == {"SECONDARY"}
    assert len(op.calls("writer")) == 2


def test_nothing_is_kept_of_secondary_objects_that_concern_nobody_any_more():
    """Those that are gone, and those that name no primary any more."""
    store, asked = Store(), []
    pipeline = types.SimpleNamespace(
        identity="c", name="c", refuse=asked.append, schedule=lambda *args: asked.append(args), store=Store()
    )
    dependents = Dependents(
        resource=Resource("example.com", "v1", "widgets", kind="Widget"), store=store, pipeline=pipeline,
        relate=lambda raw: [raw["owner"]] if raw["owner"] else [],
        sieve=Sieve(controller="c", filters=Filters(), strategy=opkit.ReconcileStrategy.BY_RESOURCE_VERSION,
                    default_filters=False, now=float),
    )  # fmt: skip

    def show(type_, uid, version, owner="u"):
        meta = {"name": uid, "namespace": "default", "uid": uid, "resourceVersion": version}
        for change in store.apply(None, [(type_, {"metadata": meta, "owner": owner})]):
            dependents.offer(change)

    show("ADDED", "one", "1")
    show("ADDED", "two", "2")
    assert len(dependents) == 2 and len(asked) == 2
    show("DELETED", "one", "3")
    show("MODIFIED", "two", "4", owner=None)
    assert len(dependents) == 0 and len(asked) == 4
    show("MODIFIED", "two", "5", owner=None)
    assert len(asked) == 4 and dependents.of({"metadata": {"name": "u", "uid": "u"}}) == []


def test_a_mapper_that_raises_loses_no_relation(event_injector, registry):
    """While it fails, those that a secondary object concerned before go on seeing it."""
    handler = mapping(registry, lambda body: body["data"]["for"])
    op = event_injector(registry)
    op.add("webs", "a")
    op.add("configmaps", "cm", data={"for": "a"})
    op.settle()
    for number in ("1", "2"):
        before = len(op.calls())
        op.modify(("configmaps", "cm"), {"data": {"for": None, "n": number}})
        op.settle()
        assert len(op.calls()) == before + 1 and handler.seen == {"a": ["cm"]}


def test_a_child_that_is_related_by_name_does_not_wake_its_writer(event_injector):
    """As one that is related by its owner: the run that wrote it knows of it."""
    registry = opkit.Registry()

    @opkit.reconcile(*W, registry=registry)
    async def reconcile(name, cluster, spec):
        await cluster.patch(("v1", "configmaps"), name, "default", {"data": {"n": str(spec["n"])}})

    @opkit.secondary("v1", "configmaps", of=W, registry=registry)
    def of_the_name(name):
        return name

    op = event_injector(registry)
    op.add("configmaps", "a", data={"n": "0"})
    web = op.add("widgets", "a", spec={"n": 1})
    op.settle()
    op.modify(web, {"spec": {"n": 2}})
    op.settle()
    assert [call.trigger for call in op.calls()][-1] == {opkit.Trigger.MODIFIED} and len(op.calls()) == 2


def test_a_pair_may_name_a_primary_that_has_no_namespace(event_injector):
    """Its secondary objects are found all the same."""
    registry, seen = opkit.Registry(), []

    @opkit.reconcile("v1", "namespaces", registry=registry)
    async def reconcile(name, secondary):
        if name == "mine":
            seen.append([one.name for one in secondary("configmaps")])

    @opkit.secondary("v1", "configmaps", of=("v1", "namespaces"), registry=registry)
    def home(body):
        return [("default", "mine")]

    op = event_injector(registry)
    op.add("configmaps", "c", data={})
    op.add("namespaces", "mine")
    op.settle()
    assert seen[-1] == ["c"]
