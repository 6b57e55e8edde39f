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
    import asyncio

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
