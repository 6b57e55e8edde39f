"""Finalizers: put on, run in order, taken off, whatever comes in between."""

import asyncio

import pytest

import opkit
from opkit import Settings
from opkit.flow.finalizers import Cleanups
from opkit.retry import Retry

WEBAPPS = ("example.com", "v1", "webapps")

OURS = "example.com/cleanup"
STEADY = Settings(retry=Retry(jitter=0))


async def cleanup():
    """The finalizer of most tests here: it always succeeds."""


def finalizers_of(op, web):
    return op.get(web)["metadata"].get("finalizers", [])


def test_it_is_attached_before_the_reconcile_handler_in_the_same_run(webapps):
    """Which goes on with the server's answer, and is not run again for it."""
    seen = []

    async def reconcile(meta):
        seen.append((list(meta["finalizers"]), meta["resourceVersion"]))

    op = webapps(reconcile, finalizers=[cleanup])
    web = op.add("webapps", "shop")
    op.settle()
    assert seen == [([OURS], op.get(web)["metadata"]["resourceVersion"])]


def test_missing_ones_are_appended_by_one_json_patch_guarded_by_the_version(webapps):
    """Behind foreign ones, never by a PUT."""

    async def second():
        pass

    op = webapps(finalizers=[cleanup, second])
    web = op.add("webapps", "shop", finalizers=["other.io/keep"])
    op.settle()
    (write,) = op.writes()
    assert write.verb == "patch" and isinstance(write.body, list)
    assert write.body[0]["op"] == "test" and write.body[0]["path"] == "/metadata/resourceVersion"
    assert finalizers_of(op, web) == ["other.io/keep", OURS, "example.com/second"]


def test_nothing_is_written_where_it_stands_already(webapps):
    """Zero writes, also after a restart."""
    op = webapps(finalizers=[cleanup])
    op.add("webapps", "shop", finalizers=[OURS])
    op.settle()
    op.restart()
    op.settle()
    assert not op.writes()


def test_without_declared_finalizers_none_is_written(webapps):
    """A delete handler needs none."""

    async def gone():
        pass

    op = webapps(delete=gone)
    web = op.add("webapps", "shop")
    op.settle()
    assert finalizers_of(op, web) == [] and not op.writes()


def test_only_objects_that_its_condition_accepts_get_one(webapps, registry):
    """A deletion of the others is nobody's business."""
    opkit.finalizer("example.com", "v1", "webapps", name="example.com/dns", registry=registry,
                    when=lambda body: body.labels.get("dns") == "yes")(cleanup)  # fmt: skip
    op = webapps()
    yes, no = op.add("webapps", "yes", labels={"dns": "yes"}), op.add("webapps", "no")
    op.settle()
    assert (finalizers_of(op, yes), finalizers_of(op, no)) == (["example.com/dns"], [])


@pytest.mark.parametrize("status", [409, 422])
def test_attaching_is_tried_again_on_the_fresh_object(webapps, status):
    """Somebody wrote in between: that costs no time, and the handler still runs once."""
    op = webapps(finalizers=[cleanup])
    op.fail("patch", "webapps").once(status=status)
    web = op.add("webapps", "shop")
    op.drain()
    assert finalizers_of(op, web) == [OURS] and [call.at for call in op.calls("nothing")] == [0]
    op.settle()
    assert len(op.calls("nothing")) == 1


def test_a_foreign_finalizer_that_came_in_between_survives_the_attaching(webapps):
    """The patch holds only for the version that it was made for."""
    op = webapps(finalizers=[cleanup])
    op.fail("patch", "webapps").delay(5)
    web = op.add("webapps", "shop")
    op.drain()
    op.modify(web, {"metadata": {"finalizers": ["other.io/new"]}})
    op.settle()
    assert sorted(finalizers_of(op, web)) == [OURS, "other.io/new"]


def test_an_object_that_goes_while_it_is_attached_is_quiet(webapps):
    """404 means stop: no failure, no retry."""
    op = webapps(finalizers=[cleanup])
    op.fail("patch", "webapps").delay(5)
    web = op.add("webapps", "shop")
    op.drain()
    op.delete(web)
    op.settle()
    assert not op.calls() and not op.scheduled()


