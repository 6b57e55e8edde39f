"""How functions of the author are called: their arguments, and what they may do with them."""

import asyncio
import logging
import threading

import pytest

import opkit
from opkit import Settings


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
def test_all_arguments_are_given_by_name(webapps, is_async):
    """Those of kopf and opkit's own."""
    given = {}

    def take(**arguments):
        given.update(arguments)

    def plain(body, spec, meta, status, name, namespace, uid, labels, annotations, resource, logger, memo, patch,
              settings, attempt, retry, trigger, requeue, cluster, event, stopping):  # fmt: skip
        take(**locals())

    async def asynchronous(body, spec, meta, status, name, namespace, uid, labels, annotations, resource, logger, memo,
                           patch, settings, attempt, retry, trigger, requeue, cluster, event, stopping):  # fmt: skip
        take(**locals())

    op = webapps(asynchronous if is_async else plain)
    web = op.add("webapps", "shop", spec={"n": 1}, labels={"a": "b"}, annotations={"c": "d"}, status={"e": "f"})
    op.settle()
    assert (given["name"], given["namespace"], given["uid"]) == ("shop", "default", web.uid)
    assert (given["spec"], given["labels"], given["annotations"]) == ({"n": 1}, {"a": "b"}, {"c": "d"})
    assert (given["attempt"], given["retry"], given["trigger"]) == (1, 0, {opkit.Trigger.ADDED})
    assert given["resource"].plural == "webapps" and not given["stopping"]


def test_absent_and_null_fields_read_as_empty(webapps):
    """Labels, annotations, finalizers, spec and status; in filters and handlers."""
    given = []

    async def handler(spec, status, labels, annotations, body):
        given.append((spec, status, labels, annotations, body.spec))

    async def cleanup():
        pass

    op = webapps(handler, finalizers=[], generic=opkit.filter.generic(lambda body: not body.labels.get("x")))
    op.drain()
    meta = {"name": "a", "namespace": "default", "uid": "1", "resourceVersion": "1", "labels": None,
            "annotations": None, "finalizers": None}  # fmt: skip
    op.inject("ADDED", {"apiVersion": "example.com/v1", "kind": "Webapp", "metadata": meta, "spec": None})
    op.drain()
    assert given == [({}, {}, {}, {}, {})]


def test_what_a_handler_does_to_its_body_is_seen_by_nobody(webapps):
    """Neither by the next run, nor by filters, nor by the guard for writes."""
    seen = []

    async def handler(body, spec, patch):
        seen.append(spec["x"]["y"])
        body["spec"]["x"]["y"] = "spoilt"
        spec["x"]["z"] = 1
        body.metadata["labels"] = {"spoilt": "yes"}
        patch.spec["x"] = {"y": spec["x"]["y"]}

    op = webapps(handler, strategy=opkit.ReconcileStrategy.BY_RESOURCE_VERSION)
    web = op.add("webapps", "shop", spec={"x": {"y": "good"}})
    op.settle()
    assert op.get(web).spec["x"]["y"] == "spoilt"
    op.modify(web, {"spec": {"x": {"y": "good"}}})
    op.settle()
    assert seen == ["good", "good"]


def test_a_part_that_a_handler_changes_is_changed_in_its_whole_body(webapps):
    """`spec`, `status` and `meta` are parts of the `body` of the same run, whichever is looked at first."""
    seen = []

    async def handler(meta, spec, body, status, labels):
        spec["n"], status["m"], labels["l"] = 2, 3, "x"
        seen.append((body["spec"], body["status"], body["metadata"]["labels"], body.metadata is meta))

    op = webapps(handler)
    op.add("webapps", "shop", spec={"n": 1}, status={"m": 1}, labels={"a": "b"})
    op.settle()
    assert seen == [({"n": 2}, {"m": 3}, {"a": "b", "l": "x"}, True)]


def test_what_stands_in_for_a_handler_gets_all_keyword_arguments(webapps, monkeypatch):
    """Though the handler itself never looks at its `**_`: a mock in its place records what it is called with."""
    given = {}

    async def mock(**arguments):
        given.update(arguments)

    op = webapps(_overlooks)
    op.settle()
    monkeypatch.setitem(globals(), "_overlooks", mock)
    op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    assert given["name"] == "shop" and "logger" in given


async def _overlooks(spec, **_):
    raise AssertionError("the mock is called in its place")


