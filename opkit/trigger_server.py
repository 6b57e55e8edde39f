"""
Triggers from outside over HTTP: `POST /reconcile/<resource>/<namespace>/<name>`, or without a namespace.

Takes an operator and a token; asks the operator for runs. Answers 202 when a run was accepted, 404 for an object
that is not known, 401 without the token, 429 when it is asked too often, 503 while the operator can't accept anything.
Off unless asked for, on loopback unless told otherwise.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import aiohttp.web

from opkit.clock import Clock
from opkit.cluster.resource import ResourceSelector

if TYPE_CHECKING:
    from opkit.operator import Operator

logger = logging.getLogger("opkit.triggers")

# Requests in a second, and at once after a quiet time.
_RATE = 50.0
_BURST = 200.0


class Bucket:
    """A token bucket: so many requests at once, and so many a second after that."""

    def __init__(self, clock: Clock, rate: float = _RATE, burst: float = _BURST) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = burst
        self._left = burst
        self._at = clock.now()

    def take(self) -> float:
        """Take one; the seconds to wait if there is none (0: taken)."""
        now = self._clock.now()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._rate
        self._left -= 1
        return 0.0


class TriggerServer:
    """The door for triggers."""

    def __init__(self, operator: Operator, token: str, clock: Clock) -> None:
        if not token:
            raise ValueError("the token for triggers is empty")
        self._operator = operator
        self._token = token.encode()
        self._bucket = Bucket(clock)

    def app(self) -> aiohttp.web.Application:
        app = aiohttp.web.Application(client_max_size=1024)
        app.router.add_post("/reconcile/{resource}/{name}", self._answer)
        app.router.add_post("/reconcile/{resource}/{namespace}/{name}", self._answer)
        return app

    async def _answer(self, request: aiohttp.web.Request) -> aiohttp.web.Response:
        if not self._is_allowed(request):
            return _response(401, "a bearer token is needed")
        if (wait := self._bucket.take()) > 0:
            return _response(429, "too many triggers", {"Retry-After": str(int(wait) + 1)})
        if not self._operator.is_ready:
            return _response(503, "the operator does not accept anything now", {"Retry-After": "1"})
        resource, name = request.match_info["resource"], request.match_info["name"]
        namespace = request.match_info.get("namespace")
        try:
            ResourceSelector.parse(resource)
        except TypeError as error:
            return _response(404, str(error))
        if not self._operator.knows(resource, name, namespace):
            return _response(404, "no such object is served here")
        if not self._operator.trigger(resource, name, namespace):
            return _response(503, "the operator does not accept anything now", {"Retry-After": "1"})
        return _response(202, "accepted")

    def _is_allowed(self, request: aiohttp.web.Request) -> bool:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        given = token.strip().encode("utf-8", "replace")
        return scheme.lower() == "bearer" and hmac.compare_digest(given, self._token)


def _response(status: int, message: str, headers: dict[str, str] | None = None) -> aiohttp.web.Response:
    return aiohttp.web.json_response({"message": message}, status=status, headers=headers)


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`, `:port` or `port`; loopback without a host. Raises `ValueError`."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise ValueError(f"--trigger wants an address like 127.0.0.1:8090 or just :8090, not {address!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


@contextlib.asynccontextmanager
async def served(operator: Operator, address: str, token: str, clock: Clock) -> AsyncIterator[int]:
    """Serve triggers until the block ends; gives the port. Raises `ValueError` and `OSError`."""
    host, port = parse_address(address)
    app = TriggerServer(operator, token, clock).app()
    runner = aiohttp.web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await aiohttp.web.TCPSite(runner, host, port).start()
        bound: int = runner.addresses[0][1]
        logger.info("Taking triggers on %s:%d.", host, bound)
        yield bound
    finally:
        await runner.cleanup()
