"""
Credential plugins: programs that a kubeconfig names, which print a token or a certificate.

Takes the `exec` entry of a user and its cluster; gives the fields of a user. Blocks, so it is to be called in a
thread. Raises `CredentialsError` that names the command, and never shows what the plugin printed: it may be a secret.
"""

from __future__ import annotations

import base64
import datetime
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opkit.errors import CredentialsError

_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_MODES = ("Never", "IfAvailable", "Always")

# Seconds that a plugin may take: some open a browser for the user.
_PATIENCE = 120.0

# What it gives is renewed so long before it expires (seconds).
_EARLY = 10.0


def run_plugin(plugin: Mapping[str, Any], cluster: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """What the plugin gives, as fields of a user. `origin` names the kubeconfig."""
    command = plugin.get("command")
    if not command:
        raise CredentialsError(f"{origin}: exec.command is missing: there is no credential plugin to run")
    version, interactive = _checked(plugin, command, origin)
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = _cluster_info(cluster)
    try:
        request = json.dumps({"apiVersion": version, "kind": "ExecCredential", "spec": spec}, default=str)
    except (TypeError, ValueError, RecursionError):
        raise CredentialsError(f"{origin}: the plugin's extension of the cluster can't be written as JSON") from None
    extra = {}
    for entry in plugin.get("env", ()):
        if not entry.get("name"):
            raise CredentialsError(f"{origin}: an entry of exec.env has no name")
        extra[entry["name"]] = entry.get("value", "")
    environment = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": request}
    printed = _printed([command, *plugin.get("args", ())], environment, interactive, plugin.get("installHint", ""))
    return _status(printed, command, version)


def _checked(plugin: Mapping[str, Any], command: str, origin: str) -> tuple[str, bool]:
    """The version that is spoken, and whether the plugin may ask the user."""
    version, mode = plugin.get("apiVersion", _VERSIONS[0]), plugin.get("interactiveMode")
    if version not in _VERSIONS:
        raise CredentialsError(
            f"{origin}: exec.apiVersion is {version!r}, which no plugin can be asked in any more: use "
            f"{' or '.join(_VERSIONS)}, as newer versions of {Path(command).name} do"
        )
    if mode is None and plugin.get("apiVersion") == _VERSIONS[0]:
        raise CredentialsError(f"{origin}: exec.interactiveMode is missing, which {version} needs: {', '.join(_MODES)}")
    if mode is not None and mode not in _MODES:
        raise CredentialsError(f"{origin}: exec.interactiveMode is {mode!r}, not one of {', '.join(_MODES)}")
    interactive = mode != "Never" and sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if mode == "Always" and not interactive:
        raise CredentialsError(
            f"the credential plugin {command} has to ask the user (interactiveMode: Always), and there is no terminal: "
            "use credentials that need nobody, as those of a service account"
        )
    return version, interactive


def _cluster_info(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster as plugins are told of it; the authority's file as data."""
    info = {
        key: cluster[key]
        for key in ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url",
                    "disable-compression")
        if cluster.get(key)
    }  # fmt: skip
    if "certificate-authority-data" not in info and cluster.get("certificate-authority"):
        content = Path(cluster["certificate-authority"]).read_bytes()
        info["certificate-authority-data"] = base64.b64encode(content).decode()
    named = {item.get("name"): item.get("extension") for item in cluster.get("extensions", ())}
    info["config"] = named.get(f"{_GROUP}/exec")
    return info


def _printed(command: list[str], environment: dict[str, str], interactive: bool, hint: str) -> bytes:
    # Who may ask the user does it by the terminal; what others complain of may have secrets in it.
    streams: dict[str, Any] = {} if interactive else {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    try:
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, timeout=_PATIENCE, check=False, **streams
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its command or env can't be used"
        how = f"; {' '.join(hint.split())}" if hint.strip() else ""
        raise CredentialsError(f"the credential plugin {command[0]} can't be run: {why}{how}") from None
    except subprocess.TimeoutExpired:
        raise CredentialsError(f"the credential plugin {command[0]} gave nothing in {_PATIENCE:g} s") from None
    if done.returncode != 0:
        raise CredentialsError(f"the credential plugin {command[0]} failed with exit status {done.returncode}")
    return done.stdout


def _status(printed: bytes, command: str, version: str) -> dict[str, Any]:
    try:
        answer = json.loads(printed)
        status = answer["status"]
        spoken = answer.get("apiVersion", version)
        texts = {name: status.get(name) or "" for name in ("token", "clientCertificateData", "clientKeyData")}
        expiration = _expiration(status.get("expirationTimestamp"))
        if not all(isinstance(text, str) for text in texts.values()):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        # Neither what it said nor why it is wrong: both may be the secret.
        raise CredentialsError(f"the credential plugin {command} did not print an ExecCredential") from None
    if spoken != version:
        raise CredentialsError(
            f"the credential plugin {command} answers in another version than {version}, which the kubeconfig names "
            "as exec.apiVersion"
        )
    token, certificate, key = texts.values()
    if bool(certificate) != bool(key):
        raise CredentialsError(f"the credential plugin {command} printed a certificate or a key, not both")
    if not token and not certificate:
        raise CredentialsError(f"the credential plugin {command} printed neither a token nor a certificate")
    given = {"token": token.strip(), "client-certificate-data": certificate, "client-key-data": key,
             "expiration": expiration}  # fmt: skip
    return {field: value for field, value in given.items() if value}


def _expiration(stamp: str | None) -> datetime.datetime | None:
    if not stamp:
        return None
    found = datetime.datetime.fromisoformat(stamp)
    return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)) - datetime.timedelta(seconds=_EARLY)
