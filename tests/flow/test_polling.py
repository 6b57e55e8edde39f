"""Polls: outside state on a timer."""

import asyncio

import pytest

import opkit

PRIMARY = ("example.com", "v1", "webs")


@pytest.fixture
def registry():
    return opkit.Registry()


@pytest.fixture
def reconciled(registry):
    names = []

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(name, trigger):
        names.append((name, *sorted(trigger)))

    return names


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_a_poll_reconciles_only_what_changed(event_injector, registry, reconciled, is_async):
    """Of a whole set, just the primaries whose value is another one, new or gone are run."""
    state = {"a": 1, "b": 1}

    def fetch():
        return dict(state)

    async def fetch_async():
        return dict(state)

    opkit.poll(of=PRIMARY, interval=60, registry=registry)(fetch_async if is_async else fetch)
    op = event_injector(registry)
    for name in ("a", "b", "c", "d"):
        op.add("webs", name)
    op.settle()
    reconciled.clear()
    op.advance(600)
    assert reconciled == []
    state.update(a=2, c=1)
    del state["b"]
    op.advance(60)
    assert sorted(reconciled) == [("a", "POLL"), ("b", "POLL"), ("c", "POLL")]


def test_a_poll_of_each_object(event_injector, registry, reconciled):
    """With `each` it is called for every object, and compares that object's value."""
    state = {"a": 1, "b": 1}

    @opkit.poll(of=PRIMARY, interval=60, each=True, registry=registry)
    async def fetch(name):
        return state[name]

    op = event_injector(registry)
    for name in ("a", "b"):
        op.add("webs", name)
    op.settle()
    op.advance(60)
    reconciled.clear()
    state["b"] = 2
    op.advance(60)
    assert reconciled == [("b", "POLL")]


def test_a_poll_never_dies(event_injector, registry, reconciled, caplog):
    """Errors back off, are shown, and end with the outage."""
    times = []
    state = {"a": 1}
    broken = []

    @opkit.poll(of=PRIMARY, interval=10, registry=registry)
    async def fetch():
        times.append(op.now)
        if broken:
            raise OSError("the service is down")
        return dict(state)

    op = event_injector(registry)
    op.add("webs", "a")
    op.advance(10)
    broken.append(True)
    times.clear()
    op.advance(10 + 20 + 40)
    assert times == [20, 40, 80]
    assert op._process.operator.polls() == {"fetch": "OSError: the service is down"}
    assert "the service is down" in caplog.text
    broken.clear()
    state["a"] = 2
    reconciled.clear()
    op.advance(700)
    assert reconciled == [("a", "POLL")]
    assert op._process.operator.polls() == {"fetch": "ok"}


def test_a_poll_has_no_filters(event_injector, registry, reconciled):
    """A filter of the primary resource has no say in polls."""
    opkit.filter.generic(*PRIMARY, registry=registry)(lambda body: False)
    state = {"a": 1}

    @opkit.poll(of=PRIMARY, interval=60, registry=registry)
    async def fetch():
        return dict(state)

    op = event_injector(registry)
    op.add("webs", "a")
    op.advance(60)
    assert reconciled == []
    state["a"] = 2
    op.advance(60)
    assert reconciled == [("a", "POLL")]


def test_a_poll_that_returns_nonsense_is_told_so(event_injector, registry, reconciled, caplog):
    """A poll of a whole set returns a mapping."""

    @opkit.poll(of=PRIMARY, interval=60, registry=registry)
    async def fetch():
        return ["a"]

    op = event_injector(registry)
    op.drain()
    assert "a poll returns a mapping of primaries to values, not list" in caplog.text


# What is compared, and when.

BOTH = pytest.mark.parametrize("each", [False, True], ids=["set", "each"])


class World:
    """Something outside that runs put right, a poll that looks at it, and the times of the polls."""

    def __init__(self, event_injector, registry, each, interval=60, reconcile=None):
        self.values, self.polled, self.runs = {}, [], []
        self.down = set()

        @opkit.reconcile(*PRIMARY, registry=registry)
        async def repair(name):
            self.runs.append(name)
            self.values[name] = "right"

        async def of_all():
            self.look("*")
            return dict(self.values)

        async def of_each(name):
            self.look(name)
            return self.values.get(name)

        opkit.poll(of=PRIMARY, interval=interval, each=each, registry=registry)(of_each if each else of_all)
        self.op = event_injector(registry)

    def look(self, name):
        self.polled.append((name, self.op.now))
        if name in self.down:
            raise OSError(f"{name} is down")


