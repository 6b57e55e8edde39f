"""Definitions that change while they are served: other versions, other subresources, another scope, other names."""

import asyncio
import json
import sys
import types

import pytest

import opkit

GROUP = "example.com"
CRD = ("customresourcedefinitions", "widgets.example.com")


def version(name, *, served=True, storage=False, status=True, scale=False):
    open_ = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    subresources = {"status": {}} if status else {}
    if scale:
        subresources["scale"] = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    return {
        "name": name, "served": served, "storage": storage, "subresources": subresources or None,
        "schema": {"openAPIV3Schema": open_},
    }  # fmt: skip


def offer(op, *versions):
    """Serve the widgets in these versions from now on."""
    op.modify(CRD, {"spec": {"versions": [*versions]}})


MOVES = pytest.mark.parametrize("old_stays", [True, False], ids=["old-stays", "old-is-withdrawn"])


def move(op, old_stays, **options):
    """v2 becomes the preferred version."""
    offer(op, version("v1", served=old_stays, storage=old_stays), version("v2", storage=not old_stays, **options))
    op.drain()


DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": CRD[1]},
    "spec": {
        "group": GROUP, "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [version("v1", storage=True)],
    },
}  # fmt: skip

HANDLERS = """
import opkit

runs, gone = [], []

@opkit.reconcile("example.com", "wd")
async def reconcile(patch, name):
    runs.append(name)
    patch.status.update(runs=len(runs), gone=len(gone))

@opkit.delete("example.com", "wd")
async def deleted(name):
    gone.append(name)
"""


@pytest.fixture
def runs():
    """What ran, as (version of the resource, version of the body, spec.n)."""
    return []


@pytest.fixture
def deleted():
    return []


@pytest.fixture
def widgets(registry, event_injector, runs, deleted):
    """An operator for widgets of no named version, first served as v1. `act` is what a run does beside being noted."""

    def make(act=None, *, settings=None, resource=(GROUP, "widgets"), **options):
        busy = set()

        @opkit.reconcile(*resource, registry=registry, **options)
        async def reconcile(body, spec, resource, patch, attempt, memo, uid):
            assert uid not in busy, "two runs of one object at once"
            busy.add(uid)
            try:
                runs.append((resource.version, body["apiVersion"].rpartition("/")[2], spec.get("n")))
                return None if act is None else await act(spec=spec, patch=patch, attempt=attempt, memo=memo)
            finally:
                busy.discard(uid)

        @opkit.delete(*resource, registry=registry)
        def gone(name, reason):
            deleted.append((name, str(reason)))

        return event_injector(registry, settings)

    return make


@MOVES
@pytest.mark.parametrize("strategy", ["by-generation", "by-resource-version"])
def test_a_new_preferred_version_takes_over(widgets, runs, deleted, old_stays, strategy):
    """Nothing is told as deleted and nothing runs for the move; what changes next is run once, in the new version."""
    settings = opkit.Settings()
    settings.reconcile.strategy = strategy
    op = widgets(settings=settings)
    a = op.add("widgets", "a", spec={"n": 1})
    op.add("widgets", "b", spec={"n": 1})
    op.settle()
    del runs[:]
    move(op, old_stays)
    op.advance(60)
    assert not runs and not deleted
    op.modify(a, {"spec": {"n": 2}})
    op.advance(5)
    assert runs == [("v2", "v2", 2)] and not deleted


@MOVES
def test_a_run_under_way_ends_in_its_version(widgets, runs, old_stays):
    """Its status arrives, nothing runs beside it, and the change that came meanwhile is run in the new version."""

    async def act(spec, patch, **_):
        await asyncio.sleep(10)
        patch.status["n"] = spec["n"]

    op = widgets(act)
    a = op.add("widgets", "a", spec={"n": 1})
    op.advance(5)
    move(op, old_stays)
    op.modify(a, {"spec": {"n": 2}})
    op.advance(5.5)
    assert op.get("widgets", "a").status == {"n": 1}
    op.settle()
    assert runs == [("v1", "v1", 1), ("v2", "v2", 2)] and op.get("widgets", "a").status == {"n": 2}


