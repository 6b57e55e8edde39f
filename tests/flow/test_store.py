"""
The store, against a server that keeps a log: whatever is cut, relisted or overtaken, both end up the same.
"""

import copy
import dataclasses
import logging

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from opkit.cluster.protocol import Mark
from opkit.flow.store import EVERYONE, ChangeType, Store

NAMES = st.sampled_from(["a", "b", "c"])


def body(name="a", uid="u1", version="1", namespace="default", **fields):
    meta = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": version}
    return {"kind": "WebApp", "metadata": {**meta, **fields.pop("metadata", {})}, **fields}


@dataclasses.dataclass
class Entry:
    """One line of the server's log."""

    number: int
    type: str
    raw: dict
    by: str | None
    """The controller whose write it was; `None` for somebody else's."""


class Server:
    """Objects of one namespace, by name, and the log of all that happened to them."""

    def __init__(self):
        self.objects = {}
        self.log = []
        self.uids = 0

    def _note(self, type_, raw, by):
        # Versions are opaque: these don't even sort.
        raw["metadata"]["resourceVersion"] = f"v{(len(self.log) * 7919) % 10007}"
        self.log.append(Entry(len(self.log), type_, copy.deepcopy(raw), by))
        return self.log[-1]

    def create(self, name, by=None):
        self.uids += 1
        self.objects[name] = raw = body(name, f"u{self.uids}", spec={"n": 0})
        return self._note("ADDED", raw, by)

    def modify(self, name, by=None):
        raw = self.objects[name]
        raw["spec"] = {"n": raw["spec"]["n"] + 1}
        return self._note("MODIFIED", raw, by)

    def delete(self, name):
        return self._note("DELETED", self.objects.pop(name), None)


@dataclasses.dataclass
class Write:
    """An own write: what the server made of it once it was carried out."""

    name: str
    answer: dict | None = None
    created: bool = False
    carried_out: bool = False