@pytest.fixture
def world(event_injector, registry):
    return lambda each, **options: World(event_injector, registry, each, **options)


@BOTH
def test_drift_right_after_the_first_run_is_seen(world, each):
    """The first poll comes as soon as the object is known, and shows what its first run has left."""
    one = world(each)
    one.op.add("webs", "a")
    one.op.drain()
    one.values["a"] = "wrong"
    one.op.advance(60)
    assert one.values == {"a": "right"} and one.runs == ["a", "a"]


@BOTH
def test_the_same_drift_is_repaired_each_time(world, each):
    """Compared is what stood after the run, not what the poll before it saw."""
    one = world(each)
    one.op.add("webs", "a")
    one.op.drain()
    for number in range(1, 4):
        one.values["a"] = "wrong"
        one.op.advance(60)
        assert one.values == {"a": "right"} and len(one.runs) == 1 + number


@BOTH
def test_what_a_run_changes_outside_is_no_reason_to_run_again(world, each):
    """Its own doing is seen right after it."""
    one = world(each)
    web = one.op.add("webs", "a")
    one.op.settle()
    for _ in range(3):
        one.values["a"] = "wrong"
        one.op.trigger(web)
        one.op.settle()
    before = len(one.runs)
    one.op.advance(600)
    assert len(one.runs) == before


@BOTH
def test_a_change_while_the_poll_was_down_is_run(world, each):
    """The first poll that succeeds knows of nothing to compare with, so it is a reason to run; once."""
    one = world(each)
    one.down = {"*", "a"}
    one.op.add("webs", "a")
    one.op.settle()
    one.values["a"] = "wrong"
    one.op.advance(100)
    one.down = set()
    one.op.advance(3000)
    assert one.runs == ["a", "a"] and one.values == {"a": "right"}


@BOTH
def test_the_start_polls_each_object_and_runs_none_twice(world, each):
    """A hundred objects: the first values are no reason to run."""
    one = world(each)
    for number in range(100):
        one.op.add("webs", f"w{number}")
    one.op.drain()
    assert each is False or {name for name, _ in one.polled} == {f"w{number}" for number in range(100)}
    one.op.advance(600)
    assert len(one.runs) == 100


@BOTH
def test_runs_do_not_turn_a_timer_into_a_flood(world, each):
    """An object that is run again and again is polled right after a few of the runs, and then now and then."""
    one = world(each, interval=100)
    web = one.op.add("webs", "a")
    one.op.settle()
    one.polled.clear()
    for _ in range(500):
        one.op.trigger(web)
        one.op.advance(0.1)
    assert len(one.polled) <= 10 + 5 + 1


def test_one_object_that_fails_slows_no_other(world, caplog):
    """Each backs off by itself, and is told of by its name, once for each way to fail."""
    one = world(True, interval=10)
    one.down = {"bad"}
    one.op.add("webs", "good")
    one.op.add("webs", "bad")
    one.op.settle()
    one.op.advance(3600)
    good, bad = ([at for name, at in one.polled if name == which] for which in ("good", "bad"))
    assert 350 <= len(good) <= 370 and len(bad) <= 12
    assert caplog.text.count("of default/bad failed") == 1
    assert one.op._process.operator.polls() == {"of_each": "OSError: bad is down"}
    one.values["good"] = "wrong"
    one.op.advance(11)
    assert one.values["good"] == "right"


def test_one_object_that_hangs_slows_no_other(event_injector, registry, reconciled):
    """Its poll is cut off after a minute, and counts as failed."""

    polled = []

    @opkit.poll(of=PRIMARY, interval=10, each=True, registry=registry)
    async def look(name):
        polled.append(name)
        if name.startswith("bad"):
            await asyncio.sleep(10_000)

    settings = opkit.Settings()
    settings.parallel.limit = 2
    op = event_injector(registry, settings)
    for name in ("bad1", "bad2", "good"):
        op.add("webs", name)
    op.advance(3600)
    assert polled.count("good") > 200
    assert op._process.operator.polls() == {"look": "TimeoutError"}


