"""What follows from a run: requeue, retry with backoff, giving up, resync, patches."""

import asyncio
import datetime
import itertools

import kopf
import pytest

import opkit
from opkit import Settings, Trigger
from opkit.retry import Retry

STEADY = Retry(initial=1, factor=2, maximum=300, jitter=0)


def settings(retry=STEADY, resync=None, **groups):
    made = Settings(retry=retry)
    made.reconcile.resync = resync
    for path, value in groups.items():
        group, _, name = path.partition("__")
        setattr(getattr(made, group), name, value)
    return made


class Script:
    """A handler that does what its script says, run by run; the last line is repeated."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.runs = []

    async def __call__(self, attempt, trigger, body):
        line = self.lines[min(len(self.runs), len(self.lines) - 1)]
        self.runs.append((asyncio.get_running_loop().time(), attempt, set(trigger)))
        if isinstance(line, BaseException):
            raise line.with_traceback(None)
        return line

    __name__ = "script"

    def times(self):
        return [round(at, 3) for at, _, _ in self.runs]

    def attempts(self):
        return [attempt for _, attempt, _ in self.runs]


@pytest.fixture
def scripted(webapps):
    """An operator whose handler follows a script, with one object that is not run yet."""

    def make(*lines, **options):
        script = Script(*lines)

        async def reconcile(attempt, trigger, body):
            return await script(attempt, trigger, body)

        options.setdefault("settings", settings())
        op = webapps(reconcile, **options)
        op.script = script
        op.web = op.add("webapps", "shop", spec={"n": 1})
        return op

    return make


FAILED = RuntimeError("no luck")


@pytest.mark.parametrize("result", [None, opkit.success()], ids=["None", "success()"])
def test_success_schedules_nothing_but_the_resync(scripted, result):
    """Both mean the same."""
    op = scripted(result, settings=settings(resync=1000))
    op.settle()
    (waiting,) = op.scheduled()
    assert waiting.trigger == {Trigger.RESYNC} and waiting.attempt == 1


@pytest.mark.parametrize("after", [60, 60.0, datetime.timedelta(minutes=1)], ids=repr)
def test_requeue_after_comes_back_after_exactly_that(scripted, after):
    """Seconds or a timedelta, no jitter."""
    op = scripted(opkit.success(requeue_after=after), None)
    op.settle()
    assert op.script.times() == [0, 60]
    assert op.script.runs[1][2] == {Trigger.REQUEUE}


def test_requeue_after_zero_is_at_once_but_behind_what_is_due(webapps):
    """It does not starve the others."""
    order = []

    async def reconcile(name):
        order.append(name)
        return opkit.success(requeue_after=0) if name == "a" and order.count("a") < 3 else None

    op = webapps(reconcile, settings=settings(parallel__limit=1))
    for name in "abc":
        op.add("webapps", name)
    op.drain()
    assert order == ["a", "b", "c", "a", "a"]


def test_an_event_that_arrives_earlier_runs_earlier_and_absorbs_the_request(scripted):
    """The next result decides anew: ten events make no ten timers."""
    op = scripted(opkit.success(requeue_after=2))
    for n in range(2, 12):
        op.advance(0.1)
        op.modify(op.web, {"spec": {"n": n}})
    op.advance(19)
    assert len(op.script.runs) <= 11 + 10
    assert len(op.scheduled()) == 1


def test_backoff_grows_and_attempts_count(scripted):
    """initial * factor ** (n - 1), and the attempt says which run it is."""
    op = scripted(FAILED, FAILED, FAILED, FAILED, None)
    op.settle()
    assert op.script.times() == [0, 1, 3, 7, 15]
    assert op.script.attempts() == [1, 2, 3, 4, 5]
    assert op.script.runs[1][2] == {Trigger.RETRY}


def test_backoff_is_capped(scripted):
    """At most `maximum`, and there is no end to it."""
    op = scripted(FAILED, settings=settings(Retry(initial=1, factor=10, maximum=50, jitter=0)))
    op.advance(250)
    assert op.script.times() == [0, 1, 11, 61, 111, 161, 211]


def test_jitter_spreads_the_backoff(webapps):
    """Objects that fail together don't come back together, but all within the share."""

    async def reconcile():
        raise FAILED

    op = webapps(reconcile, settings=settings(Retry(initial=100, jitter=0.1)))
    for number in range(20):
        op.add("webapps", f"w{number}")
    op.drain()
    dues = [one.due_in for one in op.scheduled()]
    assert len(set(dues)) == 20 and all(90 <= due <= 110 for due in dues)


