"""
Authenticated requests by kopf's client.

Beside `kopf_sessions`, the only module that imports kopf's private parts: its login handlers (with all of kopf's ways
to log in), its requests, and its patterns of namespaces. When to log in again, and what to try again, is decided here.
tests/cluster/test_kopf_contract.py names what is missing when a new kopf changes one of them.
"""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import contextlib
import dataclasses
import datetime
import logging
import os
import threading
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import kopf
from kopf._cogs.clients import api, errors
from kopf._cogs.configs.configuration import OperatorSettings
from kopf._cogs.structs import credentials, ephemera, references
from kopf._core.actions import lifecycles
from kopf._core.engines import activities, indexing
from kopf._core.intents import causes, piggybacking, registries

from opkit.cluster import kubeconfig as kubeconfigs
from opkit.cluster.body import Raw
from opkit.cluster.decoding import decode
from opkit.cluster.kopf_answers import beneath, may_pass, translated, words
from opkit.cluster.kopf_sessions import Infos, LiveCredentials, Sessions
from opkit.cluster.permissions import explained
from opkit.cluster.proxies import proxy_of_environment
from opkit.cluster.renewal import Keeper, Reading
from opkit.errors import ApiError, CredentialsError, Unreachable

logger = logging.getLogger("opkit.cluster")

# What kopf has to say of single requests is said by opkit where it matters: once, and with what to do.
_quiet = logging.getLogger("opkit.cluster.requests")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False
# Nor to any handler: it names whole addresses, and that of an embedded server has its token in it.
_quiet.disabled = True

# Seconds between the tries of one request. A server that is gone for longer is the caller's business.
RETRIES = (0.5, 1.0, 2.0)

# Seconds for connections to be closed cleanly.
_GOODBYE = 0.1

# Seconds between two logins when all credentials are refused; they grow.
_LOGIN_PAUSE = 5.0

# Logins for the sake of one request, each of which gave something new.
_LOGINS_OF_A_REQUEST = 3

_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/token"