@MOVES
def test_what_waits_survives(widgets, runs, old_stays):
    """A requeue comes when it was due, in the new version."""

    async def act(memo, **_):
        memo.count = getattr(memo, "count", 0) + 1
        return opkit.success(requeue_after=100) if memo.count == 1 else None

    op = widgets(act)
    op.add("widgets", "a", spec={"n": 1})
    op.advance(50)
    move(op, old_stays)
    op.advance(49)
    assert len(runs) == 1
    op.advance(2)
    assert runs == [("v1", "v1", 1), ("v2", "v2", 1)]
    op.advance(500)
    assert len(runs) == 2, "the memo says that this was the second run"


@MOVES
def test_a_backoff_survives_with_its_attempts(widgets, old_stays):
    """The retry comes when it was due, and is counted on."""
    attempts = []

    async def act(attempt, **_):
        attempts.append(attempt)
        raise opkit.TemporaryError("not yet", delay=100 if attempt < 3 else None)

    op = widgets(act, retry=opkit.Retry(initial=1000, jitter=0))
    op.add("widgets", "a", spec={"n": 1})
    op.advance(150)
    assert attempts == [1, 2]
    move(op, old_stays)
    op.advance(49)
    assert attempts == [1, 2]
    op.advance(2)
    assert attempts == [1, 2, 3]


@MOVES
def test_finalizers_stay_and_clean_up_once(widgets, registry, runs, deleted, old_stays):
    """The cleanup is run once, in the new version, and the end is told once."""
    cleaned = []

    @opkit.finalizer(GROUP, "widgets", name="example.com/clean", registry=registry)
    async def clean(resource):
        cleaned.append(resource.version)

    op = widgets()
    a = op.add("widgets", "a", spec={"n": 1})
    op.settle()
    move(op, old_stays)
    assert op.get("widgets", "a").metadata["finalizers"] == ["example.com/clean"]
    op.delete(a)
    op.settle()
    assert cleaned == ["v2"] and deleted == [("a", "DELETED")] and not op.exists("widgets", "a")


def test_there_and_back_again(widgets, runs, deleted):
    """A version that is taken back leads back to the first one, as often as it happens."""
    op = widgets()
    a = op.add("widgets", "a", spec={"n": 0})
    op.settle()
    for round_ in range(1, 4):
        move(op, True)
        op.modify(a, {"spec": {"n": round_}})
        op.advance(5)
        offer(op, version("v1", storage=True))
        op.drain()
        op.modify(a, {"spec": {"n": -round_}})
        op.advance(5)
    assert runs[1:] == [(v, v, sign * n) for n in range(1, 4) for v, sign in (("v2", 1), ("v1", -1))]
    assert not deleted


def test_what_changes_during_the_move_is_run(widgets, runs, deleted):
    """Also what is added or deleted while no stream is open."""
    op = widgets()
    a, b = (op.add("widgets", name, spec={"n": 1}) for name in "ab")
    op.settle()
    del runs[:]
    offer(op, version("v1", served=False), version("v2", storage=True))
    op.modify(a, {"spec": {"n": 2}})
    op.delete(b)
    op.add("widgets", "c", spec={"n": 3})
    op.settle()
    assert sorted(runs) == [("v2", "v2", 2), ("v2", "v2", 3)]
    assert [name for name, _ in deleted] == ["b"]


def test_a_namespace_may_go_with_the_move(registry, event_injector, widgets, runs, deleted):
    """Objects that are gone are told as gone, whatever else has changed."""
    op = widgets()
    b = op.add("widgets", "b", "other", spec={"n": 1})
    op.settle()
    op.delete(b)
    move(op, False)
    op.settle()
    assert [name for name, _ in deleted] == ["b"] and len(runs) == 1