class StoreMachine(RuleBasedStateMachine):
    """Foreign writes, own writes, deliveries of events and relists, in any order that a network allows."""

    relists = True

    def __init__(self):
        super().__init__()
        self.server = Server()
        self.store = Store()
        self.position = 0  # in the log: what comes next in the stream
        self.writes = []
        self.changes = []
        self.bodies = {}  # by UID: what the changes told so far
        self.unknowable = set()  # versions of own writes of objects that the stream had not shown yet

    @initialize()
    def first_list(self):
        self._relist()

    # The world outside.

    @rule(name=NAMES)
    def somebody_writes(self, name):
        self.server.modify(name) if name in self.server.objects else self.server.create(name)

    @precondition(lambda self: self.server.objects)
    @rule(data=st.data())
    def somebody_deletes(self, data):
        self.server.delete(data.draw(st.sampled_from(sorted(self.server.objects))))

    # Own writes, in three steps that anything can come between.

    @precondition(lambda self: len(self.writes) < 3)
    @rule(name=NAMES)
    def begin_write(self, name):
        self.store.begin_write(name, "default")
        self.writes.append(Write(name))

    @precondition(lambda self: any(not write.carried_out for write in self.writes))
    @rule(data=st.data(), kind=st.sampled_from(["change", "change", "nothing", "failure"]))
    def server_carries_out(self, data, kind):
        write = data.draw(st.sampled_from([write for write in self.writes if not write.carried_out]))
        write.carried_out = True
        there = write.name in self.server.objects
        if kind == "failure":
            return
        if kind == "nothing":
            # Only what is known here is given back: the door for writes tells such answers from others.
            known = self.store.find(write.name, "default")
            write.answer = copy.deepcopy(known) if known == self.server.objects.get(write.name) else None
            return
        entry = self.server.modify(write.name, "me") if there else self.server.create(write.name, "me")
        write.answer, write.created = copy.deepcopy(entry.raw), not there

    @precondition(lambda self: any(write.carried_out for write in self.writes))
    @rule(data=st.data())
    def answer_arrives(self, data):
        write = data.draw(st.sampled_from([write for write in self.writes if write.carried_out]))
        self._end(write)

    def _end(self, write):
        self.writes.remove(write)
        if write.answer is not None and write.answer["metadata"]["uid"] not in self.store and not write.created:
            self.unknowable.add(write.answer["metadata"]["resourceVersion"])
        self._note(self.store.end_write(write.name, "default", write.answer, origin="me", created=write.created))

    # The stream.

    @precondition(lambda self: self.position < len(self.server.log))
    @rule(count=st.integers(1, 4))
    def events_arrive(self, count):
        entries = self.server.log[self.position : self.position + count]
        self.position += len(entries)
        self._note(self.store.apply("default", [(one.type, copy.deepcopy(one.raw)) for one in entries]))

    @precondition(lambda self: self.relists)
    @rule(cut_after=st.sampled_from([None, None, 0, 1]))
    def relist(self, cut_after):
        self._relist(cut_after)

    def _relist(self, cut_after=None):
        """List everything; or cut the list after so many objects: then it tells nothing about deletions."""
        self._note(self.store.apply("default", Mark.BEGIN_LIST))
        listed = sorted(self.server.objects.items())[:cut_after]
        for _, raw in listed:
            self._note(self.store.apply("default", [("LISTED", copy.deepcopy(raw))]))
        if cut_after is not None:
            self._relist()
            return
        self._note(self.store.apply("default", Mark.END_LIST))
        self.position = len(self.server.log)

    # What must hold.

    def _note(self, changes):
        """Each object is added once, updated from the body that was told before, deleted once."""
        for change in changes:
            self.changes.append(change)
            if change.type is ChangeType.ADDED:
                assert change.uid not in self.bodies
                names = {raw["metadata"]["name"] for raw in self.bodies.values()}
                assert change.body["metadata"]["name"] not in names, "an addition before its namesake's deletion"
                self.bodies[change.uid] = change.body
            elif change.type is ChangeType.UPDATED:
                assert change.old == self.bodies[change.uid]
                assert change.body["metadata"]["resourceVersion"] != change.old["metadata"]["resourceVersion"]
                self.bodies[change.uid] = change.body
            else:
                del self.bodies[change.uid]

    def teardown(self):
        """When everything has arrived, the store is what the server is."""
        for write in list(self.writes):
            self._end(write)
        if self.position < len(self.server.log):
            self.events_arrive(len(self.server.log))
        expected = {raw["metadata"]["uid"]: raw for raw in self.server.objects.values()}
        assert self.bodies == expected
        assert {uid: self.store.get(uid) for uid in self.store} == expected
        for name in "abc":
            assert self.store.find(name, "default") == self.server.objects.get(name)
        statistics = self.store.statistics()
        assert statistics.writes_under_way == 0
        self.check_echoes(statistics)

    def check_echoes(self, statistics):
        own = {entry.raw["metadata"]["resourceVersion"] for entry in self.server.log if entry.by}
        for change in self.changes:
            if change.origin is not None:
                assert change.body["metadata"]["resourceVersion"] in own, "someone else's write taken for an echo"


class StreamedStoreMachine(StoreMachine):
    """Without relists every write has its event, so each is told exactly, own and foreign ones apart."""

    relists = False

    def check_echoes(self, statistics):
        assert statistics.expected_echoes == 0
        # Events of one name come in order; those of another may pass while they are held back.
        told = [
            (change.body["metadata"]["resourceVersion"], change.origin)
            for name in "abc" for change in self.changes if change.body["metadata"]["name"] == name
        ]  # fmt: skip
        happened = [
            (entry.raw["metadata"]["resourceVersion"], entry.by)
            for name in "abc" for entry in self.server.log if entry.raw["metadata"]["name"] == name
        ]  # fmt: skip
        assert [version for version, _ in told] == [version for version, _ in happened]
        for (version, origin), (_, by) in zip(told, happened, strict=True):
            assert origin == by or version in self.unknowable


TestStoreAgainstServer = StoreMachine.TestCase
TestStreamedStore = StreamedStoreMachine.TestCase
TestStoreAgainstServer.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestStreamedStore.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@pytest.fixture
def store():
    return Store()


def listed(store, *raws, scope=None):
    """Give the store a complete list; the changes."""
    changes = store.apply(scope, Mark.BEGIN_LIST)
    changes += store.apply(scope, [("LISTED", raw) for raw in raws])
    return changes + store.apply(scope, Mark.END_LIST)


def kinds(changes):
    return [(change.type.value, change.uid) for change in changes]


def test_what_is_missing_in_a_complete_list_is_deleted_with_unknown_final_state(store):
    """Known but not listed: the last known body is what the deletion shows."""
    listed(store, body("a", "u1"), body("b", "u2", spec={"last": True}))
    (change,) = listed(store, body("a", "u1"))
    assert (change.type, change.uid, change.final_state_unknown) == (ChangeType.DELETED, "u2", True)
    assert change.body["spec"] == {"last": True}


