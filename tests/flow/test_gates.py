"""First runs wait until their secondary objects are known: those that miss something, and not for ever."""

import types

import pytest

import opkit
from opkit.clock import LoopClock
from opkit.cluster.protocol import WatchScope
from opkit.cluster.resource import Resource
from opkit.flow.gates import Gates

MAINS = ("example.com", "v1", "mains")
GADGETS = ("example.com", "v1", "gadgets")


@pytest.fixture
def mains(registry, event_injector):
    """An operator whose primaries see their gadgets: `op, seen = mains(namespaces=[...])`."""

    def make(**options):
        seen = []

        @opkit.reconcile(*MAINS, owns=[GADGETS], registry=registry)
        async def reconcile(name, secondary):
            seen.append((name, len(secondary("gadgets"))))

        return event_injector(registry, **options), seen

    return make


def own(op, main, name, namespace="default"):
    """A gadget that belongs to a primary."""
    body = op.get(main)
    owner = {"apiVersion": body["apiVersion"], "kind": body["kind"], "name": body.name, "uid": body.uid}
    gadget = op.add("gadgets", name, namespace)
    op.modify(gadget, {"metadata": {"ownerReferences": [owner]}})


def test_the_first_runs_see_all_secondary_objects(mains):
    """However long their list takes, within reason."""
    op, seen = mains()
    own(op, op.add("mains", "a"), "one")
    op.fail("list", "gadgets").delay(10)
    op.advance(9)
    assert not seen
    op.advance(2)
    assert seen == [("a", 1)]


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_list_that_fails_holds_nothing_up(mains, status):
    """That is told where it fails; the primaries run without."""
    op, seen = mains()
    op.add("mains", "a")
    op.fail("list", "gadgets").times(1000, status)
    op.advance(1)
    assert seen == [("a", 0)]


def test_a_list_that_gets_no_answer_holds_things_up_for_a_while(mains):
    """Then the first runs go on without it."""
    op, seen = mains()
    op.add("mains", "a")
    op.fail("list", "gadgets").delay(10_000)
    op.advance(29)
    assert not seen
    op.advance(2)
    assert seen == [("a", 0)]


def test_a_new_namespace_that_hangs_leaves_the_others_alone(mains):
    """Only the objects of that namespace wait, and not for ever; its neighbours run, also for the first time."""
    op, seen = mains(namespaces=["team-*"])
    a = op.add("mains", "a", "team-a")
    op.settle()
    assert seen == [("a", 0)]
    op.fail("list", "gadgets").delay(10_000)
    op.add("mains", "b", "team-b")
    op.advance(1)
    assert seen == [("a", 0)]
    op.modify(a, {"spec": {"n": 2}})
    op.add("mains", "new", "team-a")
    op.advance(1)
    assert seen[1:] == [("a", 0), ("new", 0)]
    op.add("mains", "c", "team-c")
    op.advance(1)
    assert seen[3:] == [("c", 0)]
    op.advance(30)
    assert seen[4:] == [("b", 0)]


def test_a_secondary_resource_that_comes_later_holds_nothing_up(registry, event_injector):
    """The first runs have been: what comes now leads to further ones."""
    seen = []

    @opkit.reconcile(*MAINS, owns=[GADGETS], registry=registry)
    async def reconcile(name):
        seen.append(name)

    op = event_injector(registry)
    crd = ("customresourcedefinitions", "gadgets.example.com")
    definition = op.get(*crd)
    op.delete(crd)
    a = op.add("mains", "a")
    op.settle()
    assert seen == ["a"]
    op.add("customresourcedefinitions", "gadgets.example.com", spec=definition.spec)
    op.fail("list", "gadgets").delay(10_000)
    op.advance(1)
    op.modify(a, {"spec": {"n": 2}})
    op.advance(1)
    assert seen == ["a", "a"]


def test_an_object_that_goes_while_it_waits_is_not_run(mains):
    """Nor is anything of it left."""
    op, seen = mains(namespaces=["team-*"])
    op.add("mains", "a", "team-a")
    op.settle()
    op.fail("list", "gadgets").delay(20)
    b = op.add("mains", "b", "team-b")
    op.advance(1)
    op.delete(b)
    op.settle()
    op.advance(60)
    assert seen == [("a", 0)]