def test_a_huge_number_of_failures_does_not_overflow(scripted):
    """The exponent is bounded."""
    op = scripted(FAILED, settings=settings(Retry(initial=1, factor=10, maximum=1, jitter=0)))
    op.advance(300)
    assert len(op.script.runs) == 301


def test_success_clears_the_attempts(scripted):
    """The next failure is the first again."""
    op = scripted(FAILED, FAILED, None, FAILED, None)
    op.settle()
    op.modify(op.web, {"spec": {"n": 2}})
    op.settle()
    assert op.script.attempts() == [1, 2, 3, 1, 2]


@pytest.mark.parametrize(
    "failed",
    [
        opkit.failure("later", requeue_after=60),
        opkit.TemporaryError("later", delay=60),
        kopf.TemporaryError("later", delay=60),
    ],
    ids=["failure()", "opkit", "kopf"],
)
def test_a_failure_with_a_delay_of_its_own_comes_back_after_exactly_that(scripted, failed):
    """And it counts as an attempt."""
    op = scripted(failed, None)
    op.settle()
    assert op.script.times() == [0, 60] and op.script.attempts() == [1, 2]


def test_a_temporary_error_without_delay_takes_the_policys(scripted):
    """As any failure does."""
    op = scripted(opkit.TemporaryError("later"), None)
    op.settle()
    assert op.script.times() == [0, 1]


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), "5", True], ids=repr)
def test_a_nonsense_delay_takes_the_policys(scripted, delay):
    """An error of that run only: the object is not lost by it."""
    op = scripted(opkit.TemporaryError("later", delay=delay), None)
    op.settle()
    assert op.script.times() == [0, 1]


@pytest.mark.parametrize("error", [opkit.PermanentError("no"), kopf.PermanentError("no")], ids=["opkit", "kopf"])
def test_a_permanent_error_is_not_retried(scripted, error):
    """Nothing is scheduled but the resync."""
    op = scripted(error, settings=settings(resync=1000))
    op.settle()
    op.advance(100)
    assert len(op.script.runs) == 1
    assert [one.trigger for one in op.scheduled()] == [{Trigger.RESYNC}]


class Subclass(opkit.PermanentError):
    """An author's own."""


def test_a_subclass_of_a_permanent_error_is_one(scripted):
    """Authors name their errors."""
    op = scripted(Subclass("no"))
    op.settle()
    op.advance(1000)
    assert len(op.script.runs) == 1


def test_attempts_end_the_retrying(scripted):
    """After so many failures nothing but the resync is scheduled, and it is told."""
    op = scripted(FAILED, settings=settings(Retry(jitter=0, attempts=3), resync=10_000))
    op.settle()
    assert op.script.times() == [0, 1, 3]
    assert [one.trigger for one in op.scheduled()] == [{Trigger.RESYNC}]
    last = [one for one in op.explain(op.web) if one["what"] == "run"][-1]
    assert last["outcome"] == "failure" and "no luck" in last["message"]


def given_up(scripted):
    op = scripted(FAILED, settings=settings(Retry(jitter=0, attempts=2), resync=10_000))
    op.settle()
    assert len(op.script.runs) == 2
    op.script.runs.clear()
    return op


def test_a_new_generation_revives_what_was_given_up(scripted):
    """With a budget of its own."""
    op = given_up(scripted)
    op.modify(op.web, {"spec": {"n": 2}})
    op.settle()
    assert op.script.attempts() == [1, 2]


def test_a_trigger_revives_what_was_given_up(scripted):
    """Somebody who asks knows why."""
    op = given_up(scripted)
    assert op.trigger(op.web)
    op.settle()
    assert op.script.attempts() == [1, 2]