def test_a_list_that_is_not_complete_tells_nothing_about_deletions(store):
    """Without the mark of its end, nothing of it counts as missing."""
    listed(store, body("a", "u1"), body("b", "u2"))
    assert not store.apply(None, Mark.BEGIN_LIST)
    assert not store.apply(None, [("LISTED", body("a", "u1"))])
    assert len(store) == 2


def test_the_same_version_listed_again_is_nothing(store):
    """A relist without news is silent."""
    listed(store, body())
    assert not listed(store, body())


def test_another_version_listed_is_an_update_from_the_stored_body(store):
    """Across a relist as in the stream: old is the last body that was seen."""
    listed(store, body(version="1", spec={"n": 1}))
    (change,) = listed(store, body(version="7", spec={"n": 2}))
    assert change.type is ChangeType.UPDATED
    assert (change.old["spec"], change.body["spec"]) == ({"n": 1}, {"n": 2})


def test_an_older_body_listed_again_is_an_update_like_any_other(store):
    """Versions are opaque: a lagging server's body is taken, and the newer one that follows too."""
    listed(store, body(version="120"))
    assert kinds(listed(store, body(version="100"))) == [("UPDATED", "u1")]
    assert kinds(store.apply(None, [("MODIFIED", body(version="120"))])) == [("UPDATED", "u1")]


@pytest.mark.parametrize("by_list", [True, False], ids=["relist", "stream"])
def test_a_namesake_with_another_uid_is_a_deletion_and_then_an_addition(store, by_list):
    """In that order, however it is noticed."""
    listed(store, body("a", "u1"))
    new = body("a", "u2")
    changes = listed(store, new) if by_list else store.apply(None, [("ADDED", new)])
    assert kinds(changes) == [("DELETED", "u1"), ("ADDED", "u2")]
    assert changes[0].final_state_unknown
    assert store.find("a", "default") is new


def test_a_late_deletion_of_the_former_does_not_touch_the_namesake(store):
    """Identity is the UID."""
    listed(store, body("a", "u1"))
    store.apply(None, [("ADDED", body("a", "u2"))])
    assert not store.apply(None, [("DELETED", body("a", "u1"))])
    assert store.find("a", "default")["metadata"]["uid"] == "u2"


def test_a_deletion_of_the_unknown_is_nothing(store):
    """Nobody is told of the end of what was never there."""
    assert not store.apply(None, [("DELETED", body())])


def test_bookmarks_touch_nothing(store):
    """They only move the resume point, which is the stream's."""
    listed(store, body())
    assert not store.apply(None, [("BOOKMARK", {"metadata": {"resourceVersion": "99"}})])
    assert store.get("u1")["metadata"]["resourceVersion"] == "1"


def test_objects_without_uid_are_told_apart_by_their_creation(store):
    """(kind, namespace, name, creationTimestamp) stands in for the UID."""

    def made(when, version):
        raw = body(version=version, metadata={"creationTimestamp": when})
        del raw["metadata"]["uid"]
        return raw

    listed(store, made("t1", "1"))
    assert [change.type for change in store.apply(None, [("MODIFIED", made("t1", "2"))])] == [ChangeType.UPDATED]
    assert [change.type for change in store.apply(None, [("ADDED", made("t2", "3"))])] == [
        ChangeType.DELETED, ChangeType.ADDED,
    ]  # fmt: skip


@pytest.mark.parametrize("keep", [True, False])
def test_managed_fields_are_dropped_unless_they_are_wanted(keep):
    """They are often half of an object, and of use to few."""
    store = Store(keep_managed_fields=keep)
    listed(store, body(metadata={"managedFields": [{"manager": "x"}]}))
    assert ("managedFields" in store.get("u1")["metadata"]) is keep


@pytest.mark.parametrize(
    "broken",
    [None, 1, "text", [], {}, {"metadata": None}, {"metadata": []}, {"metadata": {"uid": "x"}}],
    ids=repr,
)
def test_one_object_that_cannot_be_used_is_skipped(store, caplog, broken):
    """It is reported, without its content, and the next one is taken."""
    with caplog.at_level(logging.WARNING, "opkit.store"):
        changes = store.apply(None, [("ADDED", broken), ("ADDED", body("b", "u2"))])
    assert kinds(changes) == [("ADDED", "u2")]
    assert len(caplog.records) == 1


