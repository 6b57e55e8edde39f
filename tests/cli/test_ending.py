"""The end of a process that was told to stop: it comes, whatever the author's code does then."""

import signal
import time

import pytest

from tests.cli.test_run import DEFINITION, started, wait_for

HEAD = """
import asyncio, multiprocessing, threading, time
import opkit
from opkit import filter

@opkit.startup()
def start(settings):
    settings.shutdown.grace = 1

@opkit.shutdown()
def stop():
    print("shut down", flush=True)

def block():
    print("in", flush=True)
    time.sleep(60)
"""

WHERE = '@opkit.reconcile("example.com", "v1", "widgets"'

BLOCKS = {
    "handler": f"{WHERE})\nasync def go(name):\n    block()\n",
    "filter": f"{WHERE}, generic=lambda body: block())\ndef go(name):\n    pass\n",
    "mapper": f"""
@opkit.secondary("v1", "namespaces", of="widgets")
def where(name):
    block()

{WHERE})
def go(name):
    pass
""",
    "poll": f"""
@opkit.poll(of="widgets", interval=60)
async def look():
    block()

{WHERE})
def go(name):
    pass
""",
}

LEFT = {
    "shutdown-handler-that-blocks": ("@opkit.shutdown()\nasync def late():\n    time.sleep(60)\n", "", 143),
    "thread-of-asyncio": ("", "asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)", 0),
    "thread": ("", "threading.Thread(target=time.sleep, args=(60,)).start()", 0),
    "process": ("", "multiprocessing.Process(target=time.sleep, args=(60,)).start()", 0),
    "task-that-blocks": (
        """
async def stubborn():
    try:
        await asyncio.sleep(60)
    finally:
        time.sleep(60)
""",
        "memo.task = asyncio.create_task(stubborn()); await asyncio.sleep(0)",
        0,
    ),
}


def stopped(folder, source, signals=1):
    """Run these handlers, and stop them once they are in: exit status, seconds, and what was said."""
    (folder / "handlers.py").write_text(HEAD + source)
    (folder / "manifests.yaml").write_text(DEFINITION)
    with started(folder, "run", "handlers.py", "--embedded", "--apply", "manifests.yaml") as process:
        wait_for(folder, "in\n")
        begun = time.monotonic()
        for _ in range(signals):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
        status = process.wait(40)
        return status, time.monotonic() - begun, (folder / "output").read_text()


@pytest.mark.parametrize("kind", BLOCKS)
def test_what_blocks_the_loop_is_named_and_ends_with_the_process(tmp_path, kind):
    """A loop that does not turn can't stop in order; a few seconds after the grace the process ends, and says why."""
    status, lasted, said = stopped(tmp_path, BLOCKS[kind])
    assert status == 128 + signal.SIGTERM
    assert lasted < 20
    last = next(line for line in said.splitlines() if "is still blocked by" in line)
    assert "handlers.py:" in last and "time.sleep(60)" in last
    if kind == "handler":
        assert "by go on default/w1" in last


@pytest.mark.parametrize("loop", ["usual", "asyncio"])
def test_the_second_signal_ends_what_blocks_the_loop(tmp_path, loop):
    """It does not wait for the loop either."""
    without = "import sys\nsys.modules['uvloop'] = None\n" if loop == "asyncio" else ""
    status, lasted, said = stopped(tmp_path, without + BLOCKS["handler"], signals=2)
    assert status == 128 + signal.SIGTERM
    assert lasted < 4
    assert "Stopped at once by a second signal." in said


@pytest.mark.parametrize("kind", LEFT)
def test_what_goes_on_after_the_end_is_left_behind(tmp_path, kind):
    """What handlers have started and left gets what is left of the grace, and a few seconds."""
    before, inside, expected = LEFT[kind]
    handler = f"\n{WHERE})\nasync def go(memo):\n    {inside or 'pass'}\n    print('in', flush=True)\n"
    status, lasted, said = stopped(tmp_path, before + handler)
    assert status == expected
    assert lasted < 20
    assert "shut down" in said
    if kind in ("thread", "process"):
        assert f"The {kind} " in said and "is left behind" in said
