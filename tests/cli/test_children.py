"""Children of an operator: they have signals of their own, and it keeps its."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

HEAD = """
import concurrent.futures, multiprocessing, os, signal, subprocess, sys, time
import opkit

def square(number):
    return number * number

def wait_for_ever():
    time.sleep(60)

def ended(child, number):
    time.sleep(0.3)
    os.kill(child.pid, number)
    child.join(10)
    return child.exitcode

@opkit.reconcile("v1", "namespaces", field_selector="metadata.name=default")
"""

POOL = """
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print("RESULT", pool.map(square, [1, 2]))
"""

KINDS = {
    "pool-of-forks": POOL.format(method="fork"),
    "pool-of-a-fork-server": POOL.format(method="forkserver"),
    "spawned-pool": POOL.format(method="spawn"),
    "executor": """
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        print("RESULT", list(pool.map(square, [1, 2])))
    """,
    "fork": """
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    time.sleep(0.3)
    os.kill(pid, signal.SIGTERM)
    print("RESULT", [1, 4] if os.waitpid(pid, 0)[1] == signal.SIGTERM else "went on")
    """,
    "process": """
    child = multiprocessing.get_context("fork").Process(target=wait_for_ever)
    child.start()
    print("RESULT", [1, 4] if ended(child, signal.SIGTERM) == -signal.SIGTERM else "went on")
    """,
    "interrupted": """
    child = multiprocessing.get_context("fork").Process(target=wait_for_ever)
    child.start()
    print("RESULT", [1, 4] if ended(child, signal.SIGINT) == 1 else "went on")
    """,
    "command": """
    child = subprocess.Popen(["sleep", "60"])
    child.terminate()
    print("RESULT", [1, 4] if child.wait(10) == -signal.SIGTERM else "went on")
    """,
}


def outcome(folder, source):
    """Run these handlers until they have said what came of it, and a second longer; what was said before the end."""
    (folder / "handlers.py").write_text(source)
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    environment["PYTHONUNBUFFERED"] = "1"  # a file is written to only now and then otherwise
    with open(folder / "output", "wb") as output:
        command = [sys.executable, "-m", "opkit", "run", "handlers.py", "--embedded"]
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 40
        while "RESULT" not in (folder / "output").read_text() and process.poll() is None:
            assert time.monotonic() < deadline, (folder / "output").read_text()
            time.sleep(0.05)
        time.sleep(1)
        said = (folder / "output").read_text()
        assert process.poll() is None, said
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait(10)
    assert "Stopping on SIGTERM" in (folder / "output").read_text()
    return said


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loop", ["usual", "asyncio"])
def test_signals_of_a_child_are_the_childs(tmp_path, kind, loop):
    """A child ends by a signal as any process does; the operator hears nothing of it, and ends by its own."""
    without = "import sys\nsys.modules['uvloop'] = None\n" if loop == "asyncio" else ""
    body = textwrap.dedent(KINDS[kind]).strip("\n")
    said = outcome(tmp_path, without + HEAD + "def go(name):\n" + textwrap.indent(body, "    "))
    assert "RESULT [1, 4]" in said and "Stopping on" not in said


FORKS = """
def end(number):
    ends = [lambda: sys.exit(3), lambda: sys.exit("so it is"), sys.exit, lambda: [] + 1, interrupt, lambda: None]
    return ends[number]()

def interrupt():
    raise KeyboardInterrupt

{decorator}
{function} go(name):
    statuses = []
    for number in range(6):
        if (pid := os.fork()) == 0:
            return end(number)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    print("RESULT", *statuses, flush=True)
"""

ELSEWHERE = """
def go(name):
    pass

{function} fork_and_exit(what):
    if (pid := os.fork()) == 0:
        sys.exit(3)
    print(what, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return {{}}

@opkit.startup()
{function} start():
    {wait} fork_and_exit("STARTED")

@opkit.poll(of="namespaces", interval=3600)
{function} look():
    return {wait} fork_and_exit("RESULT")
"""


@pytest.mark.parametrize("function", ["def", "async def"])
def test_a_forked_child_ends_where_its_handler_ends(tmp_path, function):
    """Nothing that leaves a handler in a child makes a second operator of it: it ends, as a program would."""
    head, at, decorator = HEAD.rpartition("@")
    said = outcome(tmp_path, head + FORKS.format(function=function, decorator=at + decorator.strip()))
    assert "RESULT 3 1 0 1 1 0" in said and "so it is" in said and "TypeError" in said
    assert said.count("RESULT") == 1 and "go failed" not in said and said.count("go succeeded") == 1


@pytest.mark.parametrize(("function", "wait"), [("def", ""), ("async def", "await")])
def test_a_forked_child_ends_where_any_function_ends(tmp_path, function, wait):
    """The same for functions that are not called for one object."""
    said = outcome(tmp_path, HEAD + ELSEWHERE.format(function=function, wait=wait))
    assert said.count("STARTED 3") == said.count("STARTED") == 1
    assert said.count("RESULT 3") == said.count("RESULT") > 0
