"""
The objects of one kind: by key and in order, with the recent history and those who watch.

Pure bookkeeping: assigns no versions and knows no rules.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator

from opkit.simulation import refusals
from opkit.simulation.records import Change, Record
from opkit.simulation.watchers import Seen, Selection, Watcher


class Shelf:
    """
    One kind's objects.

    `floor` is the oldest version from which the history is complete. At most `history_limit` changes are kept
    (some more between two cuts).
    """

    def __init__(self, floor: int, history_limit: int, buffer_limit: int) -> None:
        self.floor = floor
        self._history_limit = history_limit
        self._buffer_limit = buffer_limit
        self._records: dict[str, Record] = {}
        self._keys: list[str] = []
        self._history: list[Change] = []
        self._watchers: dict[Watcher, None] = {}

    def __len__(self) -> int:
        return len(self._records)

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    def get(self, namespace: str, name: str) -> Record | None:
        return self._records.get(f"{namespace}/{name}" if namespace else name)

    def put(self, change: Change) -> None:
        """Carry out a change, remember it, and tell the watchers: one step."""
        record = change.record
        key = record.key
        if change.type == "DELETED":
            del self._records[key]
            del self._keys[bisect.bisect_left(self._keys, key)]
        else:
            if key not in self._records:
                bisect.insort(self._keys, key)
            self._records[key] = record
        self._history.append(change)
        if len(self._history) > self._history_limit * 2:
            self._cut(self._history_limit)
        for watcher in tuple(self._watchers):
            watcher.offer(change)

    def compact(self, version: int) -> None:
        """Forget the history up to this version."""
        self._history.clear()
        self.floor = version

    def _cut(self, keep: int) -> None:
        self.floor = self._history[-keep - 1].version
        del self._history[:-keep]

    def since(self, version: int) -> list[Change]:
        """All changes after this version. Raises 410 if some of them are forgotten."""
        if version < self.floor:
            raise refusals.expired(version, self.floor)
        return self._history[bisect.bisect_right(self._history, version, key=_version_of) :]

    def at(self, version: int, namespace: str | None = None, start: str = "") -> Iterator[Record]:
        """
        The objects as they were at this version, in the order of their keys, from the key after `start`.

        Raises 410 (before the first one is taken) if that state can't be told any more.
        """
        changes = self.since(version)
        if not changes:
            return self._in_order(self._records, self._keys, namespace, start)
        records = dict(self._records)
        for change in reversed(changes):
            if change.previous is None:
                del records[change.record.key]
            else:
                records[change.record.key] = change.previous
        return self._in_order(records, sorted(records), namespace, start)

    def all(self, namespace: str | None = None) -> Iterator[Record]:
        """The objects as they are, in the order of their keys. Don't write while iterating."""
        return self._in_order(self._records, self._keys, namespace, "")

    @staticmethod
    def _in_order(records: dict[str, Record], keys: list[str], namespace: str | None, start: str) -> Iterator[Record]:
        begin, end = 0, len(keys)
        if namespace is not None:
            # "0" is the character after "/"
            begin, end = bisect.bisect_left(keys, f"{namespace}/"), bisect.bisect_left(keys, f"{namespace}0")
        if start:
            begin = max(begin, bisect.bisect_right(keys, start))
        return (records[key] for key in keys[begin:end])

    def watch(self, selection: Selection, since: int | None, notify: Callable[[], None]) -> Watcher:
        """
        Register a watcher with what came after `since`, or with all that exists, waiting in its buffer: one
        step.

        Raises 410 if `since` is too old.
        """
        initial: list[Seen] = []
        if since is None:
            initial += [("ADDED", record) for record in self.all(selection.namespace) if selection.selects(record)]
        else:
            initial += [seen for change in self.since(since) if (seen := selection.sees(change)) is not None]
        watcher = Watcher(selection, notify, self._forget, self._buffer_limit)
        watcher.preload(initial)
        self._watchers[watcher] = None
        return watcher

    def _forget(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    def close_watchers(self) -> None:
        """End all watches: the kind is gone, or the server stops."""
        for watcher in tuple(self._watchers):
            watcher.close()


def _version_of(change: Change) -> int:
    return change.version
