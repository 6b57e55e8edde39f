"""References: how a test names an object, and what that means in the store."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from opkit.cluster.resource import Resource, ResourceSelector
from opkit.errors import OpkitError
from opkit.plan.plan import Plan
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


def endpoint_of(store: Store, resource: Resource) -> Endpoint:
    return store.endpoint(resource.group, resource.version, resource.plural)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """What a reference means: a resource, a name and a namespace, and the UID if it was a handle."""

    resource: Resource
    name: str
    namespace: str | None
    uid: str | None = None


class Names:
    """What the words of a test mean. Where one could mean several resources, those of the plan are meant."""

    def __init__(self, store: Store, plan: Plan) -> None:
        self._store = store
        self._planned = tuple(plan.named_resources())
        self._served: list[Resource] = []
        self._known: dict[ResourceName, Resource] = {}

    def resource(self, name: ResourceName) -> Resource:
        """What a test means by a resource. Raises `UnknownResource`."""
        if isinstance(name, Resource):
            return name
        served = topology.resources(self._store)
        if served is not self._served:  # definitions have changed
            self._served = served
            self._known.clear()
        key = name if isinstance(name, str) else tuple(name)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._find(key)
        return found

    def _find(self, name: str | tuple[str, ...]) -> Resource:
        selector = ResourceSelector.parse(*((name,) if isinstance(name, str) else name))
        found = selector.select(self._served)
        if len(found) > 1:
            found = [one for one in found if any(plan.select([one]) for plan in self._planned)] or found
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(sorted(map(str, found)))
            raise UnknownResource(f"{selector} can mean {names}: name its group and version")
        raise UnknownResource(
            f"the simulated cluster does not serve {selector}: the handlers don't mention it, and it is not built in; "
            "give its CustomResourceDefinition by `apply(...)`"
        )

    def target(self, reference: Reference) -> Target:
        """What a reference means. Raises `UnknownResource`, and `TypeError` for what is no reference."""
        if isinstance(reference, Handle):
            resource = self._as_served(reference.resource)
            return Target(resource, reference.name, reference.namespace, reference.uid)
        if isinstance(reference, str) or not 2 <= len(reference) <= 3:
            raise TypeError(
                f'name an object by a handle, ("plural", "name") or ("kind", "name", "namespace"), not {reference!r}'
            )
        resource = self.resource(reference[0])
        namespace = reference[2] if len(reference) == 3 else "default"
        return Target(resource, reference[1], namespace if resource.namespaced else None)

    def _as_served(self, resource: Resource) -> Resource:
        """The resource of a handle; in another version, if its own has been withdrawn since."""
        kind = self._store.kind_at(resource.kind_key)
        if kind is None or kind.endpoint(resource.version) is not None or not kind.served_versions:
            return resource
        return kind.preferred.resource()
