"""kopf's client behind opkit's protocol, against a server that misbehaves on demand."""

import asyncio
import datetime
import email.utils
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import kopf
import pytest
import yaml

from opkit.cluster import kopf_client
from opkit.cluster.kopf_cluster import KopfCluster
from opkit.cluster.protocol import Mark, WatchScope
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.errors import ApiError, CredentialsError, NotFound, TooManyRequests, Unreachable

from .scripted import (
    ScriptedServer,
    cut,
    error,
    event,
    json_answer,
    pause,
    pieces,
    pod_list,
    status_answer,
    stream,
    text_answer,
)  # fmt: skip

PODS = Resource("", "v1", "pods", kind="Pod")
PATH = "/api/v1/pods"
SCOPE = WatchScope(PODS)


@pytest.fixture
def served(monkeypatch):
    """Run `test(server, cluster)` with a scripted server; the tries of one request come without a pause."""
    monkeypatch.setitem(kopf_client.KopfConnection.request.__kwdefaults__, "backoffs", (0.0, 0.0, 0.0))
    monkeypatch.setattr(kopf_client, "_LOGIN_PAUSE", 0.0)

    def run(test, prepare=lambda server: None, **options):
        async def main():
            async with asyncio.timeout(20), ScriptedServer() as server:
                prepare(server)
                return await test(server, await server.cluster(**options))

        return asyncio.run(main())

    return run


@pytest.fixture
def watched(served):
    """What a watch of the scripted answer gives: marks and events in one row; an error that ends it comes last."""

    def run(*steps, since="5", status=None, patience=None):
        async def test(server, cluster):
            answer = stream(*steps) if status is None else steps[0]
            server.on("GET", PATH + "?watch", answer)
            return await take(cluster, since=since, patience=patience)

        return served(test)

    return run


async def take(cluster, **options):
    """Everything that one watch yields, and what it raises."""
    taken = []
    try:
        async for batch in cluster.watch(SCOPE, **options):
            taken += [batch] if isinstance(batch, Mark) else batch
    except ApiError as failure:
        taken.append(failure)
    return taken


def names(taken):
    return [one if isinstance(one, (Mark, ApiError)) else (one[0], one[1]["metadata"].get("name")) for one in taken]


# Lists.


def test_all_pages_of_a_list_are_one_list(served):
    """Five objects by two, with the same selection; an empty token ends it."""

    async def test(server, cluster):
        server.on("GET", PATH, pod_list("a", "b", token="t1"), pod_list("c", "d", token="t2"), pod_list("e"))
        return [item["metadata"]["name"] for item in await cluster.list(PODS)], server.requests(PATH)

    found, asked = served(test, chunk_size=2)
    assert found == list("abcde")
    assert [one.query.get("continue") for one in asked] == [None, "t1", "t2"]
    assert all(one.query["limit"] == "2" for one in asked)


@pytest.mark.parametrize(
    ("items", "tokens"),
    [
        pytest.param(["a"], ["t1"], id="leads-to-itself"),
        pytest.param([], [f"t{number}" for number in range(9)], id="holds-nothing"),
    ],
)
def test_pages_without_an_end_are_a_failure(served, items, tokens):
    """They would be asked for again and again without a pause."""

    async def test(server, cluster):
        server.on("GET", PATH, *(pod_list(*items, token=token) for token in tokens))
        with pytest.raises(ApiError, match="have no end") as caught:
            await cluster.list(PODS)
        return caught.value.status, len(server.requests(PATH))

    status, asked = served(test)
    assert status == 502 and asked <= 5


def test_the_next_page_is_on_its_way_while_one_is_worked_on(served):
    """The server needs time for it: with its help the list takes as long as the slower of both."""

    async def test(server, cluster):
        server.on("GET", PATH, pod_list("a", token="t1"), pod_list("b"))
        server.on("GET", PATH + "?watch", stream())
        async for batch in cluster.watch(SCOPE):
            if batch and not isinstance(batch, Mark) and names(batch) == [("LISTED", "a")]:
                for _turn in range(10_000):
                    if len(server.requests(PATH)) == 2:
                        break
                    await asyncio.sleep(0)
                return [one.query.get("continue") for one in server.requests(PATH)]

    assert served(test) == [None, "t1"]


def test_a_list_that_is_not_read_to_its_end_leaves_nothing_behind(served):
    """The page on its way is given up, and its failure is nobody's business any more."""

    async def test(server, cluster):
        server.on("GET", PATH, pod_list("a", token="t1"), status_answer(410, "Expired"))
        batches = cluster.watch(SCOPE)
        async for batch in batches:
            if not isinstance(batch, Mark):
                break
        await batches.aclose()
        return [task for task in asyncio.all_tasks() if "request" in repr(task.get_coro())]

    assert served(test) == []


