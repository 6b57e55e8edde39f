"""
Kubeconfig files: from `KUBECONFIG` (or `~/.kube/config`) to the credentials of the current context.

Takes files as kubectl does: several are merged and the first value of a name wins, missing ones are skipped, and
relative paths in a file start at its folder. Credential plugins are run. Gives plain values, or raises
`CredentialsError` that names file and field. Never shows a secret, and never connects.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import functools
import logging
import os
import ssl
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opkit.cluster.credential_plugin import run_plugin
from opkit.cluster.kubeconfig_fields import read_fields
from opkit.cluster.proxies import checked_proxy
from opkit.errors import CredentialsError

logger = logging.getLogger("opkit.cluster")

_KINDS = ("clusters", "users", "contexts")

# What of these names a file; a plugin's command does so if there is a slash in it, and is else looked up in PATH.
_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """The way into a cluster. Its repr shows the server only."""

    server: str
    namespace: str | None = None
    ca_path: str | None = None
    ca_data: str | None = None
    insecure: bool = False
    proxy_url: str | None = None
    token: str | None = None
    username: str | None = None
    password: str | None = None
    certificate_path: str | None = None
    certificate_data: str | None = None
    key_path: str | None = None
    key_data: str | None = None
    token_path: str | None = None
    context: str | None = None
    from_plugin: bool = False
    expiration: datetime.datetime | None = None

    def __repr__(self) -> str:
        # Not the whole address: a proxy's, or that of the embedded server, may have a secret in it.
        parts = urllib.parse.urlsplit(self.server)
        return f"<credentials for {parts.scheme}://{parts.netloc.rpartition('@')[2]}>"


def paths() -> list[Path]:
    """The files that are looked at, whether they exist or not."""
    named = os.environ.get("KUBECONFIG")
    if named:
        return [Path(part).expanduser() for part in named.split(os.pathsep) if part.strip()]
    return [Path("~/.kube/config").expanduser()]


def exists() -> bool:
    """Whether there is anything to look at: a file, or a variable that names one."""
    return bool(os.environ.get("KUBECONFIG")) or paths()[0].exists()


def check(*, path: str | Path | None = None, context: str | None = None) -> None:
    """Read the files, and look for all that the context needs. Raises `CredentialsError`. Runs no plugin."""
    _Merged(path, context)


def needs_another_client(*, path: str | Path | None = None, context: str | None = None) -> bool:
    """Whether the current user logs in by an auth provider, which only the client libraries know."""
    return bool(_Merged(path, context).user.get("auth-provider"))


def load(*, path: str | Path | None = None, context: str | None = None) -> Credentials:
    """
    The credentials of the current context, or of the one that is named, in that one file if one is named.

    Runs its credential plugin. Raises `CredentialsError`.
    """
    merged = _Merged(path, context)
    cluster, user, origin = merged.cluster, merged.user, merged.file_of(merged.user)
    if user.get("as") or user.get("as-uid") or user.get("as-groups") or user.get("as-user-extra"):
        # Ignoring it would give the operator more rights than the file wants it to have.
        raise CredentialsError(
            f"{origin} wants its user to act as another one (`as`), which opkit can't do: name a "
            "service account's own credentials instead"
        )
    if name := cluster.get("tls-server-name"):
        _tell_server_name(merged.names, name)
    way = _way(cluster, merged.file_of(cluster))
    identity, given = _identity(user, origin), {}
    # A user that names itself is not asked to do so by a plugin.
    if user.get("exec") and not identity:
        given = run_plugin(user["exec"], cluster, origin)
        identity = {"token": given.get("token"), "expiration": given.get("expiration"), "from_plugin": True}
    return Credentials(
        namespace=merged.context.get("namespace"), context=merged.name, **way, **identity,
        **_certificate({**user, **given}, origin, is_checked="client-certificate-data" not in given),
    )  # fmt: skip


@functools.cache
def _tell_server_name(names: str, name: str) -> None:
    """Once: the files are read again and again."""
    logger.warning(
        "The kubeconfig %s names %s as the tls-server-name, which opkit can't ask for: the certificate has to be "
        "valid for the server's address.", names, name,
    )  # fmt: skip


def _way(cluster: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """The server, the proxy before it, and whom to trust."""
    if not cluster.get("server"):
        raise CredentialsError(f"{origin} names no server for its current context")
    insecure = cluster.get("insecure-skip-tls-verify", False)
    ca_path, ca_data = _file_or_data(cluster, "certificate-authority", origin)
    if insecure and (ca_path or ca_data):
        raise CredentialsError(
            f"{origin}: insecure-skip-tls-verify and a certificate-authority contradict each other: leave one out"
        )
    if ca_path or ca_data:
        _check_authority(ca_path, ca_data, origin)
    proxy = cluster.get("proxy-url") or None
    return {
        "server": _server(cluster, origin), "insecure": insecure, "ca_path": ca_path, "ca_data": ca_data,
        "proxy_url": checked_proxy(proxy, f"{origin}: proxy-url") if proxy else None,
    }  # fmt: skip


def _server(cluster: Mapping[str, Any], origin: str) -> str:
    """The server's address. Without a scheme it is HTTPS if anything is said of TLS, as kubectl has it."""
    server: str = cluster["server"].strip()
    try:
        if "://" not in server:
            secure = any(cluster.get(key) for key in ("insecure-skip-tls-verify", "certificate-authority",
                                                      "certificate-authority-data"))  # fmt: skip
            server = f"{'https' if secure else 'http'}://{server}"
        parts = urllib.parse.urlsplit(server)
        if parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port):
            return server
    except ValueError:
        pass
    raise CredentialsError(f"{origin}: server is no address of an API server: write it as https://HOST:PORT")