def test_the_resync_revives_what_was_given_up(scripted):
    """An object is never given up for good."""
    op = given_up(scripted)
    op.advance(11_500)
    assert op.script.attempts()[:2] == [1, 2]


def test_an_unrelated_event_does_not_spend_the_budget_of_a_retry(scripted):
    """It runs the object early once, keeps the attempt, and the retry comes when it was due."""
    op = scripted(FAILED, FAILED, FAILED, None, strategy=opkit.ReconcileStrategy.BY_RESOURCE_VERSION,
                  settings=settings(Retry(initial=100, jitter=0)))  # fmt: skip
    op.advance(10)
    op.modify(op.web, {"metadata": {"labels": {"a": "1"}}})
    op.advance(10)
    op.modify(op.web, {"metadata": {"labels": {"a": "2"}}})
    op.advance(10)
    assert op.script.times() == [0, 10] and op.script.attempts() == [1, 2]
    op.settle()
    assert op.script.times() == [0, 10, 100, 300] and op.script.attempts() == [1, 2, 2, 3]


def test_an_early_run_that_succeeds_ends_the_backoff(scripted):
    """Nothing is left of the retry."""
    op = scripted(FAILED, None, strategy=opkit.ReconcileStrategy.BY_RESOURCE_VERSION,
                  settings=settings(Retry(initial=100, jitter=0)))  # fmt: skip
    op.advance(10)
    op.modify(op.web, {"metadata": {"labels": {"a": "1"}}})
    op.settle()
    assert op.script.times() == [0, 10] and not op.scheduled()


def test_a_new_generation_during_a_backoff_starts_afresh(scripted):
    """At once, as the first attempt."""
    op = scripted(FAILED, FAILED, FAILED, None, settings=settings(Retry(initial=100, jitter=0)))
    op.advance(150)
    assert op.script.attempts() == [1, 2]
    op.modify(op.web, {"spec": {"n": 2}})
    op.settle()
    assert op.script.times() == [0, 100, 150, 250] and op.script.attempts() == [1, 2, 1, 2]


@pytest.mark.parametrize("conflicts, times, attempts", [
    (1, 2, [1, 1]), (2, 3, [1, 1, 1]), (3, 4, [1, 1, 1, 2]),
])  # fmt: skip
def test_a_conflict_is_free_until_the_third_in_a_row(webapps, conflicts, times, attempts):
    """Retried within a second; only from then on it counts as an attempt."""
    seen = []

    async def reconcile(cluster, name, attempt):
        seen.append((asyncio.get_running_loop().time(), attempt))
        await cluster.patch("webapps", name, None, {"metadata": {"labels": {"a": "b"}}})

    op = webapps(reconcile, settings=settings(Retry(initial=10, jitter=0)))
    op.fail("patch", "webapps").times(conflicts, status=409)
    op.add("webapps", "shop")
    op.settle()
    assert [attempt for _, attempt in seen] == attempts and len(seen) == times
    gaps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(seen)]
    assert all(0 < gap <= 1 for gap in gaps[:2]) and all(gap == 10 for gap in gaps[2:])


def test_conflicts_that_are_not_in_a_row_don_t_add_up(webapps):
    """A success in between clears them."""
    answers = [409, None, 409, 409, None]
    attempts = []

    async def reconcile(attempt):
        attempts.append(attempt)
        answer = answers.pop(0) if answers else None
        if answer:
            raise opkit.Conflict("changed")
        return opkit.success(requeue_after=5) if answers else None

    op = webapps(reconcile, settings=settings(Retry(initial=10, jitter=0)))
    op.add("webapps", "shop")
    op.settle()
    assert attempts == [1] * 5


@pytest.mark.parametrize("resync, expected", [(1000, True), (None, False)])
def test_the_resync_comes_without_any_event(scripted, resync, expected):
    """`None` turns it off."""
    op = scripted(None, resync=resync)
    op.advance(10_000)
    assert (len(op.script.runs) > 1) is expected
    assert all(trigger == {Trigger.RESYNC} for _, _, trigger in op.script.runs[1:])


