"""
The fields of a kubeconfig file, with their types: what is of another type is refused, not guessed at.

Takes the text of one file; gives its mapping, in which what was null is left out. Raises `CredentialsError` with one
line that names file and field, and never shows a value: it may be a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import yaml

from opkit.errors import CredentialsError

_Check = Callable[[Any, str, Path], Any]

# As they are called in YAML and JSON.
_TYPES: dict[type, str] = {
    str: "a text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a mapping",
}  # fmt: skip


def read_fields(path: Path) -> dict[str, Any]:
    """The content of one file, checked. Raises `CredentialsError`."""
    try:
        # Of several documents only the first one counts; a mark of the byte order is no content.
        content = next(yaml.safe_load_all(path.read_text(encoding="utf-8-sig")), None)
    except OSError as error:
        raise CredentialsError(f"the kubeconfig {path} can't be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        # What the parser says may quote the file, and so a secret.
        raise CredentialsError(f"the kubeconfig {path} is not YAML") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise CredentialsError(f"the kubeconfig {path} holds no configuration")
    checked: dict[str, Any] = _FILE(content, "", path)
    for field, wanted in (("kind", "Config"), ("apiVersion", "v1")):
        if checked.get(field, wanted) != wanted:
            _refuse(path, field, f"has to be {wanted}")
    return checked


def _refuse(path: Path, field: str, why: str) -> NoReturn:
    raise CredentialsError(f"the kubeconfig {path}: {field} {why}")


def _is(wanted: type) -> _Check:
    def check(value: Any, field: str, path: Path) -> Any:
        # Exactly this type: true is an int for Python, and the text "false" would be true for it.
        if type(value) is not wanted:
            _refuse(path, field, f"has to be {_TYPES[wanted]}, not {_TYPES.get(type(value), 'something else')}")
        return value

    return check


_text, _truth, _mapping = _is(str), _is(bool), _is(dict)


def _list_of(item: _Check) -> _Check:
    def check(value: Any, field: str, path: Path) -> list[Any]:
        return [item(one, f"{field}[{at}]", path) for at, one in enumerate(_is(list)(value, field, path))]

    return check


def _fields(known: Mapping[str, _Check]) -> _Check:
    """A mapping; fields that are not known are left alone, as those of a newer version."""

    def check(value: Any, field: str, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, one in _mapping(value, field, path).items():
            if one is not None:
                found[key] = known[key](one, f"{field}.{key}" if field else key, path) if key in known else one
        return found

    return check


def _named(key: str, known: Mapping[str, _Check]) -> _Check:
    """A list of entries, each with a name of its own."""
    entry = _fields({"name": _text, key: _fields(known)})

    def check(value: Any, field: str, path: Path) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for at, item in enumerate(_list_of(entry)(value, field, path)):
            name = item.get("name")
            if not name:
                _refuse(path, f"{field}[{at}].name", "is missing")
            if name in found:
                _refuse(path, f"{field}[{at}].name", f"is {name!r}, which another entry of this file is called")
            found[name] = item.get(key, {})
        return found

    return check


_EXTENSIONS = _list_of(_fields({"name": _text}))

_CLUSTER: dict[str, _Check] = {
    "server": _text, "tls-server-name": _text, "insecure-skip-tls-verify": _truth, "certificate-authority": _text,
    "certificate-authority-data": _text, "proxy-url": _text, "disable-compression": _truth, "extensions": _EXTENSIONS,
}  # fmt: skip

_PLUGIN: dict[str, _Check] = {
    "command": _text, "args": _list_of(_text), "env": _list_of(_fields({"name": _text, "value": _text})),
    "apiVersion": _text, "installHint": _text, "provideClusterInfo": _truth, "interactiveMode": _text,
}  # fmt: skip

_USER: dict[str, _Check] = {
    "client-certificate": _text, "client-certificate-data": _text, "client-key": _text, "client-key-data": _text,
    "token": _text, "tokenFile": _text, "username": _text, "password": _text, "as": _text, "as-uid": _text,
    "as-groups": _list_of(_text), "as-user-extra": _mapping, "auth-provider": _mapping, "exec": _fields(_PLUGIN),
}  # fmt: skip

_CONTEXT: dict[str, _Check] = {"cluster": _text, "user": _text, "namespace": _text}

_FILE = _fields(
    {
        "apiVersion": _text, "kind": _text, "current-context": _text,
        "clusters": _named("cluster", _CLUSTER), "users": _named("user", _USER),
        "contexts": _named("context", _CONTEXT),
    }
)  # fmt: skip
