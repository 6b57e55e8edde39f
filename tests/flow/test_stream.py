"""The stream: kept alive whatever ends it, on a cluster that follows a script, in virtual time."""

import asyncio
import dataclasses
import itertools
import logging
import random

import pytest

from opkit.clock import LoopClock
from opkit.cluster.pacing import backoff
from opkit.cluster.protocol import Mark, WatchScope
from opkit.cluster.resource import Resource
from opkit.errors import ApiError
from opkit.flow.stream import Stream
from opkit.settings import WatchSettings

SCOPE = WatchScope(Resource("example.com", "v1", "webapps", kind="WebApp"))


@dataclasses.dataclass
class Lasts:
    """The connection stays open for so long."""

    seconds: float


def listing(version="100", *names):
    """A complete list, as a watch without a version begins."""
    items = [("LISTED", {"metadata": {"name": name, "uid": name, "resourceVersion": "7"}}) for name in names]
    return [Mark.BEGIN_LIST, items, Mark.END_LIST, [("BOOKMARK", {"metadata": {"resourceVersion": version}})]]


def happening(type_, version):
    return [(type_, {"metadata": {"name": "a", "uid": "a", "resourceVersion": version}})]


class ScriptedCluster:
    """Each connection plays one part: batches, pauses and an error. The last part is played for ever."""

    def __init__(self, loop, *parts):
        self.loop = loop
        self.parts = list(parts)
        self.connections = []  # (when, since)
        self.cached = []

    async def watch(self, scope, *, since=None, cached=False, patience=None):
        self.connections.append((round(self.loop.time(), 3), since))
        self.cached.append(cached)
        part = self.parts.pop(0) if len(self.parts) > 1 else self.parts[0]
        for step in part:
            if isinstance(step, BaseException):
                raise step
            if isinstance(step, Lasts):
                await asyncio.sleep(step.seconds)
            else:
                yield step

    def times(self):
        return [at for at, _ in self.connections]

    def versions(self):
        return [since for _, since in self.connections]


FOR_EVER = Lasts(1e9)
REFUSED = ApiError.of(0, message="connection refused")


@pytest.fixture
def play(loop):
    """Play a script for so many seconds; the cluster, the stream and what came out of it."""

    def run(*parts, until=10_000.0, seed=1, sink=None, settings=None):
        cluster = ScriptedCluster(loop, *parts)
        cluster.taken = []

        async def main():
            cluster.stream = Stream(
                SCOPE, cluster=cluster, clock=LoopClock(), random=random.Random(seed),
                settings=settings or WatchSettings(), sink=sink or cluster.taken.append,
            )  # fmt: skip
            await cluster.stream.run()

        cluster.task = loop.create_task(main())
        loop.run_until(until)
        return cluster

    return run


def test_it_lists_and_goes_on_from_the_version_of_the_list(play):
    """A clean end is followed by a watch from the last version, at once and without a list."""
    cluster = play([*listing("900", "a"), Lasts(60)], [FOR_EVER])
    assert cluster.connections == [(0, None), (60, "900")]


@pytest.mark.parametrize(
    ("parts", "cached"),
    [
        pytest.param([[*listing("9", "a"), ApiError.of(410)], [FOR_EVER]], [True, False], id="relist"),
        pytest.param([[ApiError.of(410)], [FOR_EVER]], [True, False], id="refused"),
        pytest.param([[ApiError.of(500)], [ApiError.of(500)], [FOR_EVER]], [True, False, False], id="failed"),
        pytest.param([[Mark.BEGIN_LIST, happening("LISTED", "1"), REFUSED], [FOR_EVER]], [True, False], id="cut"),
    ],
)
def test_only_a_list_before_anything_was_seen_may_lag_behind(play, parts, cached):
    """Later, what an older list does not name yet would count as gone. One that is refused is not asked for again."""
    assert play(*parts).cached == cached


def test_a_first_list_of_the_newest_state_can_be_asked_for(play):
    """By a setting."""
    assert play([*listing("9", "a"), FOR_EVER], settings=WatchSettings(cached_first_list=False)).cached == [False]


def test_the_version_to_go_on_from_is_that_of_the_last_event(play):
    """Of events and bookmarks, in the order in which they came: never a maximum."""
    cluster = play([*listing("900", "a"), happening("MODIFIED", "905"), happening("BOOKMARK", "17"), Lasts(60)],
                   [FOR_EVER])  # fmt: skip
    assert cluster.versions() == [None, "17"]


def test_a_version_that_is_too_old_leads_to_a_list_at_once(play):
    """410, in whatever shape it came."""
    cluster = play([*listing("1"), Lasts(60), ApiError.of(410)], [*listing("2"), FOR_EVER])
    assert cluster.connections == [(0, None), (60, None)]


