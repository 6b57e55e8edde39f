"""
The `cluster` argument of handlers: the API as the runtime sees it.

`ClusterAccess` is awaited in async handlers; `BlockingAccess` is the same for handlers in threads. Both resolve
names of resources, fill in the handled object's namespace, and write through `Writes`. They never cache an
object: reads go to the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from opkit.cluster.body import Body, Raw, clone, finalizers, is_deleting, metadata
from opkit.cluster.protocol import PatchType
from opkit.cluster.resource import Resource, ResourceSelector, path_segment
from opkit.errors import NotFound
from opkit.flow.delivery import Delivery
from opkit.flow.portal import in_loop_thread, wait_for
from opkit.flow.writes import Writes

ResourceName = str | Sequence[str] | Resource
"""How handlers name a resource: `"deployments"`, `("apps", "v1", "deployments")`, as in the decorators."""

T = TypeVar("T")


class ClusterAccess:
    """
    The API, for async handlers.

    Bodies are plain dicts. Where a namespace is left out, the handled object's is meant, for resources that have
    namespaces; `list` without one looks everywhere. Every method raises `opkit.ApiError` or a subclass.
    """

    def __init__(
        self,
        writes: Writes,
        *,
        manager: str,
        namespace: str | None = None,
        origin: str | None = None,
        handled: tuple[Resource, Raw] | None = None,
    ) -> None:
        self._writes = writes
        self._cluster = writes.cluster
        self._manager = manager
        self._namespace = namespace
        self._origin = origin
        self._handled = handled

    async def get(self, resource: ResourceName, name: str, namespace: str | None = None) -> Body:
        """The object as it is on the server. Raises `NotFound`."""
        path_segment(name, "name")
        return Body.of(
            await self._ask(resource, lambda served: self._cluster.get(served, name, self._within(served, namespace)))
        )

    async def list(
        self,
        resource: ResourceName,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[Body]:
        """All objects, in one namespace or everywhere, that the selectors match."""
        found = await self._ask(
            resource, lambda served: self._cluster.list(served, namespace, label_selector, field_selector)
        )
        return [Body.of(raw) for raw in found]

    async def create(self, body: Mapping[str, Any], owner: Mapping[str, Any] | None = None) -> Body:
        """Create it. Raises `AlreadyExists`. `owner` becomes its controller, so that it goes when the owner goes."""
        served, prepared = await self._prepare(body, owner)
        namespace = metadata(prepared).get("namespace")
        return Body.of(await self._writes.create(served, prepared, namespace, origin=self._origin))

    async def apply(self, body: Mapping[str, Any], owner: Mapping[str, Any] | None = None, force: bool = False) -> Body:
        """
        Server-side apply in the operator's name: create it, or change just the fields that it names.

        Fields that an earlier apply named and this one does not are removed. Raises `Conflict` if another manager
        owns a field that this would change; `force` takes the field over.
        """
        served, prepared = await self._prepare(body, owner)
        meta = metadata(prepared)
        answer = await self._writes.apply(
            served, meta["name"], meta.get("namespace"), prepared,
            manager=self._manager, force=force, origin=self._origin,
        )  # fmt: skip
        return Body.of(answer)

    async def patch(
        self,
        resource: ResourceName,
        name: str,
        namespace: str | None,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        type: PatchType = "merge",
    ) -> Body:
        """Patch it. A merge patch that would change nothing in the body that opkit knows is not sent."""
        return await self._patch(resource, name, namespace, patch, type, None)

    async def patch_status(
        self,
        resource: ResourceName,
        name: str,
        namespace: str | None,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        type: PatchType = "merge",
    ) -> Body:
        """
        Patch its status. `patch` is `{"status": {...}}`, or what stands under it.

        Goes to the status subresource where there is one, to the object itself where not.
        """
        if isinstance(patch, Mapping) and "status" not in patch:
            patch = {"status": patch}
        return await self._patch(resource, name, namespace, patch, type, "status")

    async def replace(self, body: Mapping[str, Any]) -> Body:
        """Put this body in the place of the one on the server. Raises `Conflict` if that has changed since."""
        served, prepared = await self._prepare(body, None)
        meta = metadata(prepared)
        answer = await self._writes.replace(served, meta["name"], meta.get("namespace"), prepared, origin=self._origin)
        return Body.of(answer)

    async def delete(
        self, resource: ResourceName, name: str, namespace: str | None = None, uid: str | None = None
    ) -> None:
        """Ask for its deletion. With `uid` only that very object, else `Conflict`. Raises `NotFound`."""
        path_segment(name, "name")
        await self._ask(
            resource, lambda served: self._writes.delete(served, name, self._within(served, namespace), uid=uid)
        )

    async def attach_finalizer(self, name: str) -> None:
        """Put a finalizer on the handled object, for operators that set `finalizers.auto_attach` to false."""
        if self._handled is None:
            raise TypeError("there is no handled object here to attach a finalizer to")
        served, raw = self._handled
        fresh = await self._cluster.get(served, metadata(raw)["name"], metadata(raw).get("namespace"))
        if is_deleting(fresh) or name in finalizers(fresh):
            return
        meta = metadata(fresh)
        patch = {
            "metadata": {
                "uid": metadata(raw).get("uid"),
                "resourceVersion": meta["resourceVersion"],
                "finalizers": [*finalizers(fresh), name],
            }
        }
        await self._writes.patch(served, meta["name"], meta.get("namespace"), patch, origin=self._origin)

    async def _patch(
        self, resource: ResourceName, name: str, namespace: str | None, patch: Any, type: PatchType,
        subresource: str | None,
    ) -> Body:  # fmt: skip
        path_segment(name, "name")
        wanted = clone(patch)

        def send(served: Resource) -> Awaitable[Raw]:
            where = self._within(served, namespace)
            if subresource is not None:
                delivery = Delivery(self._writes, served, name, where, uid=None, origin=self._origin)
                return delivery.patch_status(wanted, type)
            return self._writes.patch(served, name, where, wanted, type=type, origin=self._origin)

        return Body.of(await self._ask(resource, send))

    async def _ask(self, resource: ResourceName, request: Callable[[Resource], Awaitable[T]]) -> T:
        """Send a request to a resource; once more if the server has served it in another way since we looked."""
        served = await self._resolve(resource)
        try:
            return await request(served)
        except NotFound as error:
            if error.is_about_an_object or isinstance(resource, Resource):
                raise
            renewed = await self._resolve(resource)
            if renewed.shape == served.shape:
                raise
            return await request(renewed)

    async def _resolve(self, resource: ResourceName) -> Resource:
        if isinstance(resource, Resource):
            return resource
        words = (resource,) if isinstance(resource, str) else tuple(resource)
        return await self._cluster.resolve(ResourceSelector.parse(*words))

    def _within(self, served: Resource, namespace: str | None) -> str | None:
        if not served.namespaced:
            return None
        if namespace is not None:
            path_segment(namespace, "namespace")
            return namespace
        return self._namespace

    async def _prepare(self, body: Mapping[str, Any], owner: Mapping[str, Any] | None) -> tuple[Resource, Raw]:
        """A copy of the body, complete: with its namespace and its owner."""
        prepared: Raw = clone(dict(body))
        api_version, kind = prepared.get("apiVersion"), prepared.get("kind")
        if not api_version or not kind:
            raise TypeError("the body of an object needs apiVersion and kind")
        group, _, version = api_version.rpartition("/")
        served = await self._cluster.resolve(ResourceSelector(name=kind, group=group, version=version))
        meta = prepared["metadata"] = dict(prepared.get("metadata") or {})
        namespace = self._within(served, meta.get("namespace"))
        if namespace is not None:
            meta["namespace"] = namespace
        if owner is not None:
            _add_owner(meta, owner)
        return served, prepared


def _add_owner(meta: Raw, owner: Mapping[str, Any]) -> None:
    """Name the owner as the controller whose deletion takes this object along."""
    owning = metadata(dict(owner))
    if owning.get("namespace") is not None and owning["namespace"] != meta.get("namespace"):
        raise ValueError(
            f"an owner in namespace {owning['namespace']!r} can't own an object in {meta.get('namespace')!r}: "
            "Kubernetes would collect it as garbage"
        )
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owning["name"],
        "uid": owning["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    others = [item for item in meta.get("ownerReferences") or [] if item.get("uid") != owning["uid"]]
    meta["ownerReferences"] = [*others, reference]


class BlockingAccess:
    """
    The API, for handlers in threads: the methods of `ClusterAccess`, which wait for the answer.

    Calling it in the loop's own thread would wait for itself for ever, so that is refused.
    """

    def __init__(self, access: ClusterAccess, loop: asyncio.AbstractEventLoop) -> None:
        self._access = access
        self._loop = loop

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if in_loop_thread(self._loop):
            coroutine.close()
            raise RuntimeError("this cluster object belongs to a handler in a thread; it can't be used in the loop")
        return wait_for(coroutine, self._loop)

    def get(self, resource: ResourceName, name: str, namespace: str | None = None) -> Body:
        return self._wait(self._access.get(resource, name, namespace))

    def list(
        self,
        resource: ResourceName,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[Body]:
        return self._wait(self._access.list(resource, namespace, label_selector, field_selector))

    def create(self, body: Mapping[str, Any], owner: Mapping[str, Any] | None = None) -> Body:
        return self._wait(self._access.create(body, owner))

    def apply(self, body: Mapping[str, Any], owner: Mapping[str, Any] | None = None, force: bool = False) -> Body:
        return self._wait(self._access.apply(body, owner, force))

    def patch(
        self, resource: ResourceName, name: str, namespace: str | None, patch: Any, type: PatchType = "merge"
    ) -> Body:
        return self._wait(self._access.patch(resource, name, namespace, patch, type))

    def patch_status(
        self, resource: ResourceName, name: str, namespace: str | None, patch: Any, type: PatchType = "merge"
    ) -> Body:
        return self._wait(self._access.patch_status(resource, name, namespace, patch, type))

    def replace(self, body: Mapping[str, Any]) -> Body:
        return self._wait(self._access.replace(body))

    def delete(self, resource: ResourceName, name: str, namespace: str | None = None, uid: str | None = None) -> None:
        self._wait(self._access.delete(resource, name, namespace, uid))

    def attach_finalizer(self, name: str) -> None:
        self._wait(self._access.attach_finalizer(name))
