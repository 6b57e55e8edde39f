"""The cluster protocol over the store: as its docstrings say, and deterministic."""

import asyncio
import contextlib

import pytest

from opkit.cluster.protocol import EventType, Mark, WatchScope
from opkit.cluster.resource import ResourceSelector
from opkit.errors import ApiError, Conflict, NotFound, TooManyRequests, Unreachable
from opkit.simulation.cluster import SimulatedCluster

from .conftest import DEFINITION, shop


@pytest.fixture
def cluster(store):
    return SimulatedCluster(store, chunk_size=2, bookmark_interval=0.05)


@pytest.fixture
def resource(shops):
    return shops.resource()


class Reader:
    """Reads a watch in the background; keeps what it yielded, and how it ended."""

    def __init__(self, watch):
        self.batches = []
        self.error = None
        self.task = asyncio.create_task(self._read(watch))

    async def _read(self, watch):
        try:
            async with contextlib.aclosing(watch):
                async for batch in watch:
                    self.batches.append(batch)
        except ApiError as error:
            self.error = error

    @property
    def events(self):
        """All events but bookmarks, as (type, name)."""
        found = [event for batch in self.batches if not isinstance(batch, Mark) for event in batch]
        return [(type, body["metadata"]["name"]) for type, body in found if type != EventType.BOOKMARK]

    async def until(self, check):
        async with asyncio.timeout(5):
            while not check(self):  # noqa: ASYNC110  (any state of the reader may be waited for)
                await asyncio.sleep(0)

    async def ended(self):
        await asyncio.wait_for(self.task, 5)

    async def close(self):
        self.task.cancel()
        await asyncio.wait([self.task])


def test_requests_go_through_the_stores_rules(cluster, resource):
    """All verbs, with the answers as bodies of the caller's own."""

    async def test():
        made = await cluster.create(resource, {"metadata": {"name": "a"}, "spec": {"x": 1}}, "default")
        assert made["kind"] == "Shop" and made["metadata"]["generation"] == 1
        made["spec"]["x"] = 99
        assert (await cluster.get(resource, "a", "default"))["spec"] == {"x": 1}
        patched = await cluster.patch(resource, "a", "default", {"spec": {"x": 2}})
        assert patched["metadata"]["generation"] == 2
        operations = [{"op": "add", "path": "/status", "value": {"ok": True}}]
        status = await cluster.patch(resource, "a", "default", operations, type="json", subresource="status")
        assert status["status"] == {"ok": True} and status["metadata"]["generation"] == 2
        status["spec"] = {"x": 3}
        assert (await cluster.replace(resource, "a", "default", status))["metadata"]["generation"] == 3
        applied = await cluster.apply(resource, "b", "default", shop("b", {"y": 1}), manager="me")
        assert applied["metadata"]["managedFields"][0]["manager"] == "me"
        assert [item["metadata"]["name"] for item in await cluster.list(resource)] == ["a", "b"]
        assert await cluster.list(resource, label_selector="nothing=here") == []
        with pytest.raises(Conflict):
            await cluster.delete(resource, "a", "default", uid="other")
        await cluster.delete(resource, "a", "default", uid=made["metadata"]["uid"])
        with pytest.raises(NotFound):
            await cluster.get(resource, "a", "default")

    asyncio.run(test())


def test_given_bodies_are_not_changed(cluster, resource):
    """What a caller gives stays as it was."""

    async def test():
        body = {"metadata": {"name": "a", "labels": {"k": "v"}}, "spec": {"deep": [{"x": 1}]}}
        await cluster.create(resource, body, "default")
        assert body == {"metadata": {"name": "a", "labels": {"k": "v"}}, "spec": {"deep": [{"x": 1}]}}

    asyncio.run(test())


