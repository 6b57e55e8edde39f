"""Kubernetes Events: what is posted again, and what is counted up."""

import opkit


def test_an_event_that_has_expired_is_posted_again(event_injector, registry):
    """The server forgets Events after a while: the next equal one is not lost with it."""

    @opkit.reconcile("example.com", "v1", "webs", registry=registry)
    async def reconcile(event):
        event("Seen", "It was seen.")

    op = event_injector(registry)
    web = op.add("webs", "a")
    op.settle()
    (posted,) = op.list("events")
    op.delete(("events", posted.name))
    op.modify(web, {"spec": {"n": 1}})
    op.settle()
    assert [one["reason"] for one in op.list("events")] == ["Seen"]