def _identity(user: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """One scheme only: a token (that of the file is the newest one), or else name and password."""
    path = user.get("tokenFile")
    token = user.get("token", "").strip()
    if path:
        try:
            token = Path(path).read_text(encoding="utf-8").strip() or token
        except (OSError, ValueError) as error:
            if not token:
                raise CredentialsError(
                    f"the token file {path} can't be read ({origin}: tokenFile): {_why(error)}"
                ) from None
        if not token:
            raise CredentialsError(f"the token file {path} is empty ({origin}: tokenFile)")
    if token:
        return {"token": token, "token_path": path}
    if user.get("username"):
        return {"username": user["username"], "password": user.get("password", "")}
    return {}


def _certificate(user: Mapping[str, Any], origin: str, *, is_checked: bool) -> dict[str, Any]:
    """The client's certificate with its key; a key alone means nothing. A plugin's is not in the file to be checked."""
    path, data = _file_or_data(user, "client-certificate", origin, is_checked=is_checked)
    if not path and not data:
        return {}
    key_path, key_data = _file_or_data(user, "client-key", origin, is_checked=is_checked)
    if not key_path and not key_data:
        raise CredentialsError(f"{origin}: client-key (or client-key-data) is missing for its client-certificate")
    _refuse_encrypted(key_path, key_data, origin, in_base64=is_checked)
    return {"certificate_path": path, "certificate_data": data, "key_path": key_path, "key_data": key_data}


def _refuse_encrypted(path: str | None, data: str | None, origin: str, *, in_base64: bool) -> None:
    """For a key that needs a password, OpenSSL would ask at the terminal, and everything would wait for the answer."""
    if path:
        content, field = Path(path).read_bytes(), f"client-key: {path}"
    else:
        raw, field = (data or "").encode(), "client-key-data"
        content = base64.b64decode(raw) if in_base64 else raw
    if b"ENCRYPTED" in content:
        raise CredentialsError(f"{origin}: {field} is encrypted, and nobody can be asked for its password: name a key "
                               "without one")  # fmt: skip


def _file_or_data(
    values: Mapping[str, Any], field: str, origin: str, *, is_checked: bool = True
) -> tuple[str | None, str | None]:
    """The path or the data of something in PEM; the data wins."""
    if data := values.get(f"{field}-data"):
        if is_checked:
            _check_data(data, f"{origin}: {field}-data")
        return None, data
    path: str | None = values.get(field) or None
    if path:
        try:
            with open(path, "rb"):
                pass
        except (OSError, ValueError) as error:
            raise CredentialsError(f"{origin}: {field}: {path} can't be read: {_why(error)}") from None
    return path, None


def _check_data(data: str, field: str) -> None:
    try:
        content = base64.b64decode(data.replace("\n", "").replace("\r", ""), validate=True)
    except ValueError:
        raise CredentialsError(f"{field} is not base64") from None
    if b"-----BEGIN " not in content:
        raise CredentialsError(f"{field} is not PEM (in base64)")


def _check_authority(path: str | None, data: str | None, origin: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    field = "certificate-authority-data" if data else f"certificate-authority: {path}"
    try:
        context.load_verify_locations(cafile=path, cadata=base64.b64decode(data).decode("ascii") if data else None)
    except (ssl.SSLError, OSError, ValueError):
        raise CredentialsError(f"{origin}: {field} holds no certificate that can be used") from None


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "it holds no text"


def _is_there(path: Path) -> bool:
    """Whether there is such a file; also one that nobody may look at, so that it is told when it is read."""
    try:
        return path.exists()
    except OSError:
        return True


class _Merged:
    """All files as one: the current context with its cluster and its user."""

    def __init__(self, path: str | Path | None, context: str | None) -> None:
        looked_at = [Path(path)] if path is not None else paths()
        self.names = os.pathsep.join(str(one) for one in looked_at)
        self.origin = f"the kubeconfig {self.names}"
        self._found: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in _KINDS}
        self._files: dict[int, Path] = {}
        self.name = context
        self._read(looked_at)
        if not self.name:
            raise CredentialsError(f"{self.origin} has no current-context; set one: kubectl config use-context NAME")
        self.context = self._named("contexts", self.name)
        self.cluster = self._named("clusters", self._needed("cluster"))
        self.user = self._named("users", self.context["user"]) if self.context.get("user") else {}

    def _read(self, looked_at: Sequence[Path]) -> None:
        read = [path for path in looked_at if _is_there(path)]
        if not read:
            raise CredentialsError(f"{self.origin} does not exist")
        for path in read:
            self._add(path)

    def _add(self, path: Path) -> None:
        content = read_fields(path)
        self.name = self.name or content.get("current-context")
        folder = path.absolute().parent
        for kind in _KINDS:
            for name, values in content.get(kind, {}).items():
                for key in _FILES:
                    if values.get(key):
                        values[key] = str(folder / values[key])
                plugin = values.get("exec", {})
                if os.sep in plugin.get("command", ""):
                    plugin["command"] = str(folder / plugin["command"])
                if name not in self._found[kind]:
                    self._found[kind][name] = values
                    self._files[id(values)] = path

    def file_of(self, entry: Mapping[str, Any]) -> str:
        """Where an entry is written, in words."""
        path = self._files.get(id(entry))
        return f"the kubeconfig {path}" if path is not None else self.origin

    def _needed(self, field: str) -> str:
        name: str = self.context.get(field, "")
        if not name:
            raise CredentialsError(f"{self.origin} names no {field} in its context {self.name!r}")
        return name

    def _named(self, kind: str, name: str) -> dict[str, Any]:
        found = self._found[kind].get(name)
        if found is None:
            raise CredentialsError(f"{self.origin} has no {kind.removesuffix('s')} named {name!r}")
        return found
