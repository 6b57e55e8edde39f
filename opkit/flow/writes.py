"""
Writes: the one door to the API server, for opkit itself and for handlers.

Takes requests, gives the server's answers. A merge patch that would change nothing in the stored body is not sent
(semantics: 7). The answers go into the stores at once, and the events of these writes are known for echoes. Never
retries, never decides what to write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from opkit.cluster.body import Raw, identity, metadata, reference
from opkit.cluster.merging import explains, would_change
from opkit.cluster.protocol import Cluster, PatchType
from opkit.cluster.resource import Resource
from opkit.errors import ApiError, Forbidden, NotFound
from opkit.flow.lead import Lead
from opkit.flow.onlooker import Onlooker, Write
from opkit.flow.store import EVERYONE, Origin

# Tries of a patch that is meant for one very object, each for the version that it has by then.
_TRIES = 10

# A server's own limit for the names of field managers.
_LONGEST_MANAGER = 128


def field_manager(operator: str, controller: str) -> str:
    """The name under which a controller's writes are known to the server (semantics: 13.7)."""
    return f"{operator}/{controller}"[:_LONGEST_MANAGER]


class Gone(NotFound):
    """The object is not there any more, or another one has its name by now: there is nothing left to do for it."""

    @classmethod
    def was(cls, raw: Raw) -> Gone:
        """The one that this body was of."""
        return cls(f"{reference(raw)} is gone", details={"name": metadata(raw).get("name")})


class Watched(Protocol):
    """A resource that is watched, as far as writes of it are concerned."""

    def find(self, name: str, namespace: str | None) -> Raw | None: ...

    def views(self, name: str, namespace: str | None) -> Sequence[Raw]: ...

    def begin_write(self, name: str, namespace: str | None) -> None: ...

    def end_write(
        self, name: str, namespace: str | None, answer: Raw | None, *, origin: Origin | None, created: bool
    ) -> None: ...

    def note_write(self, uid: str, verb: str, subresource: str | None, sent: bool, why: str) -> None: ...


