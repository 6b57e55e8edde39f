"""What is large, many, or badly behaved."""

import asyncio
import gc
import itertools
import logging
import weakref

import pytest

import opkit
from opkit import Settings
from opkit.cli.logs import configure

SIZE = 2**20


def test_a_body_of_a_megabyte_and_a_thousand_labels_is_an_object_like_any_other(registry, event_injector):
    """It is selected by a label, handled, patched, changed and deleted."""
    seen = []

    @opkit.reconcile("example.com", "v1", "webapps", label_selector="label-999=on", registry=registry)
    async def reconcile(spec, labels, patch):
        seen.append((len(spec["text"]), len(labels)))
        patch.status["seen"] = len(spec["text"])

    op = event_injector(registry)
    labels = {f"label-{number}": "on" for number in range(1000)}
    web = op.add("webapps", "large", labels=labels, spec={"text": "x" * SIZE})
    op.add("webapps", "small", labels=dict(itertools.islice(labels.items(), 999)))
    op.settle()
    op.modify(web, {"spec": {"text": "y" * (SIZE + 1)}})
    op.settle()
    assert seen == [(SIZE, 1000), (SIZE + 1, 1000)]
    assert op.get(web).status == {"seen": SIZE + 1}
    op.delete(web)
    op.settle()
    assert not op.trigger(("webapps", "large"))


def test_ten_thousand_events_of_one_object_are_a_run_or_two(webapps):
    """A storm of one object is the run under way and one more, which sees the last state; others are not delayed."""
    seen = []

    async def reconcile(name, spec):
        seen.append((name, spec["size"]))
        await asyncio.sleep(1)

    op = webapps(reconcile)
    hot = op.add("webapps", "hot", spec={"size": 0})
    op.drain()
    with op.burst():
        for size in range(1, 10_001):
            op.modify(hot, {"spec": {"size": size}})
        op.add("webapps", "calm", spec={"size": 0})
    op.drain()
    assert seen == [("hot", 0), ("calm", 0)]
    op.settle()
    assert seen == [("hot", 0), ("calm", 0), ("hot", 10_000)]


def test_a_handler_that_never_returns_holds_up_its_object_only(webapps):
    """Its slot is taken; the others of the budget go on, and the stop gives up on it after its grace."""

    async def reconcile(name):
        if name == "stuck":
            await asyncio.Event().wait()

    settings = Settings()
    settings.parallel.limit = 2
    op = webapps(reconcile, settings)
    op.add("webapps", "stuck")
    for number in range(20):
        op.add("webapps", f"web-{number}")
    op.advance(3600)
    assert len([call for call in op.calls() if call.outcome == "success"]) == 20
    op.restart()
    assert op.calls(ref=("webapps", "stuck"))[0].outcome == "cancelled"


def test_the_error_of_a_forgotten_task_is_told(capsys):
    """Nobody waits for it, so it is in the logs of the command line, without any debugging."""

    async def main():
        async def forgotten():
            raise ValueError("from a forgotten task")

        asyncio.create_task(forgotten())  # noqa: RUF006  that is the point
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gc.collect()

    root, level = logging.getLogger(), logging.getLogger().level
    before = {name: logging.getLogger(name).level for name in ("asyncio", "aiohttp", "kopf", "urllib3", "kubernetes")}
    handlers = list(root.handlers)
    try:
        configure()
        asyncio.run(main())
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for name, old in before.items():
            logging.getLogger(name).setLevel(old)
    assert "ValueError: from a forgotten task" in capsys.readouterr().err


def test_nothing_holds_the_bodies_of_what_is_gone(webapps):
    """Neither of runs that are over, nor of objects that are gone, nor of requests that were cancelled."""
    bodies = []

    async def reconcile(body):
        bodies.append(weakref.ref(body))
        return opkit.success(requeue_after=60)

    op = webapps(reconcile)
    webs = [op.add("webapps", f"web-{number}", spec={"text": "x" * 1000}) for number in range(50)]
    op.drain()
    op.advance(60)
    for web in webs:
        op.delete(web)
    op.drain()
    gc.collect()
    assert len(op.calls()) == 100
    assert [body() for body in bodies if body() is not None] == []


def test_a_handler_that_holds_bodies_holds_nothing_of_opkits(webapps):
    """It holds copies of its own: changing them later changes no store, and the next run sees the truth."""
    held, seen = [], []

    async def reconcile(body):
        seen.append(body["spec"]["deep"]["size"])
        held.append(body)

    op = webapps(reconcile)
    web = op.add("webapps", "shop", spec={"deep": {"size": 1}})
    op.drain()
    held[0]["spec"]["deep"]["size"] = 100
    op.trigger(web)
    op.modify(web, {"spec": {"more": 1}})
    op.drain()
    assert set(seen) == {1}


