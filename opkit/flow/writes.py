"""
Writes: the one door to the API server, for opkit itself and for handlers.

Takes requests, gives the server's answers. A merge patch that would change nothing in the stored body is not sent
(semantics: 7). The answers go into the stores at once, and the events of these writes are known for echoes. Never
retries, never decides what to write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from opkit.cluster.body import Raw, identity, metadata
from opkit.cluster.merging import explains, would_change
from opkit.cluster.protocol import Cluster, PatchType
from opkit.cluster.resource import Resource
from opkit.errors import Forbidden
from opkit.flow.onlooker import Onlooker, Write
from opkit.flow.store import EVERYONE


class Watched(Protocol):
    """A resource that is watched, as far as writes of it are concerned."""

    def find(self, name: str, namespace: str | None) -> Raw | None: ...

    def views(self, name: str, namespace: str | None) -> Sequence[Raw]: ...

    def begin_write(self, name: str, namespace: str | None) -> None: ...

    def end_write(
        self, name: str, namespace: str | None, answer: Raw | None, *, origin: str | None, created: bool
    ) -> None: ...

    def note_write(self, uid: str, verb: str, subresource: str | None, sent: bool, why: str) -> None: ...


class Writes:
    """The door. `watched` tells which resources are watched at this moment."""

    def __init__(self, cluster: Cluster, watched: Callable[[Resource], Watched | None], onlooker: Onlooker) -> None:
        self.cluster = cluster
        self._watched = watched
        self._onlooker = onlooker
        self.fenced = False
        """Set while this process must not write: another one leads."""

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        patch: Raw | Sequence[Raw],
        *,
        type: PatchType = "merge",
        subresource: str | None = None,
        origin: str | None = EVERYONE,
    ) -> Raw:
        """Patch; gives the server's body, or the stored one if the patch would change nothing in it."""
        write = Write("patch", resource, name, namespace, subresource, patch)
        if type == "merge" and (stored := self._unchanged_by(write)) is not None:
            self._skip(write, stored)
            return stored
        return await self._send(
            write,
            lambda: self.cluster.patch(resource, name, namespace, patch, type=type, subresource=subresource),
            origin,
        )

    async def create(
        self, resource: Resource, body: Raw, namespace: str | None, *, origin: str | None = EVERYONE
    ) -> Raw:
        name = metadata(body).get("name")
        write = Write("create", resource, name, namespace, None, body)
        return await self._send(write, lambda: self.cluster.create(resource, body, namespace), origin, created=True)

    async def apply(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Raw,
        *,
        manager: str,
        force: bool = False,
        origin: str | None = EVERYONE,
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
        self, resource: Resource, name: str, namespace: str | None, body: Raw, *, origin: str | None = EVERYONE
    ) -> Raw:
        write = Write("replace", resource, name, namespace, None, body)
        return await self._send(write, lambda: self.cluster.replace(resource, name, namespace, body), origin)

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
        self, write: Write, call: Callable[[], Awaitable[Raw]], origin: str | None, created: bool = False
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

    def _settle_unnamed(self, watched: Watched, answer: Raw, origin: str | None) -> None:
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
        if self.fenced:
            raise Forbidden("this process does not lead any more, so it must not write", reason="NotLeading")


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
