"""
Process: one peer as a process of its own, measured from outside.

Takes a command; gives its CPU time and peak memory as the kernel counts them, and the lines in which the peer reports
what its handler saw. Always ends the process.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

_PEERS = Path(__file__).parent / "peers"
_ROOT = _PEERS.parents[1]

# Seconds for a report of a peer; a peer that needs longer has failed.
_PATIENCE = 900.0

_COMMANDS = {
    "opkit": ("-m", "opkit", "run", "-q", "-A", str(_PEERS / "opkit_reconcile.py")),
    "kopf on.event": ("-m", "kopf", "run", "-q", "-A", "--standalone", str(_PEERS / "kopf_event.py")),
    "kopf on.create": ("-m", "kopf", "run", "-q", "-A", "--standalone", str(_PEERS / "kopf_create.py")),
    "kopf raw stream": (str(_PEERS / "raw_stream.py"),),
}

PEERS = tuple(_COMMANDS)


@functools.cache
def _byte_code() -> str:
    """
    A folder for the byte code of all that peers import.

    Installed packages come with theirs; that a source tree may have none is no part of a start.
    """
    folder = tempfile.mkdtemp(prefix="opkit-benchmarks-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for module in ("opkit.cli.run, opkit.cluster.kopf_client", "kopf.cli"):
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True, cwd=_ROOT, env=_environment(folder))
    return folder


def _environment(byte_code: str) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPATH": str(_ROOT), "PYTHONPYCACHEPREFIX": byte_code}


class PeerFailed(Exception):
    """A peer ended, or said nothing for too long."""


class Process:
    """A running peer. Times are seconds; those of the clock are monotonic, and the same in all processes."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, started: float) -> None:
        self.name = name
        self.started = started
        self._process = process

    async def report(self) -> list[str]:
        """The words of the next line that the peer's handler reports. Raises `PeerFailed`."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(_PATIENCE):
                while line := await self._process.stdout.readline():
                    if line.startswith(b"seen "):
                        return line.decode().split()[1:]
        except TimeoutError:
            raise PeerFailed(f"{self.name} reported nothing for {_PATIENCE:g} s") from None
        raise PeerFailed(f"{self.name} ended with {await self._process.wait()}; run its command by hand to see why")

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Let it stand still for as long as the block lasts."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def cpu(self) -> float:
        """CPU seconds of all of its threads so far."""
        total = 0
        for statistics in Path(f"/proc/{self._process.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # a thread that has just ended
                total += int(statistics.read_text().split()[0])
        return total / 1e9

    def memory(self, key: str = "VmHWM") -> float:
        """Megabytes: the most that was ever resident (VmHWM), or what is now (VmRSS)."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) / 1024
        raise PeerFailed(f"the kernel does not tell {key} of {self.name}")


@contextlib.asynccontextmanager
async def running(peer: str, kubeconfig: Path, report: str, *, profile: Path | None = None) -> AsyncIterator[Process]:
    """
    Run a peer until the block ends.

    `report` tells the peer's handler what to report (see `benchmarks.peers.observing`). With `profile` it runs under
    cProfile, which writes there, and everything takes several times as long.
    """
    profiler = ("-m", "cProfile", "-o", str(profile)) if profile else ()
    inherited = _environment(_byte_code())
    started = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable, *profiler, *_COMMANDS[peer],
        stdout=asyncio.subprocess.PIPE,
        cwd=_ROOT,
        env={**inherited, "KUBECONFIG": str(kubeconfig), "BENCHMARK_REPORT": report},
    )  # fmt: skip
    try:
        yield Process(peer, process, started)
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 20)
        except TimeoutError:
            process.kill()
    await process.wait()