def test_resyncs_keep_their_interval(scripted):
    """After the first, +-10 %, counted from the last run."""
    op = scripted(None, resync=1000)
    op.advance(20_000)
    gaps = [later - earlier for earlier, later in itertools.pairwise(op.script.times()[1:])]
    assert len(gaps) > 15 and all(900 <= gap <= 1100 for gap in gaps) and len(set(gaps)) > 10


def test_the_first_resyncs_are_spread_over_ten_percent(webapps):
    """All objects ran at the start: they come back in time, but not all at once."""
    op = webapps(resync=1000)
    for number in range(200):
        op.add("webapps", f"w{number}")
    op.settle()
    dues = sorted(one.due_in for one in op.scheduled())
    assert 900 <= dues[0] < 910 and 1090 < dues[-1] <= 1100
    assert all(sum(low <= due < low + 50 for due in dues) > 25 for low in (900, 950, 1000, 1050))


def test_a_run_that_scheduled_something_needs_no_resync(scripted):
    """There is one request per object, and it is the requeue."""
    op = scripted(opkit.success(requeue_after=5000), resync=100)
    op.drain()
    assert [(one.due_in, one.trigger) for one in op.scheduled()] == [(5000, {Trigger.REQUEUE})]


# Patches.


def test_the_patch_is_sent_after_the_run_status_to_its_subresource(webapps):
    """Spec and metadata to the object, status to the subresource."""

    async def reconcile(patch):
        patch.spec["size"] = 1
        patch.metadata["labels"] = {"a": "b"}
        patch.status["phase"] = "Ready"

    op = webapps(reconcile)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    body = op.get(web)
    assert (body.spec, body.labels, body.status) == ({"n": 1, "size": 1}, {"a": "b"}, {"phase": "Ready"})
    assert [write.subresource for write in op.writes()] == [None, "status"]


@pytest.mark.parametrize("error", [RuntimeError("x"), opkit.PermanentError("x"), opkit.TemporaryError("x", delay=9)])
def test_the_patch_of_a_failed_run_is_sent_too(webapps, error):
    """Its status is how people learn of the failure."""

    async def reconcile(patch):
        patch.status["error"] = "x"
        raise error

    op = webapps(reconcile, settings=settings())
    web = op.add("webapps", "shop")
    op.drain()
    assert op.get(web).status == {"error": "x"}


def test_without_status_subresource_the_status_goes_to_the_object(webapps):
    """There is no other place for it."""

    async def reconcile(patch):
        patch.status["phase"] = "Ready"

    op = webapps(reconcile, resource=("v1", "configmaps"))
    op.add("configmaps", "shop")
    op.settle()
    (write,) = op.writes()
    assert write.subresource is None


@pytest.mark.parametrize("value", [0, False, "", [], {}], ids=repr)
def test_falsy_values_are_stored(webapps, value):
    """Only None removes."""

    async def reconcile(patch):
        patch.status["value"] = value
        patch.status["gone"] = None

    op = webapps(reconcile)
    web = op.add("webapps", "shop", status={"gone": 1})
    op.settle()
    assert op.get(web).status == {"value": value}


@pytest.mark.parametrize("status", [409, 422, 500, 503], ids=str)
def test_a_refused_patch_is_a_failure_of_the_run(webapps, outcomes, status):
    """It is tried again with the whole run, on the object as it is then."""

    async def reconcile(patch, attempt):
        patch.status["phase"] = "Ready"

    op = webapps(reconcile, settings=settings())
    op.fail("patch", "webapps", "status").once(status=status)
    web = op.add("webapps", "shop")
    op.settle()
    assert len(op.calls()) == 2 and op.get(web).status == {"phase": "Ready"}


def test_the_refusal_of_one_part_does_not_hold_up_the_other(webapps):
    """Spec and status are requests of their own."""

    async def reconcile(patch, attempt):
        if attempt == 1:
            patch.spec["size"] = 1
            patch.status["phase"] = "Ready"

    op = webapps(reconcile, settings=settings())
    op.fail("patch", "webapps").once(status=500)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.drain()
    assert op.get(web).status == {"phase": "Ready"}


