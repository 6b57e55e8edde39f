"""Discovery in virtual time: definitions that change, answers that are none, and how often a server is asked."""

import asyncio
import dataclasses

import pytest

from opkit.cluster.discovery import Discovery
from opkit.cluster.protocol import Mark
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.cluster.scanning import Found
from opkit.errors import ApiError, Forbidden, NotFound
from opkit.testing.virtual import VirtualLoop

VERBS = frozenset({"list", "watch", "get"})
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False, verbs=VERBS)
V1 = Resource("example.com", "v1", "webs", kind="Web", singular="web", shortcuts=frozenset({"wb"}), verbs=VERBS)
V2 = dataclasses.replace(V1, version="v2")
OLD = dataclasses.replace(V1, preferred=False)
OTHERS = Resource("other.com", "v1", "others", kind="Other", verbs=VERBS)

FLOATING = ResourceSelector.parse("example.com", "webs")
NAMED = ResourceSelector.parse("example.com", "v1", "webs")
OTHER = ResourceSelector.parse("other.com", "v1", "others")


class Server:
    """A server whose answers are what the test says; what it was asked is written down with the time."""

    def __init__(self, loop):
        self.loop = loop
        self.found = {"apiextensions.k8s.io": [CRDS], "example.com": [V1], "other.com": [OTHERS], "": []}
        self.definitions = {"webs.example.com": self.definition("v1"), "others.other.com": self.definition("v1")}
        self.asked = []
        self.watching = {"customresourcedefinitions": self.quiet, "namespaces": self.quiet}
        self.changes = asyncio.Queue()
        self.version = "1"

    @staticmethod
    def definition(*served):
        return {"spec": {"versions": [{"name": name, "served": True} for name in served]}}

    def note(self, what):
        self.asked.append((what, self.loop.time()))

    def count(self, what, since, within=3.0):
        return len([at for name, at in self.asked if name == what and since <= at < since + within])

    async def groups(self):
        self.note("groups")
        return self._answer(self.found.get("groups", list(self.found)))

    async def scan(self, group):
        self.note(group)
        return self._answer(self.found.get(group, []))

    @staticmethod
    def _answer(answer):
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def get(self, resource, name, namespace=None):
        if name not in self.definitions:
            raise NotFound(f"{name} not found", details={"name": name})
        return self._answer(self.definitions[name])

    async def watch(self, scope, *, patience=None):
        self.note(scope.resource.plural)
        async for batch in self.watching[scope.resource.plural]():
            yield batch

    async def quiet(self):
        async for batch in self.ends():
            yield batch
        while (batch := await self.changes.get()) is not None:  # None: the server ends the watch
            yield batch

    async def ends(self):
        listed = [("LISTED", {"metadata": {"name": "team-a", "resourceVersion": self.version}})]
        for batch in (Mark.BEGIN_LIST, listed, Mark.END_LIST):
            yield batch

    async def shows(self):
        async for batch in self.ends():
            yield batch
        yield [("MODIFIED", {"metadata": {"name": "team-a", "resourceVersion": str(len(self.asked))}})]

    async def bookmarks(self):
        async for batch in self.ends():
            yield batch
        yield [("BOOKMARK", {"metadata": {"resourceVersion": "7"}})]

    async def odd(self):
        async for batch in self.ends():
            yield batch
        yield [("MODIFIED", None), ("ADDED", []), ("DELETED", {"metadata": 1})]

    async def refuses(self):
        raise Forbidden("no")
        yield

    async def fails(self):
        raise ApiError("broken", status=500)
        yield

    async def too_old(self):
        async for batch in self.ends():
            yield batch
        raise ApiError("too old", status=410)

    def namespace_matches(self, name, patterns):
        return name.startswith("team")

    def exact_namespaces(self, patterns):
        return frozenset(pattern for pattern in patterns if "*" not in pattern)

    def change(self, **found):
        """A definition changes, and with it what is discovered."""
        self.found.update(found)
        self.changes.put_nowait([("MODIFIED", {"metadata": {"name": "webs.example.com", "resourceVersion": "2"}})])


