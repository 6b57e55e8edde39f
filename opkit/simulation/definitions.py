"""
Custom resource definitions: what is wrong with one, and the kind that a good one defines.

Pure functions over the CRD's body; the store decides when a kind is served.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema

from opkit.cluster.body import Raw
from opkit.simulation.kinds import Column, Kind, Version
from opkit.simulation.refusals import Cause, bad_value, required
from opkit.simulation.schema import Schema

GROUP, PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

_PLAIN_PATH = re.compile(r"(\.[A-Za-z_][\w-]*)+")
_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def is_definition(kind: Kind) -> bool:
    return (kind.group, kind.plural) == (GROUP, PLURAL)


def complete(body: Raw) -> None:
    """Fill in what may be left out, in place."""
    spec = body.get("spec")
    if not isinstance(spec, dict):
        return
    for key in [key for key, value in spec.items() if value is None]:
        del spec[key]
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(names.get("kind"), str):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    spec.setdefault("preserveUnknownFields", False)
    if not spec["preserveUnknownFields"]:
        del spec["preserveUnknownFields"]


def causes(body: Raw) -> Iterator[Cause]:
    """All that is wrong with a definition, but for its metadata."""
    spec = body.get("spec")
    if not isinstance(spec, dict):
        yield required("spec")
        return
    given = spec.get("names")
    names: Raw = given if isinstance(given, dict) else {}
    for field, value in (("group", spec.get("group")), ("scope", spec.get("scope"))):
        if not isinstance(value, str) or not value:
            yield required(f"spec.{field}")
    for field in ("plural", "kind"):
        if not isinstance(names.get(field), str) or not names[field]:
            yield required(f"spec.names.{field}")
    plural = names.get("plural")
    if isinstance(plural, str) and not _DNS_LABEL.fullmatch(plural):
        yield bad_value("spec.names.plural", plural, "a DNS-1035 label must consist of lower case alphanumerics")
    if spec.get("scope") and spec["scope"] not in ("Namespaced", "Cluster"):
        message = f'Unsupported value: "{spec["scope"]}": supported values: "Cluster", "Namespaced"'
        yield Cause("FieldValueNotSupported", "spec.scope", message)
    expected = f"{plural}.{spec.get('group')}"
    if body["metadata"].get("name") != expected:
        yield bad_value("metadata.name", body["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group')
    yield from _version_causes(spec.get("versions"))


def _version_causes(versions: Any) -> Iterator[Cause]:
    if not isinstance(versions, list) or not versions or not all(isinstance(item, dict) for item in versions):
        yield required("spec.versions", "must have at least one version")
        return
    if sum(1 for version in versions if version.get("storage")) != 1:
        yield bad_value("spec.versions", len(versions), "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        name = version.get("name")
        if not isinstance(name, str) or not _DNS_LABEL.fullmatch(name):
            yield bad_value(f"{path}.name", name, "a DNS-1035 label must consist of lower case alphanumerics")
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not isinstance(schema, dict):
            yield required(f"{path}.schema.openAPIV3Schema", "schemas are required")
        else:
            yield from _schema_causes(schema, f"{path}.schema.openAPIV3Schema")
        yield from _scale_causes((version.get("subresources") or {}).get("scale"), f"{path}.subresources.scale")


def _scale_causes(scale: Raw | None, path: str) -> Iterator[Cause]:
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value = str((scale or {}).get(field) or "")
        if scale is not None and not (value.startswith(root) and _PLAIN_PATH.fullmatch(value)):
            yield bad_value(f"{path}.{field}", value, f"must be a json path of plain names under {root[:-1]}")


def _schema_causes(schema: Raw, path: str) -> Iterator[Cause]:
    if schema.get("type") != "object":
        yield bad_value(f"{path}.type", schema.get("type"), "must be object at the root")
    yield from _structural_causes(schema, path)
    try:
        Schema(schema).check()
    except jsonschema.SchemaError as error:
        yield bad_value(path, ".".join(str(part) for part in error.path), error.message[:200])
    except (AttributeError, TypeError) as error:
        yield bad_value(path, "", f"is not a schema: {error}")


def _structural_causes(schema: Any, path: str) -> Iterator[Cause]:
    """A structural schema tells the type of each value."""
    if not isinstance(schema, dict):
        yield bad_value(path, schema, "must be an object")
        return
    is_open = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not is_open:
        yield required(f"{path}.type", "must not be empty for specified object fields")
    properties = schema.get("properties")
    for name, below in properties.items() if isinstance(properties, dict) else ():
        yield from _structural_causes(below, f"{path}.properties[{name}]")
    if schema.get("type") == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _structural_causes(schema[name], f"{path}.{name}")


def kind_of(body: Raw) -> Kind:
    """The kind that a good definition defines."""
    spec = body["spec"]
    names = spec["names"]
    return Kind(
        group=spec["group"],
        plural=names["plural"],
        kind=names["kind"],
        versions=tuple(_version(version) for version in spec["versions"]),
        namespaced=spec["scope"] == "Namespaced",
        singular=names.get("singular") or "",
        list_kind=names.get("listKind") or "",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        is_builtin=False,
    )


def _version(version: Raw) -> Version:
    subresources = version.get("subresources") or {}
    return Version(
        version["name"],
        subresources=frozenset(name for name in ("status", "scale") if subresources.get(name) is not None),
        schema=Schema(version["schema"]["openAPIV3Schema"]),
        scale=subresources.get("scale"),
        columns=tuple(_column(column) for column in version.get("additionalPrinterColumns") or ()),
        served=bool(version.get("served")),
    )


def _column(column: Raw) -> Column:
    return Column(
        name=str(column.get("name")),
        type=str(column.get("type")),
        path=str(column.get("jsonPath")),
        description=str(column.get("description") or ""),
        format=str(column.get("format") or ""),
        priority=int(column.get("priority") or 0),
    )


def pending(stored: list[str]) -> Raw:
    """The status of a definition before its names are judged."""
    return {"acceptedNames": {"plural": "", "kind": ""}, "conditions": [], "storedVersions": stored}


def condition(type: str, status: bool, reason: str, message: str, time: str) -> Raw:
    return {
        "type": type,
        "status": "True" if status else "False",
        "lastTransitionTime": time,
        "reason": reason,
        "message": message,
    }
