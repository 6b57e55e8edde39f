"""Objects as `kubectl get` wants them: tables, and metadata alone."""

from __future__ import annotations

import datetime
from typing import Any

from opkit.cluster.body import Raw
from opkit.simulation import jsonpath
from opkit.simulation.kinds import Column, Endpoint

_AGE = Column(
    "Age",
    "date",
    ".metadata.creationTimestamp",
    "CreationTimestamp is the time when this object was created.",
)
_NAME = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "Name must be unique within a namespace.",
    "priority": 0,
}
_BUILTIN: dict[str, tuple[Column, ...]] = {
    "namespaces": (Column("Status", "string", ".status.phase"), _AGE),
    "nodes": (Column("Version", "string", ".status.nodeInfo.kubeletVersion"), _AGE),
    "pods": (
        Column("Status", "string", ".status.phase"),
        Column("Node", "string", ".spec.nodeName", priority=1),
        _AGE,
    ),
    "services": (
        Column("Type", "string", ".spec.type"),
        Column("Cluster-IP", "string", ".spec.clusterIP"),
        _AGE,
    ),
    "deployments": (
        Column("Replicas", "integer", ".spec.replicas"),
        Column("Ready", "integer", ".status.readyReplicas"),
        Column("Images", "string", ".spec.template.spec.containers[*].image", priority=1),
        _AGE,
    ),
    "secrets": (Column("Type", "string", ".type"), _AGE),
    "leases": (Column("Holder", "string", ".spec.holderIdentity"), _AGE),
    "customresourcedefinitions": (Column("Created At", "string", ".metadata.creationTimestamp"),),
    "events": (
        Column("Last Seen", "date", ".lastTimestamp"),
        Column("Type", "string", ".type"),
        Column("Reason", "string", ".reason"),
        Column("Object", "string", ".involvedObject.name"),
        Column("Message", "string", ".message"),
    ),
}


def table(endpoint: Endpoint, bodies: list[Raw], list_meta: Raw, now: datetime.datetime, include: str) -> Raw:
    """
    A Table of these objects. `include` says what stands beside each row: `Metadata`, `Object` or `None`.
    """
    columns = endpoint.version.columns or _BUILTIN.get(endpoint.kind.plural) or (_AGE,)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta,
        "columnDefinitions": [_NAME, *(_definition(column) for column in columns)],
        "rows": [_row(columns, body, now, include) for body in bodies],
    }


def partial(body: Raw) -> Raw:
    """The object's metadata alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]}


def _definition(column: Column) -> Raw:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _row(columns: tuple[Column, ...], body: Raw, now: datetime.datetime, include: str) -> Raw:
    cells = [body["metadata"].get("name"), *(_cell(column, body, now) for column in columns)]
    row: Raw = {"cells": cells}
    if include == "Object":
        row["object"] = body
    elif include != "None":
        row["object"] = partial(body)
    return row


def _cell(column: Column, body: Raw, now: datetime.datetime) -> Any:
    found = jsonpath.find(body, column.path)
    if not found:
        return None
    if column.type == "date":
        return _age(found[0], now)
    if column.type in ("integer", "number", "boolean"):
        return found[0]
    return ",".join(_text(value) for value in found)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else jsonpath.show(value)


def _age(value: Any, now: datetime.datetime) -> str:
    """A duration as kubectl shows it: two units at most."""
    try:
        then = datetime.datetime.fromisoformat(str(value))
        seconds = int((now - then).total_seconds())
    except (ValueError, TypeError):
        return "<invalid>"
    if seconds < 0:
        return "<invalid>" if seconds < -1 else "0s"
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 3 * 3600:
        return f"{seconds // 60}m"
    if seconds < 48 * 3600:
        return f"{seconds // 3600}h"
    return f"{seconds // 86400}d"
