"""From the path of a URL to the resource that it names."""

from __future__ import annotations

import dataclasses

from opkit.errors import ApiError
from opkit.simulation import refusals
from opkit.simulation.kinds import Endpoint
from opkit.simulation.store import Store


class NoSuchPath(Exception):
    """Nothing is there: a real server answers with plain text, not with a Status."""


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """What a URL names: a collection (no `name`), an object, or a subresource of it."""

    endpoint: Endpoint
    namespace: str | None = None
    name: str | None = None
    subresource: str = ""


def resolve(store: Store, parts: list[str]) -> Route:
    """Resolve the parts of a path below /api or /apis. Raises `NoSuchPath`, or 404 in the core group."""
    if parts[0] == "api" and len(parts) > 2:
        return _resolve(store, "", parts[1], parts[2:])
    if parts[0] == "apis" and len(parts) > 3:
        return _resolve(store, parts[1], parts[2], parts[3:])
    raise NoSuchPath


def _resolve(store: Store, group: str, version: str, rest: list[str]) -> Route:
    namespace = None
    # /namespaces/NAME/status is about the namespace, /namespaces/NAME/pods about what is in it
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    try:
        endpoint = store.endpoint(group, version, rest[0])
    except ApiError:
        if group:
            raise NoSuchPath from None
        raise
    if len(rest) > 3:
        raise NoSuchPath
    name, subresource = [*rest[1:], "", ""][:2]
    is_namespaced = endpoint.kind.namespaced
    if (namespace is not None and not is_namespaced) or (namespace is None and is_namespaced and name):
        raise NoSuchPath
    if subresource and subresource not in endpoint.version.subresources:
        raise refusals.no_such_resource()
    return Route(endpoint, namespace, name or None, subresource)
