"""`opkit check`: the compiled plan, or every problem. Needs no network."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from opkit.cli.failure import shown, told_plainly
from opkit.cli.loading import LoadError, load
from opkit.errors import Problem, RegistrationError


@click.command()
@click.argument("paths", nargs=-1)
@click.option("-m", "--module", "modules", multiple=True, help="A module with handlers. May be repeated.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-d", "--debug", is_flag=True, help="Show tracebacks.")
def check(paths: tuple[str, ...], modules: tuple[str, ...], form: str, debug: bool) -> int:
    """
    Show the compiled plan of the handlers in PATHS, or every problem.

    The exit status is 1 with problems, 2 when there is no such file.
    """
    if not paths and not modules:
        raise click.UsageError("name a file with handlers, as in `opkit check handlers.py`, or a module by -m")
    with told_plainly(debug=debug):
        try:
            plan = load(paths, modules).compile()
        except RegistrationError as error:
            return _tell([shown(problem) for problem in error.problems], form)
        except LoadError as error:
            if form == "json" and not error.is_usage and not debug:
                return _tell([error.problem], form)
            raise
    click.echo(json.dumps({"plan": plan.as_dict(), "problems": []}, indent=2) if form == "json" else str(plan))
    return 0


def _tell(problems: Iterable[Problem], form: str) -> int:
    """Print the problems, which are what was asked for and so go to the standard output."""
    problems = list(problems)
    if form == "json":
        click.echo(json.dumps({"plan": None, "problems": [_as_dict(problem) for problem in problems]}, indent=2))
    else:
        click.echo("\n".join(str(problem) for problem in problems))
        click.echo(f"{len(problems)} {'problem' if len(problems) == 1 else 'problems'}", err=True)
    return 1


def _as_dict(problem: Problem) -> dict[str, Any]:
    return {"file": problem.file or None, "line": problem.line or None, "message": problem.message}
