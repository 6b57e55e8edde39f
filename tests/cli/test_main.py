"""`opkit` itself: its commands, its help, its versions."""

import subprocess
import sys

import pytest


def test_version(opkit_command):
    """`opkit version` says what runs here."""
    result = opkit_command("version")
    assert result.exit_code == 0
    assert result.stdout.startswith("opkit ") and "kopf 1." in result.stdout and "Python 3." in result.stdout


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_names_all_commands(opkit_command, option):
    """Help lists the commands, without importing them."""
    result = opkit_command(option)
    assert result.exit_code == 0
    assert all(f"\n  {name}  " in result.stdout for name in ("run", "check", "apiserver", "version"))


def test_no_arguments_is_help(opkit_command):
    """`opkit` alone shows its help, and is a usage error."""
    result = opkit_command()
    assert result.exit_code == 2 and "Commands:" in result.output


def test_unknown_command(opkit_command):
    """An unknown command is one line and exit status 2."""
    result = opkit_command("chekc")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1 and "chekc" in result.stderr


def test_environment(write, opkit_command, monkeypatch):
    """Options can be given as environment variables, as in kopf."""
    write(handlers="import opkit\n@opkit.reconcile('a')\ndef a(body): ...\n")
    monkeypatch.setenv("OPKIT_CHECK_FORM", "json")
    assert opkit_command("check", "handlers.py").stdout.startswith("{")


def test_python_m(folder):
    """`python -m opkit` is `opkit`, and `version` loads no client."""
    command = [sys.executable, "-X", "importtime", "-m", "opkit", "version"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert result.stdout.startswith("opkit ")
    assert not any(name in result.stderr for name in ("aiohttp", "| kopf", "kubernetes", "| yaml"))