class Writes:
    """The door. `watched` tells which resources are watched at this moment."""

    def __init__(
        self, cluster: Cluster, watched: Callable[[Resource], Watched | None], onlooker: Onlooker, lead: Lead
    ) -> None:
        self.cluster = cluster
        self._watched = watched
        self._onlooker = onlooker
        self._lead = lead

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        patch: Raw | Sequence[Raw],
        *,
        type: PatchType = "merge",
        subresource: str | None = None,
        origin: Origin | None = EVERYONE,
        manager: str | None = None,
        only: Raw | None = None,
    ) -> Raw:
        """
        Patch; gives the server's body, or the stored one if the patch would change nothing in it.

        With `only`, a body of the object that is meant, no other one of its name is patched: raises `Gone` then.
        """
        if only is not None and await self.is_replaced(resource, only):
            raise Gone.was(only)
        write = Write("patch", resource, name, namespace, subresource, patch)
        if type == "merge" and (stored := self._unchanged_by(write)) is not None:
            self._skip(write, stored)
            return stored

        async def send(patch: Raw | Sequence[Raw]) -> Raw:
            return await self.cluster.patch(
                resource, name, namespace, patch, type=type, subresource=subresource, manager=manager
            )

        if only is None:
            return await self._send(write, lambda: send(patch), origin)
        known = self._newest(resource, only)
        return await self._send(write, lambda: self._send_only(write, known, send), origin)

    async def _send_only(self, write: Write, known: Raw, send: Callable[[Raw | Sequence[Raw]], Awaitable[Raw]]) -> Raw:
        """Send a patch with what makes the server refuse it for a namesake; again, if it refuses an old version."""
        for tries_left in reversed(range(_TRIES)):
            try:
                return await send(_fenced(write.body, known, write.subresource))
            except ApiError as error:
                if error.status not in (409, 422):
                    raise
                try:
                    fresh = await self.fresh(write.resource, known)
                except Gone:
                    raise
                except ApiError:
                    raise error from None  # who may not look takes the refusal as it is
                if not tries_left or _version(fresh) == _version(known):
                    raise  # that was about the patch itself
                known = fresh
        raise AssertionError("the last try gives or raises")

    async def fresh(self, resource: Resource, raw: Raw) -> Raw:
        """The object as the server has it. Raises `Gone` if it is gone or replaced, `ApiError` without an answer."""
        meta = metadata(raw)
        try:
            found = await self.cluster.get(resource, meta["name"], meta.get("namespace"))
        except NotFound as error:
            if not error.is_about_an_object:
                raise
            raise Gone.was(raw) from error
        if identity(found) != identity(raw):
            raise Gone.was(raw)
        return found

    def _newest(self, resource: Resource, raw: Raw) -> Raw:
        """The newest body that is known of this very object."""
        watched = self._watched(resource)
        if watched is None:
            return raw
        views = watched.views(str(metadata(raw).get("name")), metadata(raw).get("namespace"))
        return next((view for view in views if identity(view) == identity(raw)), raw)

    async def create(
        self,
        resource: Resource,
        body: Raw,
        namespace: str | None,
        *,
        origin: Origin | None = EVERYONE,
        manager: str | None = None,
    ) -> Raw:
        name = metadata(body).get("name")
        write = Write("create", resource, name, namespace, None, body)
        return await self._send(
            write, lambda: self.cluster.create(resource, body, namespace, manager=manager), origin, created=True
        )

    async def apply(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Raw,
        *,
        manager: str,
        force: bool = False,
        origin: Origin | None = EVERYONE,
    ) -> Raw:
        watched = self._watched(resource)
        created = watched is not None and watched.find(name, namespace) is None
        write = Write("apply", resource, name, namespace, None, body)
        return await self._send(
            write,
            lambda: self.cluster.apply(resource, name, namespace, body, manager=manager, force=force),
            origin,
            created=created,
        )

    async def replace(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Raw,
        *,
        origin: Origin | None = EVERYONE,
        manager: str | None = None,
    ) -> Raw:
        write = Write("replace", resource, name, namespace, None, body)
        return await self._send(
            write, lambda: self.cluster.replace(resource, name, namespace, body, manager=manager), origin
        )

    async def delete(self, resource: Resource, name: str, namespace: str | None, *, uid: str | None = None) -> Raw:
        # No echo is expected: a deletion concerns everybody, the handler that asked for it too.
        self._pass_fence()
        write = Write("delete", resource, name, namespace, None, None)
        self._onlooker.on_write(write)
        answer = await self.cluster.delete(resource, name, namespace, uid=uid)
        self._sent(write, answer)
        return answer

    async def is_replaced(self, resource: Resource, raw: Raw) -> bool:
        """
        Whether another object has the name of this one by now.

        Streams that disagree on that, since one of them lags, can't tell who came first: the server is asked. Raises
        `ApiError` if it does not answer.
        """
        watched = self._watched(resource)
        if watched is None:
            return False
        name, namespace, uid = str(metadata(raw).get("name")), metadata(raw).get("namespace"), identity(raw)
        known = {identity(body) for body in watched.views(name, namespace)}
        if uid in known and len(known) > 1:
            return identity(await self.cluster.get(resource, name, namespace)) != uid
        return bool(known) and uid not in known

    def _unchanged_by(self, write: Write) -> Raw | None:
        """The stored body, if it is known and the write would change nothing in it, by whatever stream."""
        watched = self._watched(write.resource)
        if watched is None or write.name is None:
            return None
        views = watched.views(write.name, write.namespace)
        return views[0] if views and not any(would_change(body, write.body) for body in views) else None

    def _skip(self, write: Write, stored: Raw) -> None:
        watched = self._watched(write.resource)
        if watched is not None:
            watched.note_write(identity(stored), write.verb, write.subresource, False, "would change nothing")
        self._onlooker.on_skipped_write(write)

    async def _send(
        self, write: Write, call: Callable[[], Awaitable[Raw]], origin: Origin | None, created: bool = False
    ) -> Raw:
        self._pass_fence()
        self._onlooker.on_write(write)
        watched = self._watched(write.resource)
        if watched is None or write.name is None:
            answer = await call()
            if watched is not None:  # its name was made by the server, so no event could be held back for it
                self._settle_unnamed(watched, answer, origin)
            self._sent(write, answer)
            return answer
        watched.begin_write(write.name, write.namespace)
        settled: Raw | None = None
        try:
            settled = await call()
            if not created and not _is_ours(write, watched.views(write.name, write.namespace), settled):
                origin = None
        finally:
            watched.end_write(write.name, write.namespace, settled, origin=origin, created=created)
        self._sent(write, settled)
        return settled

    def _settle_unnamed(self, watched: Watched, answer: Raw, origin: Origin | None) -> None:
        meta = metadata(answer)
        name, namespace = meta.get("name"), meta.get("namespace")
        if name and watched.find(name, namespace) is None:
            watched.begin_write(name, namespace)
            watched.end_write(name, namespace, answer, origin=origin, created=True)

    def _sent(self, write: Write, answer: Raw) -> None:
        watched = self._watched(write.resource)
        if watched is not None and metadata(answer).get("name"):
            watched.note_write(identity(answer), write.verb, write.subresource, True, "")

    def _pass_fence(self) -> None:
        if not self._lead.is_held:
            raise Forbidden("this process does not lead any more, so it must not write", reason="NotLeading")


def _version(raw: Raw) -> object:
    return metadata(raw).get("resourceVersion")


def _fenced(patch: Raw | Sequence[Raw], known: Raw, subresource: str | None) -> Raw | Sequence[Raw]:
    """
    The patch, with what ties it to the object that is known.

    A patch that names another UID is refused for the object itself. The status subresource takes no notice of it: there
    only the version tells the object from a later one of its name.
    """
    uid, version = metadata(known).get("uid"), _version(known)
    if not isinstance(patch, dict):
        return [{"op": "test", "path": "/metadata/uid", "value": uid}, *patch] if uid else patch
    fence = {"uid": uid} if subresource is None else {"resourceVersion": version}
    if None in fence.values():
        return patch
    return {**patch, "metadata": {**(patch.get("metadata") or {}), **fence}}


def _is_ours(write: Write, views: Sequence[Raw], answer: Raw) -> bool:
    """
    Whether the answered version is surely that of this write.

    A server answers a write that changes nothing with the version that it has: that can be someone else's, whose
    event is still on its way to us and must not be taken for an echo. A spare run is cheap, a lost one is not.
    """
    version = metadata(answer).get("resourceVersion")
    if isinstance(write.body, dict) and metadata(write.body).get("resourceVersion") == version:
        return False  # what it was made for is what it left: nothing has changed
    return all(explains(write.body, known, answer) for known in views if identity(known) == identity(answer))
