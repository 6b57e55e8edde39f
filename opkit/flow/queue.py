"""
The queue: which object is due next.

Takes requests, gives them back when they are due, one at a time; keeps at most one per key. Never knows what
a key means, never waits, never calls a handler.

`Queue` is the protocol; an object that implements it may be given in `settings.queue.strategy`.
"""

from __future__ import annotations

import dataclasses
import enum
import heapq
import itertools
from collections.abc import Callable, Iterator
from typing import Protocol

from opkit.flow.requests import Request, merge


class Added(enum.StrEnum):
    """What became of a request that was added."""

    SCHEDULED = "scheduled"
    """It waits."""

    MERGED_EARLIER = "merged-earlier"
    """One waited already; it is due earlier now."""

    MERGED = "merged"
    """One waited already, and is due no later."""

    REFUSED = "refused"
    """The queue is closed: the operator stops, or does not lead."""


@dataclasses.dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A snapshot of the queue."""

    waiting: int
    held: int
    """Keys whose request, if any, is not given out because the key is being run."""
    closed: bool
    stale: int
    """Entries of the lines that stand for nothing any more."""


class Queue(Protocol):
    """
    What a coordinator asks of a queue.

    Expected flow: `add` any number of times; `take` gives the request that has been due for longest and whose key
    is not held; the coordinator holds the key while it runs and releases it afterwards.

    Guarantees that an implementation gives: what was added and not refused, cancelled or cleared is taken exactly
    once after its last addition; one request per key waits at most; a held key is never taken; requests of one key
    are merged by `opkit.flow.requests.merge`. Nothing blocks, and all calls come from the loop's thread.
    """

    def add(self, request: Request) -> Added:
        """Add, or merge into the one that waits for its key."""

    def take(self, now: float) -> Request | None:
        """Give out the request that is due for longest, if there is one whose key is not held."""

    def next_due(self) -> float | None:
        """When the next request that is not held is due; `None` if nothing waits."""

    def hold(self, key: str) -> None:
        """Keep this key's request back until it is released."""

    def release(self, key: str) -> None:
        """Let this key's request go when it is due."""

    def get(self, key: str) -> Request | None:
        """The request that waits for this key, held or not."""

    def cancel(self, key: str) -> Request | None:
        """Remove the request of this key, and give it back."""

    def waiting(self) -> Iterator[Request]:
        """All requests that wait, held ones too, in no order."""

    def clear(self) -> None:
        """Remove everything that waits. Holds stay."""

    def close(self) -> None:
        """Refuse additions from now on. What waits, waits."""

    def open(self) -> None:
        """Accept additions (again)."""

    def bind(self, wake: Callable[[], None]) -> None:
        """Be given the function to call when something may have become due by itself, from outside of `add`."""

    def __len__(self) -> int:
        """How many requests wait, held ones included."""


_Entry = tuple[float, int, Request]

# So many entries are no work for a heap.
_SMALL = 64


class InMemoryQueue:
    """
    The queue that comes with opkit: a dict of what waits, and two lines of due times over it.

    New entries go into a heap. When one is taken and the heap has outgrown the sorted line, both become one sorted
    line, whose end is the next that is due: taking from there costs the same however many wait, while a heap of a
    million is searched through its whole depth each time.

    A request knows its entry. One whose due time moved, or that was cancelled, leaves the old entry behind, which
    counts no more. Such stale entries are left out when the lines are sorted, and that is done when they
    outnumber the others.
    """

    def __init__(self) -> None:
        self._requests: dict[str, Request] = {}
        self._heap: list[_Entry] = []
        self._sorted: list[_Entry] = []
        self._held: set[str] = set()
        self._sequence = itertools.count()
        self._closed = False

    def add(self, request: Request) -> Added:
        if self._closed:
            return Added.REFUSED
        waiting = self._requests.get(request.key)
        if waiting is None:
            self._requests[request.key] = request
            self._enter(request)
            return Added.SCHEDULED
        before = waiting.due
        earlier = merge(waiting, request)
        if waiting.due != before:  # later, too: an event that finds a backoff whose early run is spent
            self._enter(waiting)
        return Added.MERGED_EARLIER if earlier else Added.MERGED

    def _enter(self, request: Request) -> None:
        """Put the request's due time into the heap, unless its key is held: releasing does it then."""
        if request.key in self._held:
            return
        entry = request.entry = (request.due, next(self._sequence), request)
        heapq.heappush(self._heap, entry)
        if len(self._heap) + len(self._sorted) > 2 * len(self._requests) + _SMALL:
            self._sort()

    def _sort(self) -> None:
        """Make one line of both, without what is stale. Each entry takes part a few times, as the line doubles."""
        self._sorted += self._heap
        self._heap.clear()
        self._sorted = [entry for entry in self._sorted if entry[2].entry is entry]
        self._sorted.sort(reverse=True)

    def take(self, now: float) -> Request | None:
        if (entry := self._head()) is None or entry[0] > now:
            return None
        if self._sorted and self._sorted[-1] is entry:
            self._sorted.pop()
        else:
            heapq.heappop(self._heap)
        request = entry[2]
        request.entry = None
        del self._requests[request.key]
        return request

    def next_due(self) -> float | None:
        entry = self._head()
        return None if entry is None else entry[0]

    def _head(self) -> _Entry | None:
        """The first entry that stands for something."""
        if len(self._heap) > len(self._sorted) + _SMALL:
            self._sort()
        heap, line = self._heap, self._sorted
        while heap and heap[0][2].entry is not heap[0]:
            heapq.heappop(heap)
        while line and line[-1][2].entry is not line[-1]:
            line.pop()
        if not heap or not line:
            return heap[0] if heap else line[-1] if line else None
        return heap[0] if heap[0] < line[-1] else line[-1]

    def hold(self, key: str) -> None:
        self._held.add(key)
        if (request := self._requests.get(key)) is not None:
            request.entry = None

    def release(self, key: str) -> None:
        self._held.discard(key)
        if (request := self._requests.get(key)) is not None:
            self._enter(request)

    def get(self, key: str) -> Request | None:
        return self._requests.get(key)

    def cancel(self, key: str) -> Request | None:
        request = self._requests.pop(key, None)
        if request is not None:
            request.entry = None
        return request

    def waiting(self) -> Iterator[Request]:
        return iter(list(self._requests.values()))

    def clear(self) -> None:
        for request in self._requests.values():
            request.entry = None
        self._requests.clear()
        self._heap.clear()
        self._sorted.clear()

    def close(self) -> None:
        self._closed = True

    def open(self) -> None:
        self._closed = False

    def bind(self, wake: Callable[[], None]) -> None:
        """Nothing becomes due here but by `add` and by time: there is nothing to call back for."""

    def __len__(self) -> int:
        return len(self._requests)

    def statistics(self) -> QueueStatistics:
        return QueueStatistics(
            waiting=len(self._requests),
            held=len(self._held),
            closed=self._closed,
            stale=sum(entry[2].entry is not entry for line in (self._heap, self._sorted) for entry in line),
        )