@pytest.mark.parametrize("when", ["before", "during", "after-a-change"])
@pytest.mark.parametrize("gains", [True, False], ids=["gains", "loses"])
def test_a_status_subresource_that_comes_or_goes(widgets, runs, deleted, gains, when):
    """The status arrives, whenever the definition has changed; nothing runs and nothing is deleted for it."""

    async def act(spec, patch, **_):
        await asyncio.sleep(10)
        patch.status["n"] = spec["n"]

    op = widgets(act)
    offer(op, version("v1", storage=True, status=not gains))
    op.drain()
    a = op.add("widgets", "a", spec={"n": 1})
    op.settle()
    assert op.get("widgets", "a").status == {"n": 1}
    del runs[:]
    if when == "before":
        offer(op, version("v1", storage=True, status=gains))
        op.advance(30)
        assert not runs
    op.modify(a, {"spec": {"n": 2}})
    op.advance(5)
    if when == "during":
        offer(op, version("v1", storage=True, status=gains))
        op.drain()
    op.advance(5 if when == "after-a-change" else 0)
    if when == "after-a-change":
        offer(op, version("v1", storage=True, status=gains))
    op.settle()
    assert op.get("widgets", "a").status == {"n": 2} and not deleted
    assert {row[2] for row in runs} == {2}


@pytest.mark.parametrize("gains", [True, False], ids=["gains", "loses"])
def test_a_status_is_not_lost_on_what_is_not_known_yet(registry, event_injector, gains):
    """The definition changes, and nobody has told the operator when the status is sent: it arrives all the same."""
    seen = []

    @opkit.reconcile(GROUP, "widgets", registry=registry)
    async def reconcile(spec, patch, cluster, name, namespace):
        if spec["n"] == 2:
            offer(op, version("v1", storage=True, status=gains))  # the watch of definitions has had no turn yet
        patch.status["n"] = spec["n"]
        patch.metadata["labels"] = {"n": str(spec["n"])}
        await cluster.patch_status((GROUP, "widgets"), name, namespace, {"direct": spec["n"]})
        seen.append(spec["n"])

    op = event_injector(registry)
    offer(op, version("v1", storage=True, status=not gains))
    op.drain()
    a = op.add("widgets", "a", spec={"n": 1})
    op.settle()
    op.modify(a, {"spec": {"n": 2}})
    op.settle()
    assert op.get("widgets", "a").status == {"n": 2, "direct": 2} and op.get("widgets", "a").labels == {"n": "2"}


@pytest.mark.parametrize("gains", [True, False], ids=["gains", "loses"])
@pytest.mark.parametrize("directly", [False, True], ids=["by-the-run", "by-the-handler"])
def test_a_status_on_its_way_is_not_lost(registry, event_injector, gains, directly):
    """The definition changes between the request and its answer: what was dropped is sent again."""

    @opkit.reconcile(GROUP, "widgets", registry=registry)
    async def reconcile(spec, patch, cluster, name, namespace):
        if directly:
            await cluster.patch_status((GROUP, "widgets"), name, namespace, {"n": spec["n"]})
        else:
            patch.status["n"] = spec["n"]

    op = event_injector(registry)
    offer(op, version("v1", storage=True, status=not gains))
    op.drain()
    a = op.add("widgets", "a", spec={"n": 1})
    op.settle()
    op.fail("patch", "widgets").delay(5)
    op.modify(a, {"spec": {"n": 2}})
    op.advance(2)
    offer(op, version("v1", storage=True, status=gains))
    op.settle()
    assert op.get("widgets", "a").status == {"n": 2}


def test_a_status_of_an_object_that_is_gone_is_no_failure(registry, event_injector):
    """The object itself is asked before it is believed; a deletion during the run is nothing to be told about."""

    @opkit.reconcile(GROUP, "widgets", registry=registry)
    async def reconcile(patch):
        await asyncio.sleep(5)
        patch.status["n"] = 1

    op = event_injector(registry)
    a = op.add("widgets", "a", spec={"n": 1})
    op.advance(1)
    op.delete(a)
    op.settle()
    assert [str(call.outcome) for call in op.calls()] == ["success"]