class Scenario:
    """A discovery at work in virtual time; `topologies` are those that it gave."""

    def __init__(self, loop):
        self.loop = loop
        self.server = Server(loop)
        self.discovery = Discovery(self.server)
        self.topologies = []

    def follow(self, *selectors, clusterwide=True, patterns=frozenset()):
        async def run():
            pause = 0.5
            while True:  # as those who use it do
                try:
                    async for topology in self.discovery.topology(frozenset(selectors), patterns, clusterwide):
                        self.topologies.append(topology)
                except ApiError:
                    await asyncio.sleep(pause)
                    pause *= 2

        self.task = self.loop.create_task(run())
        self.go(1)
        return self

    def go(self, seconds):
        self.loop.run_until(self.loop.time() + seconds)

    @property
    def last(self):
        return {str(one): str(resource) for one, resource in self.topologies[-1].claims.items()}


@pytest.fixture
def scenario():
    loop = VirtualLoop()
    yield Scenario(loop)
    while tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_now()
    loop.close()


def test_who_names_no_version_moves_and_who_names_one_stays(scenario):
    """A new preferred version is for those who left it open; the old one is served for as long as it is there."""
    one = scenario.follow(FLOATING, NAMED)
    one.server.change(**{"example.com": [OLD, V2]})
    one.go(1)
    assert one.last == {"webs.example.com": "webs.v2.example.com", "webs.v1.example.com": "webs.v1.example.com"}


def test_a_version_that_cannot_be_watched_is_not_moved_to(scenario):
    """Whatever is preferred; and what loses its verbs in one version goes on in another."""
    one = scenario.follow(FLOATING)
    one.server.change(**{"example.com": [OLD, dataclasses.replace(V2, verbs=frozenset({"create"}))]})
    one.go(1)
    assert one.last == {"webs.example.com": "webs.v1.example.com"}
    one.server.change(**{"example.com": [dataclasses.replace(OLD, verbs=frozenset({"get"})), V2]})
    one.go(1)
    assert one.last == {"webs.example.com": "webs.v2.example.com"}
    one.server.change(**{"example.com": [dataclasses.replace(V2, verbs=frozenset({"get"}))]})
    one.go(1)
    assert one.last == {"webs.example.com": "webs.v2.example.com"}, "there is no other; nothing is deleted for that"


def test_what_discovery_shows_late_is_seen(scenario):
    """A definition is changed before discovery knows: it is looked at again, also when no other event comes."""
    one = scenario.follow(FLOATING)
    one.server.change()
    one.go(1.2)
    one.server.found["example.com"] = [OLD, V2]
    one.go(8)
    assert one.last == {"webs.example.com": "webs.v2.example.com"}


def test_a_change_between_two_watches_is_seen(scenario):
    """The list at the beginning of a watch differs from what the last one knew."""
    one = scenario.follow(FLOATING)
    one.go(60)
    one.server.found["example.com"] = [OLD, V2]
    one.server.changes.put_nowait(None)
    one.go(5)
    assert one.last == {"webs.example.com": "webs.v1.example.com"}, "the same list: there is nothing to look for"
    one.server.version = "9"
    one.server.changes.put_nowait(None)
    one.go(5)
    assert one.last == {"webs.example.com": "webs.v2.example.com"}


@pytest.mark.parametrize(
    "field, value",
    [
        ("subresources", frozenset({"status"})), ("verbs", VERBS | {"patch"}), ("kind", "Site"), ("singular", "site"),
        ("shortcuts", frozenset()), ("categories", frozenset({"all"})), ("namespaced", False), ("preferred", False),
    ],
)  # fmt: skip
def test_whatever_changes_about_a_resource_is_told(scenario, field, value):
    """Two topologies are equal only if everything is served in the same way."""
    one = scenario.follow(FLOATING)
    before = len(one.topologies)
    changed = dataclasses.replace(V1, **{field: value})
    one.server.change(**{"example.com": [changed]})
    one.go(1)
    assert len(one.topologies) == before + 1
    (resource,) = one.topologies[-1].resources
    assert resource.shape == changed.shape


