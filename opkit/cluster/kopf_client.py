"""
Authenticated requests by kopf's client.

The only module that imports kopf's private parts: its vault and authenticator for credentials (with all of kopf's
ways to log in, and a new login on 401), its authenticated requests, and its patterns of namespaces.
tests/cluster/test_kopf_contract.py names what is missing when a new kopf changes one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import aiohttp
import kopf
from kopf._cogs.clients import api, auth, errors
from kopf._cogs.configs.configuration import OperatorSettings
from kopf._cogs.structs import credentials, ephemera, references
from kopf._core.engines import activities, indexing
from kopf._core.intents import piggybacking, registries

from opkit.cluster import kubeconfig
from opkit.cluster.body import Raw
from opkit.cluster.decoding import decode
from opkit.cluster.kopf_answers import beneath, translated, words
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

# Seconds between two logins when all credentials are refused.
_LOGIN_PAUSE = 5.0


class KopfConnection:
    """Requests to an API server, by kopf's client. To be made in the loop that it works in; `close` ends it."""

    def __init__(
        self,
        *,
        settings: OperatorSettings | None = None,
        logins: Iterable[Callable[..., Any]] = (),
    ) -> None:
        self._settings = settings or kopf.OperatorSettings()
        self._settings.networking.enforce_retry_after = True
        self._vault = credentials.Vault()
        self._registry = _login_registry(logins)
        self._authenticator: asyncio.Task[Any] | None = None
        self._logged_in = 0.0

    # Life.

    async def open(self) -> None:
        """Log in. Raises `CredentialsError` if there is nothing to log in with."""
        await self._log_in()
        if self._vault.is_empty():
            raise CredentialsError(
                "no cluster to connect to: name a kubeconfig file in KUBECONFIG (or put it at ~/.kube/config), "
                "run inside a pod with a service account, or take --embedded for a cluster in this process"
            )

    async def _log_in(self) -> None:
        auth.vault_var.set(self._vault)
        arguments: dict[str, Any] = {
            "registry": self._registry, "settings": self._settings, "indices": indexing.OperatorIndexers().indices,
            "vault": self._vault, "memo": ephemera.AnyMemo(ephemera.Memo()),
        }  # fmt: skip
        self._logged_in = asyncio.get_running_loop().time()
        try:
            await activities.authenticate(**arguments)
        except activities.ActivityError as error:
            if isinstance(error.__cause__, CredentialsError):
                raise error.__cause__ from None
            raise CredentialsError(f"no way into a cluster was found: {error.__cause__ or error}") from error
        self._authenticator = asyncio.create_task(activities.authenticator(**arguments), name="kopf's authenticator")

    async def _log_in_again(self) -> None:
        """
        Start over with a new vault: the old one knows only credentials that were refused.

        kopf's vault never asks again once it has run out, and a token's file may have changed since.
        """
        if asyncio.get_running_loop().time() - self._logged_in < _LOGIN_PAUSE:
            return
        await self.close()
        self._vault = credentials.Vault()
        try:
            await self._log_in()
        except CredentialsError as error:
            logger.warning("%s", error)

    async def close(self) -> None:
        """Close all connections."""
        if self._authenticator is not None:
            self._authenticator.cancel()
            await asyncio.wait({self._authenticator})
            self._authenticator = None
        await self._vault.close()
        # aiohttp begins to close its connections and does not wait: TLS needs a few turns of the loop to say goodbye.
        await asyncio.sleep(_GOODBYE)

    async def connection(self) -> credentials.ConnectionInfo:
        """The credentials in use, for other client libraries."""
        async for _key, info in self._vault:
            if isinstance(info, credentials.ConnectionInfo):
                return info
        raise CredentialsError("the login handler gave no credentials that another client could use")

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
        """Send one request with kopf's credentials; the open response. Raises `ApiError`."""
        auth.vault_var.set(self._vault)  # this may be a task of the author's, which knows nothing of our vault
        url = f"{path}?{urllib.parse.urlencode(params)}" if params else path
        headers = {"Content-Type": media_type} if media_type else {}
        if accept:
            headers["Accept"] = accept
        try:
            return await api.request(
                method=method, url=url, payload=payload, headers=headers or None, settings=self._settings,
                backoffs=backoffs, timeout=timeout, logger=_quiet,
            )  # fmt: skip
        except errors.APIError as error:
            raise translated(error) from error
        except (credentials.LoginError, credentials.AccessError) as error:
            await self._log_in_again()
            raise _unauthorized() from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreachable(f"no answer from the API server: {words(error)}") from error
        except (ValueError, TypeError, AttributeError) as error:
            # kopf trips over what proxies answer: a list for a Status, a date to try again at.
            raise beneath(error) from error

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


def _login_registry(logins: Iterable[Callable[..., Any]]) -> registries.OperatorRegistry:
    """
    The author's login handlers, or else a service account or a kubeconfig, or else all of kopf's own ways.

    kopf's own come last because they load a client library, if one is installed, just to read a file.
    """
    functions = list(logins)
    files_first = kubeconfig.is_chosen() or not piggybacking.has_service_account()
    if not functions and files_first and kubeconfig.exists():
        if kubeconfig.needs_another_client():
            return registries.SmartOperatorRegistry()
        functions = [_log_in_by_kubeconfig]
    elif not functions and piggybacking.has_service_account():
        functions = [piggybacking.login_with_service_account]
    if not functions:
        return registries.SmartOperatorRegistry()
    registry = registries.OperatorRegistry()
    for number, function in enumerate(functions):
        name = getattr(function, "__name__", "login")
        kopf.on.login(registry=registry, id=f"{name}-{number}", errors=kopf.ErrorsMode.PERMANENT)(function)
    return registry


def _log_in_by_kubeconfig(*, settings: OperatorSettings, **_: Any) -> credentials.ConnectionInfo:
    """A login handler of kopf. A plain function: kopf runs it in a thread, since a plugin may take its time."""
    found = kubeconfig.load()
    return credentials.ConnectionInfo(
        server=found.server,
        ca_path=found.ca_path,
        ca_data=found.ca_data,
        insecure=found.insecure,
        username=found.username,
        password=found.password,
        token=found.token,
        certificate_path=found.certificate_path,
        certificate_data=found.certificate_data,
        private_key_path=found.key_path,
        private_key_data=found.key_data,
        default_namespace=found.namespace,
        proxy_url=found.proxy_url,
        trust_env=settings.networking.trust_env,
        expiration=found.expiration,
    )


def _unauthorized() -> ApiError:
    return ApiError("the server refuses the credentials", status=401, reason="Unauthorized")
