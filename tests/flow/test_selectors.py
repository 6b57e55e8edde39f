"""Selectors, and several controllers over one resource, in the whole runtime."""

import pytest

import opkit
from opkit.settings import ConflictStrategy, OnLeave, WatchStrategy

WIDGETS = ("example.com", "v1", "widgets")
BOTH = pytest.mark.parametrize("strategy", list(WatchStrategy), ids=str)


@pytest.fixture
def registry():
    return opkit.Registry()


def settings_for(strategy, **options):
    settings = opkit.Settings()
    settings.watch.strategy = strategy
    for name, value in options.items():
        group, _, field = name.partition("__")
        setattr(getattr(settings, group), field, value)
    return settings


@pytest.fixture
def seen(registry):
    """Two controllers with overlapping selectors; what each of them was called for, in order."""
    calls = []

    @opkit.reconcile(*WIDGETS, label_selector="managed=true", registry=registry)
    async def managed(name):
        calls.append(("managed", name))

    @opkit.reconcile(*WIDGETS, label_selector={"config": "yes"}, registry=registry)
    async def configured(name):
        calls.append(("configured", name))

    @opkit.delete(*WIDGETS, controller="managed", registry=registry)
    async def gone(name, reason):
        calls.append((str(reason), name))

    return calls


@BOTH
def test_each_controller_sees_what_its_selector_matches(event_injector, registry, seen, strategy):
    """An object that matches both selectors is reconciled by both, one that matches none by nobody."""
    op = event_injector(registry, settings_for(strategy))
    op.add("widgets", "both", labels={"managed": "true", "config": "yes"})
    op.add("widgets", "one", labels={"config": "yes"})
    op.add("widgets", "none")
    op.drain()
    assert sorted(seen) == [("configured", "both"), ("configured", "one"), ("managed", "both")]


@BOTH
def test_entering_a_selector_is_an_addition(event_injector, registry, seen, strategy):
    """A label that makes an object match leads to a run, though its generation has not changed."""
    op = event_injector(registry, settings_for(strategy))
    web = op.add("widgets", "a")
    op.drain()
    op.modify(web, {"metadata": {"labels": {"managed": "true"}}})
    op.drain()
    assert seen == [("managed", "a")]
    assert op.calls("managed")[0].trigger == {opkit.Trigger.ADDED}


@BOTH
def test_leaving_a_selector_is_a_deletion_with_its_reason(event_injector, registry, seen, strategy):
    """The delete handler is told that the object left the selector, and lives on."""
    op = event_injector(registry, settings_for(strategy))
    web = op.add("widgets", "a", labels={"managed": "true"})
    op.drain()
    op.modify(web, {"metadata": {"labels": {"managed": "false"}}})
    op.drain()
    assert seen == [("managed", "a"), ("LEFT_SELECTOR", "a")]
    assert op.exists(web)


@BOTH
def test_a_real_deletion_is_told_as_one(event_injector, registry, seen, strategy):
    """With a selector, too, an object that is gone is DELETED for the delete handler."""
    op = event_injector(registry, settings_for(strategy))
    web = op.add("widgets", "a", labels={"managed": "true"})
    op.drain()
    op.delete(web)
    op.drain()
    assert seen == [("managed", "a"), ("DELETED", "a")]


@BOTH
def test_transitions_across_a_relist(event_injector, registry, seen, strategy):
    """What entered and left while the stream was down is seen by the next list."""
    op = event_injector(registry, settings_for(strategy))
    left = op.add("widgets", "left", labels={"managed": "true"})
    entered = op.add("widgets", "entered")
    op.drain()
    seen.clear()
    op.watch("widgets").silence()
    op.modify(left, {"metadata": {"labels": {"managed": None}}})
    op.modify(entered, {"metadata": {"labels": {"managed": "true"}}})
    op.store.compact()
    op.settle()
    assert sorted(seen) == [("LEFT_SELECTOR", "left"), ("managed", "entered")]


