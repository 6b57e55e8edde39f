"""
The `cluster` argument of handlers: the API as the runtime sees it.

`ClusterAccess` is awaited in async handlers; `BlockingAccess` is the same for handlers in threads. Both resolve
names of resources, fill in the handled object's namespace, and write through `Writes`. They never cache an
object: reads go to the server.
"""

from __future__ import annotations

import asyncio
import builtins
import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from opkit.cluster.body import Body, Raw, clone, finalizers, identity, is_deleting, metadata
from opkit.cluster.protocol import PatchType
from opkit.cluster.resource import Resource, ResourceSelector, path_segment
from opkit.errors import ForgottenAwait, NotFound
from opkit.flow.delivery import Delivery
from opkit.flow.portal import in_loop_thread, wait_for
from opkit.flow.store import Origin
from opkit.flow.writes import Writes

ResourceName = str | Sequence[str] | Resource
"""How handlers name a resource: `"deployments"`, `("apps", "v1", "deployments")`, as in the decorators."""

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Handled:
    """The object that a handler is called for."""

    resource: Resource
    raw: Raw
    is_wanted: Callable[[Raw], bool]
    """Whether a controller of the resource is for an object."""

    def named(self, resource: Resource, name: str, namespace: str | None) -> Raw | None:
        """Its body, if it is the one of this name: then that very object is meant, and no later one of its name."""
        meta = metadata(self.raw)
        is_meant = resource.kind_key == self.resource.kind_key and (name, namespace) == (
            meta.get("name"),
            meta.get("namespace"),
        )
        return self.raw if is_meant else None


