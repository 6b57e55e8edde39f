"""`opkit check`: the plan or every problem, and the exit status."""

import json
import subprocess
import sys
import textwrap

import pytest

GOOD = """
import opkit
@opkit.reconcile("example.com", "v1", "webapps")
def web(webapp): ...
"""

BAD = """
import opkit

@opkit.reconcile("example.com", "v1", "webapps", timeout=-1)
def one(webapp): ...

@opkit.reconcile("example.com", "v1", "webapps", label_selector="a=b", field_selector="metadata.name=x")
def two(webapp): ...

@opkit.reconcile("example.com", "v1", "webapps", controller="one")
def three(webapp): ...

@opkit.delete("example.com", "v1", "webapps", controller="one")
def four(body, diff): ...

@opkit.finalizer("example.com", "v1", "webapps", name="cleanup")
def five(webapp): ...

@opkit.filter.update("example.com", "v1", "webapps")
async def six(new, old): ...

@opkit.finalizer("v1", "pods", name="example.com/pods")
def seven(pod): ...

@opkit.startup()
def eight(body): ...
"""


def test_plan_as_text(write, opkit_command):
    """Without problems, the plan is printed and the exit status is 0."""
    write(handlers=GOOD)
    result = opkit_command("check", "handlers.py")
    assert result.exit_code == 0
    assert "resource webapps.v1.example.com" in result.stdout and "web (handlers.py:3)" in result.stdout


def test_plan_as_json(write, opkit_command):
    """With `--format json`, the plan is data."""
    write(handlers=GOOD)
    result = opkit_command("check", "handlers.py", "--format", "json")
    data = json.loads(result.stdout)
    assert (result.exit_code, data["problems"]) == (0, [])
    assert data["plan"]["resources"][0]["controllers"][0]["name"] == "web"


def test_eight_mistakes(write, opkit_command):
    """Eight mistakes are eight lines with file and line, and exit status 1."""
    write(handlers=BAD)
    result = opkit_command("check", "handlers.py")
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert [line.split(": ")[0] for line in lines] == [f"handlers.py:{n}" for n in (4, 7, 10, 13, 16, 19, 22, 25)]
    assert result.stderr == "8 problems\n"


def test_eight_mistakes_as_json(write, opkit_command):
    """The same as data."""
    write(handlers=BAD)
    result = opkit_command("check", "handlers.py", "--format", "json")
    data = json.loads(result.stdout)
    assert (result.exit_code, data["plan"], len(data["problems"])) == (1, None, 8)
    assert data["problems"][0]["file"] == "handlers.py" and data["problems"][0]["line"] == 4


def test_other_places_in_a_message_are_short_too(write, opkit_command):
    """A problem that names a second place shows it as the first one."""
    write(handlers=BAD)
    assert "has a controller 'one' already (handlers.py:4)" in opkit_command("check", "handlers.py").stdout


@pytest.mark.parametrize(
    "args, status, message",
    [
        pytest.param(["nofile.py"], 2, "no such file or folder: nofile.py", id="no-file"),
        pytest.param([], 2, "name a file with handlers", id="nothing"),
        pytest.param(["-m", "nosuch"], 2, "no such module: nosuch", id="no-module"),
        pytest.param(["--nope"], 2, "No such option", id="no-option"),
        pytest.param(["--format", "xml", "empty.py"], 2, "xml", id="no-format"),
        pytest.param(["empty.py"], 1, "no handlers in empty.py", id="no-handlers"),
        pytest.param(["broken.py"], 1, "broken.py:1: ZeroDivisionError: division by zero", id="import-fails"),
    ],
)
def test_errors_are_one_line(write, opkit_command, args, status, message):
    """Errors are one clear line and a defined exit status, never a traceback."""
    write(empty="", broken="1/0\n")
    result = opkit_command("check", *args)
    assert result.exit_code == status
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ") and message in line and result.stdout == ""


def test_import_failure_as_json(write, opkit_command):
    """A module that can't be imported is a problem too, for programs that read them."""
    write(broken="1/0\n")
    result = opkit_command("check", "broken.py", "--format", "json")
    (problem,) = json.loads(result.stdout)["problems"]
    assert (result.exit_code, problem["file"], problem["line"]) == (1, "broken.py", 1)


def test_traceback_for_those_who_ask(write, opkit_command):
    """With `-d`, the author's traceback comes before the line."""
    write(broken="1/0\n")
    stderr = opkit_command("check", "broken.py", "-d").stderr
    assert "Traceback" in stderr and stderr.splitlines()[-1].startswith("Error: broken.py:1:")


def test_module_option(write, opkit_command):
    """`-m` checks a module."""
    write(pkg__handlers=GOOD)
    assert opkit_command("check", "-m", "pkg.handlers").exit_code == 0


def test_works_without_a_network(write, folder):
    """Checking opens no socket and loads neither an event loop's client nor kopf."""
    write(handlers=GOOD)
    script = """
        import socket, sys
        def refuse(*args, **kwargs): raise AssertionError("a socket was opened")
        socket.socket = refuse
        from opkit.cli import main
        try:
            main(["check", "handlers.py"])
        except SystemExit as exit:
            assert not exit.code
        assert not {"kopf", "aiohttp", "kubernetes", "pykube"} & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, cwd=folder)
