"""`opkit apiserver`: the embedded API server alone, for kubectl."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import random
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from opkit.errors import ApiError, OpkitError


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port to listen on; 0 takes a free one.")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the kubeconfig; without it, to a temporary file that is removed at the end.",
)
@click.option(
    "--apply",
    "manifests",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help="A file or folder with objects to begin with, definitions first. May be repeated.",
)
@click.option(
    "--data",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file that keeps the state between runs.",
)
@click.option(
    "--garbage-collection/--no-garbage-collection",
    default=True,
    help="Whether objects go with their owners, and namespaces with what is in them.",
)
def apiserver(
    port: int, kubeconfig: Path | None, manifests: Sequence[Path], data: Path | None, garbage_collection: bool
) -> None:
    """Run the embedded API server until it is interrupted. It listens on this machine only."""
    try:
        asyncio.run(_serve(port, kubeconfig, manifests, data, garbage_collection))
    except (ApiError, OpkitError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"port {port} can't be listened on: {error.strerror or error}") from None


async def _serve(
    port: int, kubeconfig: Path | None, manifests: Sequence[Path], data: Path | None, garbage_collection: bool
) -> None:
    from opkit.apiserver.manifests import apply, load
    from opkit.apiserver.server import ApiServer
    from opkit.apiserver.state import StateKeeper, open_store
    from opkit.simulation.store import Store

    def make(is_empty: bool) -> Store:
        return Store(
            _now,
            random.Random(random.SystemRandom().random()),
            collect_garbage=garbage_collection,
            is_empty=is_empty,
        )

    bodies = load(manifests)
    async with contextlib.AsyncExitStack() as stack:
        store = open_store(data, make)
        await apply(store, bodies)
        if data is not None:
            await stack.enter_async_context(StateKeeper(store, data))
        server = await stack.enter_async_context(ApiServer(store, port=port))
        if kubeconfig is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="opkit-"))
            kubeconfig = Path(folder) / "kubeconfig"
        path = server.kubeconfig(kubeconfig)
        interrupted = stack.enter_context(_signals())
        click.echo(f"The embedded API server listens on {server.url}. To use it:\n\n    export KUBECONFIG={path}\n")
        await interrupted.wait()


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Event]:
    """An event that is set by the first signal that asks to end."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    try:
        yield asked
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