def test_the_items_of_a_list_say_what_they_are(served):
    """Built-in lists name the kind only once."""

    async def test(server, cluster):
        server.on("GET", PATH, pod_list("a"))
        return await cluster.list(PODS)

    (pod,) = served(test)
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")


@pytest.mark.parametrize("fields", [{"items": None}, {"items": []}], ids=["null", "empty"])
def test_items_that_are_null_are_an_empty_list(served, fields):
    """And the list is complete."""

    async def test(server, cluster):
        server.on("GET", PATH, pod_list(**fields))
        server.on("GET", PATH + "?watch", stream())
        return await cluster.list(PODS), await take(cluster)

    found, taken = served(test)
    assert not found
    assert taken == [Mark.BEGIN_LIST, Mark.END_LIST, ("BOOKMARK", {"metadata": {"resourceVersion": "100"}})]


def test_a_watch_lists_first_and_goes_on_from_the_version_of_the_list(served):
    """Never from that of its last item, which can be much older."""

    async def test(server, cluster):
        server.on("GET", PATH, pod_list("a", "z", version="900"))
        server.on("GET", PATH + "?watch", stream(event("ADDED", "b", "901")))
        taken = await take(cluster)
        return names(taken), server.requests(PATH)[-1].query

    taken, query = served(test)
    assert taken == [Mark.BEGIN_LIST, ("LISTED", "a"), ("LISTED", "z"), Mark.END_LIST, ("BOOKMARK", None),
                     ("ADDED", "b")]  # fmt: skip
    assert (query["resourceVersion"], query["allowWatchBookmarks"]) == ("900", "true")


def test_a_watch_goes_on_from_the_version_of_the_first_page(served):
    """Some servers read each page anew: what changed between the first and the last is in neither."""

    async def test(server, cluster):
        pages = [pod_list("a", token="t1", version="10"), pod_list("b", token="t2", version="15"), pod_list("c")]
        server.on("GET", PATH, *pages)
        server.on("GET", PATH + "?watch", stream())
        taken = await take(cluster)
        return taken[-1][1]["metadata"], [one.query.get("resourceVersion") for one in server.requests(PATH)]

    meta, versions = served(test, chunk_size=1)
    assert meta["resourceVersion"] == "10" and versions[-1] == "10"


def test_a_path_that_the_server_does_not_know_renews_what_is_known(served):
    """A version that was withdrawn is found in another one; an object that is not there renews nothing."""

    def prepare(server):
        for version in ("v1", "v2"):
            resources = {"resources": [{"name": "webs", "kind": "Web", "verbs": ["list", "watch"]}]}
            server.on("GET", f"/apis/e.io/{version}", json_answer(resources))
        groups = [{"name": "e.io", "versions": [{"version": one}], "preferredVersion": {"version": one}}
                  for one in ("v1", "v2")]  # fmt: skip
        server.on("GET", "/apis/e.io", *map(json_answer, groups))
        server.on(
            "GET",
            "/apis/e.io/v1/webs/gone",
            json_answer({"kind": "Status", "code": 404, "details": {"name": "gone"}}, 404),
        )

    async def test(server, cluster):
        webs = ResourceSelector.parse("e.io", "webs")
        found = [await cluster.resolve(webs)]
        for name in ("gone", "a"):
            with pytest.raises(NotFound):
                await cluster.get(found[0], name)
            found.append(await cluster.resolve(webs))
        return [one.version for one in found]

    assert served(test, prepare) == ["v1", "v1", "v2"]


def test_a_cached_list_is_asked_for_at_any_version(served):
    """Only its first page: the token of the others holds the version, and servers refuse both together."""

    async def test(server, cluster):
        server.on("GET", PATH, pod_list("a", token="t1"), pod_list("b"))
        server.on("GET", PATH + "?watch", stream())
        await take(cluster, cached=True)
        await take(cluster)
        return [(one.query.get("resourceVersion"), one.query.get("continue")) for one in server.requests(PATH)]

    cached, page, watch, fresh, *_ = served(test)
    assert (cached, page, watch, fresh) == (("0", None), (None, "t1"), ("100", None), (None, None))


