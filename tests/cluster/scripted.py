"""
A scripted API server on loopback: answers what a test tells it to, byte by byte, and writes down what it was asked.

    async with ScriptedServer() as server:
        server.on("GET", "/api/v1/pods", json_answer({"items": []}))          # once; the last one is repeated
        server.on("GET", "/api/v1/pods?watch", stream(b'{"type": ...}\\n', pause(1), cut()))
        cluster = server.cluster()

An answer is a function of the request that gives a response: `json_answer`, `text_answer`, `stream`, or a test's own.
Of several answers for one path each is given once, in order, and the last for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import Awaitable, Callable

import aiohttp.web
import kopf

from opkit.cluster.kopf_cluster import KopfCluster

Answer = Callable[[aiohttp.web.Request], Awaitable[aiohttp.web.StreamResponse]]


@dataclasses.dataclass
class Asked:
    """A request that came in."""

    method: str
    path: str
    query: dict
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


class ScriptedServer:
    """The server; a context manager. Paths that have no script answer 404 in plain text."""

    def __init__(self):
        self.asked = []
        self._answers = {}
        self._clusters = contextlib.AsyncExitStack()

    async def __aenter__(self):
        app = aiohttp.web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = aiohttp.web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await aiohttp.web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *exc):
        await self._clusters.aclose()
        await self._runner.cleanup()

    def on(self, method, path, *answers: Answer):
        """What to answer; `?watch` behind the path means watches only."""
        self._answers.setdefault((method, path), []).extend(answers)

    def requests(self, path, method="GET"):
        """What was asked for on this path."""
        return [one for one in self.asked if (one.method, one.path) == (method, path)]

    async def _serve(self, request):
        body = await request.read()
        self.asked.append(Asked(request.method, request.path, dict(request.query), dict(request.headers), body))
        path = request.path + ("?watch" if "watch" in request.query else "")
        answers = self._answers.get((request.method, path))
        if not answers:
            return aiohttp.web.Response(status=404, text="404 page not found")
        return await (answers.pop(0) if len(answers) > 1 else answers[0])(request)

    async def cluster(self, logins=None, **options):
        """kopf's client, logged in to this server; closed with it."""

        def login(**_):
            return kopf.ConnectionInfo(server=self.url, token="token-1")

        cluster = KopfCluster(logins=logins or [login], **options)
        await cluster.open()
        self._clusters.push_async_callback(cluster.close)
        return cluster


def json_answer(body, status=200, **headers) -> Answer:
    # Without spaces, as API servers write it.
    text = json.dumps(body, separators=(",", ":"))
    return text_answer(text, status, content_type="application/json", **headers)


def text_answer(text, status=200, content_type="text/plain", **headers) -> Answer:
    async def answer(request):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return aiohttp.web.Response(status=status, text=text, content_type=content_type, headers=named)

    return answer


def status_answer(status, reason="", message="", **headers) -> Answer:
    """A Kubernetes Status, as servers send it for errors."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason,
            "message": message}  # fmt: skip
    return json_answer(body, status, **headers)


def stream(*steps, status=200) -> Answer:
    """Bytes are sent as they are, each in a piece of its own; other steps are functions of the response."""

    async def answer(request):
        response = aiohttp.web.StreamResponse(status=status, headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for step in steps:
            if isinstance(step, bytes):
                await response.write(step)
                await asyncio.sleep(0)
            elif await step(request, response):
                return response
        await response.write_eof()
        return response

    return answer


def pause(seconds):
    """Say nothing for a while."""

    async def step(request, response):
        await asyncio.sleep(seconds)

    return step


def cut():
    """Cut the connection in the middle."""

    async def step(request, response):
        request.transport.close()
        return True

    return step


def event(type_, name="a", version="1", **fields):
    """One line of a watch."""
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "resourceVersion": version}, **fields}
    return (json.dumps({"type": type_, "object": body}, ensure_ascii=False) + "\n").encode()


def error(code, message="told to fail"):
    """An ERROR event with a Status; without a code if that is `None`."""
    status = {"kind": "Status", "message": message, **({} if code is None else {"code": code})}
    return (json.dumps({"type": "ERROR", "object": status}) + "\n").encode()


def pieces(data, size):
    """The same bytes in pieces of this size."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def pod_list(*names, version="100", token="", **fields):
    """A page of a list."""
    items = [{"metadata": {"name": name, "resourceVersion": "7"}} for name in names]
    meta = {"resourceVersion": version, "continue": token}
    return json_answer({"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": items, **fields})
