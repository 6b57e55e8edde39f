"""
The journal: for each object, the last decisions and why they were taken.

Takes a tuple per decision, cheap enough for every event; renders them as data only when somebody asks.
Never keeps a body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KEPT = 50
"""Decisions per object (semantics: 11)."""

_GONE = 200
"""Objects of a resource that are gone and still explained: the last ones, since each keeps its decisions."""

# Each kind of decision, with the names of what follows (at, kind) in its tuple.
_FIELDS: dict[str, tuple[str, ...]] = {
    "event": ("type", "controller", "accepted", "by"),
    "request": ("controller", "trigger", "added", "due_in", "attempt"),
    "run": ("controller", "handler", "attempt", "trigger", "outcome", "duration", "message"),
    "write": ("verb", "resource", "subresource", "sent", "why"),
    "next": ("controller", "due_in", "trigger", "attempt"),
    "dropped": ("controller", "why"),
    "warning": ("message",),
}

Decision = tuple[Any, ...]


class Journal:
    """The decisions about the objects of one resource."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._decisions: dict[str, list[Decision]] = {}
        self._gone: dict[str, list[Decision]] = {}
        self._names_of_gone: dict[str, str] = {}

    def note(self, uid: str, kind: str, *details: Any) -> None:
        """Write down a decision: its kind, and the details that the kind has, in their order."""
        decisions = self._decisions.get(uid)
        if decisions is None:
            if kind == "event":  # an object comes to be known, or comes back
                decisions = self._decisions[uid] = self._gone.pop(uid, [])
            elif (decisions := self._gone.get(uid)) is None:
                return  # the last words of what is forgotten already
        decisions.append((self._now(), kind, *details))
        if len(decisions) > KEPT + 10:  # cut now and then rather than each time
            del decisions[:-KEPT]

    def close(self, uid: str, name: str) -> None:
        """The object is gone: keep its decisions for a while, so that its end can be explained by its name."""
        decisions = self._decisions.pop(uid, None)
        if decisions is None:
            return
        self._gone[uid] = decisions
        self._names_of_gone[name] = uid
        if len(self._gone) > _GONE:
            del self._gone[next(iter(self._gone))]
            self._names_of_gone = {name: uid for name, uid in self._names_of_gone.items() if uid in self._gone}

    def explain_gone(self, name: str) -> list[dict[str, Any]]:
        """The last decisions about the object that had this name (`namespace/name`) last."""
        return self.explain(self._names_of_gone.get(name, ""))

    def explain(self, uid: str) -> list[dict[str, Any]]:
        """The last decisions about an object, oldest first, as plain data. `at` is the clock's monotonic seconds."""
        decisions = self._decisions.get(uid) or self._gone.get(uid) or []
        return [_render(decision) for decision in decisions[-KEPT:]]

    def __len__(self) -> int:
        """How many living objects have decisions."""
        return len(self._decisions)


def _render(decision: Decision) -> dict[str, Any]:
    at, kind, *details = decision
    record: dict[str, Any] = {"at": at, "what": kind}
    for name, value in zip(_FIELDS[kind], details, strict=True):
        record[name] = sorted(str(item) for item in value) if isinstance(value, frozenset) else _plain(value)
    return record


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)