@pytest.mark.parametrize("name", ["wb", "Web", "web"])
def test_a_name_that_is_taken_away_takes_nothing_away(scenario, name):
    """The kind was found by it once, and is known since."""
    one = scenario.follow(ResourceSelector.parse("example.com", name))
    changed = dataclasses.replace(V2, shortcuts=frozenset(), kind="Site", singular="site")
    one.server.change(**{"example.com": [changed]})
    one.go(1)
    assert [resource.shape for resource in one.topologies[-1].resources] == [changed.shape]


def test_a_namesake_does_not_take_over(scenario):
    """A kind of the same name elsewhere is another kind: a bare name goes on to mean the one that it meant."""
    bare = ResourceSelector.parse("webs")
    one = scenario.follow(bare)
    for group in ("", "a.com"):
        one.server.change(**{group: [dataclasses.replace(V1, group=group)]})
        one.go(1)
        assert one.last == {"webs": "webs.v1.example.com"}


def partly(resources, *failed):
    found = Found(resources)
    found.failed = frozenset(failed)
    return found


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param({"example.com": ApiError("down", status=503)}, id="the-group"),
        pytest.param({"example.com": ApiError("no list of versions", status=502)}, id="garbage"),
        pytest.param({"example.com": partly([], "v1")}, id="its-version"),
        pytest.param({"example.com": partly([dataclasses.replace(V1, version="v1beta1")], "v1")}, id="not-the-other"),
        pytest.param({"groups": ApiError("down", status=503)}, id="the-list-of-groups"),
    ],
)
@pytest.mark.parametrize("selector", [FLOATING, NAMED, ResourceSelector.parse("webs")], ids=str)
def test_what_cannot_be_discovered_stays_as_it_is(scenario, answers, selector):
    """Nothing of it counts as gone, and the others come and go as ever."""
    one = scenario.follow(selector, OTHER)
    before = one.last
    one.server.definitions["webs.example.com"] = one.server.definition("v1beta1")
    one.server.change(**answers)
    one.go(60)
    assert one.last == before
    one.server.change(**{"other.com": [dataclasses.replace(OTHERS, subresources=frozenset({"status"}))]})
    one.go(1)
    served = {resource.plural: resource for resource in one.topologies[-1].resources}
    assert served["others"].subresources == {"status"} and served["webs"] == V1


def test_what_could_not_be_discovered_is_served_when_it_can(scenario):
    """It is looked for again without anybody telling."""
    one = scenario
    one.server.found["example.com"] = ApiError("down", status=503)
    one.follow(FLOATING, OTHER)
    assert one.last == {"others.v1.other.com": "others.v1.other.com"}
    one.server.found["example.com"] = [V1]
    one.go(35)
    assert "webs.example.com" in one.last


def test_who_names_no_version_waits_for_the_next_one(scenario):
    """The old version is withdrawn before discovery shows the new one: that is no end."""
    one = scenario.follow(FLOATING)
    one.server.definitions["webs.example.com"] = one.server.definition("v2")
    one.server.change(**{"example.com": []})
    one.go(1)
    assert one.last == {"webs.example.com": "webs.v1.example.com"}
    one.server.found["example.com"] = [V2]
    one.go(5)
    assert one.last == {"webs.example.com": "webs.v2.example.com"}


def test_without_rights_on_definitions_a_switch_is_found(scenario):
    """By looking from time to time, at least every 30 s, for as long as it lasts."""
    one = scenario
    one.server.watching["customresourcedefinitions"] = one.server.refuses
    one.server.definitions = {"webs.example.com": Forbidden("no")}
    one.follow(FLOATING)
    one.go(600)
    one.server.found["example.com"] = [V2]
    one.go(31)
    assert one.last == {"webs.example.com": "webs.v2.example.com"}


