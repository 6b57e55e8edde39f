"""`opkit version`: what runs here, for a bug report."""

from __future__ import annotations

import importlib.metadata
import platform

import click


@click.command()
def version() -> None:
    """Show the versions of opkit and of what it runs on."""
    ours, kopf = (importlib.metadata.version(name) for name in ("opkit-k8s", "kopf"))
    click.echo(f"opkit {ours} (kopf {kopf}, Python {platform.python_version()})")
