"""
The command line: `opkit run`, `check`, `apiserver`, `version`.

    loading     handlers from files, folders and modules
    failure     errors as one line and an exit status
    check       the compiled plan, or every problem
    run         the operator                                   (a module of its own, loaded when called)
    apiserver   the embedded API server alone                  (likewise)

A command's module is imported when it is called, so that `opkit version` doesn't wait for the API client.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

_COMMANDS = {
    "run": "Run an operator from handler files.",
    "check": "Show the compiled plan, or every problem.",
    "apiserver": "Run the embedded API server alone, for kubectl.",
    "version": "Show the versions of opkit and of what it runs on.",
}


class _Commands(click.Group):
    """A group of commands, each in the module of its name, whose errors are one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"opkit.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        run = functools.partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        if not standalone_mode:
            return run()
        try:
            status: object = run()
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.ClickException as error:
            # Without the usage lines that click puts before it: what is wrong is in this one.
            click.echo(f"Error: {error.format_message()}", err=True)
            sys.exit(error.exit_code)
        except click.Abort:
            click.echo("Aborted.", err=True)
            sys.exit(1)
        sys.exit(status if isinstance(status, int) else 0)


def _show_version(context: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        context.invoke(importlib.import_module("opkit.cli.version").version)
        context.exit()


@click.command(
    cls=_Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "OPKIT"},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version,
    help="Show the versions of opkit and of what it runs on.",
)  # fmt: skip
def main() -> None:
    """Kubernetes operators as plain Python functions."""
