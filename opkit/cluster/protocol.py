"""
What opkit asks of an API server. Everything above this package sees nothing else.

Implementations: a real server (`kopf_cluster`), and the in-memory store behind the fake event injector
(`opkit.simulation.cluster`).

All requests raise `opkit.ApiError` and nothing else; `Unreachable` when there was no answer.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Literal, Protocol

from opkit.cluster.body import Raw
from opkit.cluster.resource import Resource, ResourceSelector

PatchType = Literal["merge", "json", "strategic"]


class Mark(enum.Enum):
    """What stands in a stream beside events."""

    BEGIN_LIST = "begin-list"
    """All objects of the scope follow, as `LISTED` events, in one or more batches."""

    END_LIST = "end-list"
    """The list is complete. What it did not name is gone. Without this mark the list says nothing."""


class EventType(enum.StrEnum):
    LISTED = "LISTED"
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


WatchEvent = tuple[EventType | str, Raw]
"""An event of a stream: its type and the object. A tuple, since millions of them are made."""

Batch = Mark | Sequence[WatchEvent]
"""What a watch yields: a mark, or the events that arrived together (possibly none: a sign of life)."""


@dataclasses.dataclass(frozen=True, slots=True)
class WatchScope:
    """What one watch covers: a resource, in one namespace or everywhere, narrowed by a selector or not."""

    resource: Resource
    namespace: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace is not None else ""
        which = self.label_selector or self.field_selector
        return f"{self.resource}{where}{f' with {which}' if which else ''}"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """What a server serves of what was asked for, at one moment. Equal if everything is served in the same way."""

    resources: frozenset[Resource]
    namespaces: frozenset[str | None]
    """The namespaces to watch; `{None}` means all of them with one watch."""
    claims: Mapping[ResourceSelector, Resource] = dataclasses.field(default_factory=dict)
    """Which of the resources serves whom."""

    @classmethod
    def of(cls, claims: Mapping[ResourceSelector, Resource], namespaces: Iterable[str | None]) -> Topology:
        return cls(frozenset(claims.values()), frozenset(namespaces), claims)

    def resource_for(self, selector: ResourceSelector) -> Resource | None:
        """The resource that serves those who name it so."""
        if self.claims:
            return self.claims.get(selector)
        found = selector.select(self.resources)
        return found[0] if len(found) == 1 else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and self._shape() == other._shape()

    def __hash__(self) -> int:
        return hash((self.resources, self.namespaces))

    def _shape(self) -> tuple[object, ...]:
        claims = {selector: resource.shape for selector, resource in self.claims.items()}
        return frozenset(resource.shape for resource in self.resources), self.namespaces, claims


class Cluster(Protocol):
    """An API server."""

    async def resolve(self, selector: ResourceSelector) -> Resource:
        """The one resource that is named. Raises `NotFound` if the server serves none, or if several are meant."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Raw: ...

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> Sequence[Raw]: ...

    async def create(
        self, resource: Resource, body: Raw, namespace: str | None = None, *, manager: str | None = None
    ) -> Raw:
        """Create it. Writes carry the name of their `manager`, which the server keeps with the fields (all writes)."""

    async def apply(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Raw,
        *,
        manager: str,
        force: bool = False,
    ) -> Raw:
        """Server-side apply in the name of `manager`."""

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        patch: Raw | Sequence[Raw],
        *,
        type: PatchType = "merge",
        subresource: str | None = None,
        manager: str | None = None,
    ) -> Raw: ...

    async def replace(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Raw,
        *,
        subresource: str | None = None,
        manager: str | None = None,
    ) -> Raw: ...

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> Raw:
        """Ask for the deletion; with `uid` only of that very object (else 409)."""

    def watch(
        self, scope: WatchScope, *, since: str | None = None, cached: bool = False, patience: float | None = None
    ) -> AsyncGenerator[Batch, None]:
        """
        List and watch, once.

        Yields BEGIN_LIST, batches of LISTED, END_LIST, a BOOKMARK with the list's own version, then batches of what
        changes. A `cached` list may be as old as what the server has at hand, which is much cheaper for it; what has
        changed since then follows as events. With `since` (a resourceVersion) it starts with the changes after that,
        without a list.

        Bookmarks are yielded too: their version, like that of any event, is where to go on. Ends when the server ends
        the stream; raises `ApiError` when something is wrong, in whatever shape the server says so: status 410 means
        that `since` is too old and a list is needed; `Unreachable`, that nothing came for `patience` seconds, though a
        healthy server sends a bookmark every minute. Closing the iterator closes the connection.
        """

    def topology(
        self, selectors: frozenset[ResourceSelector], namespaces: frozenset[str], clusterwide: bool
    ) -> AsyncGenerator[Topology, None]:
        """
        What is served of what `selectors` name, in the namespaces that match the patterns; again on each change.

        Never ends by itself.
        """