class KopfConnection:
    """
    Requests to an API server, by kopf's client. To be made in the loop that it works in; `close` ends it.

    `kubeconfig` names a file and `context` one of its contexts, to be used instead of what there is to be found.
    """

    def __init__(
        self,
        *,
        settings: OperatorSettings | None = None,
        logins: Iterable[Callable[..., Any]] = (),
        kubeconfig: str | Path | None = None,
        context: str | None = None,
    ) -> None:
        self._settings = settings or kopf.OperatorSettings()
        self._loop = asyncio.get_running_loop()
        self._login = _login(list(logins), self._settings, self._loop, kubeconfig, context)
        self._keeper: Keeper[Infos] = Keeper(self._login.read, first_pause=_LOGIN_PAUSE)
        self._logging_in = asyncio.Lock()
        self._used: Infos = ()
        self._sessions = Sessions()
        self._is_closed = False

    # Life.

    async def open(self) -> None:
        """Log in. Raises `CredentialsError` if there is nothing to log in with."""
        infos = await self._in_thread(self._keeper.start)
        if not infos:
            raise CredentialsError(
                "no cluster to connect to: name a kubeconfig file in KUBECONFIG (or put it at ~/.kube/config), "
                "run inside a pod with a service account, or take --embedded for a cluster in this process"
            )
        self._sessions.open(infos)
        self._used = infos

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        await self._sessions.close()
        # aiohttp begins to close its connections and does not wait: TLS needs a few turns of the loop to say goodbye.
        await asyncio.sleep(_GOODBYE)

    async def connection(self) -> credentials.ConnectionInfo:
        """The credentials in use, for other client libraries."""
        return self.credentials().current()

    def credentials(self) -> LiveCredentials:
        """The credentials for clients of other libraries, which stay fresh."""
        live = LiveCredentials(self._keeper, None if self._login.is_blocking else self._loop)
        live.current()
        return live

    async def _in_thread(self, function: Callable[..., Infos | None], *arguments: Any) -> Infos | None:
        """In a thread of its own, which waits for no work of the author's, and which does not hold up the exit."""
        done: asyncio.Future[Infos | None] = self._loop.create_future()

        def end(found: Infos | None, error: Exception | None) -> None:
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(found)

        def run() -> None:
            found, failure = None, None
            try:
                found = function(*arguments)
            except Exception as error:  # it is raised where it is waited for
                failure = error
            with contextlib.suppress(RuntimeError):  # nobody waits any more: the loop is closed
                self._loop.call_soon_threadsafe(end, found, failure)

        threading.Thread(target=run, name="opkit-login", daemon=True).start()
        return await done

    async def _fresh(self) -> Infos:
        """The credentials to be used now, with sessions for them."""
        if self._keeper.is_due() and not self._is_closed:
            async with self._logging_in:
                if self._keeper.is_due() and not self._is_closed:
                    await self._in_thread(self._keeper.renewed)
        if self._keeper.value is not self._used:
            self._used = self._keeper.value
            self._sessions.switch(self._used)
        await self._sessions.sweep()
        return self._used

    async def _log_in_again(self, refused: Infos) -> bool:
        """Whether there is something else to try than what was refused."""
        async with self._logging_in:
            if self._is_closed:
                return False
            return await self._in_thread(self._keeper.after_refusal, refused) is not None

    # Requests.

    async def request(
        self,
        method: str,
        path: str,
        *,
        payload: Any = None,
        params: dict[str, str] | None = None,
        media_type: str | None = None,
        accept: str | None = None,
        backoffs: Sequence[float] = RETRIES,
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> aiohttp.ClientResponse:
        """
        Send one request with kopf's credentials; the open response. Raises `ApiError`.

        With other credentials if the server refuses those that it was sent with, and again after each of the
        `backoffs` if the server can't answer at this time. What it has refused for good is sent once.
        """
        url = f"{path}?{urllib.parse.urlencode(params)}" if params else path
        headers = {"Content-Type": media_type} if media_type else {}
        if accept:
            headers["Accept"] = accept
        sending = {"method": method, "url": url, "payload": payload, "headers": headers or None, "timeout": timeout}
        pauses, logins = iter(backoffs), 0
        while True:
            used = await self._fresh()
            try:
                response = await self._send(sending)
            except ApiError as error:
                if error.status == 401 and logins < _LOGINS_OF_A_REQUEST and await self._log_in_again(used):
                    logins += 1
                    continue
                pause = next(pauses, None) if may_pass(error) else None
                if pause is None:
                    raise explained(
                        error, method, path, params=params, media_type=media_type, payload=payload
                    ) from error.__cause__
                await asyncio.sleep(pause if error.retry_after is None else max(0.0, error.retry_after))
                continue
            if logins:
                self._keeper.helped(used)
            return response

    async def _send(self, sending: dict[str, Any]) -> aiohttp.ClientResponse:
        """Send it once, or once with each of the credentials until the server takes one of them."""
        refused: BaseException | None = None
        for session in self._sessions.current:
            try:
                with self._sessions.busy(session):
                    return await api.request(
                        **sending, settings=self._settings, backoffs=(), context=session, logger=_quiet
                    )  # fmt: skip
            except errors.APIUnauthorizedError as error:
                refused = error
            except errors.APIError as error:
                raise translated(error) from error
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise Unreachable(f"no answer from the API server: {words(error)}") from error
            except errors.APISessionClosed as error:
                raise Unreachable("no answer from the API server: the connection was closed") from error
            except (ValueError, TypeError, AttributeError) as error:
                # kopf trips over what proxies answer: a list for a Status, a date to try again at.
                raise beneath(error) from error
        raise _unauthorized() from refused

    async def json(self, method: str, path: str, **options: Any) -> Raw:
        """Send one request; the decoded answer. Raises `ApiError`."""
        response = await self.request(method, path, **options)
        with reading(f"{method} {path}"):
            async with response:
                answer: Raw = decode(await response.read())
                return answer

    def namespace_matches(self, name: str, patterns: Iterable[str]) -> bool:
        """Whether a namespace is meant by one of the patterns, in kopf's syntax."""
        return any(references.match_namespace(references.NamespaceName(name), pattern) for pattern in patterns)

    def exact_namespaces(self, patterns: Iterable[str]) -> frozenset[str]:
        """Those of the patterns that are just names."""
        return frozenset(references.select_specific_namespaces(patterns))


@contextlib.contextmanager
def reading(request: str) -> Iterator[None]:
    """What can go wrong while an answer is read and decoded, as `ApiError`."""
    try:
        yield
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise Unreachable(f"the answer was cut: {words(error)}") from error
    except ValueError as error:
        raise ApiError(f"the answer to {request} is not JSON", status=502) from error


@dataclasses.dataclass(frozen=True, slots=True)
class _Login:
    """A way to log in; `is_blocking` if it needs no loop."""

    read: Callable[[], Reading[Infos]]
    is_blocking: bool = True


def _login(
    functions: Sequence[Callable[..., Any]], settings: OperatorSettings, loop: asyncio.AbstractEventLoop,
    path: str | Path | None, context: str | None,
) -> _Login:  # fmt: skip
    """
    The author's login handlers, or else a service account or a kubeconfig, or else all of kopf's own ways.

    A kubeconfig that is named comes first. kopf's own ways come last because they load a client library, if one is
    installed, just to read a file.
    """
    is_named = path is not None or context is not None
    if functions and not is_named:
        return _Login(lambda: _ask_handlers(_registry(functions), settings, loop), is_blocking=False)
    if not is_named and piggybacking.has_service_account():
        return _Login(lambda: _read_service_account(settings))
    if is_named or kubeconfigs.exists():
        if not kubeconfigs.needs_another_client(path=path, context=context):
            return _Login(_KubeconfigLogin(settings, path, context).read)
        if is_named:
            raise CredentialsError(
                "the user of this kubeconfig logs in by an auth-provider, which only works with the current context of "
                "KUBECONFIG: use a credential plugin (exec) instead"
            )
    return _Login(lambda: _ask_handlers(registries.SmartOperatorRegistry(), settings, loop), is_blocking=False)


def _registry(functions: Sequence[Callable[..., Any]]) -> registries.OperatorRegistry:
    registry = registries.OperatorRegistry()
    for number, function in enumerate(functions):
        name = getattr(function, "__name__", "login")
        kopf.on.login(registry=registry, id=f"{name}-{number}", errors=kopf.ErrorsMode.PERMANENT)(function)
    return registry


def _ask_handlers(
    registry: registries.OperatorRegistry, settings: OperatorSettings, loop: asyncio.AbstractEventLoop
) -> Reading[Infos]:  # fmt: skip
    """What the login handlers give. Waits for the loop, so that it is to be called in another thread."""
    asking = activities.run_activity(
        lifecycle=lifecycles.all_at_once, registry=registry, settings=settings,
        activity=causes.Activity.AUTHENTICATION, indices=indexing.OperatorIndexers().indices,
        memo=ephemera.AnyMemo(ephemera.Memo()),
    )  # fmt: skip
    try:
        results = asyncio.run_coroutine_threadsafe(asking, loop).result()
    except RuntimeError:  # the loop is closed
        asking.close()
        raise CredentialsError("nobody can log in any more: the operator has stopped") from None
    except concurrent.futures.CancelledError:
        raise CredentialsError("the login was cut short: the operator stops") from None
    except activities.ActivityError as error:
        if isinstance(error.__cause__, CredentialsError):
            raise error.__cause__ from None
        raise CredentialsError(f"no way into a cluster was found: {error.__cause__ or error}") from error
    found: list[Any] = list(results.values())
    if not all(isinstance(info, credentials.KubeContext) for info in found):
        raise CredentialsError("a login handler has to return kopf.ConnectionInfo or kopf.AiohttpSession, or None")
    infos = sorted(found, key=lambda info: -info.priority)
    ends = [info.expiration for info in infos if info.expiration is not None]
    return Reading(_plain(infos), expiration=min(ends, key=_in_utc, default=None))


def _in_utc(stamp: datetime.datetime) -> datetime.datetime:
    return stamp if stamp.tzinfo else stamp.replace(tzinfo=datetime.UTC)


def _plain(infos: Iterable[Any]) -> Infos:
    """Without the time of their end, which says nothing of whether they are the same."""
    return tuple(dataclasses.replace(info, expiration=None) for info in infos)


def _read_service_account(settings: OperatorSettings) -> Reading[Infos]:
    info = piggybacking.login_with_service_account(settings=settings)
    infos = (_by_proxy(info, settings),) if info is not None else ()
    return Reading(infos, files=(_SERVICE_ACCOUNT,), is_cheap=True)


class _KubeconfigLogin:
    """A kubeconfig that is read again and again, and that stays with its context and its server."""

    def __init__(self, settings: OperatorSettings, path: str | Path | None, context: str | None) -> None:
        self._settings, self._path, self._context = settings, path, context
        self._server: str | None = None

    def read(self) -> Reading[Infos]:
        found = kubeconfigs.load(path=self._path, context=self._context)
        if self._server is not None and found.server != self._server:
            raise CredentialsError("the kubeconfig leads to another server now: start the operator again to follow it")
        # Somebody who switches contexts for himself must not take the operator along.
        self._server, self._context = found.server, found.context
        files = (found.token_path, found.certificate_path, found.key_path, found.ca_path)
        return Reading(
            (_connection_info(found, self._settings),), files=tuple(file for file in files if file),
            is_cheap=not found.from_plugin, expiration=found.expiration,
        )  # fmt: skip


def _log_in_by_kubeconfig(*, settings: OperatorSettings, **_: Any) -> credentials.ConnectionInfo:
    """As a login handler of kopf."""
    return _connection_info(kubeconfigs.load(), settings)


def _connection_info(found: kubeconfigs.Credentials, settings: OperatorSettings) -> credentials.ConnectionInfo:
    identity: dict[str, Any] = {"username": found.username, "password": found.password, "token": found.token}
    if found.username and not found.password:  # kopf would send nothing at all
        identity = {"scheme": "Basic", "token": base64.b64encode(f"{found.username}:".encode()).decode()}
    info = credentials.ConnectionInfo(
        server=found.server,
        ca_path=found.ca_path,
        ca_data=found.ca_data,
        insecure=found.insecure,
        certificate_path=found.certificate_path,
        certificate_data=found.certificate_data,
        private_key_path=found.key_path,
        private_key_data=found.key_data,
        default_namespace=found.namespace,
        proxy_url=found.proxy_url,
        trust_env=settings.networking.trust_env,
        **identity,
    )
    return _by_proxy(info, settings)


def _by_proxy(info: credentials.ConnectionInfo, settings: OperatorSettings) -> credentials.ConnectionInfo:
    """With the proxy of the environment, if the settings trust it. aiohttp's own reading knows no networks."""
    if info.proxy_url or not settings.networking.trust_env:
        return info
    return dataclasses.replace(info, proxy_url=proxy_of_environment(info.server, os.environ), trust_env=False)


def _unauthorized() -> ApiError:
    return ApiError("the server refuses the credentials", status=401, reason="Unauthorized")