class Calls:
    """The calls of one run's `cluster`, and which of them nobody has awaited."""

    def __init__(self) -> None:
        self._made: list[tuple[str, Coroutine[Any, Any, Any]]] = []

    def __bool__(self) -> bool:
        return bool(self._made)

    def note(self, name: str, coroutine: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Remember a call; its coroutine."""
        if len(self._made) >= _MANY_CALLS:
            self._made = [call for call in self._made if _is_untouched(call[1])]
        self._made.append((name, coroutine))
        return coroutine

    async def check(self) -> None:
        """Raise `ForgottenAwait`, with the names of the calls, if there are any that nobody awaits."""
        if any(_is_untouched(coroutine) for _, coroutine in self._made):
            await asyncio.sleep(0)  # those that a task was made of have begun by then
        forgotten = [call for call in self._made if _is_untouched(call[1])]
        self._made.clear()
        for _, coroutine in forgotten:
            coroutine.close()
        if forgotten:
            names = ", ".join(f"cluster.{name}(...)" for name, _ in forgotten)
            raise ForgottenAwait(f"{names}: called without `await`, so nothing was done")


# Calls of one run after which those that are over are forgotten.
_MANY_CALLS = 100


def _is_untouched(coroutine: Any) -> bool:
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED


class ClusterAccess:
    """
    The API, for async handlers.

    Bodies are plain dicts. Where a namespace is left out, the handled object's is meant, for resources that have
    namespaces; `list` without one looks everywhere. Writes of the handled object by its name are refused (`NotFound`)
    once another one has that name. Every method raises `opkit.ApiError` or a subclass.
    """

    def __init__(
        self,
        writes: Writes,
        *,
        manager: str,
        namespace: str | None = None,
        origin: Origin | None = None,
        handled: Handled | None = None,
    ) -> None:
        self._writes = writes
        self._cluster = writes.cluster
        self._manager = manager
        self._namespace = namespace
        self._origin = origin
        self._handled = handled
        self.calls = Calls()

    def get(self, resource: ResourceName, name: str, namespace: str | None = None) -> Coroutine[Any, Any, Body]:
        """The object as it is on the server. Raises `NotFound`."""
        return self.calls.note("get", self._get(resource, name, namespace))

    async def _get(self, resource: ResourceName, name: str, namespace: str | None) -> Body:
        path_segment(name, "name")
        return Body.of(
            await self._ask(resource, lambda served: self._cluster.get(served, name, self._within(served, namespace)))
        )

    def list(
        self,
        resource: ResourceName,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> Coroutine[Any, Any, builtins.list[Body]]:
        """All objects, in one namespace or everywhere, that the selectors match."""
        return self.calls.note("list", self._list(resource, namespace, label_selector, field_selector))

    async def _list(
        self, resource: ResourceName, namespace: str | None, labels: str | None, fields: str | None
    ) -> builtins.list[Body]:
        found = await self._ask(resource, lambda served: self._cluster.list(served, namespace, labels, fields))
        return [Body.of(raw) for raw in found]

    def create(self, body: Mapping[str, Any], owner: Mapping[str, Any] | None = None) -> Coroutine[Any, Any, Body]:
        """Create it. Raises `AlreadyExists`. `owner` becomes its controller, so that it goes when the owner goes."""
        return self.calls.note("create", self._create(body, owner))

    async def _create(self, body: Mapping[str, Any], owner: Mapping[str, Any] | None) -> Body:
        served, prepared = await self._prepare(body, owner)
        namespace = metadata(prepared).get("namespace")
        return Body.of(
            await self._writes.create(served, prepared, namespace, origin=self._origin, manager=self._manager)
        )

    def apply(
        self,
        body: Mapping[str, Any],
        owner: Mapping[str, Any] | None = None,
        force: bool = False,
        manager: str | None = None,
    ) -> Coroutine[Any, Any, Body]:
        """
        Server-side apply: create it, or change just the fields that it names.

        `manager` is the name in which that is done, by default the operator's and the controller's. Fields that an
        earlier apply by that name had, and this one does not, are removed. Raises `Conflict` if another manager owns a
        field that this would change; `force` takes the field over.
        """
        return self.calls.note("apply", self._apply(body, owner, force, manager))

    async def _apply(
        self, body: Mapping[str, Any], owner: Mapping[str, Any] | None, force: bool, manager: str | None
    ) -> Body:
        served, prepared = await self._prepare(body, owner)
        meta = metadata(prepared)
        if (handled := self._meant(served, meta["name"], meta.get("namespace"))) is not None:
            meta.setdefault("uid", identity(handled))
        return Body.of(await self._writes.apply(
            served, meta["name"], meta.get("namespace"), prepared,
            manager=manager or self._manager, force=force, origin=self._origin,
        ))  # fmt: skip

    def patch(
        self,
        resource: ResourceName,
        name: str,
        namespace: str | None,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        type: PatchType = "merge",
    ) -> Coroutine[Any, Any, Body]:
        """Patch it. A merge patch that would change nothing in the body that opkit knows is not sent."""
        return self.calls.note("patch", self._patch(resource, name, namespace, patch, type, None))

    def patch_status(
        self,
        resource: ResourceName,
        name: str,
        namespace: str | None,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        type: PatchType = "merge",
    ) -> Coroutine[Any, Any, Body]:
        """
        Patch its status. `patch` is `{"status": {...}}`, or what stands under it.

        Goes to the status subresource where there is one, to the object itself where not.
        """
        if isinstance(patch, Mapping) and "status" not in patch:
            patch = {"status": patch}
        return self.calls.note("patch_status", self._patch(resource, name, namespace, patch, type, "status"))

    def replace(self, body: Mapping[str, Any]) -> Coroutine[Any, Any, Body]:
        """Put this body in the place of the one on the server. Raises `Conflict` if that has changed since."""
        return self.calls.note("replace", self._replace(body))

    async def _replace(self, body: Mapping[str, Any]) -> Body:
        served, prepared = await self._prepare(body, None)
        meta = metadata(prepared)
        answer = await self._writes.replace(
            served, meta["name"], meta.get("namespace"), prepared, origin=self._origin, manager=self._manager
        )
        return Body.of(answer)

    def delete(
        self, resource: ResourceName, name: str, namespace: str | None = None, uid: str | None = None
    ) -> Coroutine[Any, Any, None]:
        """Ask for its deletion. With `uid` only that very object, else `Conflict`. Raises `NotFound`."""
        return self.calls.note("delete", self._delete(resource, name, namespace, uid))

    async def _delete(self, resource: ResourceName, name: str, namespace: str | None, uid: str | None) -> None:
        path_segment(name, "name")

        def send(served: Resource) -> Awaitable[Raw]:
            within = self._within(served, namespace)
            meant = self._meant(served, name, within) if uid is None else None
            return self._writes.delete(served, name, within, uid=metadata(meant).get("uid") if meant else uid)

        await self._ask(resource, send)

    def attach_finalizer(self, name: str) -> Coroutine[Any, Any, None]:
        """Put a finalizer on the handled object, for operators that set `finalizers.auto_attach` to false."""
        return self.calls.note("attach_finalizer", self._attach_finalizer(name))

    async def _attach_finalizer(self, name: str) -> None:
        if self._handled is None:
            raise TypeError("there is no handled object here to attach a finalizer to")
        served, raw = self._handled.resource, self._handled.raw
        fresh = await self._writes.fresh(served, raw)
        # On what has left its selector it would stay for ever: nobody would take it off again.
        if is_deleting(fresh) or name in finalizers(fresh) or not self._handled.is_wanted(fresh):
            return
        meta = metadata(fresh)
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": [*finalizers(fresh), name]}}
        await self._writes.patch(
            served, meta["name"], meta.get("namespace"), patch, origin=self._origin, manager=self._manager
        )

    async def _patch(
        self, resource: ResourceName, name: str, namespace: str | None, patch: Any, type: PatchType,
        subresource: str | None,
    ) -> Body:  # fmt: skip
        path_segment(name, "name")
        wanted = clone(patch)
        # A version of the author's own is what the author wants to be held against.
        has_own_fence = isinstance(patch, Mapping) and "resourceVersion" in (patch.get("metadata") or {})

        def send(served: Resource) -> Awaitable[Raw]:
            where = self._within(served, namespace)
            delivery = Delivery(
                self._writes, served, name, where, origin=self._origin, manager=self._manager,
                only=None if has_own_fence else self._meant(served, name, where),
            )  # fmt: skip
            if subresource is not None:
                return delivery.patch_status(wanted, type)
            return delivery.patch(wanted, type)

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

    def _meant(self, resource: Resource, name: str, namespace: str | None) -> Raw | None:
        return self._handled.named(resource, name, namespace) if self._handled is not None else None

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
    ) -> builtins.list[Body]:
        return self._wait(self._access.list(resource, namespace, label_selector, field_selector))

    def create(self, body: Mapping[str, Any], owner: Mapping[str, Any] | None = None) -> Body:
        return self._wait(self._access.create(body, owner))

    def apply(
        self,
        body: Mapping[str, Any],
        owner: Mapping[str, Any] | None = None,
        force: bool = False,
        manager: str | None = None,
    ) -> Body:
        return self._wait(self._access.apply(body, owner, force, manager))

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
