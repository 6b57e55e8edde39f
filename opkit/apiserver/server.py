"""
The server: listens, lets in who has the token, and answers. Start reading here.

Takes a store; gives a URL. Every failure is a Status with the code of a real server; an error of our own is
logged and answered with 500, and never ends the server. Binds to loopback unless told otherwise.
"""

from __future__ import annotations

import datetime
import hmac
import logging
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import yaml
from aiohttp import web

from opkit.apiserver import openapi, routes, views
from opkit.apiserver.requests import Requests
from opkit.apiserver.routes import NoSuchPath
from opkit.errors import ApiError
from opkit.simulation import discovery, refusals
from opkit.simulation.faults import FaultPlan
from opkit.simulation.store import Store

logger = logging.getLogger(__name__)

_VERSION = {
    "major": "1",
    "minor": "31",
    "gitVersion": "v1.31.0+opkit",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "embedded",
}
_HEALTH = frozenset({"healthz", "livez", "readyz"})
_SHUTDOWN_SECONDS = 5.0


class ApiServer:
    """
    An API server over a store, on a port of its own.

    `port` 0 takes a free one; `token` `None` makes a random one. `url` and `token` are valid inside of the
    `async with` block, which starts it and stops it: the watches end cleanly first.

    The token is taken from the Authorization header, or as the first part of the path: kubectl sends no
    credentials over plain HTTP, so its kubeconfig has the token in the address of the server.
    """

    def __init__(
        self,
        store: Store,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        faults: FaultPlan | None = None,
        clock: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        self.store = store
        self.faults = faults or FaultPlan()
        self.faults.expire = store.compact
        self.token = token if token is not None else secrets.token_hex(16)
        self._host = host
        self._port = port
        self._requests = Requests(store, self.faults, clock or _now)
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def __aenter__(self) -> ApiServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen. Raises `OSError` if the port is taken."""
        # A client that goes away cancels its request: a watch must not stay until its next event.
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, backlog=1024)
        try:
            await site.start()
        except OSError:
            await self.stop()
            raise
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """End the watches, answer what is being asked, and close. May be called again."""
        self._requests.stop_streams()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def kubeconfig(self, path: str | os.PathLike[str], namespace: str = "default") -> Path:
        """Write a kubeconfig for this server, readable by its owner only: the token is in it."""
        context = {"cluster": "opkit", "user": "opkit", "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "opkit",
            "contexts": [{"name": "opkit", "context": context}],
            "clusters": [{"name": "opkit", "cluster": {"server": f"{self.url}/{self.token}"}}],
            "users": [{"name": "opkit", "user": {"token": self.token}}],
        }
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(os.open(path, flags, stat.S_IRUSR | stat.S_IWUSR), "w") as file:
            os.fchmod(file.fileno(), stat.S_IRUSR | stat.S_IWUSR)  # the file may have been there before
            file.write(yaml.safe_dump(config, sort_keys=False))
        return Path(path)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except NoSuchPath:
            return web.Response(text="404 page not found\n", status=404)
        except ApiError as error:
            return _refusal(error)
        except RecursionError:
            return _refusal(refusals.bad_request("the object provided is nested too deeply"))
        except Exception:
            # The token may stand in the path.
            path = request.path.replace(self.token, "...")
            logger.exception("%s %s failed in the embedded API server", request.method, path)
            return _refusal(ApiError.of(500, "InternalError", "the embedded API server has failed: see its log"))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        prefix = self._authenticate(request, parts)
        if not parts:
            return views.document(
                {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}
            )
        if parts[0] in _HEALTH:
            return web.Response(text="ok")
        if parts[0] == "version":
            return views.document(_VERSION)
        if (document := self._document(request, parts, prefix)) is not None:
            return views.document(document)
        return await self._requests.answer(request, routes.resolve(self.store, parts))

    def _authenticate(self, request: web.BaseRequest, parts: list[str]) -> str:
        """
        Check the token; one in the path is taken out of the parts, and given as their prefix.

        Anyone may ask for health and version, but a wrong token is wrong everywhere. Raises 401.
        """
        prefix = ""
        while parts and self._is_token(parts[0]):  # twice, if a client puts the prefix before a path that has it
            prefix = f"/{parts.pop(0)}"
        given = request.headers.get("Authorization")
        if given is None and (prefix or (parts and (parts[0] in _HEALTH or parts[0] == "version"))):
            return prefix
        scheme, _, token = (given or "").partition(" ")
        if scheme.lower() != "bearer" or not self._is_token(token.strip()):
            raise refusals.unauthorized()
        return prefix

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.token.encode())

    def _document(self, request: web.BaseRequest, parts: list[str], prefix: str) -> object | None:
        """Discovery and OpenAPI; nothing for paths of objects. Raises `NoSuchPath`."""
        store = self.store
        if parts == ["api"]:
            return discovery.core_versions()
        if parts == ["apis"]:
            return discovery.groups(store)
        if parts[0] == "api" and len(parts) == 2:
            if (core := discovery.resources(store, "", parts[1])) is None:
                raise refusals.no_such_resource()
            return core
        if parts[0] == "apis" and len(parts) == 2:
            return _found(discovery.group(store, parts[1]))
        if parts[0] == "apis" and len(parts) == 3:
            return _found(discovery.resources(store, parts[1], parts[2]))
        return self._openapi(request, parts, prefix) if parts[0] == "openapi" else None

    def _openapi(self, request: web.BaseRequest, parts: list[str], prefix: str) -> object:
        if parts == ["openapi", "v3"]:
            return openapi.index(self.store, prefix)
        if parts[:3] == ["openapi", "v3", "api"] and len(parts) == 4:
            return _found(openapi.document(self.store, "", parts[3]))
        if parts[:3] == ["openapi", "v3", "apis"] and len(parts) == 5:
            return _found(openapi.document(self.store, parts[3], parts[4]))
        # kubectl asks for v2 in protobuf only, and gets along without where v3 exists
        accepted = request.headers.get("Accept", "*/*")
        if parts == ["openapi", "v2"] and ("json" in accepted or "*/*" in accepted):
            return openapi.swagger(self.store)
        raise NoSuchPath


def _found(document: object | None) -> object:
    if document is None:
        raise NoSuchPath
    return document


def _refusal(error: ApiError) -> web.Response:
    response = views.document(refusals.status_of(error), error.status)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(int(error.retry_after))
    return response


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