def test_versions_that_are_always_too_old_do_not_spin(play):
    """A server that refuses each version: lists with a backoff, a bounded number in a time."""
    cluster = play([*listing("1"), ApiError.of(410)], until=300)
    assert 8 <= len(cluster.connections) <= 25
    assert set(cluster.versions()) == {None}


@pytest.mark.parametrize("status", [0, 401, 403, 404, 429, 500, 504])
def test_any_failure_is_tried_again(play, status):
    """Nothing ends a stream; the first time from the last version."""
    cluster = play([*listing("5"), Lasts(100), ApiError.of(status)], [FOR_EVER], until=200)
    assert cluster.versions() == [None, "5"] and 100.4 < cluster.times()[1] <= 102
    assert not cluster.task.done()


def test_an_error_that_opkit_does_not_know_is_tried_again(play, caplog):
    """Whatever it is, and it is told."""
    cluster = play([*listing("5"), ZeroDivisionError("oh")], [FOR_EVER])
    assert len(cluster.connections) == 2 and "ZeroDivisionError" in caplog.text


def test_a_sink_that_fails_does_not_end_the_stream(play, caplog):
    """Nothing that a filter or a handler does can end it."""
    calls = []

    def broken(batch):
        calls.append(batch)
        if len(calls) == 2:
            raise KeyError("bug")

    cluster = play([*listing("5", "a"), FOR_EVER], sink=broken)
    assert len(cluster.connections) == 2 and not cluster.task.done()


def test_repeated_failures_lead_to_a_list(play):
    """The version may be what is wrong."""
    cluster = play([*listing("5"), Lasts(100)], [REFUSED], [REFUSED], [*listing("9"), FOR_EVER])
    assert cluster.versions() == [None, "5", "5", None]


def test_the_backoff_grows_to_its_cap_and_never_gives_up(play):
    """1 to 32 s, with jitter, however often it fails."""
    cluster = play([REFUSED], until=3600)
    gaps = [later - earlier for earlier, later in itertools.pairwise(cluster.times())]
    assert all(0.5 <= gap <= 32 for gap in gaps) and len(gaps) > 100
    assert all(16 <= gap <= 32 for gap in gaps[6:])
    assert gaps[0] <= 1 and 2 <= gaps[2] <= 4
    assert len(set(gaps[6:])) > 50


def test_the_backoff_does_not_overflow():
    """After ten thousand failures it is still the cap."""
    assert backoff(10_000, 1.0, 1.0) == 32 and backoff(0, 1.0, 0.0) == 0.5


def test_two_streams_that_fail_together_do_not_come_back_together(play):
    """That is what the jitter is for."""
    assert play([REFUSED], until=100, seed=1).times() != play([REFUSED], until=100, seed=2).times()


def test_a_healthy_period_resets_the_backoff(play):
    """A mere connection does not."""
    healthy = [*listing("5"), Lasts(31), REFUSED]
    cluster = play([REFUSED], [REFUSED], [REFUSED], [REFUSED], [REFUSED], healthy, [FOR_EVER])
    assert cluster.times()[-1] - cluster.times()[-2] <= 31 + 1


def test_a_mere_connection_does_not_reset_the_backoff(play):
    """A list that is answered and a watch that is cut at once: that is no health."""
    cluster = play([*listing("5"), REFUSED], until=600)
    gaps = [later - earlier for earlier, later in itertools.pairwise(cluster.times())]
    assert all(gap >= 16 for gap in gaps[7:])


def test_a_server_that_asks_to_wait_is_given_its_time(play):
    """Retry-After is the least."""
    cluster = play([ApiError.of(429, retry_after=77)], [*listing(), FOR_EVER])
    assert cluster.times()[1] >= 77


def test_short_empty_watches_are_suspicious(play):
    """Some servers say by them that the version is too old: back off, then list."""
    cluster = play([*listing("5"), Lasts(60)], [], [], [], [*listing("9"), FOR_EVER])
    assert cluster.versions() == [None, "5", "5", "5", None]
    assert cluster.times()[-1] >= 60.5


def test_an_endless_row_of_short_empty_watches_does_not_spin(play):
    """Neither does a server that does it for ever."""
    cluster = play([*listing("5")], until=60)
    assert len(cluster.connections) < 60


def test_a_clean_end_after_a_normal_life_is_just_a_reconnection(play):
    """Servers end watches every few minutes; nothing is listed for that."""
    cluster = play([*listing("5"), Lasts(300)], [Lasts(300)], until=2999)
    assert cluster.versions() == [None] + ["5"] * 9
    assert cluster.times() == [300 * number for number in range(10)]


def test_the_first_list_is_tried_for_as_long_as_it_fails(play):
    """Refused, timed out, 500, 503, then there: and it counts as listed only then."""
    cluster = play([REFUSED], [ApiError.of(500)], [Mark.BEGIN_LIST, ApiError.of(503)], [*listing("5"), FOR_EVER])
    assert cluster.versions() == [None] * 4
    assert cluster.stream.statistics().listed
    assert cluster.taken.count(Mark.END_LIST) == 1