def test_a_list_that_comes_at_once_is_given_in_parts(served):
    """A server's cache knows no pages; what is complete is worked on while the rest is on its way."""
    names_ = [f"pod-{number}" for number in range(20_000)]

    async def test(server, cluster):
        server.on("GET", PATH, pod_list(*names_))
        server.on("GET", PATH + "?watch", stream())
        return [batch async for batch in cluster.watch(SCOPE, cached=True)]

    begin, *parts, end, _bookmark = served(test)
    assert (begin, end) == (Mark.BEGIN_LIST, Mark.END_LIST)
    assert len(parts) > 2
    assert [raw["metadata"]["name"] for part in parts for _, raw in part] == names_
    assert {(raw["apiVersion"], raw["kind"]) for part in parts for _, raw in part} == {("v1", "Pod")}


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        pytest.param(text_answer("[]"), 502, id="no-object"),
        pytest.param(json_answer({}), 502, id="nothing"),
        pytest.param(json_answer({"kind": "Status", "status": "Failure", "code": 500}), 502, id="status"),
        pytest.param(json_answer({"metadata": {}, "items": {"a": 1}}), 502, id="items-of-another-shape"),
        pytest.param(json_answer({"metadata": [1], "items": []}), 502, id="metadata-of-another-shape"),
        pytest.param(text_answer("<html>"), 502, id="no-json"),
        pytest.param(stream(b'{"items":[{"metadata":{"name":"a"}},', cut()), 0, id="cut"),
    ],
)
def test_a_list_that_is_none_is_an_error(served, answer, status):
    """And it ends without the mark: nothing counts as gone."""

    async def test(server, cluster):
        server.on("GET", PATH, answer)
        return await take(cluster)

    *before, failure = served(test)
    assert failure.status == status and Mark.END_LIST not in before


def test_an_expired_token_ends_a_list_without_its_end_mark(served):
    """410 at the second page: nothing is taken for a complete list; the next one starts at the first page."""

    async def test(server, cluster):
        server.on("GET", PATH, pod_list("a", token="t1"), status_answer(410, "Expired"), pod_list("a", "b"))
        server.on("GET", PATH + "?watch", stream())
        return await take(cluster), await take(cluster)

    first, second = served(test)
    assert names(first)[:2] == [Mark.BEGIN_LIST, ("LISTED", "a")] and Mark.END_LIST not in first
    assert first[-1].status == 410
    assert names(second)[:4] == [Mark.BEGIN_LIST, ("LISTED", "a"), ("LISTED", "b"), Mark.END_LIST]


def test_a_list_for_a_handler_starts_over_when_its_token_expires(served):
    """The handler does not have to know of pages."""

    async def test(server, cluster):
        server.on("GET", PATH, pod_list("a", token="t1"), status_answer(410, "Expired"), pod_list("a", "b"))
        return [item["metadata"]["name"] for item in await cluster.list(PODS)]

    assert served(test) == ["a", "b"]


# Lines.

TEXT = "漢字 😀 \u2028 \u0085 é"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 2047, 4097])
def test_characters_cut_by_chunk_borders_are_whole(watched, size):
    """Lines are cut at line feeds in bytes, and at nothing else that some call a line's end."""
    line = event("ADDED", "a", note=TEXT)
    taken = watched(*pieces(line + event("MODIFIED", "b", note=TEXT), size))
    assert [raw["note"] for _, raw in taken] == [TEXT, TEXT]


@pytest.mark.parametrize("size", [16 * 2**10, 64 * 2**10, 128 * 2**10 + 1, 512 * 2**10 - 1, 2**20])
def test_lines_of_any_length_arrive(watched, size):
    """Objects can be megabytes; the small one behind it arrives too."""
    taken = watched(*pieces(event("ADDED", "big", data="x" * size), 40_970), event("ADDED", "small"))
    assert names(taken) == [("ADDED", "big"), ("ADDED", "small")]
    assert len(taken[0][1]["data"]) == size


def test_a_fragment_at_the_end_is_thrown_away(watched):
    """The connection was cut in the middle of an object: it comes again."""
    assert names(watched(event("ADDED", "a"), event("ADDED", "b")[:30])) == [("ADDED", "a")]


def test_many_events_in_one_chunk_are_one_batch(served):
    """What arrives together is given together."""

    async def test(server, cluster):
        server.on("GET", PATH + "?watch", stream(b"".join(event("ADDED", str(n)) for n in range(20))))
        return [batch async for batch in cluster.watch(SCOPE, since="1")]

    batches = served(test)
    assert sum(map(len, batches)) == 20 and len(batches) <= 2


@pytest.mark.parametrize("blank", [b"\n", b"\n\n", b"  \n", b"\r\n"], ids=repr)
def test_blank_lines_mean_nothing(watched, blank):
    """Some proxies send them to keep a connection alive."""
    assert names(watched(event("ADDED", "a"), blank, event("ADDED", "b"))) == [("ADDED", "a"), ("ADDED", "b")]


