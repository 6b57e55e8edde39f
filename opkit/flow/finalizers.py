"""
Finalizers: put on before the reconcile handler, run and taken off while the object is being deleted.

Expected flow (semantics: 8):

1. `attach` appends the missing ones with one JSON patch that holds only for the version it was made for.
2. Once the object is marked for deletion, ours run in declared order, whatever else stands in its list.
3. Each is taken off by a patch of its own right after it succeeded, and a restart goes on with the first left.

Guarantees: never attached to an object that is being deleted; never a PUT, and no foreign finalizer is touched; a
cleanup that succeeded is not run again because its removal met a conflict; a removal that was begun is not cut
short by a shutdown. Not guaranteed: that a cleanup runs only once across a crash between its success and its
removal. So cleanups have to be idempotent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from opkit.cluster.body import Raw, finalizers, identity, is_deleting, metadata, reference
from opkit.cluster.resource import Resource
from opkit.errors import ApiError, NotFound
from opkit.flow.writes import Gone, Writes
from opkit.plan.plan import Finalizer

logger = logging.getLogger("opkit.finalizers")

# Tries of one change of the list against writers in between, each on a fresh body.
_TRIES = 10


# Removals that are remembered for the other versions of the kind, whose streams have not shown them yet.
_REMEMBERED = 10_000


class Cleanups:
    """Which cleanups of which objects are done: shared by all versions of a kind."""

    def __init__(self) -> None:
        self.succeeded: set[tuple[str, str]] = set()
        self._removed: dict[tuple[str, str], None] = {}

    def remove(self, raw: Raw, name: str) -> None:
        """The finalizer is off. While the object is being deleted, it can't come back."""
        done = (identity(raw), name)
        self.succeeded.discard(done)
        if is_deleting(raw):
            self._removed[done] = None
            while len(self._removed) > _REMEMBERED:
                del self._removed[next(iter(self._removed))]

    def is_done(self, raw: Raw, name: str) -> bool:
        done = (identity(raw), name)
        return done in self.succeeded or (done in self._removed and is_deleting(raw))

    def forget(self, uid: str) -> None:
        """The object is gone."""
        for done in [done for done in (*self.succeeded, *self._removed) if done[0] == uid]:
            self.succeeded.discard(done)
            self._removed.pop(done, None)


class Finalizers:
    """The declared finalizers of one resource."""

    def __init__(
        self,
        resource: Resource,
        declared: Collection[Finalizer],
        writes: Writes,
        cleanups: Cleanups | None = None,
    ) -> None:
        self.declared = tuple(declared)
        self._names = frozenset(finalizer.name for finalizer in declared)
        self._resource = resource
        self._writes = writes
        self._cleanups = cleanups or Cleanups()
        self._removals: set[asyncio.Task[Raw | None]] = set()

    def of(self, raw: Raw) -> list[Finalizer]:
        """Those of ours that stand on the object, in declared order."""
        present = finalizers(raw)
        return [finalizer for finalizer in self.declared if finalizer.name in present]

    def missing(self, raw: Raw, wants: Callable[[Finalizer, Raw], bool]) -> list[str]:
        """Names of those that belong on the object and do not stand there yet."""
        present = finalizers(raw)
        return [f.name for f in self.declared if f.name not in present and wants(f, raw)]

    async def attach(self, raw: Raw, names_for: Callable[[Raw], Collection[str]], manager: str) -> Raw:
        """
        Append the finalizers that a body is to have; gives the body to go on with, which may be being deleted by now.

        Raises `Gone`, and `ApiError` if the server refuses for good.
        """
        return await self._change(raw, lambda body: _appending(body, names_for(body)), manager)

    async def detach(self, raw: Raw, name: str, manager: str) -> Raw | None:
        """
        Take a finalizer off; gives the body that is left, `None` if the object is gone with it.

        Goes on to its end even if the caller is cancelled. Raises `ApiError` if the server refuses for good.
        """
        self._cleanups.succeeded.add((identity(raw), name))
        removal = asyncio.get_running_loop().create_task(self._detach(raw, name, manager), name=f"removal of {name}")
        self._removals.add(removal)  # the loop itself keeps only weak references
        removal.add_done_callback(self._removals.discard)
        return await asyncio.shield(removal)

    async def _detach(self, raw: Raw, name: str, manager: str) -> Raw | None:
        try:
            left = await self._change(raw, lambda body: _removing(body, name), manager)
        except Gone:
            left = None
        self._cleanups.remove(raw, name)
        return left if left is not None and (finalizers(left) or not is_deleting(left)) else None

    def has_succeeded(self, raw: Raw, name: str) -> bool:
        """Whether this cleanup has succeeded, and only its removal is missing."""
        return self._cleanups.is_done(raw, name)

    async def strip(self, raw: Raw, manager: str) -> None:
        """Take all of ours off without running them. Raises `ApiError`."""
        body: Raw | None = raw
        for finalizer in self.of(raw):
            if body is not None:
                body = await self.detach(body, finalizer.name, manager)

    def move(self, resource: Resource) -> None:
        """The resource is served in another way from now on."""
        self._resource = resource

    async def settle(self) -> None:
        """Wait for the removals that are under way. A cancellation ends the waiting, not them."""
        if self._removals:
            await asyncio.wait(set(self._removals))

    async def _change(self, raw: Raw, patch_of: Callable[[Raw], list[Raw] | None], manager: str) -> Raw:
        """Apply what `patch_of` makes of the body; on a conflict again, on what the server has by then."""
        tries = 0
        while True:
            patch = patch_of(raw)
            if patch is None:
                return raw
            meta = metadata(raw)
            name, namespace = meta["name"], meta.get("namespace")
            try:
                return await self._writes.patch(self._resource, name, namespace, patch, type="json", manager=manager)
            except ApiError as error:
                if isinstance(error, NotFound) and error.is_about_an_object:
                    raise Gone.was(raw) from error
                tries += 1
                # A failed test of a JSON patch is 422 to a real server, and 409 is a writer in between.
                if error.status not in (409, 422) or tries >= _TRIES:
                    raise
                raw = await self._writes.fresh(self._resource, raw)
                logger.debug("Tried again on a newer version of %s.", reference(raw))


def _appending(raw: Raw, names: Collection[str]) -> list[Raw] | None:
    """The JSON patch that appends what is missing; `None` if there is nothing to do, or not any more."""
    present = finalizers(raw)
    wanted = [name for name in names if name not in present]
    if not wanted or is_deleting(raw):
        return None
    guard: list[Raw] = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata(raw).get("resourceVersion")}
    ]
    if metadata(raw).get("finalizers") is None:
        return [*guard, {"op": "add", "path": "/metadata/finalizers", "value": wanted}]
    return guard + [{"op": "add", "path": "/metadata/finalizers/-", "value": name} for name in wanted]


def _removing(raw: Raw, name: str) -> list[Raw] | None:
    """The JSON patch that removes just this entry of just this object, wherever it stands."""
    present = finalizers(raw)
    if name not in present:
        return None
    path = f"/metadata/finalizers/{present.index(name)}"
    guard: list[Raw] = [{"op": "test", "path": path, "value": name}]
    if metadata(raw).get("uid"):
        guard.insert(0, {"op": "test", "path": "/metadata/uid", "value": metadata(raw)["uid"]})
    return [*guard, {"op": "remove", "path": path}]
