"""
Clients: other libraries' API clients for handlers that are annotated with them, with the operator's own credentials.

Takes the credentials that kopf holds; gives a ready client, which follows them: a token or certificate that rotates
reaches the client that a handler has, and what the server refuses is asked for again. The libraries are extras,
imported when first asked for.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Protocol

from opkit.errors import CredentialsError

if TYPE_CHECKING:
    from kopf import ConnectionInfo


class LiveCredentials(Protocol):
    """Credentials that change; see `opkit.cluster.kopf_sessions`."""

    def current(self) -> ConnectionInfo: ...
    def after_refusal(self, refused: ConnectionInfo) -> ConnectionInfo | None: ...
    def helped(self) -> None: ...


def make_client(library: str, source: ConnectionInfo | LiveCredentials) -> Any:
    """
    A client of the library (`kubernetes` or `pykube`) for these credentials.

    Raises `CredentialsError` if the library is not installed.
    """
    makers: dict[str, Callable[[_Followed], Any]] = {"kubernetes": _kubernetes, "pykube": _pykube}
    live: Any = source if hasattr(source, "current") else _Constant(source)
    followed = _Followed(live)
    try:
        return makers[library](followed)
    except ImportError as error:
        raise CredentialsError(
            f"a handler asks for a client of {library}, which is not installed: pip install 'opkit-k8s[{library}]'"
        ) from error


class _Constant:
    """Credentials that never change."""

    def __init__(self, info: ConnectionInfo) -> None:
        self._info = info

    def current(self) -> ConnectionInfo:
        return self._info

    def after_refusal(self, refused: ConnectionInfo) -> ConnectionInfo | None:
        return None

    def helped(self) -> None:
        """Nothing could have."""


class _Followed:
    """The credentials of one client, with the files that it reads them from; used from any thread."""

    def __init__(self, source: LiveCredentials) -> None:
        self._source = source
        self._lock = threading.Lock()
        self.info = info = source.current()
        self.authority = _file(info.ca_path, info.ca_data)
        self.certificate = _file(info.certificate_path, info.certificate_data)
        self.key = _file(info.private_key_path, info.private_key_data)
        # How to forget the connections that were made with an old certificate.
        self.forget: Callable[[], object] = lambda: None

    def follow(self, info: ConnectionInfo | None = None) -> ConnectionInfo:
        """The credentials of this moment. Certificates are put where the client reads them."""
        newest = info or self._source.current()
        with self._lock:
            if newest is not self.info:
                _rewrite(self.authority, newest.ca_path, newest.ca_data)
                _rewrite(self.certificate, newest.certificate_path, newest.certificate_data)
                _rewrite(self.key, newest.private_key_path, newest.private_key_data)
                self.info = newest
                if newest.certificate_path or newest.certificate_data:
                    self.forget()
        return newest

    def sent(self, send: Callable[[ConnectionInfo], Any], is_refused: Callable[[Any], bool]) -> Any:
        """The answer to what `send` sends; sent once more if the server wants other credentials, and there are some."""
        used = self.follow()
        answer = send(used)
        if is_refused(answer) and (newer := self._source.after_refusal(used)) is not None:
            answer = send(self.follow(newer))
            if not is_refused(answer):
                self._source.helped()
        return answer


def _kubernetes(followed: _Followed) -> Any:
    from kubernetes import client

    info = followed.info
    configuration: Any = client.Configuration()
    configuration.host = info.server
    configuration.verify_ssl = not info.insecure
    configuration.ssl_ca_cert = followed.authority
    configuration.cert_file = followed.certificate
    configuration.key_file = followed.key
    if info.username and not info.token:
        configuration.username, configuration.password = info.username, info.password
    if info.proxy_url:
        configuration.proxy = info.proxy_url

    def show_token(shown: Any) -> None:
        if header := _authorization(followed.follow()):
            shown.api_key["authorization"] = shown.api_key["BearerToken"] = header

    show_token(configuration)
    # Asked before each request: for what makes connections of its own, as `kubernetes.stream` does.
    configuration.refresh_api_key_hook = show_token
    api = client.ApiClient(configuration)
    rest: Any = api.rest_client
    plain = rest.request

    def request(*arguments: Any, **options: Any) -> Any:
        def send(info: ConnectionInfo) -> Any:
            headers = dict(options.get("headers") or {})
            _authorize(headers, info)
            try:
                return plain(*arguments, **{**options, "headers": headers})
            except client.ApiException as error:
                return error

        answer = followed.sent(send, lambda answer: answer.status == 401)
        if isinstance(answer, client.ApiException):
            raise answer
        return answer

    rest.request = request
    followed.forget = rest.pool_manager.clear
    return api


def _pykube(followed: _Followed) -> Any:
    import pykube
    from pykube.http import KubernetesHTTPAdapter

    class Adapter(KubernetesHTTPAdapter):  # type: ignore[misc]  # pykube has no types
        """pykube's own, with the credentials of this moment."""

        def send(self, request: Any, **options: Any) -> Any:
            def send(info: ConnectionInfo) -> Any:
                again = request.copy()
                _authorize(again.headers, info)
                return super(Adapter, self).send(again, **options)

            return followed.sent(send, lambda answer: answer.status_code == 401)

    info = followed.info
    user: dict[str, Any] = {}
    if info.token:
        user["token"] = info.token
    elif info.username:
        user["username"], user["password"] = info.username, info.password
    if followed.certificate and followed.key:
        user["client-certificate"], user["client-key"] = followed.certificate, followed.key
    cluster: dict[str, Any] = {"server": info.server}
    if info.insecure:
        cluster["insecure-skip-tls-verify"] = True
    elif followed.authority:
        cluster["certificate-authority"] = followed.authority
    context = {"cluster": "self", "user": "self", "namespace": info.default_namespace or "default"}
    config = pykube.KubeConfig(
        {
            "current-context": "self",
            "clusters": [{"name": "self", "cluster": cluster}],
            "users": [{"name": "self", "user": user}],
            "contexts": [{"name": "self", "context": context}],
        }
    )
    adapter = Adapter(config)
    api = pykube.HTTPClient(config, http_adapter=adapter)
    if info.proxy_url:
        api.session.proxies = {"http": info.proxy_url, "https": info.proxy_url}
        api.session.trust_env = False  # the environment's would win
    followed.forget = adapter.poolmanager.clear
    return api