def test_a_key_that_names_nothing_concerns_no_other(event_injector, registry, reconciled, caplog):
    """The others of the set are compared as always."""
    state = {"a": 1, 7: "what", ("x", 3): "else"}

    @opkit.poll(of=PRIMARY, interval=60, registry=registry)
    async def look():
        return dict(state)

    op = event_injector(registry)
    op.add("webs", "a")
    op.settle()
    reconciled.clear()
    state["a"] = 2
    op.advance(60)
    assert reconciled == [("a", "POLL")] and "gave a key that names no primary" in caplog.text


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=lambda one: type(one).__name__
)
def test_a_poll_does_not_end_the_operator_whatever_it_raises(event_injector, registry, reconciled, error):
    """It is a failed poll like any other."""

    @opkit.poll(of=PRIMARY, interval=60, registry=registry)
    async def look():
        raise error

    op = event_injector(registry)
    op.add("webs", "a")
    op.advance(200)
    assert len(reconciled) == 1 and type(error).__name__ in op._process.operator.polls()["look"]


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_a_poll_may_ask_for_a_client_of_another_library(event_injector, registry, reconciled, is_async):
    """As handlers do, by annotation."""
    from kubernetes.client import ApiClient

    given = []

    async def asynchronous(api: ApiClient):
        given.append(api)
        return {}

    def synchronous(api: ApiClient):
        given.append(api)
        return {}

    opkit.poll(of=PRIMARY, interval=60, registry=registry)(asynchronous if is_async else synchronous)
    client = object()
    op = event_injector(registry, clients={"kubernetes": client})
    op.settle()
    assert given == [client]
    assert any(handler.clients for handler in registry.compile().handlers())


def test_what_a_poll_forgets_to_await_fails_it(event_injector, registry, reconciled):
    """Nothing was asked, so nothing is known."""

    @opkit.poll(of=PRIMARY, interval=60, registry=registry)
    async def look(cluster):
        cluster.list(("v1", "configmaps"))
        return {}

    op = event_injector(registry)
    op.settle()
    assert "cluster.list(...): called without `await`" in op._process.operator.polls()["look"]


@pytest.mark.parametrize("each", [True, False])
def test_what_is_not_served_any_more_is_not_polled(event_injector, registry, reconciled, each):
    """Its definition is gone; when it comes back, so do the polls."""
    polled = []

    async def of_all():
        polled.append(op.now)
        return {}

    async def of_each(name):
        polled.append(op.now)

    opkit.poll(of=PRIMARY, interval=10, each=each, registry=registry)(of_each if each else of_all)
    op = event_injector(registry)
    op.add("webs", "a")
    op.advance(30)
    assert polled
    op.delete(("customresourcedefinitions", "webs.example.com"))
    op.advance(30)
    polled.clear()
    op.advance(100)
    assert polled == []


@pytest.mark.parametrize("takes", [0, 5], ids=["between-polls", "during-a-poll"])
@pytest.mark.parametrize("each", [True, False])
def test_a_run_does_not_bring_a_failing_poll_forward(event_injector, registry, reconciled, each, takes):
    """It backs off, whatever happens to the objects meanwhile."""
    polled = []

    async def fail():
        polled.append(op.now)
        await asyncio.sleep(takes)
        raise OSError("down")

    async def of_each(name):
        await fail()

    opkit.poll(of=PRIMARY, interval=100, each=each, registry=registry)(of_each if each else fail)
    op = event_injector(registry)
    web = op.add("webs", "a", spec={"n": 1})
    op.advance(2)
    assert len(polled) == 1
    op.modify(web, {"spec": {"n": 2}})
    op.advance(190)
    assert len(reconciled) == 2 and len(polled) == 1
    op.advance(30)
    assert len(polled) == 2


