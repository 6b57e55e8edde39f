"""The embedded API server for `opkit run --embedded`: started, filled, and given a kubeconfig."""

from __future__ import annotations

import contextlib
import datetime
import random
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from opkit.apiserver.manifests import apply, load
from opkit.apiserver.server import ApiServer
from opkit.apiserver.state import StateKeeper, open_store
from opkit.simulation.store import Store


@contextlib.asynccontextmanager
async def embedded_server(
    manifests: Sequence[str], data: str | None = None, *, port: int = 0, collect_garbage: bool = True
) -> AsyncIterator[Path]:
    """
    A server with these manifests applied; gives the path of its kubeconfig, which goes with the server.

    Raises `ManifestError` and `ApiError` for what can't be applied, `OSError` if the port is taken.
    """
    bodies = load(manifests)
    file = Path(data) if data is not None else None
    store = open_store(file, lambda is_empty: _new_store(is_empty, collect_garbage))
    await apply(store, bodies)
    async with contextlib.AsyncExitStack() as stack:
        if file is not None:
            await stack.enter_async_context(StateKeeper(store, file))
        server = await stack.enter_async_context(ApiServer(store, port=port))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="opkit-"))
        yield server.kubeconfig(Path(folder) / "kubeconfig")


def _new_store(is_empty: bool, collect_garbage: bool) -> Store:
    return Store(
        lambda: datetime.datetime.now(datetime.UTC), random.Random(), collect_garbage=collect_garbage, is_empty=is_empty
    )