def test_a_memo_belongs_to_one_object_and_lasts(webapps):
    """From run to run, finalizer and goodbye included, and not for its namesake."""
    seen = []

    async def handler(memo):
        memo.runs = memo.get("runs", 0) + 1
        seen.append(memo.runs)

    async def gone(memo):
        seen.append(("gone", memo["runs"]))

    op = webapps(handler, delete=gone)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    op.modify(web, {"spec": {"n": 2}})
    op.settle()
    op.delete(web)
    op.settle()
    op.add("webapps", "shop")
    op.settle()
    assert seen == [1, 2, ("gone", 2), 1]


def test_what_startup_put_into_the_memo_is_in_every_objects(webapps, registry):
    """As in kopf."""

    @opkit.startup(registry=registry)
    async def start(memo):
        memo.pool = "pool"

    seen = []

    async def handler(memo, name):
        seen.append((memo.pool, memo.get("name")))
        memo.name = name

    op = webapps(handler)
    op.add("webapps", "a")
    op.add("webapps", "b")
    op.settle()
    assert seen == [("pool", None)] * 2


def test_a_memo_says_what_it_has_not():
    """An attribute that is missing is an AttributeError, as everywhere."""
    from opkit.flow.invocation import Memo

    memo = Memo()
    with pytest.raises(AttributeError):
        memo.nothing
    memo.x = 1
    del memo.x
    with pytest.raises(AttributeError):
        del memo.x


def test_one_parameter_of_another_name_is_the_object(webapps):
    """`def reconcile(webapp)`."""
    seen = []

    async def handler(webapp):
        seen.append(webapp.name)

    op = webapps(handler)
    op.add("webapps", "shop")
    op.settle()
    assert seen == ["shop"]


def test_keyword_arguments_get_all_there_is(webapps):
    """`**kwargs` is allowed and never needed; what there is not for this run is not in it."""
    seen = []

    async def handler(name, **kwargs):
        seen.append(kwargs)

    op = webapps(handler)
    op.add("webapps", "shop")
    op.settle()
    assert seen[0]["attempt"] == 1 and "reason" not in seen[0]


def test_plain_functions_run_in_threads_and_do_not_hold_up_the_loop(webapps):
    """Not in that of the loop."""
    threads = []

    def handler():
        threads.append(threading.current_thread() is threading.main_thread())

    op = webapps(handler)
    op.add("webapps", "shop")
    op.settle()
    assert threads == [False]


def test_a_plain_function_that_returns_an_awaitable_is_awaited(webapps):
    """Wrappers and mocks do that."""
    done = []

    async def inner():
        done.append(True)

    op = webapps(lambda name: inner())
    op.add("webapps", "shop")
    op.settle()
    assert done == [True]


def test_log_lines_of_a_handler_know_their_object(webapps, caplog):
    """And its controller, for whoever formats them."""

    async def handler(logger):
        logger.info("hello")

    op = webapps(handler)
    op.add("webapps", "shop")
    with caplog.at_level(logging.INFO, "opkit.objects"):
        op.settle()
    record = next(record for record in caplog.records if record.getMessage() == "hello")
    assert record.k8s_ref["name"] == "shop" and record.controller == "handler"


def test_the_run_is_known_to_any_logger_inside_of_a_handler(webapps):
    """In threads too."""
    from opkit.flow.invocation import current_run

    names = []

    def plain():
        names.append(current_run.get().name)

    op = webapps(plain)
    op.add("webapps", "shop")
    op.settle()
    assert names == ["shop"]


def test_an_object_whose_thread_still_works_is_not_run_again(webapps):
    """The lead is lost and won while a thread that can't be cancelled works: its lock is held until it ends."""
    running, most = [], []

    def handler(cluster, name):
        running.append(name)
        most.append(len(running))
        for _ in range(5):
            cluster.get("webapps", name)
        running.pop()

    op = webapps(handler)
    op.fail("get", "webapps").delay(10, n=5)
    op.add("webapps", "shop")
    op.advance(1)
    op.lose_leadership()
    op.gain_leadership()
    op.settle()
    assert max(most) == 1 and len(most) == 2


def test_stopping_is_set_for_runs_under_way_when_the_operator_stops(webapps):
    """Async ones may look at it as well."""
    seen = []

    async def handler(stopping):
        while not stopping:  # noqa: ASYNC110  # a handler that looks at the flag, as the rule says
            await asyncio.sleep(1)
        seen.append(True)

    settings = Settings()
    settings.shutdown.grace = 10
    op = webapps(handler, settings=settings)
    op.add("webapps", "shop")
    op.advance(3)
    op.restart()
    assert seen == [True]