@pytest.mark.parametrize("ends", ["returns", "awaits"])
@pytest.mark.parametrize("each", [True, False])
def test_a_poll_that_cancels_its_own_task_goes_on(event_injector, registry, reconciled, each, ends):
    """That is a failure of this call, if of anything: only opkit's own cancellation ends a poll."""
    polled = []

    async def fetch(name=None):
        polled.append(op.now)
        if len(polled) == 1:
            asyncio.current_task().cancel()
            if ends == "awaits":
                await asyncio.sleep(1)
        return {}

    async def of_all():
        return await fetch()

    async def of_each(name):
        return await fetch(name)

    opkit.poll(of=PRIMARY, interval=10, each=each, registry=registry)(of_each if each else of_all)
    op = event_injector(registry)
    op.add("webs", "a")
    op.advance(100)
    assert len(polled) > 5


# Which objects, how many at once, and how long.


def test_the_error_of_any_object_is_shown(world):
    """Others that are well do not hide it; it goes when that object is well again."""
    one = world(True, interval=10)
    one.down = {"b"}
    for name in ("a", "b", "c"):
        one.op.add("webs", name)
    one.op.advance(30)
    assert one.op._process.operator.polls() == {"of_each": "OSError: b is down"}
    one.down = set()
    one.op.advance(1000)
    assert one.op._process.operator.polls() == {"of_each": "ok"}


@BOTH
@pytest.mark.parametrize("reason", ["stop", "definition"])
def test_a_poll_that_is_cut_off_may_clean_up(event_injector, registry, reconciled, each, reason, caplog):
    """Its end is waited for; that it was cut off is no failure, but one of its cleaning is."""
    cleaned = []

    async def fetch(name=None):
        try:
            await asyncio.sleep(20)
        finally:
            await asyncio.sleep(0.1)
            cleaned.append(name)

    async def of_all():
        await fetch()

    async def of_each(name):
        await fetch(name)

    opkit.poll(of=PRIMARY, interval=600, each=each, registry=registry)(of_each if each else of_all)
    op = event_injector(registry)
    op.add("webs", "a")
    op.advance(5)
    if reason == "stop":
        op.close()
    else:
        op.delete(("customresourcedefinitions", "webs.example.com"))
        op.advance(5)
    assert cleaned == ["a" if each else None]
    assert "failed" not in caplog.text


def test_what_a_poll_raises_while_it_is_cut_off_is_told(event_injector, registry, reconciled, caplog):
    """Nobody asks for its value any more, but its author wants to know."""

    @opkit.poll(of=PRIMARY, interval=600, registry=registry)
    async def look():
        try:
            await asyncio.sleep(20)
        finally:
            raise OSError("could not close")

    op = event_injector(registry)
    op.advance(5)
    op.close()
    assert "could not close" in caplog.text


def test_an_object_that_goes_while_it_waits_for_an_extra_poll_harms_no_other(world):
    """The line still has its later turn; that one counts no more."""
    one = world(True, interval=100)
    gone = one.op.add("webs", "a")
    one.op.add("webs", "b")
    one.op.settle()
    for _ in range(20):
        one.op.trigger(gone)
        one.op.drain()
    one.op.delete(gone)
    one.op.advance(100)
    one.polled.clear()
    one.op.advance(500)
    assert {name for name, _ in one.polled} == {"b"} and len(one.polled) == 5


@BOTH
def test_the_end_of_a_run_of_what_is_gone_is_no_reason_to_poll(event_injector, registry, each, caplog):
    """The object went while it was reconciled, and the poll has forgotten it by then."""
    polled = []

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(name):
        await asyncio.sleep(100)

    async def of_all():
        polled.append(op.now)
        return {}

    async def of_each(name):
        polled.append(op.now)

    opkit.poll(of=PRIMARY, interval=10, each=each, registry=registry)(of_each if each else of_all)
    op = event_injector(registry)
    web = op.add("webs", "a")
    op.advance(5)
    op.delete(web)
    op.advance(200)
    assert caplog.text == "" and (len(polled) == 1 if each else len(polled) > 15)


