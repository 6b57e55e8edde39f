"""
Health: whether a running operator does its work, for probes.

Takes an operator; gives the outcome of each check as a value, and serves them over HTTP where that is asked for.
An operator is healthy while its event loop is quick, no stream has been silent for longer than it may be, and no
loop of the runtime has died. That objects fail is not its illness: it is shown, and does not count.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import urllib.parse
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from opkit.clock import Clock

if TYPE_CHECKING:
    from opkit.operator import Operator

logger = logging.getLogger("opkit.health")

# Seconds that a stream may be without a sign of life, beyond the limit after which it is connected anew.
_PATIENCE = 30.0

# Seconds by which the loop may be late. More means that something blocks it: a sync call in an async handler.
_MOST_LAG = 5.0
_LAG_INTERVAL = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str = ""


class LagMeter:
    """Measures by how much the event loop is late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due = clock.now()
        self._worst = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            self._due = self._clock.now() + _LAG_INTERVAL
            await self._clock.sleep(_LAG_INTERVAL)
            self._worst = max(self._worst * 0.9, self._clock.now() - self._due)

    def lag(self) -> float:
        """Seconds: the worst of late, or of this moment."""
        return max(self._worst, self._clock.now() - self._due, 0.0)


def check(operator: Operator, clock: Clock, meter: LagMeter) -> list[Check]:
    """All checks of a running operator."""
    checks = []
    lag = meter.lag()
    checks.append(Check("loop", lag < _MOST_LAG, f"late by {lag:.3f} s"))
    limit = operator.settings.watch.inactivity_timeout + _PATIENCE
    for stream in operator.statistics().streams:
        silent = clock.now() - stream.last_sign
        checks.append(Check(f"stream of {stream.scope}", silent <= limit, f"last sign of life {silent:.0f} s ago"))
    checks += [Check(name, False, "has died") for name in operator.dead()]
    return checks


@contextlib.asynccontextmanager
async def served(operator: Operator, url: str, clock: Clock) -> AsyncIterator[int]:
    """
    Serve the health at this URL (`http://host:port/path`; the host may be left out) until the block ends.

    Gives the port. Raises `ValueError` for a URL that can't be served, `OSError` if the port is taken.
    """
    import aiohttp.web

    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "http":
        raise ValueError(f"--liveness wants a URL like http://127.0.0.1:8080/healthz, not {url!r}")
    meter = LagMeter(clock)

    async def answer(request: aiohttp.web.Request) -> aiohttp.web.Response:
        checks = check(operator, clock, meter)
        ok = all(one.ok for one in checks)
        body: dict[str, Any] = {
            "ok": ok,
            "checks": {one.name: {"ok": one.ok, "detail": one.detail} for one in checks},
            "failing": len(operator.statistics().failing),
            "polls": operator.polls(),
            "probes": await operator.probe(),
        }
        return aiohttp.web.json_response(body, status=200 if ok else 503)

    app = aiohttp.web.Application()
    app.router.add_get(parts.path or "/healthz", answer)
    runner = aiohttp.web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    measuring = asyncio.create_task(meter.run(), name="lag meter")
    try:
        site = aiohttp.web.TCPSite(runner, parts.hostname or "127.0.0.1", parts.port if parts.port is not None else 80)
        await site.start()
        port: int = runner.addresses[0][1]
        logger.debug("Serving health on port %d.", port)
        yield port
    finally:
        measuring.cancel()
        await asyncio.wait({measuring})
        await runner.cleanup()
