"""
Secondary objects: how their changes lead to runs of the primary objects that they concern.

Takes the changes of a secondary resource; gives requests for primaries, of the old body and of the new one. Keeps an
index from primaries to their secondary objects, for handlers that ask for them. Has filters of its own, and no default
ones (semantics: 2). Never writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from opkit.cluster.body import Body, Raw, identity, metadata, reference
from opkit.cluster.resource import Resource
from opkit.flow.onlooker import Refusal
from opkit.flow.pipeline import Pipeline
from opkit.flow.sieve import Sieve
from opkit.flow.store import Change, ChangeType, Origin, Store
from opkit.triggers import Trigger

logger = logging.getLogger("opkit.secondary")

Name = tuple[str | None, str]
"""Namespace and name."""

Key = str | Name
"""A primary: by its UID, or by its name."""

Relate = Callable[[Raw], Iterable[Key]]
"""The primaries that a secondary object concerns."""

_WIRE = {ChangeType.ADDED: "ADDED", ChangeType.UPDATED: "MODIFIED", ChangeType.DELETED: "DELETED"}


def owners(resource: Resource) -> Relate:
    """The relation by owner reference, whether it names the controller or not."""

    def relate(raw: Raw) -> Iterator[Key]:
        for owner in metadata(raw).get("ownerReferences") or ():
            group, _, _ = str(owner.get("apiVersion") or "").rpartition("/")
            if owner.get("kind") == resource.kind and group == resource.group and owner.get("uid"):
                yield str(owner["uid"])

    return relate


def named(result: Any, namespace: str | None, *, namespaced: bool) -> Iterator[Name]:
    """
    The primaries that a mapper names: a name, a pair of namespace and name, or an iterable of those.

    Raises `TypeError` for anything else.
    """
    if result is None:
        return
    if isinstance(result, str):
        yield (namespace if namespaced else None, result)
    elif isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], str):
        if result[0] is not None and not isinstance(result[0], str):
            raise TypeError(f"a pair of namespace and name is expected, not {result!r}")
        yield (result[0] if namespaced else None, result[1])
    elif isinstance(result, Iterable) and not isinstance(result, (bytes, dict)):
        for item in result:
            yield from named(item, namespace, namespaced=namespaced)
    else:
        raise TypeError(f"a mapper returns names, or pairs of namespace and name, not {result!r}")


class Dependents:
    """The objects of one secondary resource, as one controller's primaries have them."""

    def __init__(self, *, resource: Resource, store: Store, pipeline: Pipeline, relate: Relate, sieve: Sieve) -> None:
        self.resource = resource
        self._store = store
        self._pipeline = pipeline
        self._relate = relate
        self._sieve = sieve
        self._keys: dict[str, tuple[Key, ...]] = {}
        self._uids: dict[Key, set[str]] = {}

    def adopt(self) -> None:
        """Take what the store knows already, as if it had been added now."""
        for uid in self._store:
            if (raw := self._store.get(uid)) is not None:
                self.offer(Change(ChangeType.ADDED, uid, raw))

    def offer(self, change: Change) -> None:
        """Take a change of a secondary object: keep the index, and ask for runs of the primaries it concerns."""
        concerned = self._index(change)
        if not concerned:
            return
        verdict = self._sieve.judge(change)
        others = [key for key in concerned if not self._is_writer(key, change.origin)]
        by = verdict.by if not verdict.accepted else "write-echo" if not others else ""
        if by:
            self._pipeline.refuse(Refusal(
                _WIRE[change.type], by, self._pipeline.name, self.resource, change.uid, change.body
            ))  # fmt: skip
            return
        for key in others:
            if isinstance(key, str):
                self._pipeline.schedule(key, 0.0, Trigger.SECONDARY)
            else:
                namespace, name = key
                self._pipeline.schedule_named(name, namespace, 0.0, Trigger.SECONDARY)

    def _is_writer(self, key: Key, origin: Origin | None) -> bool:
        """Whether a primary is the one whose own run has made this change (semantics: 13.1)."""
        if origin is None or origin[0] != self._pipeline.identity:
            return False
        if isinstance(key, str):
            return key == origin[1]
        namespace, name = key
        raw = self._pipeline.store.find(name, namespace)
        return raw is not None and identity(raw) == origin[1]

    def _index(self, change: Change) -> set[Key]:
        """Bring the index up to date; the primaries of the old body and of the new one."""
        before = self._keys.get(change.uid, ())
        after = () if change.type is ChangeType.DELETED else self._related(change.body, before)
        if after != before:
            for key in before:
                self._uids[key].discard(change.uid)
                if not self._uids[key]:
                    del self._uids[key]
            for key in after:
                self._uids.setdefault(key, set()).add(change.uid)
            if after:
                self._keys[change.uid] = after
            else:
                self._keys.pop(change.uid, None)
        return {*before, *after}

    def _related(self, raw: Raw, before: tuple[Key, ...]) -> tuple[Key, ...]:
        try:
            return tuple(dict.fromkeys(self._relate(raw)))  # two references to the same object are common
        except Exception:
            # Who it concerns is not known now; those that it concerned before have to look.
            logger.exception("The mapper of %s failed on %s.", self.resource, reference(raw))
            return before

    def of(self, primary: Raw) -> list[Body]:
        """Copies of the secondary objects that belong to a primary, in the order of their names."""
        meta = metadata(primary)
        keys: tuple[Key, ...] = (str(meta.get("uid")), (meta.get("namespace"), str(meta.get("name"))))
        uids = {uid for key in keys for uid in self._uids.get(key, ())}
        found = [raw for uid in uids if (raw := self._store.get(uid)) is not None]
        return [Body.of(raw) for raw in sorted(found, key=reference)]

    def __len__(self) -> int:
        """How many secondary objects concern somebody."""
        return len(self._keys)