@BOTH
def test_what_left_while_it_waited_is_dropped(event_injector, registry, strategy):
    """After waiting in the queue the selector is checked again."""
    calls = []

    @opkit.reconcile(*WIDGETS, label_selector="managed", registry=registry)
    async def managed(name):
        calls.append(name)
        return opkit.success(requeue_after=10)

    @opkit.reconcile(*WIDGETS, label_selector="other", registry=registry)
    async def other(name):
        pass

    op = event_injector(registry, settings_for(strategy))
    web = op.add("widgets", "a", labels={"managed": "1"})
    op.drain()
    op.modify(web, {"metadata": {"labels": {"managed": None}}})
    op.advance(60)
    assert calls == ["a"]
    assert op.scheduled(web) == []


def test_shared_uses_one_watch_and_per_controller_one_for_each_selector(event_injector, registry, seen):
    """Two label selectors need two connections under PER_CONTROLLER, and one under SHARED."""
    counts = {}
    for strategy in WatchStrategy:
        op = event_injector(registry, settings_for(strategy))
        op.drain()
        counts[strategy] = len(list(op._faults.streams("widgets")))
    assert counts == {WatchStrategy.PER_CONTROLLER: 2, WatchStrategy.SHARED: 1}


def test_equal_selectors_share_a_watch(event_injector, registry):
    """Controllers whose selectors mean the same share one watch."""

    @opkit.reconcile(*WIDGETS, label_selector="a=1,b=2", registry=registry)
    async def one(name):
        pass

    @opkit.reconcile(*WIDGETS, label_selector={"b": "2", "a": "1"}, registry=registry)
    async def two(name):
        pass

    op = event_injector(registry)
    op.add("widgets", "x", labels={"a": "1", "b": "2"})
    op.drain()
    assert len(list(op._faults.streams("widgets"))) == 1
    assert {call.controller for call in op.calls()} == {"one", "two"}


def test_a_field_selector_keeps_a_watch_of_its_own_under_shared(event_injector, registry, seen):
    """The server applies field selectors, under SHARED too."""

    @opkit.reconcile(*WIDGETS, field_selector="metadata.name=special", registry=registry)
    async def special(name):
        seen.append(("special", name))

    op = event_injector(registry, settings_for(WatchStrategy.SHARED))
    op.add("widgets", "special")
    op.add("widgets", "common", labels={"managed": "true"})
    op.drain()
    assert sorted(seen) == [("managed", "common"), ("special", "special")]
    assert len(list(op._faults.streams("widgets"))) == 2


@BOTH
def test_controllers_never_run_one_object_at_once(event_injector, registry, strategy):
    """One lock per object for all controllers of its resource."""
    running = []
    most = []

    async def work(name):
        import asyncio

        running.append(name)
        most.append(len(running))
        await asyncio.sleep(1)
        running.remove(name)

    for number in range(3):
        opkit.reconcile(*WIDGETS, controller=f"c{number}", label_selector=f"!x{number}", registry=registry)(work)
    op = event_injector(registry, settings_for(strategy))
    op.add("widgets", "a")
    op.settle()
    assert len(most) == 3
    assert max(most) == 1


@BOTH
def test_a_failure_of_one_controller_does_not_touch_the_other(event_injector, registry, strategy):
    """Each controller has its own attempts."""

    @opkit.reconcile(*WIDGETS, label_selector="a", registry=registry)
    async def bad(name):
        raise ValueError("no")

    @opkit.reconcile(*WIDGETS, label_selector="b", registry=registry)
    async def good(name):
        pass

    op = event_injector(registry, settings_for(strategy))
    op.add("widgets", "x", labels={"a": "", "b": ""})
    op.advance(30)
    assert len(op.calls("good")) == 1
    assert [call.attempt for call in op.calls("bad")] == [1, 2, 3, 4, 5]