def test_a_patch_of_an_object_that_is_gone_is_no_failure(webapps):
    """Its deletion is on its way."""

    async def reconcile(patch):
        patch.status["phase"] = "Ready"

    op = webapps(reconcile, settings=settings())
    with op.hold("reconcile"):
        web = op.add("webapps", "shop")
        op.drain()
        op.delete(web)
        op.drain()
    op.settle()
    assert len(op.calls()) == 1 and not op.scheduled()


def test_an_error_of_the_handler_outweighs_the_refusal_of_its_patch(webapps):
    """The delay that the handler asked for decides."""

    async def reconcile(patch, attempt):
        if attempt > 1:
            return
        patch.status["phase"] = "Failed"
        raise opkit.TemporaryError("later", delay=77)

    op = webapps(reconcile, settings=settings())
    op.fail("patch", "webapps", "status").once(status=500)
    op.add("webapps", "shop")
    op.settle()
    assert [call.at for call in op.calls()] == [0, 77]


@pytest.mark.parametrize("part", ["status", "spec"])
def test_a_late_patch_does_not_land_on_the_namesake(webapps, part):
    """The object was deleted and created again during the run: its patch is not for the new one."""

    async def reconcile(patch, spec):
        if spec.get("first"):
            patch.setdefault(part, {})["stamp"] = "of the first"

    op = webapps(reconcile, settings=settings())
    with op.hold("reconcile"):
        web = op.add("webapps", "shop", spec={"first": True})
        op.drain()
        op.delete(web)
        again = op.add("webapps", "shop", spec={"first": False})
        op.drain()
    op.settle()
    assert "stamp" not in op.get(again).get(part, {})
    assert [call.uid for call in op.calls()] == [web.uid, again.uid]


@pytest.mark.parametrize("retry_after, at", [(30, 30)])
def test_a_server_that_is_too_busy_is_given_its_time_and_no_attempt_is_spent(webapps, retry_after, at):
    """429 of opkit's own request says nothing about the object."""
    attempts = []

    async def reconcile(patch, attempt):
        attempts.append(attempt)
        patch.status["phase"] = "Ready"

    op = webapps(reconcile, settings=settings())
    op.fail("patch", "webapps", "status").once(status=429, retry_after=retry_after)
    op.add("webapps", "shop")
    op.settle()
    assert attempts == [1, 1] and at <= op.calls()[1].at <= at * 1.1


def test_errors_of_opkits_own_requests_are_retried_with_backoff_for_this_object_only(webapps):
    """A permanent refusal does not spin, and the others don't notice."""

    async def reconcile(patch, name):
        if name == "bad":
            patch.status["phase"] = "Ready"

    op = webapps(reconcile, settings=settings())
    op.fail("patch", "webapps", "status").times(1000, status=422)
    op.add("webapps", "bad")
    op.add("webapps", "good")
    op.advance(60)
    assert len(op.calls(ref=("webapps", "good"))) == 1
    assert 4 <= len(op.calls(ref=("webapps", "bad"))) <= 8


# Nothing is silent.


@pytest.mark.parametrize("subresource", [True, False], ids=["subresource", "no-subresource"])
def test_a_status_of_none_removes_it(event_injector, registry, subresource):
    """As in any merge patch; a second time there is nothing left to be sent."""

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile(spec, patch):
        if spec.get("reset"):
            patch["status"] = None
        else:
            patch.status["phase"] = "Ready"

    op = event_injector(registry)
    if not subresource:
        versions = op.get("customresourcedefinitions", "webapps.example.com").spec["versions"]
        op.modify(("customresourcedefinitions", "webapps.example.com"),
                  {"spec": {"versions": [{**versions[0], "subresources": None}]}})  # fmt: skip
    web = op.add("webapps", "shop", spec={})
    op.settle()
    assert op.get(web).get("status") == {"phase": "Ready"}
    op.modify(web, {"spec": {"reset": True}})
    op.settle()
    assert not op.get(web).get("status") and len(op.writes(web)) == 2
    op.trigger(web)
    op.settle()
    assert len(op.writes(web)) == 2


