"""What a process does at its end, with handlers that don't want to end."""

import os
import signal
import subprocess
import sys
import time

HANDLERS = """
import asyncio
import opkit

def refuses():
    async def forever():
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
    return forever()

tasks = []

@opkit.startup()
async def startup(settings):
    settings.shutdown.grace = 0.2
    tasks.append(asyncio.create_task(refuses(), name="forgotten"))

@opkit.reconcile("v1", "namespaces")
async def reconcile():
    print("READY", flush=True)
    await refuses()
"""


def test_what_refuses_to_be_cancelled_is_named_and_left_behind(tmp_path):
    """A handler and a forgotten task that swallow every cancellation: the process ends all the same, in order."""
    (tmp_path / "stubborn.py").write_text(HANDLERS)
    with open(tmp_path / "said", "wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "opkit", "run", "stubborn.py", "--embedded"], cwd=tmp_path, stdout=said,
            stderr=subprocess.STDOUT, env={**os.environ, "HOME": str(tmp_path)},
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 30
            while "READY" not in (tmp_path / "said").read_text() and time.monotonic() < deadline:
                time.sleep(0.05)  # a file tells nobody of a change
            assert "READY" in (tmp_path / "said").read_text()
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(10)
    text = (tmp_path / "said").read_text()
    assert "did not end within 0.2 s" in text
    assert "the task forgotten refuses to be cancelled, and is left behind" in text
    assert "Traceback" not in text