@BOTH
def test_one_controllers_write_is_an_event_for_the_other(event_injector, registry, strategy):
    """Controllers never suppress each other's events; only the writer's own echo is none."""

    @opkit.reconcile(*WIDGETS, label_selector="a", strategy="by-resource-version", registry=registry)
    async def writer(spec, patch):
        if spec.get("write"):
            patch.metadata["annotations"] = {"written": "yes"}

    @opkit.reconcile(*WIDGETS, label_selector="b", strategy="by-resource-version", registry=registry)
    async def reader(annotations):
        pass

    op = event_injector(registry, settings_for(strategy))
    web = op.add("widgets", "x", labels={"a": "", "b": ""}, spec={})
    op.settle()
    with op.hold("writer"):  # so that the reader is done with the change itself before the writer writes
        op.modify(web, {"spec": {"write": True}})
        op.drain()
    op.settle()
    assert len(op.calls("writer")) == 2
    assert "MODIFIED" in op.calls("reader")[-1].trigger
    assert op.refused(web)[-1].controller == "writer"


def cleaning(registry, calls):
    @opkit.reconcile(*WIDGETS, label_selector="managed", registry=registry)
    async def managed(name):
        calls.append("reconcile")

    @opkit.reconcile(*WIDGETS, label_selector="other", registry=registry)
    async def other(name):
        calls.append("other")

    @opkit.finalizer(*WIDGETS, registry=registry)
    async def clean(name):
        calls.append("clean")


@BOTH
@pytest.mark.parametrize(
    ("policy", "expected_calls", "is_held"),
    [
        pytest.param("detach", ["reconcile"], False, id="detach"),
        pytest.param("finalize", ["reconcile", "clean"], False, id="finalize"),
        pytest.param("keep", ["reconcile"], True, id="keep"),
    ],
)
def test_finalizers_of_what_left_the_last_selector(event_injector, registry, strategy, policy, expected_calls, is_held):
    """An object that leaves the last selector must not become undeletable."""
    calls = []
    cleaning(registry, calls)
    op = event_injector(registry, settings_for(strategy, finalizers__on_leave=OnLeave(policy)))
    web = op.add("widgets", "a", labels={"managed": ""})
    op.settle()
    assert op.get(web).metadata["finalizers"] == ["example.com/clean"]
    op.modify(web, {"metadata": {"labels": {"managed": None}}})
    op.settle()
    assert calls == expected_calls
    assert bool(op.get(web).metadata.get("finalizers")) is is_held
    op.delete(web)
    op.settle()
    assert not op.exists(web)
    assert calls == [*expected_calls, *(["clean"] if is_held else [])]


@BOTH
@pytest.mark.parametrize("policy", ["detach", "finalize"])
@pytest.mark.parametrize("conflict", ["wait", "discard", "requeue-after-delay"])
def test_what_leaves_during_its_run_is_let_go(event_injector, registry, strategy, policy, conflict):
    """That it has left is no change of what is being run: no conflict strategy drops it, and it stays deletable."""
    calls = []

    @opkit.reconcile(*WIDGETS, label_selector="on=yes", registry=registry)
    async def reconcile(name):
        calls.append("reconcile")

    @opkit.finalizer(*WIDGETS, name="example.com/clean", registry=registry)
    async def clean(name):
        calls.append("clean")

    settings = settings_for(
        strategy, finalizers__on_leave=OnLeave(policy), parallel__conflict=ConflictStrategy(conflict)
    )
    op = event_injector(registry, settings)
    with op.hold("reconcile"):
        a = op.add("widgets", "a", labels={"on": "yes"})
        op.drain()
        op.modify(a, {"metadata": {"labels": {"on": "no"}}})
        op.drain()
    op.settle()
    assert not op.get(a).metadata.get("finalizers")
    assert calls == ["reconcile", *(["clean"] if policy == "finalize" else [])]