def test_a_conflict_and_then_a_404_is_quiet_too(webapps, caplog):
    """Gone in the middle of the handling of a conflict: no failure, no retry, not a word."""
    op = webapps(finalizers=[cleanup])
    op.fail("patch", "webapps").once(status=409)
    op.fail("get", "webapps").delay(5)
    web = op.add("webapps", "shop")
    op.drain()
    op.delete(web)
    op.advance(5)
    assert [one["why"] for one in op.explain(web) if one["what"] == "dropped"] == [
        "the object went away before its finalizer was attached"
    ]
    op.advance(600)
    assert not op.calls() and not op.scheduled()
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


@pytest.mark.parametrize("refused", ["attaching", "removal"])
def test_a_conflict_and_then_a_404_that_names_no_object_is_no_end(webapps, refused):
    """Whether the object is there could not be asked: what was to be done is tried again later."""
    op = webapps(finalizers=[cleanup], settings=STEADY)
    if refused == "removal":
        web = op.add("webapps", "shop")
        op.settle()
    op.fail("patch", "webapps").once(status=409)
    op.fail("get", "webapps").once(status=404)
    if refused == "removal":
        op.delete(web)
        op.drain()
        assert finalizers_of(op, web) == [OURS] and len(op.scheduled(web)) == 1
        op.settle()
        assert not op.exists(web) and len(op.calls("cleanup")) == 1
    else:
        web = op.add("webapps", "shop")
        op.drain()
        assert not op.calls() and len(op.scheduled(web)) == 1
        op.settle()
        assert [call.at for call in op.calls("nothing")] == [1]


def test_a_404_that_names_no_object_is_a_failure_of_the_attaching(webapps):
    """A server that starts may not know the path yet: that is retried, and the object is run all the same."""
    op = webapps(finalizers=[cleanup], settings=STEADY)
    op.fail("patch", "webapps").once(status=404)
    web = op.add("webapps", "shop")
    op.drain()
    assert not op.calls() and len(op.scheduled(web)) == 1
    op.settle()
    assert finalizers_of(op, web) == [OURS] and [call.at for call in op.calls("nothing")] == [1]


def test_a_404_that_names_no_object_does_not_end_a_removal(webapps):
    """The finalizer still stands there: its removal is tried again, without the cleanup."""
    op = webapps(finalizers=[cleanup], settings=STEADY)
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    op.fail("patch", "webapps").once(status=404)
    op.drain()
    assert finalizers_of(op, web) == [OURS] and len(op.scheduled(web)) == 1
    op.settle()
    assert len(op.calls("cleanup")) == 1 and not op.exists(web)


def test_a_removal_that_comes_too_late_leaves_a_namesake_alone(webapps):
    """The patch is for just the object whose cleanup has succeeded, also where the lists look the same."""
    op = webapps(finalizers=[cleanup])
    web = op.add("webapps", "shop", finalizers=[OURS])
    op.settle()
    op.delete(web)
    op.fail("patch", "webapps").delay(5)
    op.drain()
    op.modify(web, {"metadata": {"finalizers": []}})
    op.drain()
    again = op.add("webapps", "shop", finalizers=[OURS])
    before = op.get(again)["metadata"]["resourceVersion"]
    op.settle()
    assert op.now >= 5 and op.get(again)["metadata"]["resourceVersion"] == before


def test_it_is_never_attached_while_the_object_is_being_deleted(webapps):
    """Neither ours is there any more nor do we put it back: we wait for the end."""
    op = webapps(finalizers=[cleanup])
    web = op.add("webapps", "shop", finalizers=["other.io/keep"])
    op.settle()
    op.delete(web)
    op.settle()
    assert finalizers_of(op, web) == ["other.io/keep"]
    before = len(op.writes())
    op.modify(web, {"spec": {"n": 2}})
    op.settle()
    assert len(op.writes()) == before and finalizers_of(op, web) == ["other.io/keep"]
    assert len(op.calls("cleanup")) == 1


def test_a_mark_that_comes_while_it_is_attached_leaves_it_off(webapps):
    """The server refuses a new finalizer on a marked object; neither handler is called."""
    op = webapps(finalizers=[cleanup])
    op.fail("patch", "webapps").delay(5)
    web = op.add("webapps", "shop", finalizers=["other.io/keep"])
    op.drain()
    op.delete(web)
    op.settle()
    assert finalizers_of(op, web) == ["other.io/keep"]
    assert not op.calls("nothing") and not op.calls("cleanup")