def test_a_run_before_the_new_version_was_listed_is_in_the_old_one(widgets, runs):
    """The body that is known and the resource that the handler is told are always of one version."""

    async def act(spec, patch, **_):
        patch.status["n"] = spec["n"]
        return opkit.success(requeue_after=20) if len(runs) == 1 else None

    op = widgets(act)
    op.add("widgets", "a", spec={"n": 1})
    op.advance(10)
    op.fail("list", "widgets").delay(60)
    move(op, True)
    op.advance(30)
    assert runs == [("v1", "v1", 1)] * 2
    op.advance(60)
    op.modify(("widgets", "a"), {"spec": {"n": 2}})
    op.settle()
    assert runs[2:] == [("v2", "v2", 2)] and op.get("widgets", "a").status == {"n": 2}


@MOVES
def test_what_leaves_its_selector_after_a_move_is_let_go(registry, event_injector, old_stays):
    """Its finalizer is taken off, by the version that there is."""

    @opkit.reconcile(GROUP, "widgets", label_selector="on=yes", registry=registry)
    async def reconcile():
        pass

    @opkit.finalizer(GROUP, "widgets", name="example.com/clean", registry=registry)
    async def clean():
        pass

    op = event_injector(registry)
    a = op.add("widgets", "a", labels={"on": "yes"})
    op.settle()
    assert op.get("widgets", "a").metadata["finalizers"]
    move(op, old_stays)
    op.modify(a, {"metadata": {"labels": {"on": "no"}}})
    op.settle()
    assert not op.get("widgets", "a").metadata.get("finalizers")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"versions": [version("v1", storage=True, scale=True)]}, id="scale"),
        pytest.param({"names": {"shortNames": ["wd", "wg"]}}, id="short-names"),
        pytest.param({"names": {"singular": "wid"}}, id="singular"),
        pytest.param({"names": {"categories": ["all"]}}, id="categories"),
    ],
)
def test_other_ways_to_be_served(widgets, runs, deleted, change):
    """Nothing is deleted, and nothing runs but what changes."""
    op = widgets()
    a = op.add("widgets", "a", spec={"n": 1})
    op.settle()
    op.modify(CRD, {"spec": change})
    op.advance(30)
    assert len(runs) == 1 and not deleted
    op.modify(a, {"spec": {"n": 2}})
    op.advance(5)
    assert runs[1:] == [("v1", "v1", 2)]


def test_a_name_that_is_taken_away_keeps_those_who_used_it(event_injector, tmp_path):
    """A name finds a kind once; the objects stay where they are when the definition takes another name."""
    (tmp_path / "definition.yaml").write_text(json.dumps(DEFINITION))
    (tmp_path / "handlers.py").write_text(HANDLERS)
    op = event_injector(tmp_path / "handlers.py")
    op.add("widgets", "a", spec={"n": 1})
    op.settle()
    op.modify(CRD, {"spec": {"names": {"shortNames": ["other"]}}})
    op.advance(5)
    op.modify(("widgets", "a"), {"spec": {"n": 2}})
    op.settle()
    assert op.get("widgets", "a").status == {"runs": 2, "gone": 0}


def test_another_scope_is_another_resource(widgets, runs, deleted):
    """A definition that is made anew with another scope: the old objects are gone, and the new ones are served."""
    op = widgets()
    op.add("widgets", "a", spec={"n": 1})
    op.settle()
    body = dict(op.get(*CRD))
    op.delete(CRD)
    spec = {**body["spec"], "scope": "Cluster"}
    op.add("customresourcedefinitions", "widgets.example.com", spec=spec)
    op.settle()
    assert [name for name, _ in deleted] == ["a"]
    op.add("widgets", "a", spec={"n": 2})
    op.settle()
    assert runs == [("v1", "v1", 1), ("v1", "v1", 2)]


