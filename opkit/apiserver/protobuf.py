"""
The protobuf bodies that `kubectl create` and `kubectl auth can-i` send, decoded by tables of field numbers.

Only the kinds that are in the tables, and of them the fields that kubectl fills in; all else is refused
cleanly. Answers are always JSON, which those clients accept too.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from opkit.cluster.body import Raw

MAGIC = b"k8s\x00"

# A message is a table: field number -> (JSON name, type). Types: "s" text, "i" integer, "b" boolean, "y"
# bytes; a name of a message; "[...]" around one for a repeated field; "{s}" or "{y}" for a map of texts to
# that.
_MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "ObjectMeta": {
        1: ("name", "s"),
        2: ("generateName", "s"),
        3: ("namespace", "s"),
        5: ("uid", "s"),
        6: ("resourceVersion", "s"),
        11: ("labels", "{s}"),
        12: ("annotations", "{s}"),
        13: ("ownerReferences", "[OwnerReference]"),
        14: ("finalizers", "[s]"),
    },
    "OwnerReference": {
        1: ("kind", "s"),
        3: ("name", "s"),
        4: ("uid", "s"),
        5: ("apiVersion", "s"),
        6: ("controller", "b"),
        7: ("blockOwnerDeletion", "b"),
    },
    "Namespace": {1: ("metadata", "ObjectMeta"), 2: ("spec", "NamespaceSpec")},
    "NamespaceSpec": {1: ("finalizers", "[s]")},
    "ConfigMap": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "{s}"),
        3: ("binaryData", "{y}"),
        4: ("immutable", "b"),
    },
    "Secret": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "{y}"),
        3: ("type", "s"),
        4: ("stringData", "{s}"),
        5: ("immutable", "b"),
    },
    "ServiceAccount": {1: ("metadata", "ObjectMeta")},
    "SelfSubjectAccessReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "ReviewSpec")},
    "ReviewSpec": {
        1: ("resourceAttributes", "ResourceAttributes"),
        2: ("nonResourceAttributes", "NonResource"),
    },
    "ResourceAttributes": {
        1: ("namespace", "s"),
        2: ("verb", "s"),
        3: ("group", "s"),
        4: ("version", "s"),
        5: ("resource", "s"),
        6: ("subresource", "s"),
        7: ("name", "s"),
    },
    "NonResource": {1: ("path", "s"), 2: ("verb", "s")},
    "Deployment": {1: ("metadata", "ObjectMeta"), 2: ("spec", "DeploymentSpec")},
    "DeploymentSpec": {
        1: ("replicas", "i"),
        2: ("selector", "LabelSelector"),
        3: ("template", "PodTemplate"),
        5: ("minReadySeconds", "i"),
        6: ("revisionHistoryLimit", "i"),
        7: ("paused", "b"),
        9: ("progressDeadlineSeconds", "i"),
    },
    "LabelSelector": {1: ("matchLabels", "{s}")},
    "PodTemplate": {1: ("metadata", "ObjectMeta"), 2: ("spec", "PodSpec")},
    "PodSpec": {2: ("containers", "[Container]"), 3: ("restartPolicy", "s"), 8: ("serviceAccountName", "s")},
    "Container": {
        1: ("name", "s"),
        2: ("image", "s"),
        3: ("command", "[s]"),
        4: ("args", "[s]"),
        6: ("ports", "[ContainerPort]"),
        7: ("env", "[EnvVar]"),
        14: ("imagePullPolicy", "s"),
    },
    "ContainerPort": {
        1: ("name", "s"),
        2: ("hostPort", "i"),
        3: ("containerPort", "i"),
        4: ("protocol", "s"),
    },
    "EnvVar": {1: ("name", "s"), 2: ("value", "s")},
    "Role": {1: ("metadata", "ObjectMeta"), 2: ("rules", "[PolicyRule]")},
    "ClusterRole": {1: ("metadata", "ObjectMeta"), 2: ("rules", "[PolicyRule]")},
    "PolicyRule": {
        1: ("verbs", "[s]"),
        2: ("apiGroups", "[s]"),
        3: ("resources", "[s]"),
        4: ("resourceNames", "[s]"),
        5: ("nonResourceURLs", "[s]"),
    },
    "RoleBinding": {1: ("metadata", "ObjectMeta"), 2: ("subjects", "[Subject]"), 3: ("roleRef", "RoleRef")},
    "ClusterRoleBinding": {
        1: ("metadata", "ObjectMeta"),
        2: ("subjects", "[Subject]"),
        3: ("roleRef", "RoleRef"),
    },
    "Subject": {1: ("kind", "s"), 2: ("apiGroup", "s"), 3: ("name", "s"), 4: ("namespace", "s")},
    "RoleRef": {1: ("apiGroup", "s"), 2: ("kind", "s"), 3: ("name", "s")},
}
_KINDS = frozenset(
    {
        "Namespace",
        "ConfigMap",
        "Secret",
        "ServiceAccount",
        "SelfSubjectAccessReview",
        "Deployment",
        "Role",
        "ClusterRole",
        "RoleBinding",
        "ClusterRoleBinding",
    }
)


class UnknownKind(ValueError):
    """A well-formed body of a kind that is in no table."""


def decode(data: bytes) -> Raw:
    """Decode a body. Raises `UnknownKind`, or `ValueError` for what is no such body at all."""
    if not data.startswith(MAGIC):
        raise ValueError("the body is not Kubernetes protobuf")
    api_version, kind, raw = "", "", b""
    for number, value in _fields(data[len(MAGIC) :]):
        if number == 1:
            type_meta = {inner: _bytes(text).decode() for inner, text in _fields(_bytes(value))}
            api_version, kind = type_meta.get(1, ""), type_meta.get(2, "")
        elif number == 2:
            raw = _bytes(value)
    if kind not in _KINDS:
        raise UnknownKind(f"protobuf bodies of {kind or 'an unnamed kind'} are not supported: send JSON")
    return {"apiVersion": api_version, "kind": kind, **_message(raw, kind)}


def _message(data: bytes, name: str) -> Raw:
    table = _MESSAGES[name]
    made: Raw = {}
    for number, value in _fields(data):
        if number in table:
            field, type = table[number]
            _put(made, field, type, value)
    return made


def _put(made: Raw, field: str, type: str, value: int | bytes) -> None:
    if type.startswith("["):
        made.setdefault(field, []).append(_value(value, type[1:-1]))
    elif type.startswith("{"):
        entry = dict(_fields(_bytes(value)))
        key = _bytes(entry.get(1, b"")).decode()
        made.setdefault(field, {})[key] = _value(entry.get(2, b""), type[1:-1])
    elif (decoded := _value(value, type)) != "":
        made[field] = decoded  # empty texts are what was left out


def _value(value: int | bytes, type: str) -> Any:
    if type == "s":
        return _bytes(value).decode()
    if type == "y":
        return base64.b64encode(_bytes(value)).decode()
    if type in ("i", "b"):
        if not isinstance(value, int):
            raise ValueError("a number was expected")
        return bool(value) if type == "b" else value - (1 << 64) if value >> 63 else value
    return _message(_bytes(value), type)


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a text or a message was expected")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of one message as they stand on the wire."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, position = _varint(data, position)
            yield number, value
        elif wire in (1, 2, 5):
            length = {1: 8, 5: 4}.get(wire, 0)
            if wire == 2:
                length, position = _varint(data, position)
            if position + length > len(data):
                raise ValueError("the message ends in the middle of a field")
            yield number, data[position : position + length]
            position += length
        else:
            raise ValueError(f"there is no wire type {wire}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
        shift += 7
    raise ValueError("the message ends in the middle of a number")
