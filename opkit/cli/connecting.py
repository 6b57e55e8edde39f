"""Connecting: which cluster a command means, as named on its command line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import click

from opkit.cluster import kubeconfig as files
from opkit.errors import CredentialsError


@contextlib.contextmanager
def chosen_cluster(kubeconfig: str | None, context: str | None) -> Iterator[None]:
    """
    Check the file and the context that were named, and name the file in the environment for the time of the block.

    So what handlers start, such as kubectl, finds the same file. Raises `UsageError` for a missing file or context.
    """
    if kubeconfig is None and context is None:
        yield
        return
    if context == "" or kubeconfig == "":
        raise click.UsageError(
            f"{'--context' if context == '' else '--kubeconfig'} is empty: give a name, or leave it out"
        )
    if kubeconfig is not None and not Path(kubeconfig).expanduser().exists():
        raise click.UsageError(f"no such file: {kubeconfig} (given by --kubeconfig)")
    before = os.environ.get("KUBECONFIG")
    if kubeconfig is not None:
        os.environ["KUBECONFIG"] = str(Path(kubeconfig).expanduser().absolute())
    try:
        try:
            files.check(path=kubeconfig, context=context)
        except CredentialsError as error:
            raise click.UsageError(str(error)) from error
        yield
    finally:
        if kubeconfig is not None:
            if before is None:
                os.environ.pop("KUBECONFIG", None)
            else:
                os.environ["KUBECONFIG"] = before