def test_the_reconcile_handler_is_not_called_for_what_is_being_deleted(webapps):
    """Also for one that was marked before the start: only the finalizer runs."""
    op = webapps(finalizers=[cleanup])
    web = op.add("webapps", "shop", finalizers=[OURS])
    op.delete(web)
    op.settle()
    assert [call.handler for call in op.calls()] == ["cleanup"]
    assert not op.exists(web)


def recording(order, *names, fail=()):
    """Finalizers that write down that they ran."""
    fails = list(fail)

    def make(name):
        async def run():
            order.append(name)
            if name in fails:
                fails.remove(name)
                raise RuntimeError(name)

        run.__name__ = name
        return run

    return [make(name) for name in names]


def test_they_run_in_declared_order_whatever_stands_in_the_list(webapps):
    """Among foreign ones, and in another order on the object; each is taken off right after it succeeded."""
    order = []
    op = webapps(finalizers=recording(order, "one", "two", "three"))
    web = op.add("webapps", "shop", finalizers=[
        "other.io/a", "example.com/three", "other.io/b", "example.com/one", "example.com/two",
    ])  # fmt: skip
    op.settle()
    op.delete(web)
    op.settle()
    assert order == ["one", "two", "three"]
    assert finalizers_of(op, web) == ["other.io/a", "other.io/b"]
    tested = [{one["path"]: one["value"] for one in write.body if one["op"] == "test"} for write in op.writes()]
    removed = [value for tests in tested for path, value in tests.items() if "finalizers" in path]
    assert removed == ["example.com/one", "example.com/two", "example.com/three"]


def test_one_that_fails_keeps_the_object_and_those_before_it_are_not_repeated(webapps):
    """Removed only after it succeeded; the retry goes on where it stopped."""
    order = []
    op = webapps(finalizers=recording(order, "one", "two", fail=["two", "two"]), settings=STEADY)
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    op.drain()
    assert op.exists(web) and finalizers_of(op, web) == ["example.com/two"]
    op.settle()
    assert order == ["one", "two", "two", "two"] and not op.exists(web)


@pytest.mark.parametrize("error", [RuntimeError("x"), opkit.PermanentError("x")], ids=["error", "permanent"])
def test_one_that_fails_is_retried_for_ever(webapps, error):
    """Whatever `attempts` says, and whatever it raises."""

    async def stubborn():
        raise error.with_traceback(None)

    op = webapps(finalizers=[stubborn], settings=Settings(retry=Retry(maximum=10, jitter=0, attempts=2)))
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    op.advance(200)
    assert len(op.calls("stubborn")) > 15 and op.exists(web)


def test_not_yet_keeps_it_and_asks_again(webapps):
    """A failure with a delay is how a cleanup says that it needs time."""
    answers = [opkit.failure("in use", requeue_after=30), None]

    async def patient():
        return answers.pop(0)

    op = webapps(finalizers=[patient])
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    op.settle()
    assert [call.at for call in op.calls("patient")] == [0, 30] and not op.exists(web)


def test_a_spec_changed_during_the_deletion_is_seen_by_the_next_try(webapps):
    """At once, since the generation is new."""
    seen = []

    async def forced(spec):
        seen.append(spec.get("force"))
        if not spec.get("force"):
            raise RuntimeError("not forced")

    op = webapps(finalizers=[forced], settings=Settings(retry=Retry(initial=100, jitter=0)))
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    op.delete(web)
    op.advance(5)
    op.modify(web, {"spec": {"force": True}})
    op.drain()
    assert seen == [None, True] and not op.exists(web)


def test_events_during_a_long_cleanup_do_not_enter_it_again(webapps):
    """One at a time under the object's lock, and no echo makes another run."""
    running = []

    async def slow():
        running.append(1)
        assert len(running) == 1
        await asyncio.sleep(2)
        running.pop()

    op = webapps(finalizers=[slow])
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    for n in range(5):
        op.advance(0.2)
        op.modify(web, {"metadata": {"annotations": {"n": str(n)}}})
    op.settle()
    assert len(op.calls("slow")) == 1 and not op.exists(web)