def test_a_path_that_is_not_known_leads_to_a_look_at_once(scenario):
    """Whoever is told so does not wait for somebody to look."""
    one = scenario
    one.server.watching["customresourcedefinitions"] = one.server.refuses
    one.follow(FLOATING)
    one.go(600)
    one.server.found["example.com"] = [V2]
    one.loop.call_soon(one.discovery.doubt, "example.com")
    one.go(0.5)
    assert one.last == {"webs.example.com": "webs.v2.example.com"}
    assert str(one.loop.run_until_complete(one.discovery.resolve(FLOATING))) == "webs.v2.example.com"


def test_who_asks_once_sees_what_has_changed_too(scenario):
    """Also in groups that nobody follows: a definition that changes makes all of it old."""
    one = scenario.follow(OTHER)

    def resolve():
        return str(one.loop.run_until_complete(one.discovery.resolve(FLOATING)))

    assert resolve() == "webs.v1.example.com"
    one.server.change(**{"example.com": [OLD, V2]})
    one.go(1)
    assert resolve() == "webs.v2.example.com"


def test_rights_that_are_granted_later_are_noticed(scenario):
    """Definitions are asked for again, and watched from then on."""
    one = scenario
    one.server.watching["customresourcedefinitions"] = one.server.refuses
    one.follow(FLOATING)
    one.go(100)
    one.server.watching["customresourcedefinitions"] = one.server.quiet
    one.go(40)
    one.server.change(**{"example.com": [V2]})
    one.go(0.5)
    assert one.last == {"webs.example.com": "webs.v2.example.com"}


@pytest.mark.parametrize("plural", ["customresourcedefinitions", "namespaces"])
@pytest.mark.parametrize("how", ["ends", "shows", "bookmarks", "odd", "refuses", "fails", "too_old"])
def test_no_watch_is_asked_for_in_a_hot_loop(scenario, plural, how):
    """At most ten times in any three seconds, less and less often, and at once again when it is healthy."""
    one = scenario
    one.server.watching[plural] = getattr(one.server, how)
    one.follow(FLOATING, clusterwide=False, patterns=frozenset({"team-*"}))
    one.go(300)
    times = [at for name, at in one.server.asked if name == plural]
    assert max(one.server.count(plural, at) for at in times) <= 10
    assert one.server.count(plural, 200, 100) <= 8
    assert max(one.server.count("example.com", at) for _, at in one.server.asked) <= 10


def test_definitions_that_never_come_to_rest_are_not_looked_at_each_time(scenario):
    """An event of a definition costs a look; many of them don't cost many."""
    one = scenario.follow(FLOATING)

    async def flap():
        while True:
            one.server.change()
            await asyncio.sleep(0.05)

    one.loop.create_task(flap())
    one.go(60)
    assert max(one.server.count("example.com", at) for _, at in one.server.asked if at > 5) <= 10


@pytest.mark.parametrize("answer", [ApiError("down", status=503), ApiError("no list", status=502), []])
def test_discovery_itself_is_not_asked_in_a_hot_loop(scenario, answer):
    """Whatever it answers, and whoever asks: those who look for something, or are told that a path is not known."""
    one = scenario.follow(FLOATING)
    one.server.found["example.com"] = answer

    async def ask():
        while True:
            one.discovery.doubt("example.com")
            try:
                await one.discovery.resolve(ResourceSelector.parse("example.com", "gizmos"))
            except ApiError:
                pass
            await asyncio.sleep(0.01)

    one.loop.create_task(ask())
    one.go(60)
    assert max(one.server.count("example.com", at) for _, at in one.server.asked) <= 10
    assert one.server.count("example.com", 50) <= 4


def test_a_namespace_list_that_fails_later_keeps_what_is_known(scenario):
    """A list that fails tells nothing about deletions."""
    one = scenario
    watches = iter([one.server.ends])
    one.server.watching["namespaces"] = lambda: next(watches, one.server.fails)()
    one.follow(FLOATING, clusterwide=False, patterns=frozenset({"team-*"}))
    one.go(100)
    assert one.topologies[-1].namespaces == {"team-a"} and len(one.topologies) == 1
    assert one.server.count("namespaces", 0, 100) > 3
