"""The queue protocol: the queue that comes with opkit, and one with priorities in its place."""

import pytest

import opkit
from opkit.flow.queue import Added, InMemoryQueue
from opkit.flow.requests import merge
from opkit.testing import QueueConformance


class PriorityQueue:
    """An implementation of one's own: of what is due, the most important key comes first."""

    def __init__(self, priority=lambda request: 0):
        self._priority = priority
        self._requests = {}
        self._held = set()
        self._closed = False

    def add(self, request):
        if self._closed:
            return Added.REFUSED
        waiting = self._requests.get(request.key)
        if waiting is None:
            self._requests[request.key] = request
            return Added.SCHEDULED
        return Added.MERGED_EARLIER if merge(waiting, request) else Added.MERGED

    def _free(self):
        return [request for key, request in self._requests.items() if key not in self._held]

    def take(self, now):
        due = [request for request in self._free() if request.due <= now]
        if not due:
            return None
        first = min(due, key=lambda request: (-self._priority(request), request.due))
        return self._requests.pop(first.key)

    def next_due(self):
        return min((request.due for request in self._free()), default=None)

    def hold(self, key):
        self._held.add(key)

    def release(self, key):
        self._held.discard(key)

    def get(self, key):
        return self._requests.get(key)

    def cancel(self, key):
        return self._requests.pop(key, None)

    def waiting(self):
        return iter(list(self._requests.values()))

    def clear(self):
        self._requests.clear()

    def close(self):
        self._closed = True

    def open(self):
        self._closed = False

    def bind(self, wake):
        pass

    def __len__(self):
        return len(self._requests)


class TestInMemoryQueue(QueueConformance):
    def make_queue(self):
        return InMemoryQueue()


class TestPriorityQueue(QueueConformance):
    def make_queue(self):
        return PriorityQueue()


@pytest.fixture
def registry():
    return opkit.Registry()


def test_a_queue_of_ones_own_takes_the_place(event_injector, registry):
    """The operator serves what the given queue gives, in its order."""
    names = []

    @opkit.reconcile("example.com", "v1", "webs", registry=registry)
    async def reconcile(name):
        names.append(name)

    def priority(request):
        return request.body["spec"]["priority"]

    settings = opkit.Settings()
    settings.parallel.limit = 1
    settings.queue.strategy = PriorityQueue(priority)
    op = event_injector(registry, settings)
    for name, important in (("a", 1), ("b", 3), ("c", 2)):
        op.add("webs", name, spec={"priority": important})
    op.drain()
    assert names == ["b", "c", "a"]


def test_with_it_a_second_controller_is_refused(registry):
    """A queue of one's own has no way to tell two controllers apart."""

    @opkit.reconcile("example.com", "v1", "webs", label_selector="a", registry=registry)
    async def one(name):
        pass

    @opkit.reconcile("example.com", "v1", "webs", label_selector="b", registry=registry)
    async def two(name):
        pass

    settings = opkit.Settings()
    settings.queue.strategy = PriorityQueue()
    with pytest.raises(opkit.RegistrationError, match="queue"):
        registry.compile(settings)