def test_a_list_that_is_cut_starts_over(play):
    """There is no version to go on from, although one was known before."""
    cluster = play(
        [*listing("5"), ApiError.of(410)], [Mark.BEGIN_LIST, listing("6", "a")[1], REFUSED],
        [*listing("6", "a"), FOR_EVER],
    )  # fmt: skip
    assert cluster.versions() == [None, None, None]


def test_items_of_a_list_are_no_place_to_go_on_from(play):
    """A list is sorted by name: its last item can be much older than the list."""
    cluster = play([*listing("900", "a")[:3], REFUSED], [*listing("901"), FOR_EVER])
    assert cluster.versions() == [None, None]


@pytest.mark.parametrize("status, advice", [(401, "credentials"), (403, "permission"), (404, "CustomResource")])
def test_what_needs_somebody_is_reported_once_with_what_to_do(play, caplog, status, advice):
    """And it is tried for as long as it lasts."""
    with caplog.at_level(logging.INFO, "opkit.stream"):
        cluster = play([ApiError.of(status)], until=3600)
    assert len(cluster.connections) > 50
    assert [record.levelname for record in caplog.records] == ["WARNING"] and advice in caplog.text


def test_another_trouble_is_reported_anew(play, caplog):
    """Once each."""
    with caplog.at_level(logging.INFO, "opkit.stream"):
        play([ApiError.of(403)], [ApiError.of(403)], [ApiError.of(404)], until=600)
    assert len(caplog.records) == 2


def test_that_it_works_again_is_told(play, caplog):
    """When the watch has shown that it lives."""
    with caplog.at_level(logging.INFO, "opkit.stream"):
        play([ApiError.of(403)], [*listing("5"), happening("MODIFIED", "6"), FOR_EVER])
    assert "again" in caplog.messages[-1] and len(caplog.records) == 2


def test_a_single_interruption_is_not_worth_a_word(play, caplog):
    """Connections are cut every day."""
    with caplog.at_level(logging.INFO, "opkit.stream"):
        play([*listing("5"), Lasts(100), REFUSED], [FOR_EVER])
    assert not caplog.records


def test_every_sign_of_life_is_noted(play):
    """Events, bookmarks, and empty batches."""
    cluster = play([*listing("5"), Lasts(10), [], Lasts(10), happening("BOOKMARK", "6"), FOR_EVER], until=100)
    assert cluster.stream.statistics().last_sign == 20


def test_statistics_count_lists_and_watches(play):
    """For the probes and the metrics."""
    statistics = play([*listing("5"), Lasts(60)], [Lasts(60)], [FOR_EVER], until=500).stream.statistics()
    assert (statistics.lists, statistics.watches, statistics.failures) == (1, 2, 0)


@pytest.mark.parametrize(
    "part",
    [
        pytest.param([], id="nothing"),
        pytest.param(happening("BOOKMARK", "6"), id="a-bookmark"),
        pytest.param(happening("MODIFIED", "6"), id="an-event"),
        pytest.param(ApiError.of(410), id="too-old"),
        pytest.param(ApiError.of(502, message="is not JSON"), id="garbage"),
        pytest.param(ApiError.of(500), id="an-error-event"),
    ],
)
@pytest.mark.parametrize("lists", [False, True])
def test_a_watch_that_ends_at_once_is_asked_for_with_growing_pauses(play, part, lists):
    """Whatever it shows before its end: at most ten requests in three seconds, and a pause of up to half a minute."""
    steps = [part] if isinstance(part, (list, BaseException)) and part else []
    cluster = play([*listing("5"), Lasts(60)], [*(listing("6") if lists else []), *steps], until=600)
    early = [since for at, since in cluster.connections[1:] if at <= 63]
    assert sum(2 if since is None else 1 for since in early) <= 10
    gaps = [later - earlier for earlier, later in itertools.pairwise(cluster.times()[1:])]
    assert max(gaps[:3]) < 5 and all(gap >= 16 for gap in gaps[9:])


def test_a_watch_that_is_healthy_again_is_reconnected_at_once(play):
    """What was wrong before its normal life does not count any more."""
    cluster = play([*listing("5"), Lasts(60)], *[[]] * 6, [*listing("6"), Lasts(60)], [Lasts(60)], [FOR_EVER])
    assert cluster.times()[-1] - cluster.times()[-2] == 60 and cluster.stream.statistics().failures == 0


def test_a_version_that_the_server_has_not_come_to_leads_to_a_list(play):
    """It was set back to an older state: that version would be waited for for ever."""
    too_large = ApiError.of(504, "Timeout", "Too large resource version: 5000, current: 100")
    cluster = play([*listing("5000"), Lasts(60)], [too_large], [*listing("100"), FOR_EVER])
    assert cluster.versions() == [None, "5000", None]