@BOTH
def test_finalizers_stay_while_another_selector_matches(event_injector, registry, strategy):
    """Leaving one of two selectors takes no finalizer off."""
    calls = []
    cleaning(registry, calls)
    op = event_injector(registry, settings_for(strategy))
    web = op.add("widgets", "a", labels={"managed": "", "other": ""})
    op.settle()
    op.modify(web, {"metadata": {"labels": {"managed": None}}})
    op.settle()
    assert op.get(web).metadata["finalizers"] == ["example.com/clean"]
    op.delete(web)
    op.settle()
    assert calls.count("clean") == 1
    assert not op.exists(web)


@BOTH
def test_finalizers_of_what_left_while_the_operator_was_down(event_injector, registry, strategy):
    """A start looks once for objects that carry our finalizers and match no selector."""
    calls = []
    cleaning(registry, calls)
    op = event_injector(registry, settings_for(strategy))
    web = op.add("widgets", "a", labels={"managed": ""})
    op.settle()
    op.restart(kill=True)
    op.modify(web, {"metadata": {"labels": {"managed": None}}})
    op.settle()
    assert not op.get(web).metadata.get("finalizers")
    assert calls == ["reconcile"]


@BOTH
def test_with_several_controllers_a_finalizer_runs_once(event_injector, registry, strategy):
    """Finalizers belong to the object, not to a controller."""
    calls = []
    cleaning(registry, calls)
    op = event_injector(registry, settings_for(strategy))
    web = op.add("widgets", "a", labels={"managed": "", "other": ""})
    op.settle()
    op.delete(web)
    op.settle()
    assert calls.count("clean") == 1
    assert not op.exists(web)


@pytest.fixture
def lagging(event_injector, registry):
    """Two controllers with a stream each, `plain` and `selected`; and how to hold back the stream of one of them."""

    @opkit.reconcile(*WIDGETS, registry=registry)
    async def plain(spec, patch):
        patch.status["plain"] = spec["n"]

    @opkit.reconcile(*WIDGETS, label_selector="managed=true", registry=registry)
    async def selected(spec, patch):
        patch.status["selected"] = spec["n"]

    op = event_injector(registry, settings_for(WatchStrategy.PER_CONTROLLER))

    def hold(position):
        op.drain()
        failure = op.watch("widgets")
        failure._streams = [failure._streams[position]]
        failure.hold()
        return failure

    return op, hold


@pytest.fixture(params=[0, 1])
def namesake(lagging, request):
    """One stream still shows an object that is gone, the other its namesake: injector, namesake, late stream."""
    op, hold = lagging
    old = op.add("widgets", "w", spec={"n": 1}, labels={"managed": "true"})
    late = hold(request.param)
    op.delete(old)
    new = op.add("widgets", "w", spec={"n": 2}, labels={"managed": "true"})
    op.drain()
    return op, new, late


def test_streams_that_disagree_on_who_has_a_name_lose_no_patch(namesake):
    """The patch for the namesake is sent, and later that of the other controller too."""
    op, new, late = namesake
    assert list(op.get(new).status.values()) == [2]
    late.release()
    op.drain()
    assert op.get(new).status == {"plain": 2, "selected": 2}


def test_a_patch_of_a_run_from_a_late_stream_is_not_for_the_namesake(namesake):
    """The run is for an object that is gone: what it wants is not written to the one that has its name now."""
    op, new, late = namesake
    before = len(op.calls())
    op.trigger(new)
    op.drain()
    assert len(op.calls()) == before + 2  # both ran, the late one for the dead
    assert 1 not in op.get(new).status.values()
    late.release()
    op.drain()
    assert op.get(new).status == {"plain": 2, "selected": 2}


@pytest.mark.parametrize("position", [0, 1])
def test_a_late_stream_makes_no_patch_superfluous(lagging, position):
    """It shows the status as it was before somebody changed it; by the other stream, it has to be written again."""
    op, hold = lagging
    web = op.add("widgets", "w", spec={"n": 1}, labels={"managed": "true"})
    late = hold(position)
    op.modify_status(web, {"plain": 0, "selected": 0})
    op.drain()
    op.trigger(web)
    op.drain()
    assert op.get(web).status == {"plain": 1, "selected": 1}
    late.release()
    op.drain()
    assert op.get(web).status == {"plain": 1, "selected": 1}


