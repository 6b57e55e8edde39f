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
