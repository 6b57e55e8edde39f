"""Discovery: what a server serves of what is asked for, with all the odd entries that servers have."""

import asyncio

import pytest

from opkit.cluster import kopf_client
from opkit.cluster.resource import ResourceSelector
from opkit.errors import NotFound

from .scripted import ScriptedServer, json_answer, status_answer


def resource(plural, kind, verbs=("list", "watch", "get"), **fields):
    entry = {"name": plural, "kind": kind, "singularName": kind.lower(), "namespaced": True, **fields}
    return {**entry, "verbs": list(verbs)} if verbs is not None else entry


def serve(server, groups, core=()):
    """Answer discovery: groups are {group: {version: [resources] or a status}}, the first version preferred."""
    server.on("GET", "/api", json_answer({"versions": ["v1"]}))
    server.on("GET", "/api/v1", json_answer({"resources": list(core)}))
    listed = []
    for group, versions in groups.items():
        named = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
        listed.append({"name": group, "versions": named, "preferredVersion": named[0]})
        server.on("GET", f"/apis/{group}", json_answer(listed[-1]))
        for version, resources in versions.items():
            answer = status_answer(resources) if isinstance(resources, int) else json_answer({"resources": resources})
            server.on("GET", f"/apis/{group}/{version}", answer)
    server.on("GET", "/apis", json_answer({"groups": listed}))


@pytest.fixture
def resolve(monkeypatch):
    """Resolve words against a scripted discovery."""
    monkeypatch.setitem(kopf_client.KopfConnection.request.__kwdefaults__, "backoffs", ())

    def run(words, groups, core=()):
        async def main():
            async with asyncio.timeout(20), ScriptedServer() as server:
                serve(server, groups, core)
                cluster = await server.cluster()
                cluster._settings.networking.error_backoffs = ()
                return await cluster.resolve(ResourceSelector.parse(*words))

        return asyncio.run(main())

    return run


def test_a_kind_that_only_another_version_serves_is_found_there(resolve):
    """The preferred version of the group does not have it."""
    groups = {"e.io": {"v1": [resource("gadgets", "Gadget")], "v1alpha1": [resource("widgets", "Widget")]}}
    assert resolve(("e.io", "widgets"), groups).version == "v1alpha1"


def test_the_preferred_version_is_taken_where_it_serves_the_kind(resolve):
    """Never two versions of one kind."""
    groups = {"e.io": {"v2": [resource("widgets", "Widget")], "v1": [resource("widgets", "Widget")]}}
    assert resolve(("widgets",), groups).version == "v2"


def test_an_explicit_version_is_used_as_it_is(resolve):
    """Whatever is preferred."""
    groups = {"e.io": {"v2": [resource("widgets", "Widget")], "v1": [resource("widgets", "Widget")]}}
    assert resolve(("e.io/v1", "widgets"), groups).version == "v1"


def test_a_group_that_cannot_be_discovered_is_skipped(resolve, caplog):
    """A broken aggregated API: the rest works, and it is told."""
    groups = {"broken.io": {"v1": 503}, "e.io": {"v1": [resource("widgets", "Widget")]}}
    assert resolve(("widgets",), groups).group == "e.io"
    assert "broken.io" in caplog.text


def test_what_nobody_serves_is_not_found(resolve):
    """With a word on definitions."""
    with pytest.raises(NotFound, match="CustomResourceDefinition"):
        resolve(("gizmos",), {"e.io": {"v1": [resource("widgets", "Widget")]}})


def test_what_can_mean_two_things_is_told(resolve):
    """Name the group."""
    groups = {name: {"v1": [resource("widgets", "Widget")]} for name in ("a.io", "b.io")}
    with pytest.raises(NotFound, match="group and version"):
        resolve(("widgets",), groups)


@pytest.mark.parametrize("odd", [
    resource("odd", "Odd", verbs=None), resource("odd", "Odd", verbs=()), resource("odd", "Odd", singularName=""),
    resource("odd/status", "Odd"), resource("odd", "Odd", shortNames=None, categories=None), {"kind": "Odd"}, None,
], ids=["no verbs", "empty verbs", "no singular", "only a subresource", "nulls", "no name", "nothing"])  # fmt: skip
def test_odd_entries_do_not_keep_the_others_from_being_found(resolve, odd):
    """Of servers that nobody tests."""
    assert resolve(("widgets",), {"e.io": {"v1": [odd, resource("widgets", "Widget")]}}).plural == "widgets"


def test_subresources_are_known(resolve):
    """So that the status goes where it belongs."""
    found = resolve(("widgets",), {"e.io": {"v1": [resource("widgets", "Widget"),
                                                  resource("widgets/status", "Widget")]}})  # fmt: skip
    assert found.subresources == {"status"}


@pytest.mark.parametrize("verbs, served", [(("list", "watch"), True), (("list",), False), (("create",), False)])
def test_only_what_can_be_listed_and_watched_is_served(monkeypatch, caplog, verbs, served):
    """Else it is told, once."""

    async def main():
        async with asyncio.timeout(20), ScriptedServer() as server:
            serve(server, {"e.io": {"v1": [resource("widgets", "Widget", verbs=verbs)]}})
            cluster = await server.cluster()
            wanted = frozenset({ResourceSelector.parse("widgets")})
            async for topology in cluster.topology(wanted, frozenset(), clusterwide=True):
                return {found.plural for found in topology.resources}

    assert asyncio.run(main()) == ({"widgets"} if served else set())
    assert ("can't be listed and watched" in caplog.text) is not served
