"""
The OpenAPI documents that kubectl asks for: enough for apply, replace and explain.

Custom resources show their own schemas; built-in kinds only what they are called.
"""

from __future__ import annotations

from typing import Any

from opkit.cluster.body import Raw, clone
from opkit.simulation import discovery
from opkit.simulation.kinds import Endpoint
from opkit.simulation.store import Store

_INFO = {"title": "opkit", "version": "v1"}
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_META_SCHEMA = {
    "type": "object",
    "description": "ObjectMeta is metadata that all persisted resources must have.",
    "properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "ownerReferences": {"type": "array", "items": {"type": "object"}},
    },
}
_PARAMETERS = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]


def index(store: Store, prefix: str) -> Raw:
    """The root of v3: one document for each version of a group, below the prefix that the client uses."""
    versions = {(kind.group, version) for kind in store.kinds() for version in kind.served_versions}
    paths = sorted(f"apis/{group}/{version}" if group else f"api/{version}" for group, version in versions)
    return {"paths": {path: {"serverRelativeURL": f"{prefix}/openapi/v3/{path}"} for path in paths}}


def document(store: Store, group: str, version: str) -> Raw | None:
    """The v3 document of one version of a group, or nothing if it is not served."""
    endpoints = discovery.endpoints(store, group, version)
    if not endpoints:
        return None
    schemas: Raw = {_META: _META_SCHEMA}
    paths: Raw = {}
    for endpoint in endpoints:
        schemas[_name(endpoint)] = _schema(endpoint, "#/components/schemas/")
        paths.update(_paths(endpoint))
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}}


def swagger(store: Store) -> Raw:
    """The one document of v2."""
    definitions: Raw = {_META: _META_SCHEMA}
    paths: Raw = {}
    for kind in store.kinds():
        for version in kind.served_versions:
            endpoint = kind.endpoint(version)
            if endpoint is not None:
                definitions[_name(endpoint)] = _schema(endpoint, "#/definitions/")
                paths.update(_paths(endpoint))
    return {"swagger": "2.0", "info": _INFO, "paths": paths, "definitions": definitions}


def _name(endpoint: Endpoint) -> str:
    """The name of a schema: the group's domain backwards, as on a real server."""
    domain = ".".join(reversed((endpoint.kind.group or "core.api.k8s.io").split(".")))
    return f"{domain}.{endpoint.version.name}.{endpoint.kind.kind}"


def _identity(endpoint: Endpoint) -> Raw:
    return {"group": endpoint.kind.group, "version": endpoint.version.name, "kind": endpoint.kind.kind}


def _schema(endpoint: Endpoint, reference: str) -> Raw:
    schema = endpoint.version.schema
    made: Raw = clone(schema.source) if schema is not None else _open_schema(endpoint)
    made["type"] = "object"
    made["properties"] = {
        **made.get("properties", {}),
        "apiVersion": {"type": "string", "description": "APIVersion is the version of this object's schema."},
        "kind": {"type": "string", "description": "Kind is the resource that this object represents."},
        "metadata": {
            "allOf": [{"$ref": f"{reference}{_META}"}],
            "description": "Standard object's metadata.",
        },
    }
    made["x-kubernetes-group-version-kind"] = [_identity(endpoint)]
    return made


def _open_schema(endpoint: Endpoint) -> Raw:
    part: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "description": f"{endpoint.kind.kind} is a built-in kind of Kubernetes.",
        "properties": {"spec": part, "status": part},
        "x-kubernetes-preserve-unknown-fields": True,
    }


def _paths(endpoint: Endpoint) -> Raw:
    collection = endpoint.resource().path("{namespace}" if endpoint.kind.namespaced else None)
    identity = _identity(endpoint)
    listing = {"get": {"x-kubernetes-action": "list", "x-kubernetes-group-version-kind": identity, "responses": {}}}
    patching = {
        "patch": {
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": identity,
            "parameters": _PARAMETERS,
            "responses": {},
        }
    }
    return {collection: listing, f"{collection}/{{name}}": patching}