def test_watch_lists_marks_and_then_follows(cluster, resource):
    """BEGIN_LIST, batches of LISTED, END_LIST, then what changes; closing it closes the watch."""

    async def test():
        for name in "abc":
            await cluster.create(resource, shop(name), "default")
        reader = Reader(cluster.watch(WatchScope(resource)))
        await reader.until(lambda reader: len(reader.batches) >= 4)
        kinds = [batch if isinstance(batch, Mark) else [type for type, _ in batch] for batch in reader.batches]
        assert kinds[:4] == [Mark.BEGIN_LIST, ["LISTED", "LISTED"], ["LISTED"], Mark.END_LIST]
        await cluster.create(resource, shop("d"), "default")
        await cluster.delete(resource, "a", "default")
        await reader.until(lambda reader: len(reader.events) == 5)
        assert reader.events[3:] == [("ADDED", "d"), ("DELETED", "a")]
        await reader.close()
        assert cluster.store.statistics()["watchers"] == 0

    asyncio.run(test())


def test_watch_since_a_version_has_no_list(cluster, resource):
    """It begins with the changes after that version."""

    async def test():
        made = await cluster.create(resource, shop("a"), "default")
        await cluster.create(resource, shop("b"), "default")
        version = made["metadata"]["resourceVersion"]
        reader = Reader(cluster.watch(WatchScope(resource), since=version))
        await reader.until(lambda reader: reader.events)
        assert reader.batches[0][0][0] == "ADDED" and reader.events == [("ADDED", "b")]
        await reader.close()

    asyncio.run(test())


def test_watch_from_a_version_that_is_too_old_raises_410(cluster, resource):
    """The caller has to list again."""

    async def test():
        reader = Reader(cluster.watch(WatchScope(resource), since="1"))
        await reader.ended()
        assert reader.error.status == 410

    asyncio.run(test())


def test_watch_applies_selectors(cluster, resource):
    """The server's selectors: what leaves is deleted."""

    async def test():
        reader = Reader(cluster.watch(WatchScope(resource, "default", label_selector="k=in")))
        await reader.until(lambda reader: Mark.END_LIST in reader.batches)
        await cluster.create(resource, shop("a", labels={"k": "in"}), "default")
        await cluster.patch(resource, "a", "default", {"metadata": {"labels": {"k": "out"}}})
        await reader.until(lambda reader: len(reader.events) == 2)
        assert reader.events == [("ADDED", "a"), ("DELETED", "a")]
        await reader.close()

    asyncio.run(test())


def test_bookmarks_are_signs_of_life(cluster, resource):
    """An idle watch yields one each interval, with the version to go on from."""

    async def test():
        reader = Reader(cluster.watch(WatchScope(resource), since=str(cluster.store.version)))
        await reader.until(lambda reader: len(reader.batches) == 2)
        type, body = reader.batches[0][0]
        assert type == EventType.BOOKMARK
        assert body["metadata"] == {"resourceVersion": str(cluster.store.version)}
        await reader.close()

    asyncio.run(test())


def test_watch_ends_with_its_kind(cluster, resource):
    """When the definition goes, the stream ends after the deletions, and the next one finds nothing."""

    async def test():
        await cluster.create(resource, shop("a"), "default")
        reader = Reader(cluster.watch(WatchScope(resource)))
        await reader.until(lambda reader: Mark.END_LIST in reader.batches)
        definitions = cluster.store.endpoint("apiextensions.k8s.io", "v1", "customresourcedefinitions").resource()
        await cluster.delete(definitions, "shops.example.com")
        await reader.ended()
        assert reader.events[-1] == ("DELETED", "a") and reader.error is None
        again = Reader(cluster.watch(WatchScope(resource)))
        await again.ended()
        assert again.error.status == 404

    asyncio.run(test())