@pytest.mark.parametrize("status", [409, 422])
def test_a_conflict_at_the_removal_repeats_only_the_removal(webapps, status):
    """The cleanup has succeeded and is not run again; the removal waits for no backoff."""
    op = webapps(finalizers=[cleanup])
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    op.fail("patch", "webapps").times(3, status=status)
    op.drain()
    assert len(op.calls("cleanup")) == 1 and not op.exists(web)


def test_a_server_error_at_the_removal_repeats_only_the_removal(webapps):
    """By the retry policy; also when the answer was lost though the removal happened."""
    op = webapps(finalizers=[cleanup], settings=STEADY)
    web = op.add("webapps", "shop", finalizers=["other.io/keep"])
    op.settle()
    op.delete(web)
    op.fail("patch", "webapps").times(2, status=500)
    op.settle()
    assert len(op.calls("cleanup")) == 1 and finalizers_of(op, web) == ["other.io/keep"]


def test_a_removal_whose_answer_was_lost_is_over(webapps):
    """The object is gone with it, and nothing is repeated."""
    op = webapps(finalizers=[cleanup], settings=STEADY)
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    op.fail("patch", "webapps").reply_lost()
    op.settle()
    assert len(op.calls("cleanup")) == 1 and not op.exists(web)
    assert not op.scheduled()


@pytest.mark.parametrize("listed, other", [
    (["other.io/x", OURS], "other.io/x"), (["other.io/x", OURS, "other.io/y"], "other.io/x"),
    ([OURS, "other.io/y"], "other.io/y"),
])  # fmt: skip
def test_a_list_that_shrinks_at_the_same_time_loses_only_ours(webapps, listed, other):
    """The position is tested: no foreign entry is removed, none comes back."""
    op = webapps(finalizers=[cleanup])
    web = op.add("webapps", "shop", finalizers=listed)
    op.settle()
    op.delete(web)
    op.fail("patch", "webapps").delay(5)
    op.drain()
    op.modify(web, {"metadata": {"finalizers": [name for name in listed if name != other]}})
    op.settle()
    left = [name for name in listed if name not in (other, OURS)]
    assert op.exists(web) is bool(left) and (not left or finalizers_of(op, web) == left)
    assert len(op.calls("cleanup")) == 1