@BOTH
def test_a_run_that_ends_during_a_poll_is_looked_at_right_after_it(event_injector, registry, each):
    """What that poll shows may be of before the run's end."""
    begun = []

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(name):
        pass

    async def fetch():
        begun.append(op.now)
        await asyncio.sleep(5)
        return {}

    async def of_each(name):
        return await fetch()

    opkit.poll(of=PRIMARY, interval=60, each=each, registry=registry)(of_each if each else fetch)
    op = event_injector(registry)
    web = op.add("webs", "a", spec={"n": 1})
    op.advance(100)
    last = begun[-1]
    op.advance(last + 5 + 60 + 2 - op.now)
    begun.clear()
    op.modify(web, {"spec": {"n": 2}})
    op.advance(20)
    assert begun == [last + 70]


def test_no_more_polls_at_once_than_runs_are_allowed(event_injector, registry, reconciled):
    """`parallel.limit` holds for them too; the others wait for their place, and get it."""
    at_work, most, done = set(), [], []

    @opkit.poll(of=PRIMARY, interval=600, each=True, registry=registry)
    async def look(name):
        at_work.add(name)
        most.append(len(at_work))
        await asyncio.sleep(5)
        at_work.discard(name)
        done.append(name)

    settings = opkit.Settings()
    settings.parallel.limit = 2
    op = event_injector(registry, settings)
    for name in "abcde":
        op.add("webs", name)
    op.advance(60)
    assert max(most) == 2 and set(done) == set("abcde")


def test_who_waits_for_a_place_keeps_it(event_injector, registry, reconciled):
    """A run of an object whose poll is due already does not send it back to the end of the line."""
    polled = []

    @opkit.poll(of=PRIMARY, interval=10, each=True, registry=registry)
    async def look(name):
        polled.append(name)
        await asyncio.sleep(50 if name == "slow" else 0)

    settings = opkit.Settings()
    settings.parallel.limit = 1
    op = event_injector(registry, settings)
    for name in ("early", "late"):
        op.add("webs", name)
        op.advance(1)
    op.add("webs", "slow")
    op.advance(30)
    assert polled[-1] == "slow"
    polled.clear()
    op.trigger(("webs", "early"))
    op.advance(25)
    assert polled[:2] == ["early", "late"]


@BOTH
@pytest.mark.parametrize("interval", [700, 3600])
def test_a_long_interval_is_kept_whether_the_poll_fails_or_not(world, each, interval):
    """No pause is shorter than the interval."""
    one = world(each, interval=interval)
    one.op.add("webs", "a")
    one.op.settle()
    one.polled.clear()
    one.op.advance(interval * 3)
    assert len(one.polled) == 3
    one.down = {"*", "a"}
    one.op.advance(interval * 4)
    assert len(one.polled) == 7


@BOTH
def test_a_poll_that_fails_for_days_is_called_every_ten_minutes(world, each):
    """Its pauses grow to that and no further, and the service is back within one of them."""
    one = world(each, interval=10)
    one.down = {"*", "a"}
    one.op.add("webs", "a")
    one.op.advance(3600)
    one.polled.clear()
    one.op.advance(1100 * 600)
    assert len(one.polled) == 1100


@BOTH
def test_a_change_is_run_when_the_first_poll_failed_after_the_run(event_injector, registry, each):
    """It began after the run, and failed: what the run has left was never seen."""
    values, runs, down = {}, [], [True]

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(name):
        runs.append(name)

    async def fetch():
        await asyncio.sleep(0.5)
        if down:
            raise OSError("down")
        return dict(values)

    async def of_each(name):
        return (await fetch()).get(name)

    opkit.poll(of=PRIMARY, interval=60, each=each, registry=registry)(of_each if each else fetch)
    op = event_injector(registry)
    op.add("webs", "a")
    op.advance(5)
    assert runs == ["a"]
    down.clear()
    op.advance(600)
    assert runs == ["a", "a"]


@pytest.mark.parametrize("interval, takes", [(300, 200), (10, 50)], ids=["as-long-as-its-interval", "a-minute"])
def test_a_poll_of_an_object_may_take_its_time(event_injector, registry, reconciled, interval, takes):
    """A minute, or its interval if that is longer."""

    @opkit.poll(of=PRIMARY, interval=interval, each=True, registry=registry)
    async def look(name):
        await asyncio.sleep(takes)

    op = event_injector(registry)
    op.add("webs", "a")
    op.advance(interval + takes)
    assert op._process.operator.polls() == {"look": "ok"}