@pytest.mark.parametrize("line", [b"<html>\n", b"[]\n", b"1\n", b'{"type": "ADDED"}\n', b"\xff\xfe\n"], ids=repr)
def test_a_line_that_is_no_event_is_a_cut(watched, line):
    """Somebody in between has damaged the stream."""
    assert isinstance(watched(line)[-1], Unreachable)


def test_an_unknown_type_of_event_is_ignored(watched, caplog):
    """Servers learn new ones."""
    assert names(watched(event("SYNC", "a"), event("ADDED", "b"))) == [("ADDED", "b")]
    assert "SYNC" in caplog.text


# Errors of watches.


@pytest.mark.parametrize("shape", ["http", "event"])
def test_410_is_the_same_in_both_shapes(watched, shape):
    """HTTP 410, or HTTP 200 and an ERROR event: the version is too old."""
    if shape == "http":
        taken = watched(status_answer(410, "Gone", "too old"), status=410)
    else:
        taken = watched(event("ADDED", "a"), error(410))
        assert not any(isinstance(one, tuple) and one[1].get("kind") == "Status" for one in taken)
    assert isinstance(taken[-1], ApiError) and taken[-1].status == 410


@pytest.mark.parametrize("code, status", [(500, 500), (504, 504), (None, 500)], ids=str)
def test_an_error_in_the_stream_is_an_error(watched, code, status):
    """With another code, or none at all; the Status is never taken for an object."""
    taken = watched(error(code, "etcd is slow"))
    assert taken[-1].status == status and "etcd is slow" in str(taken[-1])


@pytest.mark.parametrize("status", [403, 404, 500, 503])
def test_a_refused_watch_is_tried_once(served, status):
    """What comes next is the stream's business, with its backoff."""

    async def test(server, cluster):
        server.on("GET", PATH + "?watch", status_answer(status))
        return await take(cluster, since="5"), server.requests(PATH)

    (failure,), asked = served(test)
    assert failure.status == status and len(asked) == 1


def test_a_cut_connection_is_an_error(watched):
    """What came before it counts."""
    taken = watched(event("ADDED", "a"), cut())
    assert names(taken[:1]) == [("ADDED", "a")] and isinstance(taken[-1], Unreachable)


@pytest.mark.parametrize("steps", [(pause(5),), (event("ADDED", "a"), pause(5))], ids=["at once", "later"])
def test_silence_beyond_patience_is_an_error(watched, steps):
    """A half-open connection: nothing comes any more."""
    taken = watched(*steps, patience=0.2)
    assert isinstance(taken[-1], Unreachable) and "silent" in str(taken[-1])


def test_a_watch_that_waits_for_its_headers_can_be_stopped(served):
    """The server accepts it and says nothing."""

    async def test(server, cluster):
        asked = asyncio.Event()

        async def never(request):
            asked.set()
            await asyncio.sleep(30)

        server.on("GET", PATH + "?watch", never)
        task = asyncio.create_task(take(cluster, since="5"))
        await asked.wait()
        task.cancel()
        await asyncio.wait({task}, timeout=1)
        return task.cancelled()

    assert served(test)


def test_nobody_at_the_other_end_is_an_error(served):
    """The port is closed."""

    async def test(server, cluster):
        await server._runner.cleanup()
        with pytest.raises(Unreachable):
            await cluster.get(PODS, "a", "default")

    served(test)


# Errors of requests.


@pytest.mark.parametrize(
    "answer, status, words",
    [
        (text_answer("404 page not found", 404), 404, ""),
        (text_answer("<html>Bad gateway</html>", 502, "text/html"), 502, ""),
        (text_answer("", 400), 400, ""),
        (json_answer(["odd"], 400), 400, ""),
        (json_answer("odd", 400), 400, ""),
        (json_answer({"code": None}, 400), 400, ""),
        (status_answer(422, "Invalid", "spec.replicas: must be positive"), 422, "must be positive"),
    ],
    ids=["404 text", "502 html", "empty", "list", "string", "no status", "status"],
)
def test_errors_in_any_shape_are_api_errors(served, answer, status, words):
    """Also those that come from a proxy, or in plain text."""

    async def test(server, cluster):
        server.on("GET", PATH + "/a", answer)
        with pytest.raises(ApiError) as caught:
            await cluster.get(Resource("", "v1", "pods", namespaced=False), "a")
        return caught.value

    failure = served(test)
    assert failure.status == status and words in str(failure)


def test_an_answer_that_is_not_json_is_an_api_error(served):
    """A login page of a proxy, with status 200."""

    async def test(server, cluster):
        server.on("GET", "/api/v1/namespaces/default/pods/a", text_answer("<html>", 200, "text/html"))
        with pytest.raises(ApiError):
            await cluster.get(PODS, "a", "default")

    served(test)