def test_an_unusable_object_is_reported_with_its_kind_and_name_as_far_as_there_is_one(store, caplog):
    """Never with its content, which may be secret."""
    with caplog.at_level(logging.WARNING, "opkit.store"):
        store.apply(None, [("ADDED", {"kind": "Secret", "data": {"password": "hunter2"}})])
    assert "Secret" in caplog.text and "hunter2" not in caplog.text


def test_a_scope_that_is_dropped_counts_as_deleted(store):
    """A namespace that is not served any more; the others stay."""
    listed(store, body("a", "u1", namespace="n1"), scope="n1")
    listed(store, body("a", "u2", namespace="n2"), scope="n2")
    assert kinds(store.drop("n1")) == [("DELETED", "u1")]
    assert list(store) == ["u2"]


def test_a_relist_of_one_scope_says_nothing_about_another(store):
    """Only what this scope knew can be missing in its list."""
    listed(store, body("a", "u1", namespace="n1"), scope="n1")
    listed(store, body("a", "u2", namespace="n2"), scope="n2")
    assert kinds(listed(store, scope="n1")) == [("DELETED", "u1")]


def test_nothing_is_left_of_what_is_gone(store):
    """All numbers are back at zero."""
    listed(store, *(body(f"o{n}", f"u{n}") for n in range(10)))
    store.begin_write("o1", "default")
    store.end_write("o1", "default", body("o1", "u1", "2"))
    store.apply(None, [("DELETED", body(f"o{n}", f"u{n}", "9")) for n in range(10)])
    statistics = store.statistics()
    assert (statistics.objects, statistics.names, statistics.expected_echoes, statistics.writes_under_way) == (
        0, 0, 0, 0,
    )  # fmt: skip


def test_the_answer_to_an_own_write_is_the_newest_body_at_once(store):
    """What handlers get, while filters still compare with what the stream has shown."""
    listed(store, body(version="1"))
    store.begin_write("a", "default")
    assert not store.end_write("a", "default", body(version="2", status={"ok": True}))
    assert store.get("u1")["status"] == {"ok": True}
    (echo,) = store.apply(None, [("MODIFIED", body(version="2", status={"ok": True}))])
    assert (echo.origin, echo.old["metadata"]["resourceVersion"]) == (EVERYONE, "1")


def test_an_event_that_overtakes_the_answer_is_still_known_for_an_echo(store):
    """It is held back until the answer tells whose it is."""
    listed(store, body(version="1"))
    store.begin_write("a", "default")
    assert not store.apply(None, [("MODIFIED", body(version="2"))])
    (echo,) = store.end_write("a", "default", body(version="2"), origin="me")
    assert echo.origin == "me"


def test_someone_elses_write_in_between_is_no_echo(store):
    """Before or after ours: it has another version."""
    listed(store, body(version="1"))
    store.begin_write("a", "default")
    store.end_write("a", "default", body(version="3"), origin="me")
    changes = store.apply(None, [("MODIFIED", body(version=version)) for version in "234"])
    assert [change.origin for change in changes] == [None, "me", None]


def test_own_writes_whose_answers_come_in_another_order_are_all_known(store):
    """Two writes at once: the server's order is that of the events, not that of the answers."""
    listed(store, body(version="1"))
    store.begin_write("a", "default")
    store.begin_write("a", "default")
    store.end_write("a", "default", body(version="3"), origin="me")
    store.end_write("a", "default", body(version="2"), origin="me")
    changes = store.apply(None, [("MODIFIED", body(version="2"))])
    assert store.get("u1")["metadata"]["resourceVersion"] == "3"
    changes += store.apply(None, [("MODIFIED", body(version="3"))])
    assert [change.origin for change in changes] == ["me", "me"]


@pytest.mark.parametrize("answers", ["23", "32"], ids=["in order", "out of order"])
def test_a_list_that_shows_the_last_own_write_ends_the_wait_for_those_before_it(store, answers):
    """Their events will not come any more: nothing is held against what follows."""
    listed(store, body(version="1"))
    for version in answers:
        store.begin_write("a", "default")
        store.end_write("a", "default", body(version=version), origin="me")
    listed(store, body(version="3"))
    assert store.statistics().expected_echoes == 0
    store.apply(None, [("MODIFIED", body(version="4"))])
    assert store.get("u1")["metadata"]["resourceVersion"] == "4"


def test_a_version_that_is_answered_twice_is_expected_once(store):
    """A write that changes nothing is answered with the version of the one before."""
    listed(store, body(version="1"))
    for version in ("3", "2", "3"):
        store.begin_write("a", "default")
        store.end_write("a", "default", body(version=version), origin="me")
    store.apply(None, [("MODIFIED", body(version=version)) for version in "234"])
    assert store.get("u1")["metadata"]["resourceVersion"] == "4"