def test_an_object_that_goes_does_not_harm_the_poll_of_the_set(world):
    """It is compared no more; the others are."""
    one = world(False)
    gone = one.op.add("webs", "a")
    one.op.add("webs", "b")
    one.op.settle()
    one.op.delete(gone)
    one.op.advance(60)
    one.values["b"] = "wrong"
    one.op.advance(60)
    assert one.values["b"] == "right" and one.op._process.operator.polls() == {"of_all": "ok"}


def test_a_value_that_cannot_be_kept_concerns_no_other(event_injector, registry, reconciled, caplog):
    """It is told of; the others of the set are compared as always."""
    state = {"a": 1, "b": (one for one in ()), "c": 1}

    @opkit.poll(of=PRIMARY, interval=60, registry=registry)
    async def look():
        return dict(state)

    op = event_injector(registry)
    for name in "abc":
        op.add("webs", name)
    op.settle()
    reconciled.clear()
    state.update(a=2, c=2)
    op.advance(60)
    assert sorted(reconciled) == [("a", "POLL"), ("c", "POLL")]
    assert "What the poll look gave can't be kept" in caplog.text


@pytest.mark.parametrize("strategy", list(opkit.WatchStrategy))
def test_each_object_of_any_controller_is_polled(event_injector, registry, strategy):
    """A controller for some and one for others share the poll; what none is for is not polled, though it is watched."""
    polled = set()

    @opkit.reconcile(*PRIMARY, label_selector="side=left", registry=registry)
    async def left(name): ...

    @opkit.reconcile(*PRIMARY, label_selector="side=right", registry=registry)
    async def right(name): ...

    @opkit.poll(of=PRIMARY, interval=60, each=True, registry=registry)
    async def look(name):
        polled.add(name)

    settings = opkit.Settings()
    settings.watch.strategy = strategy
    op = event_injector(registry, settings)
    web = op.add("webs", "a", labels={"side": "left"})
    op.add("webs", "b", labels={"side": "right"})
    op.add("webs", "c", labels={"side": "none"})
    op.advance(60)
    assert polled == {"a", "b"}
    op.modify(web, {"metadata": {"labels": {"side": "none"}}})
    op.drain()
    polled.clear()
    op.advance(200)
    assert polled == {"b"}


def test_the_end_of_a_run_of_what_has_left_the_selector_is_no_reason_to_poll(event_injector, registry, caplog):
    """The object is watched on, for another controller's sake, and the poll has forgotten it."""
    polled = []

    @opkit.reconcile(*PRIMARY, label_selector="side=left", registry=registry)
    async def left(name):
        await asyncio.sleep(100)

    @opkit.reconcile(*PRIMARY, label_selector="side=right", registry=registry)
    async def right(name): ...

    @opkit.poll(of=PRIMARY, interval=10, each=True, registry=registry)
    async def look(name):
        polled.append(op.now)

    settings = opkit.Settings()
    settings.watch.strategy = opkit.WatchStrategy.SHARED
    op = event_injector(registry, settings)
    web = op.add("webs", "a", labels={"side": "left"})
    op.advance(5)
    op.modify(web, {"metadata": {"labels": {"side": "none"}}})
    op.advance(300)
    assert polled == [0] and caplog.text == ""
    assert [str(call.outcome) for call in op.calls("left")] == ["success"]


@pytest.mark.parametrize("argument", ["web", "body", "name"])
def test_a_poll_of_each_object_gets_what_handlers_get(event_injector, registry, reconciled, argument):
    """The object by whatever name, or its parts."""
    given = []
    namespace = {"given": given}
    exec(f"async def look({argument}): given.append({argument})", namespace)
    opkit.poll(of=PRIMARY, interval=60, each=True, registry=registry)(namespace["look"])
    op = event_injector(registry)
    op.add("webs", "a")
    op.settle()
    assert [one if argument == "name" else one["metadata"]["name"] for one in given] == ["a"] * len(given) and given