def test_an_object_that_is_gone_at_the_removal_is_a_success(webapps):
    """404: no retry, no failure."""
    op = webapps(finalizers=[cleanup])
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    op.fail("patch", "webapps").delay(5)
    op.drain()
    op.modify(web, {"metadata": {"finalizers": []}})
    op.settle()
    assert not op.exists(web) and not op.scheduled()
    assert [str(call.outcome) for call in op.calls("cleanup")] == ["success"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_around_the_removal_it_goes_on_after_the_restart(webapps, when):
    """Between the success and the removal: run again, since nobody can know. After the removal: not."""
    op = webapps(finalizers=[cleanup])
    web = op.add("webapps", "shop", finalizers=["other.io/keep"])
    op.settle()
    op.delete(web)
    if when == "before":
        op.fail("patch", "webapps").delay(5)
    op.drain()
    op.restart(kill=True)
    op.settle()
    assert finalizers_of(op, web) == ["other.io/keep"]
    assert len(op.calls("cleanup")) == (2 if when == "before" else 1)


def test_a_removal_that_was_begun_is_not_cut_short_by_a_stop(webapps):
    """In order: the removal ends, then the operator does."""
    op = webapps(finalizers=[cleanup], settings=Settings(retry=Retry(jitter=0)))
    op._settings.shutdown.grace = 1
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    op.fail("patch", "webapps").delay(10)
    op.drain()
    op.restart()
    assert not op.exists(web)


def test_after_the_last_finalizer_the_delete_handler_is_told(webapps):
    """Once, at the very end."""

    async def gone():
        pass

    op = webapps(finalizers=[cleanup], delete=gone)
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    op.settle()
    assert [call.handler for call in op.calls()] == ["nothing", "cleanup", "gone"]


@pytest.mark.parametrize("part", ["finalizer", "status"])
def test_a_refused_finalizer_write_does_not_block_the_status_nor_the_other_way_round(webapps, part):
    """They are patches of their own."""

    async def farewell(patch):
        patch.status["phase"] = "Terminating"

    op = webapps(finalizers=[farewell], settings=STEADY)
    web = op.add("webapps", "shop", finalizers=["other.io/keep"])
    op.settle()
    op.delete(web)
    op.fail("patch", "webapps", "status" if part == "status" else None).once(status=500)
    op.drain()
    if part == "finalizer":
        assert op.get(web).status == {"phase": "Terminating"}
    else:
        assert finalizers_of(op, web) == ["other.io/keep"]


def manual(**options):
    made = Settings()
    for name, value in options.items():
        setattr(made.finalizers, name, value)
    return made


def test_without_auto_attach_the_handler_attaches_it(webapps):
    """By `cluster.attach_finalizer`, once."""

    async def reconcile(cluster, spec):
        if spec.get("dns"):
            await cluster.attach_finalizer(OURS)

    op = webapps(reconcile, finalizers=[cleanup], settings=manual(auto_attach=False))
    yes, no = op.add("webapps", "yes", spec={"dns": True}), op.add("webapps", "no")
    op.settle()
    assert (finalizers_of(op, yes), finalizers_of(op, no)) == ([OURS], [])
    op.delete(yes)
    op.settle()
    assert not op.exists(yes) and len(op.calls("cleanup")) == 1


def test_attaching_by_hand_is_refused_by_a_version_that_has_moved(webapps):
    """A foreign finalizer that came in between is not lost: it is a conflict, and tried again."""

    async def reconcile(cluster):
        await cluster.attach_finalizer(OURS)

    op = webapps(reconcile, finalizers=[cleanup], settings=manual(auto_attach=False))
    op.fail("patch", "webapps").delay(2)
    web = op.add("webapps", "shop")
    op.advance(1)
    op.modify(web, {"metadata": {"finalizers": ["other.io/new"]}})
    op.settle()
    assert sorted(finalizers_of(op, web)) == [OURS, "other.io/new"]


def test_without_auto_detach_success_leaves_it_in_place(webapps):
    """The author takes it off."""
    op = webapps(finalizers=[cleanup], settings=manual(auto_detach=False))
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    op.settle()
    assert finalizers_of(op, web) == [OURS] and len(op.calls("cleanup")) == 1


def test_a_plain_function_is_a_finalizer_too(webapps):
    """In a thread, under the same lock."""

    def cleanup(cluster, name):
        assert cluster.get("webapps", name)["metadata"]["deletionTimestamp"]

    op = webapps(finalizers=[cleanup])
    web = op.add("webapps", "shop")
    op.settle()
    op.delete(web)
    op.settle()
    assert [str(call.outcome) for call in op.calls("cleanup")] == ["success"] and not op.exists(web)


# Leaving at the wrong moment.


@pytest.mark.parametrize("strategy", ["per-controller", "shared"])
@pytest.mark.parametrize("comes_back", [False, True])
def test_nothing_is_attached_to_what_leaves_while_the_patch_is_on_its_way(
    event_injector, registry, strategy, comes_back
):
    """The patch is refused for the new version, and made anew only for what is still selected."""

    @opkit.reconcile(*WEBAPPS, label_selector="on=yes", registry=registry)
    async def first():
        pass

    @opkit.reconcile(*WEBAPPS, label_selector="other=yes", controller="second", registry=registry)
    async def second():
        pass

    @opkit.finalizer(*WEBAPPS, registry=registry)
    async def clean():
        pass

    settings = opkit.Settings()
    settings.watch.strategy = strategy
    op = event_injector(registry, settings)
    op.drain()
    op.fail("patch", "webapps").delay(1)
    web = op.add("webapps", "shop", labels={"on": "yes"})
    op.advance(0.5)
    op.modify(web, {"metadata": {"labels": {"on": "no"}}})
    op.drain()
    if comes_back:
        op.modify(web, {"metadata": {"labels": {"other": "yes"}}})
        op.drain()
    op.settle()
    assert bool(op.get(web).metadata.get("finalizers")) is comes_back
    assert len(op.calls("first")) == 0 and len(op.calls("second")) == (1 if comes_back else 0)
    op.delete(web)
    op.settle()
    assert not op.exists(web)


def test_a_deletion_that_begins_in_the_early_run_of_a_backoff_is_cleaned_up_at_once(event_injector, registry):
    """A kind without generation: the mark is all that tells it, and it waits for no backoff."""
    cleaned = []

    @opkit.reconcile("v1", "configmaps", registry=registry, retry=opkit.Retry(initial=300, jitter=0))
    async def reconcile():
        raise OSError("down")

    @opkit.finalizer("v1", "configmaps", name="example.com/clean", registry=registry)
    async def clean():
        cleaned.append(op.now)

    op = event_injector(registry)
    config = op.add("configmaps", "a", data={"n": "1"})
    op.advance(10)
    with op.hold("reconcile"):
        op.modify(config, {"data": {"n": "2"}})
        op.drain()
        op.delete(config)
        op.drain()
    op.drain()
    assert not op.exists(config) and cleaned == [10]


def test_a_failing_cleanup_keeps_its_backoff_whatever_happens_to_the_object(event_injector, registry):
    """Only the start of the deletion starts afresh: later changes bring one early run for each delay."""

    @opkit.reconcile("v1", "configmaps", registry=registry, retry=opkit.Retry(initial=300, jitter=0))
    async def reconcile():
        pass

    @opkit.finalizer("v1", "configmaps", name="example.com/clean", registry=registry)
    async def clean():
        raise OSError("down")

    op = event_injector(registry)
    config = op.add("configmaps", "a", finalizers=["other.io/keep"])
    op.settle()
    op.delete(config)
    op.drain()
    for number in range(10):
        op.advance(1)
        op.modify(config, {"data": {"n": str(number)}})
        op.drain()
    assert len(op.calls("clean")) == 2


def test_an_authors_own_attaching_leaves_alone_what_nobody_selects(event_injector, registry):
    """With `auto_attach` off the handler attaches: on what has left meanwhile it would stay for ever."""

    @opkit.reconcile(*WEBAPPS, label_selector="on=yes", registry=registry)
    async def reconcile(cluster):
        await cluster.attach_finalizer("example.com/clean")

    @opkit.finalizer(*WEBAPPS, registry=registry)
    async def clean():
        pass

    settings = opkit.Settings()
    settings.finalizers.auto_attach = False
    op = event_injector(registry, settings)
    op.drain()
    with op.hold("reconcile"):
        web = op.add("webapps", "shop", labels={"on": "yes"})
        op.drain()
        op.watch("webapps").hold()
        op.modify(web, {"metadata": {"labels": None}})
    op.drain()
    op.watch("webapps").release()
    op.settle()
    assert not op.get(web).metadata.get("finalizers")


def test_a_cleanup_that_was_done_counts_only_for_that_deletion():
    """An object that lives again, since a database was restored, is cleaned up again when it goes."""
    living = {"metadata": {"name": "shop", "uid": "u1"}}
    going = {"metadata": {"name": "shop", "uid": "u1", "deletionTimestamp": "2030-01-01T00:00:00Z"}}
    cleanups = Cleanups()
    cleanups.succeeded.add(("u1", OURS))
    assert cleanups.is_done(living, OURS) and cleanups.is_done(going, OURS)
    cleanups.remove(going, OURS)
    assert cleanups.is_done(going, OURS) and not cleanups.is_done(living, OURS)
    cleanups.forget("u1")
    assert not cleanups.is_done(going, OURS)


def test_an_authors_own_attaching_leaves_alone_what_is_being_deleted(webapps, outcomes):
    """The server would refuse it: that is no failure of the run, and nothing is sent."""

    async def reconcile(cluster):
        await cluster.attach_finalizer(OURS)

    op = webapps(reconcile, finalizers=[cleanup], settings=manual(auto_attach=False))
    with op.hold("reconcile"):
        web = op.add("webapps", "shop", finalizers=["other.io/keep"])
        op.drain()
        op.delete(web)
    op.settle()
    assert outcomes(op, "reconcile") == ["success"] and not op.writes()


def test_an_attachment_that_comes_too_late_is_not_tried_again(webapps, caplog):
    """Once the object is marked there is nothing to put on it: neither more requests nor a failure."""
    op = webapps(finalizers=[cleanup])
    op.fail("patch", "webapps").delay(5)
    web = op.add("webapps", "shop", finalizers=["other.io/keep"])
    op.drain()
    op.delete(web)
    op.settle()
    assert len(op.writes()) == 1 and "failed" not in caplog.text