def test_not_found_is_an_error_of_its_own(served):
    """The classes of errors are the statuses'."""

    async def test(server, cluster):
        server.on("GET", "/api/v1/namespaces/default/pods/a", status_answer(404, "NotFound"))
        with pytest.raises(NotFound):
            await cluster.get(PODS, "a", "default")

    served(test)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_short_failure_is_overcome_by_trying_again(served, status):
    """A server that restarts, or a proxy that waits for it."""

    async def test(server, cluster):
        server.on("GET", "/api/v1/namespaces/default/pods/a", status_answer(status), status_answer(status),
                  json_answer({"metadata": {"name": "a"}}))  # fmt: skip
        return await cluster.get(PODS, "a", "default")

    assert served(test)["metadata"]["name"] == "a"


VERBS = {
    "get": lambda cluster: cluster.get(PODS, "a", "default"),
    "list": lambda cluster: cluster.list(PODS),
    "create": lambda cluster: cluster.create(PODS, {"metadata": {"name": "a"}}, "default"),
    "replace": lambda cluster: cluster.replace(PODS, "a", "default", {}),
    "patch": lambda cluster: cluster.patch(PODS, "a", "default", {}),
    "apply": lambda cluster: cluster.apply(PODS, "a", "default", {}, manager="me"),
    "delete": lambda cluster: cluster.delete(PODS, "a", "default"),
    "watch": lambda cluster: anext(cluster.watch(SCOPE, since="1")),
}


@pytest.fixture
def sent(served):
    """How often a request is sent that is answered like this for ever, and what came of it."""

    def sent(verb, answer):
        async def test(server, cluster):
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                for path in (
                    PATH,
                    f"{PATH}?watch",
                    "/api/v1/namespaces/default/pods/a",
                    "/api/v1/namespaces/default/pods",
                ):
                    server.on(method, path, answer)
            with pytest.raises(ApiError) as caught:
                await VERBS[verb](cluster)
            return len(server.asked), caught.value.status

        return served(test)

    return sent


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 415, 422])
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_refused_for_good_is_sent_once(sent, verb, status):
    """The same request would be refused again; who waits for other rights comes back by the retry policy."""
    assert sent(verb, status_answer(status)) == (1, status)


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("verb, times", [("get", 4), ("list", 4), ("replace", 4), ("patch", 4), ("apply", 4),
                                         ("delete", 4), ("create", 1), ("watch", 1)])  # fmt: skip
def test_what_may_pass_is_sent_again(sent, verb, times, status):
    """But a create, which may have been carried out, and a watch, which its stream begins again."""
    assert sent(verb, status_answer(status)) == (times, status)


def test_a_create_whose_answer_is_lost_is_not_sent_again(sent):
    """It may have been carried out."""

    async def answer(request):
        request.transport.close()
        return await json_answer({})(request)

    assert sent("create", answer) == (1, 0)


def test_a_create_is_not_repeated(served):
    """A lost answer would turn into AlreadyExists."""

    async def test(server, cluster):
        server.on("POST", "/api/v1/namespaces/default/pods", status_answer(500))
        with pytest.raises(ApiError):
            await cluster.create(PODS, {"metadata": {"name": "a"}}, "default")
        return server.requests("/api/v1/namespaces/default/pods", "POST")

    assert len(served(test)) == 1


@pytest.mark.parametrize("header, body", [("0", None), (None, 0)], ids=["header", "body"])
def test_429_is_waited_for_and_tried_again(served, header, body):
    """As the server says, in the header or in the Status, also where the body is not JSON."""

    async def test(server, cluster):
        busy = text_answer("Too many requests", 429, **({"Retry_After": header} if header else {}))
        if header is None:
            busy = json_answer({"kind": "Status", "code": 429, "details": {"retryAfterSeconds": body}}, 429)
        server.on("GET", "/api/v1/namespaces/default/pods/a", busy, json_answer({"metadata": {"name": "a"}}))
        return await cluster.get(PODS, "a", "default")

    assert served(test)["metadata"]["name"] == "a"


