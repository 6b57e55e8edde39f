"""References: how a test names an object, and what that means in the store."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from opkit.cluster.resource import Resource, ResourceSelector
from opkit.errors import OpkitError
from opkit.simulation import topology
from opkit.simulation.kinds import Endpoint
from opkit.simulation.store import Store


class UnknownResource(OpkitError):
    """A test names a resource that the simulated cluster does not serve."""


@dataclasses.dataclass(frozen=True, slots=True)
class Handle:
    """One object, the very one: a later object of the same name is another."""

    resource: Resource
    name: str
    namespace: str | None
    uid: str

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource.plural} {where}"


Reference = Handle | Sequence[str]
"""A handle, `("plural", "name")` or `("kind", "name", "namespace")`."""

ResourceName = str | Sequence[str] | Resource


def find_resource(store: Store, name: ResourceName) -> Resource:
    """What a test means by a resource. Raises `UnknownResource`."""
    if isinstance(name, Resource):
        return name
    words = (name,) if isinstance(name, str) else tuple(name)
    selector = ResourceSelector.parse(*words)
    found = selector.select(topology.resources(store))
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownResource(f"{selector} can mean {', '.join(sorted(map(str, found)))}: name its group and version")
    raise UnknownResource(
        f"the simulated cluster does not serve {selector}: the handlers don't mention it, and it is not built in; "
        "give its CustomResourceDefinition by `apply(...)`"
    )


def endpoint_of(store: Store, resource: Resource) -> Endpoint:
    return store.endpoint(resource.group, resource.version, resource.plural)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """What a reference means: a resource, a name and a namespace, and the UID if it was a handle."""

    resource: Resource
    name: str
    namespace: str | None
    uid: str | None = None


def resolve(store: Store, reference: Reference) -> Target:
    """What a reference means. Raises `UnknownResource`, and `TypeError` for what is no reference."""
    if isinstance(reference, Handle):
        return Target(reference.resource, reference.name, reference.namespace, reference.uid)
    if isinstance(reference, str) or not 2 <= len(reference) <= 3:
        raise TypeError(f'name an object by a handle, ("plural", "name") or ("kind", "name", "namespace"), not '
                        f"{reference!r}")  # fmt: skip
    resource = find_resource(store, reference[0])
    namespace = reference[2] if len(reference) == 3 else "default"
    return Target(resource, reference[1], namespace if resource.namespaced else None)