def test_a_run_that_saw_another_scope_writes_nothing(widgets, runs):
    """Its object is gone, and the one of the same name in the new scope is another."""

    async def act(spec, patch, **_):
        await asyncio.sleep(10)
        patch.status["n"] = spec["n"]

    op = widgets(act)
    op.add("widgets", "a", spec={"n": 1})
    op.advance(5)
    body = dict(op.get(*CRD))
    op.delete(CRD)
    op.add("customresourcedefinitions", "widgets.example.com", spec={**body["spec"], "scope": "Cluster"})
    op.add("widgets", "a", spec={"n": 2})
    op.fail("list", "widgets").delay(30)
    op.advance(20)
    assert op.get("widgets", "a").status == {} and not op.writes()
    op.settle()
    assert op.get("widgets", "a").status == {"n": 2}


@MOVES
def test_secondary_objects_move_as_well(registry, event_injector, old_stays):
    """Owned objects, and those of a mapper, are still known, and their changes still lead to runs."""
    runs = []

    @opkit.reconcile(GROUP, "v1", "mains", owns=[(GROUP, "widgets")], registry=registry)
    async def reconcile(name, secondary):
        served = sorted((body["apiVersion"], body.spec["n"]) for body in secondary("widgets"))
        runs.append((name, served))
        if served and served[0][0] == "example.com/v2":
            assert secondary("widgets.v2.example.com"), "it is known by its new name, too"

    @opkit.secondary(GROUP, "widgets", of=(GROUP, "v1", "mains"), registry=registry)
    def mapped(spec):
        return spec.get("main")

    op = event_injector(registry)
    m = op.add("mains", "m")
    op.add("mains", "other")
    op.settle()
    uid = op.get(m).metadata["uid"]
    owner = [{"apiVersion": "example.com/v1", "kind": op.get(m)["kind"], "name": "m", "uid": uid}]
    owned = op.add("widgets", "owned", spec={"n": 1})
    op.modify(owned, {"metadata": {"ownerReferences": owner}})
    mapped_one = op.add("widgets", "mapped", spec={"n": 1, "main": "other"})
    op.settle()
    del runs[:]
    move(op, old_stays)
    op.advance(30)
    assert not runs
    op.modify(owned, {"spec": {"n": 2}})
    op.advance(5)
    op.modify(mapped_one, {"spec": {"n": 3}})
    op.advance(5)
    assert runs == [("m", [("example.com/v2", 2)]), ("other", [("example.com/v2", 3)])]


@MOVES
def test_polls_move_as_well(widgets, registry, runs, old_stays):
    """A value that changes leads to a run in the new version, and the poll was not begun anew."""
    values = {"a": 1}

    @opkit.poll(of=(GROUP, "widgets"), interval=10, registry=registry)
    async def poll():
        return dict(values)

    op = widgets()
    op.add("widgets", "a", spec={"n": 1})
    op.advance(25)
    del runs[:]
    move(op, old_stays)
    values["a"] = 2
    op.advance(15)
    assert runs == [("v2", "v2", 1)]


TWO = """
import asyncio
import opkit
from noted import rows

busy = set()

async def note(what, uid, body, patch):
    assert not busy, "two runs of one object at once"
    busy.add(uid)
    rows.append((what, body["apiVersion"].rpartition("/")[2], body["spec"]["n"]))
    await asyncio.sleep(3)
    busy.discard(uid)

for version, what in (("v1", "first"), ("v2", "second")):
    @opkit.reconcile("example.com", version, "widgets", controller=what)
    async def reconcile(uid, body, patch, what=what):
        await note(what, uid, body, patch)
        patch.status[what] = body["spec"]["n"]

    @opkit.finalizer("example.com", version, "widgets", name="example.com/clean")
    async def clean(uid, body, patch, what=what):
        await note("clean", uid, body, patch)

    @opkit.delete("example.com", version, "widgets")
    async def deleted(uid, body, patch, what=what):
        await note(f"{what} gone", uid, body, patch)
"""