@pytest.mark.parametrize("shape", ["seconds", "body", "date"])
def test_429_that_remains_says_how_long_to_wait(served, shape):
    """For whoever tries again later; an HTTP date is a time to wait as well."""
    date = email.utils.formatdate(time.time() + 100, usegmt=True)
    answer = {
        "seconds": text_answer("Too many requests", 429, Retry_After="100"),
        "body": json_answer({"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 100}}, 429),
        "date": text_answer("Too many requests", 429, Retry_After=date),
    }[shape]

    async def test(server, cluster):
        server.on("GET", PATH + "?watch", answer)
        return (await take(cluster, since="5"))[-1]

    failure = served(test)
    assert isinstance(failure, TooManyRequests) and 95 <= failure.retry_after <= 100


@pytest.mark.parametrize("details", [{"retryAfterSeconds": "soon"}, {"retryAfterSeconds": None}, [1], "odd"], ids=repr)
def test_429_with_odd_details_is_a_429(sent, details):
    """Proxies answer as they like; the code of the answer counts then."""
    body = {"kind": "Status", "code": "429", "reason": ["odd"], "message": {"odd": 1}, "details": details}
    assert sent("get", json_answer(body, 429)) == (4, 429)


# Credentials.


def test_401_leads_to_a_new_login(served):
    """The token has changed meanwhile; the request is repeated with the new one."""
    logins = []

    async def test(server, cluster):
        async def answer(request):
            if request.headers["Authorization"] != "Bearer token-2":
                return await status_answer(401, "Unauthorized")(request)
            return await json_answer({"metadata": {"name": "a"}})(request)

        server.on("GET", "/api/v1/namespaces/default/pods/a", answer)

        return await cluster.get(PODS, "a", "default")

    async def main():
        async with asyncio.timeout(20), ScriptedServer() as server:

            def login(**_):
                logins.append(1)
                return kopf.ConnectionInfo(server=server.url, token=f"token-{len(logins)}")

            return await test(server, await server.cluster([login]))

    assert asyncio.run(main())["metadata"]["name"] == "a" and len(logins) == 2


def test_many_requests_that_meet_401_make_one_login(served):
    """The others wait for it and are repeated."""
    logins = []

    async def main():
        async with asyncio.timeout(20), ScriptedServer() as server:

            async def login(**_):
                logins.append(1)
                await asyncio.sleep(0.05)
                return kopf.ConnectionInfo(server=server.url, token=f"token-{len(logins)}")

            async def answer(request):
                good = request.headers["Authorization"] == "Bearer token-2"
                return await (json_answer({}) if good else status_answer(401))(request)

            server.on("GET", "/api/v1/namespaces/default/pods/a", answer)
            cluster = await server.cluster([login])
            return await asyncio.gather(*(cluster.get(PODS, "a", "default") for _ in range(50)))

    assert len(asyncio.run(main())) == 50 and len(logins) == 2


def test_credentials_that_stay_wrong_are_an_error_and_later_ones_work(served):
    """401 is told, and the next login may bring better ones."""
    good = []

    async def main():
        async with asyncio.timeout(20), ScriptedServer() as server:

            def login(**_):
                return kopf.ConnectionInfo(server=server.url, token="good" if good else "bad")

            async def answer(request):
                right = request.headers["Authorization"] == "Bearer good"
                return await (json_answer({}) if right else status_answer(401))(request)

            server.on("GET", "/api/v1/namespaces/default/pods/a", answer)
            cluster = await server.cluster([login])
            with pytest.raises(ApiError) as caught:
                await cluster.get(PODS, "a", "default")
            good.append(True)
            await asyncio.sleep(0.01)
            for _ in range(3):
                try:
                    return caught.value.status, await cluster.get(PODS, "a", "default")
                except ApiError:
                    await asyncio.sleep(0.05)

    assert asyncio.run(main()) == (401, {})


@pytest.fixture
def kubeconfig(tmp_path, monkeypatch):
    """A kubeconfig for this server whose token stands in a file; that file."""
    token = tmp_path / "token"

    def write(server, **user):
        config = {
            "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server.url}}],
            "users": [{"name": "u", "user": user or {"tokenFile": "token"}}],
        }  # fmt: skip
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        return token

    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    return write


def only(good):
    """Answers who has one of these tokens; one of them must be the current one."""

    async def answer(request):
        right = request.headers.get("Authorization", "").removeprefix("Bearer ") in good
        return await (json_answer({"metadata": {"name": "a"}}) if right else status_answer(401))(request)

    return answer


def connected(test, **options):
    """Run `test(server, cluster)` with the credentials that are found; `before(server)` puts them there."""

    async def main(before):
        async with asyncio.timeout(20), ScriptedServer() as server:
            before(server)
            cluster = KopfCluster(**options)
            await cluster.open()
            try:
                return await test(server, cluster)
            finally:
                await cluster.close()

    return main


def test_a_token_file_that_changes_is_read_before_the_server_refuses(kubeconfig):
    """Rotation costs no refused request."""
    good, seen = {"one"}, []

    def before(server):
        kubeconfig(server).write_text("one")
        server.on("GET", "/api/v1/namespaces/default/pods/a", only(good))

    async def test(server, cluster):
        for token in ("one", "two", "three"):
            (Path(os.environ["KUBECONFIG"]).parent / "token").write_text(token)
            good.clear()
            good.add(token)
            await cluster.get(PODS, "a", "default")
        return [one.headers["Authorization"] for one in server.requests("/api/v1/namespaces/default/pods/a")]

    seen = asyncio.run(connected(test)(before))
    assert seen == ["Bearer one", "Bearer two", "Bearer three"]


def test_a_token_in_the_kubeconfig_that_changes_is_found_after_a_refusal(kubeconfig):
    """Somebody has logged in anew; the request that was refused is sent again."""
    good = {"one"}

    def before(server):
        kubeconfig(server, token="one")
        server.on("GET", "/api/v1/namespaces/default/pods/a", only(good))

    async def test(server, cluster):
        await cluster.get(PODS, "a", "default")
        kubeconfig(server, token="two")
        good.clear()
        good.add("two")
        return await cluster.get(PODS, "a", "default")

    assert asyncio.run(connected(test)(before))["metadata"]["name"] == "a"


def test_a_kubeconfig_that_leads_elsewhere_later_is_not_followed(kubeconfig, caplog):
    """Who switches his context to another cluster must not take a running operator along."""

    def before(server):
        kubeconfig(server, token="one")
        server.on("GET", "/api/v1/namespaces/default/pods/a", only({"two"}))

    async def test(server, cluster):
        class Other:
            url = "http://127.0.0.1:1"

        kubeconfig(Other, token="two")
        with pytest.raises(ApiError) as caught:
            await cluster.get(PODS, "a", "default")
        return caught.value.status

    assert asyncio.run(connected(test)(before)) == 401
    assert "leads to another server now" in caplog.text


@pytest.mark.parametrize("seconds", [3600, 5, -60])
def test_a_plugin_whose_token_expires_at_once_is_used(kubeconfig, tmp_path, seconds):
    """Also one whose clock is behind; it is asked again when the server refuses what it gave, and not before."""
    stamp = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)).isoformat()
    status = json.dumps({"status": {"token": "TOKEN", "expirationTimestamp": stamp}})
    script = tmp_path / "plug"
    script.write_text(
        f"#!/bin/sh\necho >> {tmp_path}/runs\nn=$(wc -l < {tmp_path}/runs | tr -d ' ')\n"
        f"cat <<'E' | sed s/TOKEN/token-$n/\n{status}\nE\n"
    )
    script.chmod(0o755)
    good = {"token-1"}

    def before(server):
        kubeconfig(server, exec={"apiVersion": "client.authentication.k8s.io/v1", "command": "./plug",
                                 "interactiveMode": "Never"})  # fmt: skip
        server.on("GET", "/api/v1/namespaces/default/pods/a", only(good))

    async def test(server, cluster):
        for _ in range(5):
            await cluster.get(PODS, "a", "default")
        assert len((tmp_path / "runs").read_text()) == 1
        good.clear()
        good.add("token-2")
        await cluster.get(PODS, "a", "default")
        good.clear()
        for _ in range(5):
            with pytest.raises(ApiError):
                await cluster.get(PODS, "a", "default")
        return len((tmp_path / "runs").read_text())

    assert asyncio.run(connected(test)(before)) <= 4


