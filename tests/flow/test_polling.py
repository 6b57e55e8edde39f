"""Polls: outside state on a timer."""

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