@pytest.fixture
def two_versions(event_injector, tmp_path, monkeypatch):
    """An operator with a controller for v1 and one for v2, and what they have done."""
    rows = []
    monkeypatch.setitem(sys.modules, "noted", types.SimpleNamespace(rows=rows))
    spec = {**DEFINITION["spec"], "versions": [version("v1", storage=True), version("v2")]}
    (tmp_path / "definition.yaml").write_text(json.dumps({**DEFINITION, "spec": spec}))
    (tmp_path / "handlers.py").write_text(TWO)
    return event_injector(tmp_path / "handlers.py"), rows


def test_two_versions_that_are_named_share_the_lock(two_versions):
    """Each controller sees its version, one run at a time for each object, and the cleanup is done once."""
    op, rows = two_versions
    a = op.add("widgets", "a", spec={"n": 1})
    op.settle()
    assert sorted(rows) == [("first", "v1", 1), ("second", "v2", 1)]
    op.modify(a, {"spec": {"n": 2}})
    op.settle()
    assert sorted(rows[2:]) == [("first", "v1", 2), ("second", "v2", 2)]
    assert op.get("widgets", "a").status == {"first": 2, "second": 2}
    del rows[:]
    op.delete(a)
    op.settle()
    assert [what for what, *_ in rows if what == "clean"] == ["clean"]
    assert sorted(what for what, *_ in rows[1:]) == ["first gone", "second gone"]


def test_a_cleanup_is_done_once_though_the_other_stream_lags(two_versions):
    """The other version's stream may show the finalizer long after it was taken off."""
    op, rows = two_versions
    a = op.add("widgets", "a", spec={"n": 1}, finalizers=["other.com/keeps"])
    op.settle()
    del rows[:]
    op.delete(a)
    op.drain()
    op.watch("widgets").hold()
    op.advance(20)
    assert [what for what, *_ in rows] == ["clean"]
    op.watch("widgets").release()
    op.modify(a, {"metadata": {"finalizers": []}})
    op.settle()
    assert sorted(what for what, *_ in rows) == ["clean", "first gone", "second gone"]


def test_a_named_version_that_is_withdrawn_leaves_the_other_alone(two_versions):
    """For those who named it, its objects are gone; the others go on."""
    op, rows = two_versions
    a = op.add("widgets", "a", spec={"n": 1})
    op.settle()
    del rows[:]
    offer(op, version("v1", served=False, storage=True), version("v2"))
    op.settle()
    assert [what for what, *_ in rows] == ["first gone"]
    op.modify(a, {"spec": {"n": 2}})
    op.settle()
    assert rows[1:] == [("second", "v2", 2)]
    offer(op, version("v1", storage=True), version("v2"))
    op.settle()
    assert rows[2:] == [("first", "v1", 2)]


def test_who_names_the_version_stays_when_the_others_move(registry, event_injector):
    """The same kind as primary by its version, and as secondary by its name alone: each sees what it asked for."""
    rows = []

    @opkit.reconcile(GROUP, "v1", "widgets", registry=registry)
    async def widget(resource, spec):
        rows.append(("widget", resource.version, spec["n"]))

    @opkit.reconcile(GROUP, "v1", "mains", registry=registry)
    async def main(secondary):
        rows.append(("main", [body["apiVersion"] for body in secondary("widgets")]))

    @opkit.secondary(GROUP, "widgets", of=(GROUP, "v1", "mains"), registry=registry)
    def mapped(spec):
        return "m"

    op = event_injector(registry)
    op.add("mains", "m")
    a = op.add("widgets", "a", spec={"n": 1})
    op.settle()
    del rows[:]
    move(op, True)
    op.advance(60)
    assert not rows
    op.modify(a, {"spec": {"n": 2}})
    op.settle()
    assert sorted(rows) == [("main", ["example.com/v2"]), ("widget", "v1", 2)]
