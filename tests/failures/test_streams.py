"""Lists and watches that go wrong, in the whole runtime."""

import opkit


def test_a_change_missed_by_a_silent_watch_arrives_once(webapps):
    """A connection that stays open and says nothing is given up; what changed meanwhile is one run."""

    async def reconcile(spec):
        return None

    op = webapps(reconcile)
    web = op.add("webapps", "shop", spec={"size": 1})
    op.settle()
    op.watch("webapps").silence()
    op.modify(web, {"spec": {"size": 2}})
    op.drain()
    assert len(op.calls()) == 1
    op.settle()
    assert len(op.calls()) == 2


def test_one_object_that_the_handler_cannot_read_holds_up_nobody(webapps):
    """A spec that is a text: its own runs fail and are retried; others go on; a new version heals it."""
    seen = []

    async def reconcile(name, spec):
        seen.append((name, spec["size"]))

    op = webapps(reconcile, opkit.Settings(retry=opkit.Retry(initial=10, jitter=0)))
    op.add("webapps", "one", spec={"size": 1})
    bad = op.add("webapps", "bad", spec="text")
    op.add("webapps", "two", spec={"size": 2})
    op.drain()
    assert seen == [("one", 1), ("two", 2)]
    assert [call.outcome for call in op.calls(ref=bad)] == ["failure"]
    op.modify(bad, {"spec": {"size": 3}})
    op.drain()
    assert seen[-1] == ("bad", 3)


def test_a_lagging_server_makes_nobody_stop(webapps):
    """A body older than what was seen is run like a restored one, and the newer one that comes again is run too."""
    seen = []

    async def reconcile(meta):
        seen.append(meta["generation"])

    op = webapps(reconcile)
    web = op.add("webapps", "shop", spec={"size": 1})
    old = op.get(web)
    op.drain()
    op.modify(web, {"spec": {"size": 2}})
    op.drain()
    new = op.get(web)
    op.inject("MODIFIED", dict(old))
    assert seen == [1, 2, 1]
    op.inject("MODIFIED", dict(new))
    assert seen == [1, 2, 1, 2]
    op.modify(web, {"spec": {"size": 3}})
    op.drain()
    assert seen[-1] == 3


def test_what_comes_while_standing_by_is_kept_for_the_start(webapps):
    """Events before work may begin are not lost; what went before it is not worked on."""
    seen = []

    async def reconcile(name):
        seen.append(name)

    op = webapps(reconcile)
    op.drain()
    op.lose_leadership()
    gone = op.add("webapps", "a")
    op.drain()
    op.delete(gone)
    op.add("webapps", "b")
    op.drain()
    assert not seen
    op.gain_leadership()
    op.settle()
    assert seen == ["b"]


def test_a_permission_that_is_taken_away_deletes_nothing(registry, event_injector):
    """403 where it worked before: what is known is kept, and it goes on when the permission is back."""
    gone, seen = [], []

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile(name):
        seen.append(name)

    @opkit.delete("example.com", "v1", "webapps", registry=registry)
    async def delete(name):
        gone.append(name)

    op = event_injector(registry)
    web = op.add("webapps", "shop")
    op.settle()
    op.fail("watch", "webapps").times(6, status=403)
    op.watch("webapps").error(403)
    op.add("webapps", "later")
    op.advance(10)
    assert op.trigger(web) and not gone
    op.settle()
    op.advance(300)
    assert not gone and "later" in seen
