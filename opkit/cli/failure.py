"""Errors on the command line: one line each and an exit status, a traceback only for those who ask."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import traceback
from collections.abc import Iterator

import click

from opkit.cli.loading import LoadError
from opkit.errors import OpkitError, Problem, RegistrationError
from opkit.plan.printing import short_path


class Failure(click.ClickException):
    """What the user is told, with exit status 1."""


class UsageFailure(Failure):
    """What the user is told about the command itself, with exit status 2."""

    exit_code = 2


@contextlib.contextmanager
def told_plainly(*, debug: bool = False) -> Iterator[None]:
    """
    Turn opkit's errors in the block into a `Failure`; with `debug` print their traceback first.

    Other exceptions are bugs: they come through as they are.
    """
    try:
        yield
    except OpkitError as error:
        if debug:
            traceback.print_exception(error)
        failure = UsageFailure if isinstance(error, LoadError) and error.is_usage else Failure
        raise failure(_message(error)) from error


def shown(problem: Problem) -> Problem:
    """A problem with its files as a person would type them, also where the message names another place."""
    here = os.path.join(os.getcwd(), "")
    message = problem.message.replace(f"({here}", "(")
    return dataclasses.replace(problem, file=short_path(problem.file), message=message)


def _message(error: OpkitError) -> str:
    if not isinstance(error, RegistrationError):
        return str(error)
    if len(error.problems) == 1:
        return str(shown(error.problems[0]))
    lines = [f"{len(error.problems)} problems in the handlers:", *(str(shown(one)) for one in error.problems)]
    return "\n  ".join(lines)
