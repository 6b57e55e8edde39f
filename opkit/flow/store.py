"""
The store: the last known body of every object of one resource, by UID.

Takes the batches of streams, gives `Change`s: additions, updates, deletions. Also takes the answers to the
operator's own writes, so that their echo in the stream is no change (semantics: 1 and 7). Never judges
whether a change is worth a run, never waits, never talks to a server.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
from collections.abc import Iterator
from typing import Any

from opkit.cluster.body import Raw, identity, metadata, reference
from opkit.cluster.protocol import Batch, EventType, Mark, WatchEvent

logger = logging.getLogger("opkit.store")

Scope = str | None
"""The namespace that a stream covers, or `None` for all of them."""

Origin = tuple[str, str]
"""Who wrote: a controller, and the object (UID) that it was reconciling then. Only that object's run knows of it."""

_Name = tuple[str | None, str]


class ChangeType(enum.StrEnum):
    ADDED = "ADDED"
    UPDATED = "UPDATED"
    DELETED = "DELETED"


@dataclasses.dataclass(slots=True, eq=False)
class Change:
    """What happened to one object, as far as this operator can know."""

    type: ChangeType
    uid: str
    body: Raw
    """The new body; of a deletion, the last known one."""
    old: Raw | None = None
    """The body before an update or a deletion."""
    final_state_unknown: bool = False
    """A deletion that nobody reported: the object was missing in a complete list."""
    origin: Origin | None = None
    """Who wrote it, if it is the echo of a write of this operator."""
    left: bool = False
    """A deletion only for one controller: the object lives on, and does not match its selector any more."""


EVERYONE: Origin = ("*", "")
"""The origin of opkit's own writes, which concern no controller."""


@dataclasses.dataclass(slots=True)
class _OwnWrites:
    """Answers to own writes of one object whose events have not come yet, as (version, origin, body) of each."""

    expected: list[tuple[str, Origin | None, Raw]]

    @property
    def latest(self) -> Raw:
        return self.expected[-1][2]


@dataclasses.dataclass(frozen=True, slots=True)
class StoreStatistics:
    """A snapshot of the store. After everything is gone, all numbers are zero."""

    objects: int
    names: int
    scopes: int
    expected_echoes: int
    writes_under_way: int


