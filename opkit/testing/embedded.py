"""
An embedded API server for a test: in a thread of its own, so that a blocking client can talk to it.

Takes nothing; gives a URL, a token and a kubeconfig for as long as the `with` block lasts.
"""

from __future__ import annotations

import asyncio
import datetime
import random
import tempfile
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from opkit.apiserver.manifests import apply, load
from opkit.apiserver.server import ApiServer
from opkit.simulation.faults import FaultPlan
from opkit.simulation.store import Store

T = TypeVar("T")


class EmbeddedCluster:
    """
    A server on a free loopback port.

    `store` and `faults` belong to the server's thread: use them by `call`, which runs a function there.
    """

    def __init__(self, manifests: Sequence[str | Path] = (), *, collect_garbage: bool = False) -> None:
        self.store = Store(_now, random.Random(), collect_garbage=collect_garbage)
        self.faults = FaultPlan()
        self._manifests = manifests
        self._server = ApiServer(self.store, faults=self.faults)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="embedded API server", daemon=True)
        self._folder = tempfile.TemporaryDirectory(prefix="opkit-")
        self.kubeconfig = Path(self._folder.name) / "kubeconfig"

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def token(self) -> str:
        return self._server.token

    def __enter__(self) -> EmbeddedCluster:
        self._thread.start()
        try:
            self._wait(self._server.start())
            self._server.kubeconfig(self.kubeconfig)
            self.apply(*self._manifests)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._wait(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._folder.cleanup()

    def call(self, function: Callable[[], T]) -> T:
        """Run a function in the server's thread, where store and faults may be touched."""

        async def run() -> T:
            return function()

        return self._wait(run())

    def apply(self, *paths: str | Path) -> None:
        """Apply the objects in these files and folders, definitions first."""
        bodies = load(paths)
        if bodies:
            self._wait(apply(self.store, bodies))

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
