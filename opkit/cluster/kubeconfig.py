"""
Kubeconfig files: from `KUBECONFIG` (or `~/.kube/config`) to the credentials of the current context.

Takes files as kubectl does: several are merged and the first value of a name wins, missing ones are skipped, and
relative paths in a file start at its folder. Credential plugins are run. Gives plain values, or raises
`CredentialsError` that names the file. Never shows a secret, and never connects.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import logging
import os
import subprocess
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from opkit.errors import CredentialsError

logger = logging.getLogger("opkit.cluster")

# Seconds that a credential plugin may take: some open a browser for the user.
_PLUGIN_PATIENCE = 120.0

# A plugin's credentials are renewed so long before they expire (seconds).
_EARLY = 10.0


@dataclasses.dataclass(slots=True)
class _Choice:
    """What the user of this process has asked for, beside the environment."""

    made: bool = False
    context: str | None = None


_choice = _Choice()

_PATHS = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
    "contexts": (),
}


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


@contextlib.contextmanager
def chosen(context: str | None) -> Iterator[None]:
    """In the block the files come before a service account, and this context before the current one."""
    global _choice
    before, _choice = _choice, _Choice(True, context)
    try:
        yield
    finally:
        _choice = before


def is_chosen() -> bool:
    """Whether the files were asked for, rather than found."""
    return _choice.made


def check() -> None:
    """Read the files, and look for all that the current context needs. Raises `CredentialsError`. Runs no plugin."""
    _Merged().current()


def needs_another_client() -> bool:
    """Whether the current user logs in by an auth provider, which only the client libraries know."""
    merged = _Merged()
    _, user, _ = merged.current()
    return bool(user.get("auth-provider"))


def load() -> Credentials:
    """The credentials of the current context. Runs its credential plugin. Raises `CredentialsError`."""
    cluster, user, namespace = _Merged().current()
    if not cluster.get("server"):
        raise CredentialsError(f"the kubeconfig {_names()} names no server for its current context")
    if user.get("as") or user.get("as-uid") or user.get("as-groups"):
        # Ignoring it would give the operator more rights than the file wants it to have.
        raise CredentialsError(
            f"the kubeconfig {_names()} wants its user to act as another one (`as`), which opkit can't do: name a "
            "service account's own credentials instead"
        )
    if name := cluster.get("tls-server-name"):
        logger.warning(
            "The kubeconfig %s names %s as the tls-server-name, which opkit can't ask for: the certificate has to be "
            "valid for the server's address.", _names(), name,
        )  # fmt: skip
    if user.get("exec"):
        user = {**user, **_run_plugin(user["exec"])}
    return Credentials(
        server=str(cluster["server"]),
        namespace=namespace,
        ca_path=cluster.get("certificate-authority"),
        ca_data=cluster.get("certificate-authority-data"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        proxy_url=cluster.get("proxy-url"),
        certificate_path=user.get("client-certificate"),
        certificate_data=user.get("client-certificate-data"),
        key_path=user.get("client-key"),
        key_data=user.get("client-key-data"),
        expiration=user.get("expiration"),
        **_identity(user),
    )


def _identity(user: Mapping[str, Any]) -> dict[str, str | None]:
    """One scheme only: a token, or else name and password."""
    token = user.get("token")
    if not token and user.get("tokenFile"):
        try:
            token = Path(user["tokenFile"]).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise CredentialsError(f"the token file {user['tokenFile']} can't be read: {error.strerror}") from None
    if token:
        return {"token": str(token)}
    if user.get("username"):
        return {"username": str(user["username"]), "password": str(user.get("password") or "")}
    return {}


class _Merged:
    """All files as one."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in _PATHS}
        self._context: str | None = None
        read = [path for path in paths() if path.exists()]
        if not read:
            raise CredentialsError(f"the kubeconfig {_names()} does not exist")
        for path in read:
            self._add(path)

    def _add(self, path: Path) -> None:
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except OSError as error:
            raise CredentialsError(f"the kubeconfig {path} can't be read: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError):
            # What the parser says may quote the file, and so a secret.
            raise CredentialsError(f"the kubeconfig {path} is not YAML") from None
        if not isinstance(content, dict):
            raise CredentialsError(f"the kubeconfig {path} holds no configuration")
        self._context = self._context or content.get("current-context") or None
        for kind, relative in _PATHS.items():
            for item in content.get(kind) or ():
                values = dict(item.get(kind.removesuffix("s")) or {})
                for key in relative:
                    if values.get(key):
                        values[key] = str(path.parent / Path(values[key]).expanduser())
                self._found[kind].setdefault(str(item.get("name")), values)

    def current(self) -> tuple[dict[str, Any], dict[str, Any], str | None]:
        """Cluster, user and namespace of the current context, or of the one that was asked for instead."""
        if _choice.context is not None:
            self._context = _choice.context
        if self._context is None:
            raise CredentialsError(f"the kubeconfig {_names()} has no current-context; set one: kubectl config "
                                   "use-context NAME")  # fmt: skip
        context = self._named("contexts", self._context)
        cluster = self._named("clusters", str(context.get("cluster")))
        user = self._named("users", str(context["user"])) if context.get("user") else {}
        return cluster, user, context.get("namespace")

    def _named(self, kind: str, name: str) -> dict[str, Any]:
        found = self._found[kind].get(name)
        if found is None:
            raise CredentialsError(f"the kubeconfig {_names()} has no {kind.removesuffix('s')} named {name!r}")
        return found


def _names() -> str:
    return os.pathsep.join(str(path) for path in paths())


def _run_plugin(plugin: Mapping[str, Any]) -> dict[str, Any]:
    """Ask a credential plugin. Blocks; to be called in a thread."""
    command = [str(plugin.get("command")), *map(str, plugin.get("args") or ())]
    api_version = plugin.get("apiVersion") or "client.authentication.k8s.io/v1"
    request = {"apiVersion": api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
    extra = {str(item["name"]): str(item["value"]) for item in plugin.get("env") or ()}
    environment = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(request)}
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PLUGIN_PATIENCE
        )
    except OSError as error:
        raise CredentialsError(f"the credential plugin {command[0]} can't be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise CredentialsError(f"the credential plugin {command[0]} gave nothing in {_PLUGIN_PATIENCE:g} s") from None
    if done.returncode != 0:
        raise CredentialsError(f"the credential plugin {command[0]} failed with exit status {done.returncode}")
    try:
        status = json.loads(done.stdout)["status"]
        return {
            "token": status.get("token"),
            "client-certificate-data": status.get("clientCertificateData"),
            "client-key-data": status.get("clientKeyData"),
            "expiration": _expiration(status.get("expirationTimestamp")),
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        # Neither what it said nor why it is wrong: both may be the secret.
        raise CredentialsError(f"the credential plugin {command[0]} did not print an ExecCredential") from None


def _expiration(stamp: str | None) -> datetime.datetime | None:
    if not stamp:
        return None
    return datetime.datetime.fromisoformat(stamp) - datetime.timedelta(seconds=_EARLY)