class Store:
    """
    The last known bodies of one resource, as one selector shows them.

    For each object it knows the body that the stream showed last, which is what filters compare, and the newest
    one, which is what handlers get: that differs while the event of an own write is still on its way.
    """

    def __init__(self, keep_managed_fields: bool = False) -> None:
        self._keep_managed_fields = keep_managed_fields
        self._seen: dict[str, Raw] = {}
        self._uids: dict[_Name, str] = {}
        self._members: dict[Scope, set[str]] = {}
        self._listing: dict[Scope, set[str]] = {}
        self._own: dict[str, _OwnWrites] = {}
        self._born: dict[str, tuple[str, Origin | None]] = {}
        self._writing: dict[_Name, list[tuple[Scope, EventType | str, Raw]]] = {}
        self._writers: dict[_Name, int] = {}

    # Reading.

    def get(self, uid: str) -> Raw | None:
        """The newest body, own writes included."""
        own = self._own.get(uid)
        if own is not None:
            return own.latest
        return self._seen.get(uid)

    def find(self, name: str, namespace: str | None = None) -> Raw | None:
        """The newest body of the object that has this name now."""
        uid = self._uids.get((namespace, name))
        return None if uid is None else self.get(uid)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._seen))

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, uid: object) -> bool:
        return uid in self._seen

    def statistics(self) -> StoreStatistics:
        return StoreStatistics(
            objects=len(self._seen),
            names=len(self._uids),
            scopes=len(self._members),
            expected_echoes=sum(len(own.expected) for own in self._own.values()) + len(self._born),
            writes_under_way=len(self._writers),
        )

    # From the streams.

    def apply(self, scope: Scope, batch: Batch) -> list[Change]:
        """Take what a stream brought; give what has changed by it, in order."""
        if batch is Mark.BEGIN_LIST:
            self._listing[scope] = set()
            return []
        if batch is Mark.END_LIST:
            return self._end_list(scope)
        changes: list[Change] = []
        for event in batch:
            self._take(scope, event, changes)
        return changes

    def drop(self, scope: Scope) -> list[Change]:
        """Forget a scope that is not served any more: its objects count as deleted."""
        self._listing.pop(scope, None)
        for held in self._writing.values():
            held[:] = [event for event in held if event[0] != scope]
        gone = self._members.pop(scope, set())
        return [change for uid in sorted(gone) if (change := self._vanish(uid)) is not None]

    def _end_list(self, scope: Scope) -> list[Change]:
        listed = self._listing.pop(scope, set())
        known = self._members.get(scope, set())
        self._members[scope] = listed
        for held in self._writing.values():
            # What was held back before the list tells of objects that are gone by now: it must not revive them.
            held[:] = [event for event in held if event[0] != scope or identity(event[2]) in listed]
        # Sorted, since the order of a set differs from process to process, and histories are to be repeatable.
        return [change for uid in sorted(known - listed) if (change := self._vanish(uid)) is not None]

    def _take(self, scope: Scope, event: WatchEvent, changes: list[Change]) -> None:
        type_, raw = event
        if type_ == "BOOKMARK":
            return
        try:
            meta = raw["metadata"]
            name: _Name = (meta.get("namespace"), meta["name"])
            hash((name, meta.get("uid"), meta.get("resourceVersion")))
            if (labels := meta.get("labels")) and labels.__class__ is not dict:
                raise TypeError  # selectors read them: the whole stream would end there, again and again
        except (TypeError, KeyError, AttributeError):
            logger.warning("An object that can't be used is skipped: %s", describe(raw))
            return
        if not self._keep_managed_fields:
            meta.pop("managedFields", None)
        uid = meta.get("uid") or identity(raw)
        if type_ == "LISTED":
            self._listing.setdefault(scope, set()).add(uid)
        if self._writing and name in self._writing:
            # Only the answer can tell whether this is the echo of the write that is under way.
            self._writing[name].append((scope, type_, raw))
        elif type_ == "DELETED":
            self._delete(scope, uid, raw, changes)
        else:
            self._put(scope, type_, uid, name, raw, changes)

    def _put(
        self, scope: Scope, type_: EventType | str, uid: str, name: _Name, raw: Raw, changes: list[Change]
    ) -> None:
        seen = self._seen.get(uid)
        if seen is None:
            self._add(scope, uid, name, raw, changes)
            return
        version = raw["metadata"].get("resourceVersion")
        if version is not None and version == seen["metadata"].get("resourceVersion"):
            if raw.get("apiVersion") != seen.get("apiVersion"):
                self._seen[uid] = raw  # the same state, as another version of the kind shows it
            return
        self._seen[uid] = raw
        if self._own and uid in self._own:
            self._put_over_own_writes(uid, version, raw, seen, type_ == "LISTED", changes)
        else:
            changes.append(Change(ChangeType.UPDATED, uid, raw, seen))

    def _put_over_own_writes(
        self, uid: str, version: str | None, raw: Raw, seen: Raw, relisted: bool, changes: list[Change]
    ) -> None:
        """Take an event of an object while events of own writes of it are still on their way."""
        own = self._own[uid]
        for position, (expected, origin, _) in enumerate(own.expected):
            if expected == version:
                # Of two writes at once the answers may come in another order than the events, so only this one is
                # over; but what a list skipped will not come any more.
                del own.expected[slice(None) if relisted else slice(position, position + 1)]
                if not own.expected:
                    del self._own[uid]
                changes.append(Change(ChangeType.UPDATED, uid, raw, seen, origin=origin))
                return
        if relisted:
            # A list shows the state after our writes, whose own events will not come any more.
            del self._own[uid]
            origins = {origin for _, origin, _ in own.expected}
            origin = origins.pop() if len(origins) == 1 else None
            changes.append(Change(ChangeType.UPDATED, uid, own.latest, seen, origin=origin))
            seen = own.latest
        changes.append(Change(ChangeType.UPDATED, uid, raw, seen))

    def _add(self, scope: Scope, uid: str, name: _Name, raw: Raw, changes: list[Change]) -> None:
        namesake = self._uids.get(name)
        if namesake is not None and namesake != uid and (change := self._vanish(namesake)) is not None:
            changes.append(change)
        self._seen[uid] = raw
        self._uids[name] = uid
        members = self._members.get(scope)
        if members is None:
            members = self._members[scope] = set()
        members.add(uid)
        born = self._born.pop(uid, None) if self._born else None
        origin = born[1] if born is not None and born[0] == raw["metadata"].get("resourceVersion") else None
        changes.append(Change(ChangeType.ADDED, uid, raw, origin=origin))

    def _delete(self, scope: Scope, uid: str, raw: Raw, changes: list[Change]) -> None:
        if (seen := self._seen.get(uid)) is not None:
            self._forget(uid)
            changes.append(Change(ChangeType.DELETED, uid, raw, seen))
        elif uid in self._born:
            del self._born[uid]

    def _vanish(self, uid: str) -> Change | None:
        body, seen = self.get(uid), self._seen.get(uid)
        if body is None:
            return None
        self._forget(uid)
        return Change(ChangeType.DELETED, uid, body, seen, final_state_unknown=True)

    def _forget(self, uid: str) -> None:
        raw = self._seen.pop(uid)
        self._own.pop(uid, None)
        meta = raw["metadata"]
        name = (meta.get("namespace"), meta["name"])
        if self._uids.get(name) == uid:
            del self._uids[name]
        for scope in (None, name[0]):
            for members in (self._members.get(scope), self._listing.get(scope)):
                if members is not None:
                    members.discard(uid)

    # From the operator's own writes.

    def begin_write(self, name: str, namespace: str | None) -> None:
        """
        A write of this object is about to be sent: hold its events back until `end_write`.

        The event of a write can overtake its answer, and only the answer tells that it is ours.
        """
        key = (namespace, name)
        self._writers[key] = self._writers.get(key, 0) + 1
        self._writing.setdefault(key, [])

    def end_write(
        self,
        name: str,
        namespace: str | None,
        answer: Raw | None,
        *,
        origin: Origin | None = EVERYONE,
        created: bool = False,
    ) -> list[Change]:
        """
        The write is over: take its answer (`None` if it failed), then the events that were held back.

        `created` tells that the object is new by this write, so that its addition is the echo. Gives what has
        changed by those events; the echo of the write carries its `origin`.
        """
        key = (namespace, name)
        if answer is not None:
            self._expect(answer, origin, created)
        self._writers[key] -= 1
        if self._writers[key]:
            return []
        del self._writers[key]
        changes: list[Change] = []
        for scope, type_, raw in self._writing.pop(key):
            self._take(scope, (type_, raw), changes)
        return changes

    def _expect(self, answer: Raw, origin: Origin | None, created: bool) -> None:
        """Take the answer for the newest body, and its version for an echo to come."""
        uid, version = identity(answer), metadata(answer).get("resourceVersion")
        if version is None:
            return
        if not self._keep_managed_fields:
            answer["metadata"].pop("managedFields", None)
        seen = self._seen.get(uid)
        if seen is None:
            if created:  # else it is gone already, and an answer never revives an object
                self._remember_birth(uid, version, origin)
            return
        if version == metadata(self.get(uid) or seen).get("resourceVersion"):
            return  # the write changed nothing, so no event will come
        own = self._own.get(uid)
        if own is None:
            own = self._own[uid] = _OwnWrites([])
        if all(version != expected for expected, _, _ in own.expected):
            own.expected.append((version, origin, answer))

    def _remember_birth(self, uid: str, version: str, origin: Origin | None) -> None:
        self._born[uid] = (version, origin)
        while len(self._born) > 10_000:  # objects that this store's selector never shows
            del self._born[next(iter(self._born))]


def describe(raw: Any) -> str:
    """A few words on something that should have been an object. Never its content: that may be secret."""
    if isinstance(raw, dict):
        meta = raw.get("metadata")
        name = reference(raw) if isinstance(meta, dict) else "without metadata"
        return f"{raw.get('kind') or 'object'} {name}"
    return f"a {type(raw).__name__} instead of an object"