@pytest.mark.parametrize("status", ["text", 5, [1], False], ids=str)
def test_a_status_that_is_no_mapping_is_refused_by_the_server(event_injector, registry, status):
    """It is sent like anything else, and the run has failed."""

    @opkit.reconcile("example.com", "v1", "webapps", retry=opkit.Retry(attempts=1), registry=registry)
    async def reconcile(patch):
        patch["status"] = status

    op = event_injector(registry)
    web = op.add("webapps", "shop", spec={})
    op.settle()
    sent = [write.body for write in op.writes(web)]
    assert sent == [{"status": status}]


def test_a_mere_look_at_the_patch_sends_nothing(event_injector, registry):
    """An empty branch is no wish."""

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile(patch):
        patch.status.get("phase")
        patch.spec.get("n")

    op = event_injector(registry)
    web = op.add("webapps", "shop")
    op.settle()
    assert not op.writes(web)


@pytest.mark.parametrize("code", [403, 409, 422, 500])
def test_a_refused_patch_is_a_failed_call(event_injector, registry, code):
    """The call says so, with the server's error, and the retry follows."""

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile(patch):
        patch.status["phase"] = "Ready"

    op = event_injector(registry)
    op.fail("patch", "webapps", "status").once(status=code)
    web = op.add("webapps", "shop")
    op.drain()
    (call,) = op.calls()
    assert (call.outcome, call.error.status) == ("failure", code)
    assert opkit.Trigger.RETRY in op.scheduled(web)[0].trigger
    op.settle()
    assert [str(one.outcome) for one in op.calls()] == ["failure", "success"]


def test_a_patch_that_is_no_json_is_a_failed_call(event_injector, registry):
    """A set, or what else can't be sent."""

    @opkit.reconcile("example.com", "v1", "webapps", retry=opkit.Retry(attempts=1), registry=registry)
    async def reconcile(patch):
        patch.spec["when"] = {1, 2}

    op = event_injector(registry)
    op.add("webapps", "shop")
    op.settle()
    assert op.calls()[0].outcome == "failure"


# A server that is busy.


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("strategy", ["by-generation", "by-resource-version"])
def test_events_bring_an_object_forward_once_while_the_server_asks_to_wait(event_injector, registry, status, strategy):
    """One early run for each delay that is asked for, whatever number of events; a new generation starts afresh."""

    @opkit.reconcile("v1", "configmaps", strategy=strategy, registry=registry)
    async def reconcile(cluster, name):
        await cluster.patch("configmaps", name, "default", {"data": {"at": str(op.now)}})

    op = event_injector(registry)
    config = op.add("configmaps", "a")
    op.fail("patch", "configmaps").times(1000, status=status, retry_after=60)
    op.drain()
    for number in range(20):
        op.advance(1)
        op.modify(config, {"metadata": {"labels": {"n": str(number)}}})
        op.drain()
    assert len(op.calls()) <= 2
    op.advance(130)
    assert len(op.calls()) <= 5


def test_an_authors_own_delay_is_no_new_right_to_come_forward(event_injector, registry):
    """`failure(requeue_after=60)` twenty times over: the events of a minute bring one run forward."""

    @opkit.reconcile("v1", "configmaps", registry=registry)
    async def reconcile():
        return opkit.failure("not yet", requeue_after=60)

    op = event_injector(registry)
    config = op.add("configmaps", "a")
    op.drain()
    for number in range(20):
        op.advance(1)
        op.modify(config, {"metadata": {"labels": {"n": str(number)}}})
        op.drain()
    assert len(op.calls()) == 2


def test_what_was_given_up_is_run_once_for_an_event_and_given_up_again(scripted):
    """The attempts are spent: an event that is nothing new brings no retries of its own."""
    op = scripted(FAILED, strategy=opkit.ReconcileStrategy.BY_RESOURCE_VERSION,
                  settings=settings(Retry(jitter=0, attempts=2), resync=10_000))  # fmt: skip
    op.settle()
    op.modify(op.web, {"metadata": {"labels": {"a": "1"}}})
    op.advance(1000)
    assert op.script.attempts() == [1, 2, 3]
    assert [one.trigger for one in op.scheduled()] == [{Trigger.RESYNC}]