def test_leaving_a_field_selector_is_no_deletion(event_injector, registry):
    """The server shows it as one: the delete handler is told what it is."""
    told = []

    @opkit.reconcile("v1", "pods", field_selector="status.phase=Running", registry=registry)
    async def reconcile():
        pass

    @opkit.delete("v1", "pods", registry=registry)
    async def gone(reason):
        told.append(str(reason))

    op = event_injector(registry)
    pod = op.add("pods", "a", spec={"containers": [{"name": "c", "image": "i"}]}, status={"phase": "Running"})
    op.settle()
    assert len(op.calls("reconcile")) == 1
    op.modify_status(pod, {"phase": "Succeeded"})
    op.settle()
    assert told == [str(opkit.DeleteReason.LEFT_SELECTOR)]


@BOTH
def test_finalizers_of_what_has_left_are_taken_off_with_a_growing_backoff(event_injector, registry, strategy):
    """A cleanup that fails for good is not called at one and the same pace for ever."""

    @opkit.reconcile(*WIDGETS, label_selector="managed", registry=registry)
    async def managed():
        pass

    @opkit.finalizer(*WIDGETS, registry=registry)
    async def clean():
        raise OSError("down")

    settings = settings_for(strategy, finalizers__on_leave=OnLeave.FINALIZE)
    settings.retry = opkit.Retry(initial=1, factor=2, jitter=0)
    op = event_injector(registry, settings)
    web = op.add("widgets", "a", labels={"managed": ""})
    op.settle()
    start = op.now
    op.modify(web, {"metadata": {"labels": {"managed": None}}})
    op.advance(20)
    assert [call.at - start for call in op.calls("clean")] == [0, 1, 3, 7, 15]


def test_what_leaves_one_watch_and_stays_in_another_is_not_forgotten(event_injector, registry):
    """A cleanup that is done is not done again, and the author's values stay."""
    memos = []

    @opkit.reconcile(*WIDGETS, label_selector="managed", registry=registry)
    async def managed(memo):
        memo["by"] = "managed"

    @opkit.reconcile(*WIDGETS, label_selector="other", registry=registry)
    async def other(memo):
        memos.append(memo.get("by"))

    @opkit.delete(*WIDGETS, controller="managed", registry=registry)
    async def gone():
        pass

    @opkit.finalizer(*WIDGETS, registry=registry)
    async def clean():
        pass

    settings = settings_for(WatchStrategy.PER_CONTROLLER)
    settings.retry = opkit.Retry(initial=10, jitter=0)
    op = event_injector(registry, settings)
    web = op.add("widgets", "a", labels={"managed": "", "other": ""})
    op.settle()
    op.fail("patch", "widgets").times(2, status=500)
    op.delete(web)
    op.advance(1)
    assert op.exists(web) and len(op.calls("clean")) == 1
    op.modify(web, {"metadata": {"labels": {"managed": None}}})
    op.settle()
    assert not op.exists(web) and len(op.calls("clean")) == 1

    stays = op.add("widgets", "b", labels={"managed": "", "other": ""})
    op.settle()
    memos.clear()
    op.modify(stays, {"metadata": {"labels": {"managed": None}}})
    op.settle()
    assert op.calls("gone", stays)
    memos.clear()
    op.modify(stays, {"spec": {"n": 2}})
    op.settle()
    assert memos == ["managed"]


@BOTH
def test_what_no_selector_matches_is_not_triggered(event_injector, registry, seen, strategy):
    """Whoever asks for its run is told that there is nothing to run."""
    op = event_injector(registry, settings_for(strategy))
    op.add("widgets", "none")
    op.add("widgets", "one", labels={"managed": "true"})
    op.drain()
    assert op.trigger(("widgets", "one")) and not op.trigger(("widgets", "none"))
