"""
What a list or a watch selects, and the bounded buffer between the store and one watch.

The store offers each change to each watcher of the kind, synchronously; whoever reads drains the buffer when
it likes. A reader that is too slow loses its stream, and never holds up a write: it has to list again, as
with any server.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from opkit.cluster.selector import FieldSelector, LabelSelector
from opkit.simulation.records import Change, Record

Seen = tuple[str, Record]
"""What a watch is shown: the type of the event and the state of the object."""


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """The objects that a list or a watch asks for."""

    namespace: str | None = None
    labels: LabelSelector = dataclasses.field(default_factory=LabelSelector)
    fields: FieldSelector = dataclasses.field(default_factory=FieldSelector)

    @property
    def is_narrow(self) -> bool:
        """Whether a selector is given at all."""
        return bool(self.labels or self.fields)

    def selects(self, record: Record) -> bool:
        """Whether the object in this state is among them."""
        if self.namespace is not None and record.namespace != self.namespace:
            return False
        if self.labels and not self.labels.matches(record.labels):
            return False
        return not self.fields or self._matches_fields(record)

    def sees(self, change: Change) -> Seen | None:
        """What a watch is shown of a change: an object that enters is added, one that leaves is deleted."""
        record = change.record
        if not self.is_narrow:
            is_here = self.namespace is None or record.namespace == self.namespace
            return (change.type, record) if is_here else None
        selected = self.selects(record)
        if change.type != "MODIFIED" or change.previous is None:
            return (change.type, record) if selected else None
        was_selected = self.selects(change.previous)
        if selected:
            return ("MODIFIED" if was_selected else "ADDED", record)
        return ("DELETED", change.departed) if was_selected else None

    def _matches_fields(self, record: Record) -> bool:
        if all(path in ("metadata.name", "metadata.namespace") for path, _, _ in self.fields.terms):
            return self.fields.matches({"metadata": {"name": record.name, "namespace": record.namespace}})
        return self.fields.matches(record.body())


class Watcher:
    """
    One watch. `notify` is called, synchronously and inside the write, when the first event waits or when it
    ends.

    `is_closed` says that the store ended it (the kind is gone), `has_overflowed` that the reader was too
    slow: in both cases what is pending may still be drained, and then the stream ends.
    """

    __slots__ = ("_close", "_limit", "_notify", "_pending", "has_overflowed", "is_closed", "selection")

    def __init__(
        self, selection: Selection, notify: Callable[[], None], close: Callable[[Watcher], None], limit: int
    ) -> None:
        self.selection = selection
        self.is_closed = False
        self.has_overflowed = False
        self._notify = notify
        self._close = close
        self._limit = limit
        self._pending: list[Seen] = []

    def offer(self, change: Change) -> None:
        """Take note of a change, if it is selected."""
        seen = self.selection.sees(change)
        if seen is None or self.is_closed:
            return
        if len(self._pending) >= self._limit:
            self.has_overflowed = True
            self.close()
            return
        self._pending.append(seen)
        if len(self._pending) == 1:
            self._notify()

    def preload(self, seen: list[Seen]) -> None:
        """Put the initial state or the history before what is to come. Not bounded, and not notified."""
        self._pending.extend(seen)

    def drain(self) -> list[Seen]:
        """Take all that waits, in order."""
        pending, self._pending = self._pending, []
        return pending

    def close(self) -> None:
        """End it, from either side. May be called again."""
        if not self.is_closed:
            self.is_closed = True
            self._close(self)
            self._notify()
