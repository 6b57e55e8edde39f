"""
The outside: what others do to the cluster of a test, and what stands in it.

Takes the words of a test; writes to the store by a server's rules, and reads from it. Never touches the operator, which
hears of it when time moves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opkit.cluster.body import Body, clone, metadata
from opkit.cluster.resource import Resource
from opkit.plan.plan import Plan
from opkit.simulation.deletion import DeleteOptions
from opkit.simulation.faults import Failure, FaultPlan
from opkit.simulation.store import Store
from opkit.simulation.watchers import Selection
from opkit.simulation.writes import Options
from opkit.testing.convergence import remembered
from opkit.testing.recorder import Recorder
from opkit.testing.references import Handle, Names, Reference, ResourceName, Target, endpoint_of

_OUTSIDE = Options(manager="someone-else")


class Outside:
    """The cluster of a test, in the hands of somebody else."""

    def __init__(self, store: Store, plan: Plan, recorder: Recorder) -> None:
        self.store = store
        self._faults = FaultPlan()
        self._recorder = recorder
        self._names = Names(store, plan)

    # Writes by somebody else.

    @remembered
    def add(
        self,
        resource: ResourceName,
        name: str,
        namespace: str = "default",
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        finalizers: Sequence[str] | None = None,
        **body: Any,
    ) -> Handle:
        """
        Somebody creates an object, by a server's rules; the namespace is made if it is missing.

        `body` is what stands at the top of it: `spec`, `data`, `status`, ...
        """
        found = self._names.resource(resource)
        place = namespace if found.namespaced else None
        if place is not None:
            self._ensure_namespace(place)
        meta = {**body.pop("metadata", {}), "name": name}
        given = {"labels": labels, "annotations": annotations, "finalizers": finalizers}
        meta.update({key: clone(value) for key, value in given.items() if value is not None})
        raw = {"apiVersion": found.api_version, "kind": found.kind, "metadata": meta, **clone(body)}
        endpoint = endpoint_of(self.store, found)
        record = self.store.create(endpoint, raw, place, _OUTSIDE)
        handle = Handle(found, name, place, record.uid)
        self._recorder.note("added", handle)
        if body.get("status") and "status" in found.subresources:
            self.modify_status(handle, body["status"])
        return handle

    @remembered
    def apply(self, *paths: str | Path) -> None:
        """Create all that stands in these YAML files: definitions first, then namespaces, then the rest."""
        from opkit.apiserver.manifests import load

        for raw in load(paths):
            endpoint = self.store.endpoint_of(raw)
            namespace = (metadata(raw).get("namespace") or "default") if endpoint.kind.namespaced else None
            if namespace is not None:
                self._ensure_namespace(namespace)
            self.store.create(endpoint, raw, namespace, _OUTSIDE)
            self._recorder.note("added", f"{raw.get('kind')} {metadata(raw).get('name')}")

    def _ensure_namespace(self, name: str) -> None:
        namespaces = self.store.endpoint("", "v1", "namespaces")
        if self.store.find(namespaces, name) is None:
            self.store.create(namespaces, {"metadata": {"name": name}}, None, _OUTSIDE)

    @remembered
    def modify(self, ref: Reference, merge_patch: Mapping[str, Any]) -> None:
        """Somebody patches an object with a JSON merge patch."""
        target = self._target(ref)
        self._recorder.note("modified", f"{describe(target)} {dict(merge_patch)}")
        self.store.patch(
            endpoint_of(self.store, target.resource), target.name, target.namespace, clone(dict(merge_patch)),
            "merge", _OUTSIDE,
        )  # fmt: skip

    @remembered
    def modify_status(self, ref: Reference, patch: Mapping[str, Any]) -> None:
        """Somebody patches an object's status: `patch` is what stands under `status`."""
        target = self._target(ref)
        body = dict(patch) if "status" in patch and len(patch) == 1 else {"status": dict(patch)}
        options = _OUTSIDE
        if "status" in target.resource.subresources:
            options = dataclasses.replace(_OUTSIDE, subresource="status")
        self._recorder.note("status", f"{describe(target)} {body}")
        self.store.patch(
            endpoint_of(self.store, target.resource), target.name, target.namespace, clone(body), "merge", options
        )

    @remembered
    def delete(self, ref: Reference) -> None:
        """Somebody deletes an object; with finalizers it is only marked."""
        target = self._target(ref)
        self._recorder.note("deleted", describe(target))
        endpoint = endpoint_of(self.store, target.resource)
        self.store.delete(endpoint, target.name, target.namespace, DeleteOptions(uid=target.uid))

    # What goes wrong.

    def fail(self, verb: str, resource: ResourceName = "*", subresource: str | None = None) -> Failure:
        """Say which requests go wrong; the methods of what it gives say how: `.once(status=409)` and so on."""
        plural = resource if resource == "*" else self._names.resource(resource).plural
        self._recorder.note("fault", f"{verb} {plural}{f'/{subresource}' if subresource else ''}")
        if verb == "patch_status":
            subresource = subresource or "status"
        return self._faults.fail(verb, str(plural), subresource)

    # What the store holds.

    def get(self, resource: ResourceName | Handle, name: str | None = None, namespace: str = "default") -> Body:
        """An object as it is in the store. Raises `NotFound`."""
        target = self._named(resource, name, namespace)
        endpoint = endpoint_of(self.store, target.resource)
        return Body.of(endpoint.decode(self.store.get(endpoint, target.name, target.namespace)))

    def list(self, resource: ResourceName, namespace: str | None = None) -> Sequence[Body]:
        """All objects of a resource, in one namespace or all."""
        found = self._names.resource(resource)
        endpoint = endpoint_of(self.store, found)
        return [Body.of(endpoint.decode(one)) for one in self.store.list(endpoint, Selection(namespace)).records]

    def exists(self, resource: ResourceName | Handle, name: str | None = None, namespace: str = "default") -> bool:
        """Whether there is such an object; for a handle, that very one."""
        target = self._named(resource, name, namespace)
        endpoint = endpoint_of(self.store, target.resource)
        record = self.store.find(endpoint, target.name, target.namespace)
        return record is not None and target.uid in (None, record.uid)

    def _named(self, resource: ResourceName | Handle, name: str | None, namespace: str) -> Target:
        if isinstance(resource, Handle):
            return self._names.target(resource)
        if name is None:
            assert not isinstance(resource, Resource)
            return self._names.target(resource)
        found = self._names.resource(resource)
        return Target(found, name, namespace if found.namespaced else None)

    def _target(self, ref: Reference) -> Target:
        return self._names.target(ref)

    def _uid(self, ref: Reference | None) -> str | None:
        """The UID that is meant; for a name, that of the object that has it, or had it last."""
        if ref is None:
            return None
        target = self._target(ref)
        if target.uid is not None:
            return target.uid
        endpoint = endpoint_of(self.store, target.resource)
        record = self.store.find(endpoint, target.name, target.namespace)
        if record is not None:
            return str(record.uid)
        named = [c.uid for c in self._recorder.calls if (c.name, c.namespace) == (target.name, target.namespace)]
        return named[-1] if named else ""


def describe(target: Target) -> str:
    return f"{target.resource.plural} {f'{target.namespace}/' if target.namespace else ''}{target.name}"