def test_a_failed_write_leaves_no_expectation(store):
    """What was held back is told as anybody's."""
    listed(store, body(version="1"))
    store.begin_write("a", "default")
    store.apply(None, [("MODIFIED", body(version="2"))])
    (change,) = store.end_write("a", "default", None)
    assert change.origin is None and store.statistics().expected_echoes == 0


def test_a_write_that_changed_nothing_expects_no_event(store):
    """The server answers with the version that is known already."""
    listed(store, body(version="1"))
    store.begin_write("a", "default")
    store.end_write("a", "default", body(version="1"))
    assert store.statistics().expected_echoes == 0


def test_a_late_answer_does_not_revive_a_deleted_object(store):
    """The deletion came first: there is no ghost, and the namesake is untouched."""
    listed(store, body("a", "u1", "1"))
    store.begin_write("a", "default")
    store.apply(None, [("DELETED", body("a", "u1", "3")), ("ADDED", body("a", "u2", "4"))])
    changes = store.end_write("a", "default", body("a", "u1", "2"))
    assert kinds(changes) == [("DELETED", "u1"), ("ADDED", "u2")]
    assert store.get("u1") is None and store.find("a", "default")["metadata"]["uid"] == "u2"
    assert store.statistics().expected_echoes == 0


def test_the_addition_of_what_was_created_here_is_an_echo(store):
    """Of exactly that version; a change of it afterwards is not."""
    store.begin_write("a", "default")
    store.end_write("a", "default", body(version="5"), origin="me", created=True)
    assert store.get("u1") is None
    changes = store.apply(None, [("ADDED", body(version="5")), ("MODIFIED", body(version="6"))])
    assert [change.origin for change in changes] == ["me", None]


def test_what_was_created_here_and_changed_before_it_was_shown_is_no_echo(store):
    """The addition shows a version that somebody else has made of it."""
    store.begin_write("a", "default")
    store.end_write("a", "default", body(version="5"), origin="me", created=True)
    (added,) = store.apply(None, [("ADDED", body(version="6"))])
    assert added.origin is None and store.statistics().expected_echoes == 0


def test_objects_that_are_created_here_and_never_shown_are_not_remembered_for_ever(store):
    """A selector may not show them: the last ten thousand are known, the others' additions are anybody's."""
    for n in range(10_001):
        store.begin_write(f"o{n}", "default")
        store.end_write(f"o{n}", "default", body(f"o{n}", f"u{n}"), origin="me", created=True)
    assert store.statistics().expected_echoes == 10_000
    changes = store.apply(None, [("ADDED", body("o0", "u0")), ("ADDED", body("o10000", "u10000"))])
    assert [change.origin for change in changes] == [None, "me"]


def test_objects_without_a_version_are_compared_with_nothing(store):
    """Two that have none need not be the same: each event of them is an update."""
    listed(store, body(version=None, spec={"n": 1}))
    changes = store.apply(None, [("MODIFIED", body(version=None, spec={"n": 2}))])
    assert kinds(changes) == [("UPDATED", "u1")] and store.get("u1")["spec"] == {"n": 2}


def test_what_vanishes_is_told_with_its_newest_body(store):
    """An own write whose event has not come is a part of what is known of it."""
    listed(store, body(version="1"))
    store.begin_write("a", "default")
    store.end_write("a", "default", body(version="2", status={"ok": True}), origin="me")
    (gone,) = listed(store)
    assert gone.final_state_unknown and gone.body["status"] == {"ok": True}
    assert gone.old["metadata"]["resourceVersion"] == "1"


def test_what_was_held_back_in_a_scope_that_is_dropped_is_over(store):
    """The end of a write revives nothing there; what another scope held back still comes."""
    listed(store, body("a", "u1", namespace="n1"), scope="n1")
    store.begin_write("a", "n1")
    store.begin_write("a", "n2")
    store.apply("n1", [("MODIFIED", body("a", "u1", "2", namespace="n1"))])
    store.apply("n2", [("ADDED", body("a", "u2", "3", namespace="n2"))])
    assert kinds(store.drop("n1")) == [("DELETED", "u1")]
    assert not store.end_write("a", "n1", None)
    assert kinds(store.end_write("a", "n2", None)) == [("ADDED", "u2")]
    assert list(store) == ["u2"]
