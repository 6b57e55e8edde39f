"""
Server: the API server that all peers are measured against, and what is written to it.

A real kube-apiserver where `KUBEBUILDER_ASSETS` names the binaries, else opkit's embedded one. The objects are of
0.7 KB, in one namespace, and look like what an operator has to do with.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import aiohttp

from opkit.testing.definitions import permissive
from opkit.testing.embedded import EmbeddedCluster
from opkit.testing.kube import KubeServer, assets_from_environment

# Writes under way at once: enough to keep the server busy on two cores.
_CONCURRENT = 16

_PATH = "/apis/example.com/v1/namespaces/default/widgets"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def widget(name: str) -> dict[str, Any]:
    """An object of 0.7 KB once the server has added what is its own."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "labels": {"app": "shop", "tier": "web"}, "annotations": {"team": "storefront"}},
        "spec": {
            "n": 0,
            "image": "nginx:stable",
            "replicas": 2,
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "text": "y" * 40,
        },
    }


class Server:
    """A running server, and the writes that make the load."""

    def __init__(self, kubeconfig: Path, url: str, session: aiohttp.ClientSession, kind: str) -> None:
        self.kubeconfig = kubeconfig
        self.kind = kind
        self._url = url
        self._session = session
        self.count = 0
        """How many numbered objects there are."""
        self._extra: set[str] = set()
        self._touched = 0

    async def _send(self, method: str, path: str, body: Any = None, media_type: str = "application/json") -> Any:
        async with self._session.request(
            method, self._url + path, json=body, headers={"Content-Type": media_type}
        ) as response:
            answer = await response.json()
            if response.status >= 400:
                raise RuntimeError(f"{method} {path}: {response.status} {answer.get('message')}")
            return answer

    async def define(self) -> None:
        """Make the server know the objects."""
        await self._send("POST", _DEFINITIONS, permissive("widgets", "Widget", "example.com"))
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(RuntimeError, aiohttp.ContentTypeError):
                    await self._send("GET", f"{_PATH}?limit=1")
                    return
                await asyncio.sleep(0.1)

    async def grow(self, count: int) -> None:
        """Create objects until there are so many: `w0`, `w1` and so on."""
        names = [f"w{number}" for number in range(self.count, count)]
        await _all(names, self.create)
        self.count = max(self.count, count)

    async def create(self, name: str) -> None:
        await self._send("POST", _PATH, widget(name))

    async def ensure(self, name: str) -> None:
        """Create an object beside the numbered ones, unless it is there."""
        if name not in self._extra:
            await self.create(name)
            self._extra.add(name)

    @property
    def total(self) -> int:
        """How many objects there are."""
        return self.count + len(self._extra)

    async def relabel(self, number: int) -> None:
        """A change that leaves the generation as it is: the n-th of a series over all objects."""
        patch = {"metadata": {"labels": {"round": str(number)}}}
        await self._patch(f"w{number % self.count}", patch)

    async def respecify(self, number: int) -> None:
        """A change of the spec: the n-th of a series over all objects."""
        await self._patch(f"w{number % self.count}", {"spec": {"n": number}})

    async def touch(self, name: str) -> None:
        """A change of one object's spec."""
        self._touched += 1
        await self._patch(name, {"spec": {"n": self._touched}})

    async def _patch(self, name: str, patch: dict[str, Any]) -> None:
        await self._send("PATCH", f"{_PATH}/{name}", patch, "application/merge-patch+json")

    async def change(self, numbers: Iterable[int], write: Callable[[int], Awaitable[None]]) -> None:
        """Make a series of changes as fast as the server takes them."""
        await _all(list(numbers), write)


async def _all(items: list[Any], write: Callable[[Any], Awaitable[None]]) -> None:
    """Write them all, some at a time, in order."""
    waiting = iter(items)

    async def work() -> None:
        for item in waiting:
            await write(item)

    await asyncio.gather(*(work() for _ in range(_CONCURRENT)))


@contextlib.contextmanager
def _started() -> Iterator[tuple[Path, str, str, ssl.SSLContext | None, str]]:
    assets = assets_from_environment()
    if assets is not None:
        with KubeServer(assets) as kube:
            context = ssl.create_default_context(cafile=kube.certificate)
            yield kube.kubeconfig, kube.url, kube.token, context, "kube-apiserver"
    else:
        with EmbeddedCluster() as embedded:
            yield embedded.kubeconfig, embedded.url, embedded.token, None, "opkit's embedded API server"


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    """A new server that knows the objects and has none."""
    with _started() as (kubeconfig, url, token, context, kind):
        connector = aiohttp.TCPConnector(ssl=context if context is not None else True, limit=_CONCURRENT)
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            server = Server(kubeconfig, url, session, kind)
            await server.define()
            yield server