def test_a_memo_lives_as_long_as_anybody_sees_the_object(registry, event_injector):
    """An object that leaves the selector of one controller is still there for another."""
    memos = []

    @opkit.reconcile(*MAINS, label_selector="on=yes", controller="one", registry=registry)
    async def one(memo):
        memo.known = True

    @opkit.reconcile(*MAINS, label_selector="also=yes", controller="other", registry=registry)
    async def other(memo):
        memos.append(getattr(memo, "known", False))

    op = event_injector(registry)
    a = op.add("mains", "a", labels={"on": "yes", "also": "yes"})
    op.settle()
    op.modify(a, {"metadata": {"labels": {"on": "no"}}})
    op.settle()
    op.modify(a, {"spec": {"n": 2}})
    op.settle()
    assert memos[-1] is True
    assert op.explain(a), "what was decided about it is known under its own name"


def test_polls_end_with_their_resource(registry, event_injector):
    """Nobody is asked about what is not served; when it is back, they are."""
    asked = []

    @opkit.reconcile(*MAINS, registry=registry)
    async def reconcile():
        pass

    @opkit.poll(of=MAINS, interval=10, registry=registry)
    async def poll():
        asked.append(1)
        return {}

    op = event_injector(registry)
    op.advance(15)
    crd = ("customresourcedefinitions", "mains.example.com")
    definition = op.get(*crd)
    op.delete(crd)
    op.drain()
    before = len(asked)
    assert before
    op.advance(100)
    assert len(asked) == before
    op.add("customresourcedefinitions", "mains.example.com", spec=definition.spec)
    op.advance(15)
    assert len(asked) > before


def test_a_part_is_known_when_all_of_its_watches_have_listed_it(loop):
    """A stream that takes the place of one that never listed is waited for, whatever the others know."""
    gates = Gates(types.SimpleNamespace(clock=LoopClock(loop)))
    closed = []
    primary, source = ("example.com", "mains", None), ("example.com", "gadgets", None)
    old, new = (Resource("example.com", version, "gadgets") for version in ("v1", "v2"))
    mains = types.SimpleNamespace(
        resource=Resource("example.com", "v1", "mains"), coordinator=types.SimpleNamespace(set_gates=closed.append)
    )
    narrow, everything = WatchScope(old, "ns", "on=yes", None), WatchScope(old, "ns", None, None)
    gates.add_source(primary, source)
    for scope in (narrow, everything):
        gates.expect(source, scope)
    gates.set({primary: mains}, [(source, narrow), (source, everything)], frozenset({"ns"}))
    gates.settle(source, narrow)
    assert closed[-1] == {"ns"}
    moved = WatchScope(new, "ns", None, None)
    gates.expect(source, moved)
    gates.set({primary: mains}, [(source, narrow), (source, moved)], frozenset({"ns"}))
    assert closed[-1] == {"ns"}
    gates.settle(source, moved)
    assert closed[-1] == frozenset()


def test_a_namespace_that_comes_back_is_waited_for_again(loop):
    """What was known of it is gone with it, and so is its open gate."""
    gates = Gates(types.SimpleNamespace(clock=LoopClock(loop)))
    closed = []
    primary, source = ("example.com", "mains", None), ("example.com", "gadgets", None)
    mains = types.SimpleNamespace(
        resource=Resource("example.com", "v1", "mains"), coordinator=types.SimpleNamespace(set_gates=closed.append)
    )
    own = WatchScope(mains.resource, "ns")
    scope = WatchScope(Resource("example.com", "v1", "gadgets"), "ns")
    gates.add_source(primary, source)
    for _ in range(2):
        gates.expect(primary, own)
        gates.expect(source, scope)
        gates.set({primary: mains}, [(primary, own), (source, scope)], frozenset({"ns"}))
        gates.settle(primary, own)
        assert closed[-1] == {"ns"}
        gates.settle(source, scope)
        assert closed[-1] == frozenset()
        gates.forget(primary, own)
        gates.forget(source, scope)
        gates.set({primary: mains}, [], frozenset())
