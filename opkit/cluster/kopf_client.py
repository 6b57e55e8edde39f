"""
The cluster protocol over kopf's client.

The only module that imports kopf's private parts: its vault and authenticator for credentials (with all of kopf's
ways to log in, and a new login on 401), its authenticated requests, its discovery of resources, its patterns of
namespaces. tests/cluster/test_kopf_contract.py names what is missing when a new kopf changes one of them.

The watch itself is driven here, on kopf's authenticated request: kopf's own generator re-arms a timer for each
event, reconnects without a pause to servers that end a watch at once, and raises on `items: null`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import urllib.parse
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import aiohttp
import kopf
from kopf._cogs.clients import api, auth, errors, scanning
from kopf._cogs.configs.configuration import OperatorSettings
from kopf._cogs.structs import credentials, ephemera, references
from kopf._core.engines import activities, indexing
from kopf._core.intents import piggybacking, registries

from opkit.cluster import kubeconfig
from opkit.cluster.body import Raw
from opkit.cluster.discovery import Discovery
from opkit.cluster.kopf_answers import beneath, resource_of, translated, words
from opkit.cluster.lines import LineSplitter, WatchFailed, decode_events
from opkit.cluster.protocol import Batch, EventType, Mark, PatchType, Topology, WatchScope
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.errors import ApiError, CredentialsError, Unreachable

logger = logging.getLogger("opkit.cluster")

# What kopf has to say of single requests is said by opkit where it matters: once, and with what to do.
_quiet = logging.getLogger("opkit.cluster.requests")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False
# Nor to any handler: it names whole addresses, and that of an embedded server has its token in it.
_quiet.disabled = True

# Seconds between the tries of one request. A server that is gone for longer is the caller's business.
_RETRIES = (0.5, 1.0, 2.0)
_NO_RETRIES: tuple[float, ...] = ()

# Tries of a list whose pages take longer than the server remembers its version.
_LISTINGS = 3

# A watch is cut by the server at `server_timeout`; this is the patience beyond it.
_PATIENCE = 30.0

# Seconds for connections to be closed cleanly.
_GOODBYE = 0.1

# Seconds between two logins when all credentials are refused.
_LOGIN_PAUSE = 5.0

_MEDIA_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class KopfCluster:
    """A real API server, by kopf's client. To be made in the loop that it works in; `close` ends it."""

    def __init__(
        self,
        *,
        settings: OperatorSettings | None = None,
        logins: Iterable[Callable[..., Any]] = (),
        chunk_size: int = 500,
        server_timeout: float = 300.0,
    ) -> None:
        self._settings = settings or kopf.OperatorSettings()
        self._settings.networking.enforce_retry_after = True
        # A scan is many requests; whoever asks for it waits between its tries, and tells what is wrong.
        networking = dataclasses.replace(self._settings.networking, error_backoffs=_RETRIES)
        self._scanning = dataclasses.replace(self._settings, networking=networking)
        self._chunk_size = chunk_size
        self._server_timeout = server_timeout
        self._vault = credentials.Vault()
        self._registry = _login_registry(logins)
        self._authenticator: asyncio.Task[Any] | None = None
        self._logged_in = 0.0
        self._discovery = Discovery(self)

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
        backoffs: Sequence[float] = _RETRIES,
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

    async def json(self, method: str, path: str, **options: Any) -> Any:
        """Send one request; the decoded answer. Raises `ApiError`."""
        response = await self.request(method, path, **options)
        try:
            async with response:
                return json.loads(await response.read())
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreachable(f"the answer was cut: {words(error)}") from error
        except ValueError as error:
            raise ApiError(f"the answer to {method} {path} is not JSON", status=502) from error

    async def resolve(self, selector: ResourceSelector) -> Resource:
        return await self._discovery.resolve(selector)

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Raw:
        raw: Raw = await self.json("get", resource.path(namespace, name))
        return raw

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> Sequence[Raw]:
        scope = WatchScope(resource, namespace, label_selector, field_selector)
        for tries_left in reversed(range(_LISTINGS)):
            try:
                return [item async for items, _version in self._pages(scope) for item in items]
            except ApiError as error:
                if error.status != 410 or not tries_left:  # the token of the pages has expired: start over
                    raise
        raise AssertionError("the last try gives or raises")

    async def create(self, resource: Resource, body: Raw, namespace: str | None = None) -> Raw:
        # Not tried again by itself: a lost answer would turn into AlreadyExists.
        raw: Raw = await self.json("post", resource.path(namespace), payload=body, backoffs=_NO_RETRIES)
        return raw

    async def apply(
        self, resource: Resource, name: str, namespace: str | None, body: Raw, *, manager: str, force: bool = False
    ) -> Raw:
        params = {"fieldManager": manager, "force": "true" if force else "false"}
        raw: Raw = await self.json(
            "patch", resource.path(namespace, name), payload=body, params=params,
            media_type="application/apply-patch+yaml",
        )  # fmt: skip
        return raw

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        patch: Raw | Sequence[Raw],
        *,
        type: PatchType = "merge",
        subresource: str | None = None,
    ) -> Raw:
        raw: Raw = await self.json(
            "patch", resource.path(namespace, name, subresource), payload=patch, media_type=_MEDIA_TYPES[type]
        )
        return raw

    async def replace(
        self, resource: Resource, name: str, namespace: str | None, body: Raw, *, subresource: str | None = None
    ) -> Raw:
        raw: Raw = await self.json("put", resource.path(namespace, name, subresource), payload=body)
        return raw

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> Raw:
        options: Raw = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        raw: Raw = await self.json("delete", resource.path(namespace, name), payload=options)
        return raw

    # Lists and watches.

    async def _pages(
        self, scope: WatchScope, backoffs: Sequence[float] = _RETRIES
    ) -> AsyncIterator[tuple[Sequence[Raw], str | None]]:
        """All pages of a list with the list's own version. An expired token raises 410: the list starts over."""
        params = _selecting(scope)
        if self._chunk_size:
            params["limit"] = str(self._chunk_size)
        while True:
            path = scope.resource.path(scope.namespace)
            answer = await self.json("get", path, params=params, backoffs=backoffs)
            meta = answer.get("metadata") or {}
            kind, api_version = str(answer.get("kind") or "").removesuffix("List"), answer.get("apiVersion")
            items = answer.get("items") or []  # some servers say null for an empty list
            for item in items:
                if isinstance(item, dict) and "kind" not in item:  # the items of built-in lists name no kind
                    item["apiVersion"], item["kind"] = api_version, kind
            token = meta.get("continue")
            del answer
            yield items, meta.get("resourceVersion")
            del items
            if not token:
                return
            params["continue"] = token

    async def watch(
        self, scope: WatchScope, *, since: str | None = None, patience: float | None = None
    ) -> AsyncGenerator[Batch, None]:
        if since is None:
            yield Mark.BEGIN_LIST
            # Whoever keeps the stream alive waits between its tries, and tells what is wrong.
            async for items, version in self._pages(scope, _NO_RETRIES):
                yield [(EventType.LISTED, item) for item in items]
                del items
                since = version
            yield Mark.END_LIST
            yield [(EventType.BOOKMARK, {"metadata": {"resourceVersion": since}})]
        async with contextlib.aclosing(self._follow(scope, since, patience)) as batches:
            async for batch in batches:
                yield batch

    async def _follow(
        self, scope: WatchScope, since: str | None, patience: float | None
    ) -> AsyncGenerator[Batch, None]:
        """One watch request: what arrives together is given together."""
        params = {
            **_selecting(scope), "watch": "true", "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(self._server_timeout)),
        }  # fmt: skip
        if since is not None:
            params["resourceVersion"] = since
        response = await self.request(
            "get", scope.resource.path(scope.namespace), params=params, backoffs=_NO_RETRIES,
            timeout=aiohttp.ClientTimeout(
                total=self._server_timeout + _PATIENCE, sock_connect=_PATIENCE, sock_read=patience
            ),
        )  # fmt: skip
        splitter = LineSplitter()
        try:
            async for chunk in response.content.iter_any():
                if lines := splitter.feed(chunk):
                    yield decode_events(lines)
        except TimeoutError as error:
            raise Unreachable("the watch was silent for too long") from error
        except WatchFailed as failed:
            raise ApiError.of_body(failed.status, http_status=500) from None
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"the watch was cut: {words(error)}") from error
        finally:
            response.close()

    # What is served.

    def topology(
        self, selectors: frozenset[ResourceSelector], namespaces: frozenset[str], clusterwide: bool
    ) -> AsyncGenerator[Topology, None]:
        return self._discovery.topology(selectors, namespaces, clusterwide)

    async def groups(self) -> Sequence[str]:
        """The API groups that the server has; the core group is the empty one."""
        answer = await self.json("get", "/apis")
        return ["", *(group["name"] for group in answer.get("groups") or [])]

    async def scan(self, group: str) -> Sequence[Resource]:
        """The resources of one group, in all its versions. Raises `ApiError`."""
        auth.vault_var.set(self._vault)
        try:
            found = await scanning.scan_resources(settings=self._scanning, logger=_quiet, groups={group})
        except errors.APIError as error:
            raise translated(error) from error
        except (credentials.LoginError, credentials.AccessError) as error:
            await self._log_in_again()
            raise _unauthorized() from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreachable(f"no answer from the API server: {words(error)}") from error
        except (KeyError, TypeError, ValueError) as error:
            what = group or "the core group"
            raise ApiError(f"the discovery of {what} is broken: {words(error)}", status=502) from error
        return [resource_of(item) for item in found]

    def namespace_matches(self, name: str, patterns: Iterable[str]) -> bool:
        """Whether a namespace is meant by one of the patterns, in kopf's syntax."""
        return any(references.match_namespace(references.NamespaceName(name), pattern) for pattern in patterns)

    def exact_namespaces(self, patterns: Iterable[str]) -> frozenset[str]:
        """Those of the patterns that are just names."""
        return frozenset(references.select_specific_namespaces(patterns))


def _login_registry(logins: Iterable[Callable[..., Any]]) -> registries.OperatorRegistry:
    """
    The author's login handlers, or else a service account or a kubeconfig, or else all of kopf's own ways.

    kopf's own come last because they load a client library, if one is installed, just to read a file.
    """
    functions = list(logins)
    if not functions and not piggybacking.has_service_account() and kubeconfig.exists():
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


def _selecting(scope: WatchScope) -> dict[str, str]:
    params = {}
    if scope.label_selector:
        params["labelSelector"] = scope.label_selector
    if scope.field_selector:
        params["fieldSelector"] = scope.field_selector
    return params


def _unauthorized() -> ApiError:
    return ApiError("the server refuses the credentials", status=401, reason="Unauthorized")
