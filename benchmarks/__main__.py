"""`python -m benchmarks`: run rows, print them, and write them down."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import pstats
import sys
from pathlib import Path
from typing import Any

import click

from benchmarks.measures import Row
from benchmarks.options import Options
from benchmarks.process import PEERS
from benchmarks.rows import ROWS
from benchmarks.server import serving
from benchmarks.table import render

# Rows that look at opkit alone, without a server.
_SERVERLESS = frozenset({"queue", "sync", "memory"})

_LIBRARIES = ("opkit", "kopf", "aiohttp", "uvloop")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("rows", nargs=-1, type=click.Choice(list(ROWS)))
@click.option("--full", is_flag=True, help="The sizes of the goals: 50,000 objects and more. Takes an hour.")
@click.option("--objects", type=click.IntRange(min=1), help="Objects, instead of the row's own number.")
@click.option("--changes", type=click.IntRange(min=1), help="Changes (or writes) a round.")
@click.option("--rounds", type=click.IntRange(min=1), help="Turns of each peer.")
@click.option("--peer", "peers", multiple=True, type=click.Choice(PEERS), help="Only these peers. May be repeated.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Also write the results there.")
@click.option("--profile", type=click.Path(file_okay=False, path_type=Path), help="A folder for profiles of opkit.")
def main(rows: tuple[str, ...], file: Path | None, **given: Any) -> None:
    """Measure ROWS (all of them by default), opkit beside kopf on one server."""
    options = Options(**given)
    if options.profile is not None:
        options.profile.mkdir(parents=True, exist_ok=True)
    measured = asyncio.run(_measure(rows or tuple(ROWS), options))
    if file is not None:
        file.write_text(json.dumps({**_surroundings(), "rows": [row.as_dict() for row in measured]}, indent=2) + "\n")
    if options.profile is not None:
        _show_profiles(options.profile)


async def _measure(names: tuple[str, ...], options: Options) -> list[Row]:
    measured = []
    async with contextlib.AsyncExitStack() as stack:
        if not _SERVERLESS.issuperset(names):
            server = await stack.enter_async_context(serving())
            options = dataclasses.replace(options, server=server)
            click.echo(f"Measured on {server.kind}.\n")
        for name in names:
            row = await ROWS[name](options)
            click.echo(render(row) + "\n")
            measured.append(row)
    return measured


def _show_profiles(folder: Path) -> None:
    for profile in sorted(folder.glob("*.pstats")):
        click.echo(f"{profile}: the functions that took longest by themselves")
        pstats.Stats(str(profile)).sort_stats("tottime").print_stats(30)


def _surroundings() -> dict[str, Any]:
    """What the numbers depend on."""
    versions = {}
    for library in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[library] = importlib.metadata.version(library)
    return {
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "system": platform.platform(),
        "versions": versions,
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["soak"]:  # not a measurement: it has options and a verdict of its own
        from benchmarks import soak

        sys.exit(soak.main(sys.argv[2:]))
    main()
