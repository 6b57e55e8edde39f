"""
Loops: handlers that wake themselves up by their own writes.

Takes the accepted updates of objects; gives a warning, once per object and minute, with the field paths that keep
changing. Never stops anything.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable

from opkit.cluster.body import Raw, metadata
from opkit.cluster.merging import differing_paths

LIMIT = 10
"""Self-inflicted changes in a minute that are still taken for coincidence (semantics: 7)."""

WINDOW = 60.0

# Changes of one object that are looked at. A handler in a hot loop makes thousands in a minute.
_KEPT = 100

# Stamps that change with every write, so they say nothing about what keeps changing.
_NOISE = frozenset({"metadata.resourceVersion", "metadata.managedFields"})


@dataclasses.dataclass(slots=True)
class _Trail:
    """What was seen of an object under one generation, within the last minute: when, and what had changed."""

    seen: collections.deque[tuple[float, tuple[str, ...]]]
    warned: float | None = None


class LoopDetector:
    """Watches for objects that are run again and again with nothing new in their spec."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._first: dict[str, tuple[int | None, float]] = {}
        self._trails: dict[str, _Trail] = {}

    def note(self, uid: str, new: Raw, old: Raw) -> list[str] | None:
        """
        An update of an object was accepted right after, or during, a run of it.

        Gives the field paths that keep changing when it is time to warn.
        """
        now = self._now()
        generation = metadata(new).get("generation")
        first = self._first.get(uid)
        if first is None or first[0] != generation:
            # Most changes are of this kind: a new generation, whose difference to the one before tells nothing.
            self._first[uid] = (generation, now)
            self._trails.pop(uid, None)
            return None
        trail = self._trails.get(uid)
        if trail is None:
            trail = self._trails[uid] = _Trail(collections.deque([(first[1], ())], maxlen=_KEPT))
        trail.seen.append((now, tuple(path for path in differing_paths(old, new) if path not in _NOISE)))
        while trail.seen[0][0] <= now - WINDOW:
            trail.seen.popleft()
        if len(trail.seen) <= LIMIT or (trail.warned is not None and now - trail.warned < WINDOW):
            return None
        trail.warned = now
        paths = collections.Counter(path for _, changed in trail.seen for path in changed)
        return [path for path, _ in paths.most_common(5)]

    def forget(self, uid: str) -> None:
        self._first.pop(uid, None)
        self._trails.pop(uid, None)
