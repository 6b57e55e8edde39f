"""One run: the call, its time limit, and whatever a function may do instead of returning well."""

import asyncio

import pytest

import opkit
from opkit import Settings
from opkit.retry import Retry


@pytest.fixture
def run_once(webapps):
    """Run a handler once for one object; its call."""

    def run(handler, **options):
        op = webapps(handler, settings=Settings(retry=Retry(jitter=0)), **options)
        op.add("webapps", "shop", spec={"n": 1})
        op.drain()
        op.advance(0.9)
        return op.calls()[0]

    return run


def named(given):
    """An id that is the same in each process."""
    return f"{type(given).__name__}-{given}" if isinstance(given, (int, str)) else type(given).__name__


@pytest.mark.parametrize("returned", [1, 0, "", "done", {}, [], True, False, object(), ValueError("x")], ids=named)
def test_nonsense_for_a_result_is_a_failure(run_once, returned):
    """The message says what may be returned."""

    async def handler():
        return returned

    call = run_once(handler)
    assert call.outcome == "failure" and "opkit.success" in str(call.error)


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), BaseException("x")], ids=repr)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
def test_whatever_a_handler_raises_is_a_failure_of_its_run(run_once, error, is_async):
    """It must not end the operator."""

    async def handler():
        raise error

    def plain():
        raise error

    call = run_once(handler if is_async else plain)
    assert call.outcome == "failure" and call.error is error


@pytest.mark.parametrize("error", [StopIteration(), GeneratorExit()], ids=repr)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
def test_what_no_future_can_carry_is_a_failure_too(run_once, error, is_async):
    """A `next()` of an empty iterator, in a thread: the run must not hang."""

    async def handler():
        raise error

    def plain():
        raise error

    call = run_once(handler if is_async else plain)
    assert call.outcome == "failure" and type(error).__name__ in repr(call.error) + repr(call.error.__cause__)


def test_a_cancelled_error_that_the_handler_raises_is_a_failure(run_once):
    """It is not the runtime's own."""

    async def handler():
        raise asyncio.CancelledError

    assert run_once(handler).outcome == "failure"


def test_a_handler_that_cancels_its_own_task_fails_and_is_retried(webapps, outcomes):
    """The rooms around it go on."""

    async def handler(attempt):
        if attempt == 1:
            asyncio.current_task().cancel()
            await asyncio.sleep(1)

    op = webapps(handler)
    op.add("webapps", "shop")
    op.settle()
    assert outcomes(op) == ["failure", "success"]


@pytest.mark.parametrize("ends", ["returns", "raises", "awaits"])
def test_a_handler_that_cancels_its_own_task_loses_neither_its_patch_nor_its_object(webapps, outcomes, ends):
    """However it goes on after that: the run has failed, what it wants to be written is sent, and it is retried."""

    async def handler(attempt, patch):
        patch.status["attempt"] = attempt
        if attempt == 1:
            asyncio.current_task().cancel()
            if ends == "raises":
                raise OSError("down")
            if ends == "awaits":
                await asyncio.sleep(1)

    op = webapps(handler)
    web = op.add("webapps", "shop")
    op.drain()
    assert op.get(web).status == {"attempt": 1} and outcomes(op) == ["failure"]
    op.settle()
    assert op.get(web).status == {"attempt": 2} and outcomes(op) == ["failure", "success"]


def test_a_task_that_a_handler_awaits_and_cancels_is_its_own_business(run_once):
    """The cancellation comes out of an inner task."""

    async def handler():
        task = asyncio.create_task(asyncio.sleep(10))
        await asyncio.sleep(0)
        task.cancel()
        await task

    assert run_once(handler).outcome == "failure"


def test_an_async_handler_that_takes_too_long_is_cancelled(webapps):
    """And that is a failure, with the limit in its message."""
    cancelled = []

    async def handler():
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    op = webapps(handler, timeout=5)
    web = op.add("webapps", "shop")
    op.advance(5.5)
    (call,) = op.calls()
    assert (call.outcome, call.duration, cancelled) == ("failure", 5, [True])
    assert "5" in next(one for one in op.explain(web) if one["what"] == "run")["message"]


def test_a_plain_handler_is_told_and_waited_for(webapps):
    """Its thread can't be interrupted, and works on the object until it looks."""
    told = []

    def handler(stopping, cluster, name):
        for _ in range(20):
            cluster.get("webapps", name)
            if stopping:
                told.append(True)
                return

    op = webapps(handler, timeout=5)
    op.fail("get", "webapps").delay(1, n=1000)
    op.add("webapps", "shop")
    op.advance(6)
    (call,) = op.calls()
    assert (call.outcome, told) == ("failure", [True]) and 5 <= call.duration <= 6


def test_the_settings_limit_every_run(webapps):
    """Unless the controller says otherwise."""

    async def handler():
        await asyncio.sleep(100)

    settings = Settings()
    settings.reconcile.timeout = 3
    op = webapps(handler, settings=settings)
    op.add("webapps", "shop")
    op.advance(3)
    assert op.calls()[0].duration == 3


@pytest.mark.parametrize("message", ["", "the database is slow"])
def test_a_handlers_own_timeout_error_is_not_taken_for_opkits(webapps, message):
    """Nothing is said of a limit that there is not."""

    async def handler():
        raise TimeoutError(message)

    op = webapps(handler)
    web = op.add("webapps", "shop")
    op.drain()
    (run,) = [one for one in op.explain(web) if one["what"] == "run"]
    assert run["message"].startswith("TimeoutError") and message in run["message"]


def test_a_timeout_counts_as_an_attempt(webapps):
    """It is retried as any failure."""

    async def handler(attempt):
        await asyncio.sleep(100 if attempt < 3 else 0)

    op = webapps(handler, timeout=1, settings=Settings(retry=Retry(jitter=0)))
    op.add("webapps", "shop")
    op.settle()
    assert [(call.attempt, call.at) for call in op.calls()] == [(1, 0), (2, 2), (3, 5)]


def test_failures_are_named_in_the_decisions(webapps):
    """One line that says what was wrong."""

    async def handler():
        return opkit.failure("the database is not there yet")

    op = webapps(handler)
    web = op.add("webapps", "shop")
    op.drain()
    (run,) = [one for one in op.explain(web) if one["what"] == "run"]
    assert run["message"] == "the database is not there yet" and run["outcome"] == "failure"


@pytest.mark.parametrize(
    "given, outcome", [({}, "failure"), ({"timeout": None}, "success"), ({"timeout": 10}, "success")],
    ids=["from-the-settings", "off", "its-own"],
)  # fmt: skip
def test_a_timeout_can_be_turned_off_for_one_controller(event_injector, given, outcome):
    """Not given means from the settings; `None` means off, as for the resync."""
    registry = opkit.Registry()

    @opkit.reconcile("example.com", "v1", "webapps", retry=opkit.Retry(attempts=1), registry=registry, **given)
    async def reconcile():
        await asyncio.sleep(5)

    settings = opkit.Settings()
    settings.reconcile.timeout = 1
    op = event_injector(registry, settings)
    op.add("webapps", "shop")
    op.settle()
    assert [str(call.outcome) for call in op.calls()] == [outcome]