def test_a_plugin_that_hangs_does_not_hold_up_the_exit(kubeconfig, tmp_path):
    """It may wait for a person."""
    script = tmp_path / "plug"
    script.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 120\n")
    script.chmod(0o755)
    code = (
        "import asyncio, os\nfrom opkit.cluster.kopf_cluster import KopfCluster\n"
        "async def main():\n    login = asyncio.create_task(KopfCluster().open())\n"
        f"    while not login.done() and not os.path.exists({str(tmp_path / 'pid')!r}): await asyncio.sleep(0.05)\n"
        "    await asyncio.wait_for(login, 0.2)\n"
        "asyncio.run(main())\n"
    )

    class Server:
        url = "http://127.0.0.1:1"

    kubeconfig(Server, exec={"command": "./plug"})
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    took = time.monotonic() - started
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)  # it ran, and would for long
    assert "TimeoutError" in done.stderr and took < 60


def test_a_watch_goes_on_while_the_token_is_replaced(kubeconfig):
    """Its connection is closed when it has ended, and not before."""

    def before(server):
        kubeconfig(server).write_text("one")
        server.on("GET", PATH + "?watch", stream(event("ADDED", "a"), pause(0.3), event("ADDED", "b")))
        server.on("GET", "/api/v1/namespaces/default/pods/a", only({"two"}))

    async def test(server, cluster):
        watching = asyncio.create_task(take(cluster, since="5"))
        await asyncio.sleep(0.1)
        (Path(os.environ["KUBECONFIG"]).parent / "token").write_text("two!"[:3] + "\n")
        await cluster.get(PODS, "a", "default")
        taken = await watching
        await cluster.get(PODS, "a", "default")
        return names(taken), cluster._sessions._retired

    assert asyncio.run(connected(test)(before)) == ([("ADDED", "a"), ("ADDED", "b")], [])


