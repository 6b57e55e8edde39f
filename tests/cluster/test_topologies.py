"""Discovery: what is served, while servers start, break and change."""

import asyncio

import pytest

from opkit.cluster.discovery import Discovery
from opkit.cluster.protocol import Mark
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.errors import ApiError, Forbidden, NotFound, Unreachable

VERBS = frozenset({"list", "watch", "get"})
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False,
    verbs=VERBS,
)  # fmt: skip
WEBS = Resource("example.com", "v1", "webs", kind="Web", singular="web", verbs=VERBS)
SELECTORS = frozenset({ResourceSelector.parse("example.com", "v1", "webs")})


class FakeServer:
    """A server whose answers are what the test says."""

    def __init__(self):
        self.found = {"apiextensions.k8s.io": [CRDS], "example.com": [WEBS], "": []}
        self.definitions = {"webs.example.com": {"spec": {"versions": [{"name": "v1", "served": True}]}}}
        self.get_error = None
        self.batches = asyncio.Queue()
        self.names = asyncio.Queue()
        self.scans = 0

    async def groups(self):
        return list(self.found)

    async def scan(self, group):
        self.scans += 1
        answer = self.found.get(group, [])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def get(self, resource, name, namespace=None):
        if self.get_error is not None:
            raise self.get_error
        if name not in self.definitions:
            raise NotFound(f"{name} not found", details={"name": name})
        return self.definitions[name]

    async def watch(self, scope, *, patience=None):
        queue = self.batches if scope.resource.plural == "customresourcedefinitions" else self.names
        while True:
            batch = await queue.get()
            if isinstance(batch, Exception):
                raise batch
            yield batch

    def namespace_matches(self, name, patterns):
        return any(name.startswith(pattern.rstrip("*")) for pattern in patterns)

    def exact_namespaces(self, patterns):
        return frozenset(pattern for pattern in patterns if "*" not in pattern)

    def change(self):
        self.batches.put_nowait([("MODIFIED", {"metadata": {"name": "x"}})])


@pytest.fixture
def follow(monkeypatch):
    """Runs a scenario with a server and a function that gives the next topology, or None if none comes."""
    monkeypatch.setattr("opkit.cluster.discovery._SETTLE", 0)
    monkeypatch.setattr("opkit.cluster.discovery._LOOK_AGAIN", (0.01,))

    def run(scenario, patterns=frozenset(), clusterwide=True):
        async def main():
            server = FakeServer()
            topologies = Discovery(server).topology(SELECTORS, patterns, clusterwide)

            async def next_one():
                task = asyncio.ensure_future(anext(topologies))
                done, _ = await asyncio.wait({task}, timeout=0.1)
                if done:
                    return task.result()
                task.cancel()
                await asyncio.wait({task})
                return None

            try:
                await scenario(server, next_one)
            finally:
                await topologies.aclose()

        asyncio.run(main())

    return run


@pytest.mark.parametrize(
    "get_error",
    [
        pytest.param(None, id="the-definition-is-there"),
        pytest.param(ApiError("404 page not found", status=404), id="the-path-is-not-known"),
        pytest.param(NotFound("404 page not found"), id="a-404-about-no-object"),
        pytest.param(Unreachable("no answer"), id="nobody-answers"),
        pytest.param(Forbidden("no"), id="it-must-not-be-asked"),
    ],
)
def test_what_only_seems_gone_is_kept(follow, get_error):
    """A server that starts does not name all of its resources: only a definition that is gone is believed."""

    async def scenario(server, next_one):
        assert (await next_one()).resources == {WEBS}
        server.found["example.com"], server.get_error = [], get_error
        server.change()
        assert await next_one() is None

    follow(scenario)


@pytest.mark.parametrize(
    "definitions",
    [
        pytest.param({}, id="no-definition"),
        pytest.param({"webs.example.com": {"spec": {"versions": [{"name": "v1", "served": False}]}}}, id="not-served"),
    ],
)
def test_what_is_gone_is_gone(follow, definitions):
    """When the server says that the definition is not there, or does not serve the version, it ends."""

    async def scenario(server, next_one):
        assert (await next_one()).resources == {WEBS}
        server.found["example.com"], server.definitions = [], definitions
        server.change()
        assert (await next_one()).resources == frozenset()

    follow(scenario)


def test_what_comes_later_is_found(follow):
    """A resource that is missing is looked for, and told once."""

    async def scenario(server, next_one):
        server.found["example.com"] = []
        assert (await next_one()).resources == frozenset()
        server.found["example.com"] = [WEBS]
        assert (await next_one()).resources == {WEBS}

    follow(scenario)


def test_a_watch_that_ends_is_not_overlooked(follow):
    """When definitions can't be watched any more, whoever follows the topology is told, and starts over."""

    async def scenario(server, next_one):
        await next_one()
        server.batches.put_nowait(Unreachable("cut"))
        with pytest.raises(Unreachable):
            await next_one()

    follow(scenario)


def test_without_permission_on_definitions_it_goes_on(follow, caplog):
    """Forbidden to watch definitions: told once, and what is served is served."""

    async def scenario(server, next_one):
        await next_one()
        server.batches.put_nowait(Forbidden("no"))
        assert await next_one() is None

    follow(scenario)
    assert caplog.text.count("can't be watched, so new ones are noticed more slowly") == 1


def test_namespaces_by_pattern(follow):
    """Those that match are served from their list on, and come and go."""

    async def scenario(server, next_one):
        def names(type_, *found):
            return [(type_, {"metadata": {"name": name}}) for name in found]

        for batch in (Mark.BEGIN_LIST, names("LISTED", "shop-1", "other"), Mark.END_LIST):
            server.names.put_nowait(batch)
        assert (await next_one()).namespaces == {"shop-1"}
        server.names.put_nowait(names("ADDED", "shop-2", "another"))
        assert (await next_one()).namespaces == {"shop-1", "shop-2"}
        server.names.put_nowait(names("DELETED", "shop-1"))
        assert (await next_one()).namespaces == {"shop-2"}

    follow(scenario, frozenset({"shop-*"}), False)


def test_a_broken_group_does_not_matter_to_others(follow, caplog):
    """A bare name is looked for in all groups; one that can't be discovered is skipped, and told."""

    async def main():
        server = FakeServer()
        server.found["broken.example.com"] = ApiError("down", status=503)
        assert await Discovery(server).resolve(ResourceSelector.parse("webs")) == WEBS

    asyncio.run(main())
    assert "The group broken.example.com can't be discovered and is skipped" in caplog.text


def test_an_ambiguous_name_is_told(follow):
    """A bare name that two groups serve is no resource: the message says what to do."""

    async def main():
        server = FakeServer()
        server.found["other.com"] = [Resource("other.com", "v1", "webs", kind="Web", verbs=VERBS)]
        with pytest.raises(NotFound, match="name the group and version too"):
            await Discovery(server).resolve(ResourceSelector.parse("webs"))

    asyncio.run(main())
