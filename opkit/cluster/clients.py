"""
Clients: other libraries' API clients for handlers that are annotated with them, with the operator's own credentials.

Takes the credentials that kopf holds; gives a ready client. The libraries are extras, imported when first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opkit.errors import CredentialsError

if TYPE_CHECKING:
    from kopf import ConnectionInfo


def make_client(library: str, info: ConnectionInfo) -> Any:
    """
    A client of the library (`kubernetes` or `pykube`) for these credentials.

    Raises `CredentialsError` if the library is not installed.
    """
    makers: dict[str, Callable[[ConnectionInfo], Any]] = {"kubernetes": _kubernetes, "pykube": _pykube}
    try:
        return makers[library](info)
    except ImportError as error:
        raise CredentialsError(
            f"a handler asks for a client of {library}, which is not installed: pip install 'opkit[{library}]'"
        ) from error


def _kubernetes(info: ConnectionInfo) -> Any:
    from kubernetes import client

    configuration = client.Configuration()
    configuration.host = info.server
    configuration.verify_ssl = not info.insecure
    configuration.ssl_ca_cert = _file(info.ca_path, info.ca_data)
    configuration.cert_file = _file(info.certificate_path, info.certificate_data)
    configuration.key_file = _file(info.private_key_path, info.private_key_data)
    if info.token:
        configuration.api_key = {"authorization": f"{info.scheme or 'Bearer'} {info.token}"}
        configuration.api_key["BearerToken"] = configuration.api_key["authorization"]
    elif info.username:
        configuration.username, configuration.password = info.username, info.password
    if info.proxy_url:
        configuration.proxy = info.proxy_url
    return client.ApiClient(configuration)


def _pykube(info: ConnectionInfo) -> Any:
    import pykube

    user: dict[str, Any] = {}
    if info.token:
        user["token"] = info.token
    elif info.username:
        user["username"], user["password"] = info.username, info.password
    certificate = _file(info.certificate_path, info.certificate_data)
    key = _file(info.private_key_path, info.private_key_data)
    if certificate and key:
        user["client-certificate"], user["client-key"] = certificate, key
    cluster: dict[str, Any] = {"server": info.server}
    if info.insecure:
        cluster["insecure-skip-tls-verify"] = True
    elif authority := _file(info.ca_path, info.ca_data):
        cluster["certificate-authority"] = authority
    context = {"cluster": "self", "user": "self", "namespace": info.default_namespace or "default"}
    return pykube.HTTPClient(
        pykube.KubeConfig(
            {
                "current-context": "self",
                "clusters": [{"name": "self", "cluster": cluster}],
                "users": [{"name": "self", "user": user}],
                "contexts": [{"name": "self", "context": context}],
            }
        )
    )


def _file(path: Any, data: str | bytes | None) -> str | None:
    """The path of a file that holds this; data is written to one that only this user can read."""
    if path:
        return str(path)
    if not data:
        return None
    import atexit
    import base64
    import os
    import tempfile

    raw = data.encode() if isinstance(data, str) else data
    if b"-----BEGIN" not in raw:
        raw = base64.b64decode(raw)
    handle, name = tempfile.mkstemp(prefix="opkit-", suffix=".pem")  # made with mode 0600
    with os.fdopen(handle, "wb") as file:
        file.write(raw)
    atexit.register(_remove, name)
    return name


def _remove(name: str) -> None:
    import contextlib
    import os

    with contextlib.suppress(FileNotFoundError):
        os.unlink(name)