def test_a_service_account_is_read_again(monkeypatch, tmp_path):
    """kopf reads it once; the kubelet writes a new token every hour."""
    token = tmp_path / "token"
    token.write_text("one")
    good, url = {"one"}, []

    def login(**_):
        return kopf.ConnectionInfo(server=url[0], token=token.read_text())

    monkeypatch.setattr(kopf_client, "_SERVICE_ACCOUNT", str(token))
    monkeypatch.setattr(kopf_client.piggybacking, "has_service_account", lambda: True)
    monkeypatch.setattr(kopf_client.piggybacking, "login_with_service_account", login)

    def before(server):
        url.append(server.url)
        server.on("GET", "/api/v1/namespaces/default/pods/a", only(good))

    async def test(server, cluster):
        await cluster.get(PODS, "a", "default")
        token.write_text("two\n".strip())
        good.clear()
        good.add("two")
        await cluster.get(PODS, "a", "default")
        return [one.headers["Authorization"] for one in server.asked]

    assert asyncio.run(connected(test)(before)) == ["Bearer one", "Bearer two"]


def test_a_kubeconfig_that_is_named_comes_first(kubeconfig, monkeypatch, tmp_path):
    """Before a login handler, a service account, and the variable."""

    def before(server):
        kubeconfig(server, token="named")
        (tmp_path / "config").rename(tmp_path / "named")
        monkeypatch.setattr(kopf_client.piggybacking, "has_service_account", lambda: True)
        server.on("GET", "/api/v1/namespaces/default/pods/a", only({"named"}))

    async def test(server, cluster):
        return await cluster.get(PODS, "a", "default")

    options = {"kubeconfig": tmp_path / "named", "context": "c", "logins": [lambda **_: None]}
    assert asyncio.run(connected(test, **options)(before))["metadata"]["name"] == "a"


def test_what_can_not_be_used_for_tls_is_told_at_the_start():
    """In one line, and never with the content."""
    pem = "-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n"

    async def main(**given):
        cluster = KopfCluster(logins=[lambda **_: kopf.ConnectionInfo(server="https://127.0.0.1:1", **given)])
        with pytest.raises(CredentialsError) as caught:
            await cluster.open()
        await cluster.close()
        return str(caught.value)

    assert "certificate authority" in asyncio.run(main(ca_data=pem))
    told = asyncio.run(main(certificate_data=pem, private_key_data=pem))
    assert "client certificate with its key" in told and "c2VjcmV0" not in told and "\n" not in told


# Writes.


@pytest.mark.parametrize(
    "kind, media",
    [
        ("merge", "application/merge-patch+json"),
        ("json", "application/json-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
    ],
)
def test_each_patch_says_what_it_is(served, kind, media):
    """A content type that is wrong would be another change."""

    async def test(server, cluster):
        path = "/api/v1/namespaces/default/pods/a/status"
        server.on("PATCH", path, json_answer({}))
        await cluster.patch(PODS, "a", "default", {"status": {}}, type=kind, subresource="status")
        return server.requests(path, "PATCH")[0]

    asked = served(test)
    assert asked.headers["Content-Type"] == media and asked.json() == {"status": {}}


def test_a_delete_can_mean_just_one_object(served):
    """By its UID."""

    async def test(server, cluster):
        path = "/api/v1/namespaces/default/pods/a"
        server.on("DELETE", path, json_answer({}))
        await cluster.delete(PODS, "a", "default", uid="u1")
        return server.requests(path, "DELETE")[0].json()

    assert served(test)["preconditions"] == {"uid": "u1"}


def test_an_apply_is_in_the_operators_name(served):
    """With `force` only when that is asked for."""

    async def test(server, cluster):
        path = "/api/v1/namespaces/default/pods/a"
        server.on("PATCH", path, json_answer({}))
        for force in (False, True):
            await cluster.apply(PODS, "a", "default", {"kind": "Pod"}, manager="me", force=force)
        return [one.query for one in server.requests(path, "PATCH")]

    assert served(test) == [{"fieldManager": "me", "force": "false"}, {"fieldManager": "me", "force": "true"}]