def _authorization(info: ConnectionInfo) -> str | None:
    return f"{info.scheme or 'Bearer'} {info.token}" if info.token else None


def _authorize(headers: MutableMapping[str, Any], info: ConnectionInfo) -> None:
    """Put the token into the headers of a request, in the place of another one."""
    header = _authorization(info)
    if header is None:
        return
    for name in [name for name in headers if name.lower() == "authorization"]:
        del headers[name]
    headers["authorization"] = header


def _file(path: Any, data: str | bytes | None) -> str | None:
    """The path of a file that holds this; data is written to one that only this user can read."""
    if path:
        return str(path)
    if not data:
        return None
    import atexit
    import os
    import tempfile

    handle, name = tempfile.mkstemp(prefix="opkit-", suffix=".pem")  # made with mode 0600
    with os.fdopen(handle, "wb") as file:
        file.write(_decoded(data))
    atexit.register(_remove, name)
    return name


def _rewrite(name: str | None, path: Any, data: str | bytes | None) -> None:
    """Put other data into the file that a client reads; a file of the user's own changes by itself."""
    import os
    import tempfile

    if name is None or path or not data:
        return
    handle, fresh = tempfile.mkstemp(prefix="opkit-", suffix=".pem", dir=os.path.dirname(name))
    with os.fdopen(handle, "wb") as file:
        file.write(_decoded(data))
    os.replace(fresh, name)


def _decoded(data: str | bytes) -> bytes:
    import base64

    raw = data.encode() if isinstance(data, str) else data
    return raw if b"-----BEGIN" in raw else base64.b64decode(raw)


def _remove(name: str) -> None:
    import os

    with contextlib.suppress(FileNotFoundError):
        os.unlink(name)
