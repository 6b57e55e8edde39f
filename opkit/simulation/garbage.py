"""
Garbage collection and the end of namespaces: what a real cluster's controllers do in the background.

Only where it is wanted. Carried out right after the write that calls for it, in steps of their own, so that
it is deterministic; a client sees the same events as from a fast controller.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from opkit.cluster.body import Raw
from opkit.simulation.deletion import FOREGROUND, ORPHAN, DeleteOptions
from opkit.simulation.kinds import Endpoint, Kind
from opkit.simulation.records import Record
from opkit.simulation.writes import Options

if TYPE_CHECKING:
    from opkit.simulation.store import Store

_OPTIONS = Options(manager="kube-controller-manager")

Place = tuple[tuple[str, str], str, str]
"""Where an object is: the kind's key, namespace, name."""


class Garbage:
    """Knows who owns what, and collects."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owners: dict[Place, frozenset[str]] = {}
        self._dependents: dict[str, set[Place]] = {}
        self._places: dict[str, Place] = {}
        self._due: deque[Place | str] = deque()
        self._is_running = False

    def notice(self, kind: Kind, record: Record, body: Raw | None) -> None:
        """Take note of a change (no body: the object is gone), and collect what it makes collectable."""
        place = (kind.key, record.namespace, record.name)
        owners: frozenset[str] = frozenset()
        if body is not None:
            owners = frozenset(str(owner.get("uid")) for owner in body["metadata"].get("ownerReferences") or ())
        before = self._owners.pop(place, frozenset())
        for uid in before - owners:
            self._dependents.get(uid, set()).discard(place)
        if owners:
            self._owners[place] = owners
            for uid in owners:
                self._dependents.setdefault(uid, set()).add(place)
        if body is None:
            self._places.pop(record.uid, None)
            self._due.extend(sorted(self._dependents.pop(record.uid, ())))
            self._due.extend(self._places[uid] for uid in sorted(before) if uid in self._places)
            self._due.append(record.namespace)
        else:
            self._places[record.uid] = place
            self._due.append(place)
        self._run()

    def _run(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._due:
                item = self._due.popleft()
                if isinstance(item, str):
                    self._end_namespace(item)
                else:
                    self._judge(item)
        finally:
            self._is_running = False

    def _judge(self, place: Place) -> None:
        endpoint, record = self._find(place)
        if endpoint is None or record is None:
            return
        meta = record.body()["metadata"]
        if endpoint.kind.key == ("", "namespaces"):
            if meta.get("deletionTimestamp"):
                self._end_namespace(record.name)
            return
        if meta.get("deletionTimestamp"):
            self._serve_finalizers(endpoint, record, meta)
        elif owners := meta.get("ownerReferences"):
            self._judge_owners(endpoint, record, owners)

    def _find(self, place: Place) -> tuple[Endpoint | None, Record | None]:
        key, namespace, name = place
        kind = self._store.kind_at(key)
        if kind is None:
            return None, None
        return kind.preferred, self._store.find(kind.preferred, name, namespace or None)

    def _judge_owners(self, endpoint: Endpoint, record: Record, owners: list[Raw]) -> None:
        """An object goes when the last of its owners is gone."""
        left = [owner for owner in owners if owner.get("uid") in self._places]
        if not left:
            self._store.delete(endpoint, record.name, record.namespace or None, DeleteOptions(uid=record.uid))
        elif len(left) < len(owners):
            self._patch(endpoint, record, {"ownerReferences": left})

    def _serve_finalizers(self, endpoint: Endpoint, record: Record, meta: Raw) -> None:
        finalizers = meta.get("finalizers") or []
        dependents = [self._find(place) for place in sorted(self._dependents.get(record.uid, ()))]
        found = [(below, dependent) for below, dependent in dependents if below and dependent]
        if ORPHAN in finalizers:
            for below, dependent in found:
                self._disown(below, dependent, record.uid)
            self._patch(endpoint, record, {"finalizers": [name for name in finalizers if name != ORPHAN]})
        elif FOREGROUND in finalizers:
            for below, dependent in found:
                if not dependent.body()["metadata"].get("deletionTimestamp"):
                    options = DeleteOptions(uid=dependent.uid, propagation="Foreground")
                    self._store.delete(below, dependent.name, dependent.namespace or None, options)
            if not self._is_blocked(record.uid):
                rest = [name for name in finalizers if name != FOREGROUND]
                self._patch(endpoint, record, {"finalizers": rest})

    def _is_blocked(self, uid: str) -> bool:
        for place in self._dependents.get(uid, ()):
            _, dependent = self._find(place)
            owners = dependent.body()["metadata"].get("ownerReferences") or () if dependent else ()
            if any(owner.get("uid") == uid and owner.get("blockOwnerDeletion") for owner in owners):
                return True
        return False

    def _disown(self, endpoint: Endpoint, record: Record, uid: str) -> None:
        owners = record.body()["metadata"].get("ownerReferences") or ()
        self._patch(endpoint, record, {"ownerReferences": [owner for owner in owners if owner.get("uid") != uid]})

    def _patch(self, endpoint: Endpoint, record: Record, meta: Raw) -> None:
        namespace = record.namespace or None
        if self._store.find(endpoint, record.name, namespace) is not None:
            self._store.patch(endpoint, record.name, namespace, {"metadata": meta}, "merge", _OPTIONS)

    def _end_namespace(self, name: str) -> None:
        """Delete what is in a namespace that is being deleted, and the namespace when it is empty."""
        store = self._store
        namespace = store.namespace(name)
        if namespace is None or not namespace.body()["metadata"].get("deletionTimestamp"):
            return
        is_empty = True
        for endpoint in [kind.preferred for kind in store.stored_kinds() if kind.namespaced]:
            for record in store.records(endpoint, name):
                is_empty = False
                if store.find(endpoint, record.name, name) is record:
                    store.delete(endpoint, record.name, name, DeleteOptions(uid=record.uid))
        if is_empty or store.is_empty_namespace(name):
            store.finalize_namespace(name)