def test_a_thousand_failures_do_not_come_back_together(webapps):
    """Jitter spreads the retries: in no twentieth of their time is more than a fair share and a half again."""

    async def reconcile():
        raise ValueError("all at once")

    settings = Settings(retry=opkit.Retry(initial=100, jitter=0.1))
    settings.parallel.limit = 1000
    op = webapps(reconcile, settings)
    with op.burst():
        for number in range(1000):
            op.add("webapps", f"web-{number}")
    op.drain()
    due = [one.due_in for one in op.scheduled()]
    assert len(due) == 1000
    assert 90 <= min(due) < 92 and 108 < max(due) <= 110
    share = [sum(1 for one in due if 90 + part <= one < 91 + part) for part in range(20)]
    assert max(share) < 1.5 * 1000 / 20 + 10


def test_a_thousand_objects_that_meet_429_leave_the_server_its_time(webapps):
    """None of them is sent again before the server wants it, nor all at one moment, and no attempt is spent."""

    async def reconcile(patch):
        patch.status["seen"] = True

    settings = Settings()
    settings.parallel.limit = 1000
    op = webapps(reconcile, settings)
    op.fail("patch_status", "webapps").times(1000, status=429, retry_after=30)
    with op.burst():
        for number in range(1000):
            op.add("webapps", f"web-{number}")
    op.drain()
    assert len(op.writes()) == 1000
    op.advance(29)
    assert len(op.writes()) == 1000
    op.advance(1.5)
    assert 1000 < len(op.writes()) < 1900
    op.settle()
    assert len(op.writes()) == 2000
    assert {call.attempt for call in op.calls()} == {1}
    assert all(web.status == {"seen": True} for web in op.list("webapps"))


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


async def raises_unspeakable(patch):
    raise Unspeakable


async def patches_metadata_with_a_text(patch):
    patch["metadata"] = "text"


async def patches_in_a_circle(patch):
    patch.status["circle"] = patch.status


async def patches_with_a_set(patch):
    patch.status["set"] = {1, 2}


@pytest.mark.parametrize(
    "nonsense",
    [raises_unspeakable, patches_metadata_with_a_text, patches_in_a_circle, patches_with_a_set],
    ids=lambda handler: handler.__name__,
)
def test_nonsense_of_a_handler_is_its_own_failure(webapps, nonsense):
    """It is told as the author's, retried with backoff, and fails nothing of opkit's."""

    async def reconcile(name, patch):
        if name == "bad":
            await nonsense(patch)

    op = webapps(reconcile, Settings(retry=opkit.Retry(initial=10, jitter=0)))
    bad = op.add("webapps", "bad")
    op.add("webapps", "good")
    op.drain()
    assert [round(one.due_in) for one in op.scheduled(bad)] == [10]
    assert op.explain(bad)[-1]["trigger"] == ["RETRY"] or "RETRY" in str(op.explain(bad)[-1])
    op.advance(10)
    assert [call.attempt for call in op.calls(ref=bad)] == [1, 2]


@pytest.mark.parametrize("strategy", list(opkit.WatchStrategy), ids=str)
@pytest.mark.parametrize("odd", [{"labels": ["a"]}, {"labels": "a"}, {"uid": ["x"]}], ids=str)
def test_odd_metadata_of_one_object_ends_no_stream(registry, event_injector, strategy, odd, caplog):
    """Skipped like anything else that is no object; the watch goes on without a new list."""
    settings = Settings()
    settings.watch.strategy = strategy

    @opkit.reconcile("example.com", "v1", "webapps", label_selector="a", registry=registry)
    async def one():
        return None

    @opkit.reconcile("example.com", "v1", "webapps", label_selector="!z", registry=registry)
    async def two():
        return None

    op = event_injector(registry, settings)
    good = op.add("webapps", "good", labels={"a": "b"})
    op.drain()
    meta = {"name": "odd", "namespace": "default", "uid": "1", "resourceVersion": "4", "generation": 1, **odd}
    op.inject("ADDED", {"apiVersion": "example.com/v1", "kind": "Webapp", "metadata": meta})
    op.modify(good, {"spec": {"size": 2}})
    op.drain()
    assert len(op.calls(ref=good)) == 4
    assert "can't be used" in caplog.text and "failed" not in caplog.text