def test_planned_failures(cluster, resource):
    """Requests fail as planned, once each; the others are carried out."""

    async def test():
        cluster.faults.fail("create", "shops").times(2, status=429, retry_after=7)
        for _ in range(2):
            with pytest.raises(TooManyRequests) as caught:
                await cluster.create(resource, shop("a"), "default")
            assert caught.value.retry_after == 7
        cluster.faults.fail("create", "shops").reply_lost()
        with pytest.raises(Unreachable):
            await cluster.create(resource, shop("a"), "default")
        assert await cluster.get(resource, "a", "default")
        cluster.faults.fail("patch", "shops", "status").once(status=409)
        await cluster.patch(resource, "a", "default", {"spec": {"x": 2}})
        with pytest.raises(Conflict):
            await cluster.patch(resource, "a", "default", {"status": {}}, subresource="status")

    asyncio.run(test())


def test_stream_faults(cluster, resource):
    """Open streams are cut, expired, and fail; a silent one says nothing, not even a bookmark."""

    async def test():
        scope = WatchScope(resource)
        for act, status in (
            (lambda faults: faults.disconnect(), 0),
            (lambda faults: faults.expire(), 410),
            (lambda faults: faults.error(500), 500),
        ):
            reader = Reader(cluster.watch(scope))
            await reader.until(lambda reader: Mark.END_LIST in reader.batches and list(cluster.faults.streams()))
            assert act(cluster.faults.watch("shops")) == 1
            await reader.ended()
            assert reader.error.status == status
        reader = Reader(cluster.watch(scope))
        await reader.until(lambda reader: Mark.END_LIST in reader.batches and list(cluster.faults.streams()))
        assert cluster.faults.watch().silence() == 1
        count = len(reader.batches)
        await cluster.create(resource, shop("unseen"), "default")
        await asyncio.sleep(0.12)
        assert len(reader.batches) == count
        await reader.close()

    asyncio.run(test())


def test_expired_history_is_forgotten(cluster, resource):
    """After `expire()` a watch from an earlier version is too old."""

    async def test():
        version = str(cluster.store.version)
        await cluster.create(resource, shop("a"), "default")
        cluster.faults.watch("shops").expire()
        reader = Reader(cluster.watch(WatchScope(resource), since=version))
        await reader.ended()
        assert reader.error.status == 410

    asyncio.run(test())


async def next_topology(iterator):
    return await asyncio.wait_for(anext(iterator), 5)


def test_topology_follows_definitions_and_namespaces(cluster, resource):
    """It is told at once, and again on each change of what is served or of the namespaces that match."""

    async def test():
        selectors = frozenset({ResourceSelector.parse("shops"), ResourceSelector.parse("v1", "configmaps")})
        definitions = cluster.store.endpoint("apiextensions.k8s.io", "v1", "customresourcedefinitions").resource()
        namespaces = cluster.store.endpoint("", "v1", "namespaces").resource()
        topologies = cluster.topology(selectors, frozenset({"team-*"}), False)
        async with contextlib.aclosing(topologies):
            first = await next_topology(topologies)
            assert {found.plural for found in first.resources} == {"shops", "configmaps"}
            assert first.namespaces == frozenset()
            await cluster.create(namespaces, {"metadata": {"name": "other"}})
            await cluster.create(namespaces, {"metadata": {"name": "team-a"}})
            assert (await next_topology(topologies)).namespaces == {"team-a"}
            await cluster.delete(definitions, "shops.example.com")
            assert {found.plural for found in (await next_topology(topologies)).resources} == {"configmaps"}
            await cluster.create(definitions, DEFINITION)
            assert resource in (await next_topology(topologies)).resources

    asyncio.run(test())


@pytest.mark.parametrize(
    ("patterns", "clusterwide"), [(frozenset(), True), (frozenset(), False), (frozenset({"x"}), True)]
)
def test_topology_of_the_whole_cluster(cluster, patterns, clusterwide):
    """Cluster-wide, or without patterns, all namespaces are one watch."""

    async def test():
        topologies = cluster.topology(frozenset({ResourceSelector.parse("shops")}), patterns, clusterwide)
        async with contextlib.aclosing(topologies):
            assert (await next_topology(topologies)).namespaces == {None}

    asyncio.run(test())
