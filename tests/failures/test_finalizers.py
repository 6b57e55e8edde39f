"""Finalizers and deletions: what goes wrong between two processes, two writers, two releases."""

import opkit

WEBAPPS = ("example.com", "v1", "webapps")


def test_two_quick_events_attach_one_finalizer(registry, event_injector):
    """The second run knows the server's answer to the first, whether or not its event has come."""

    @opkit.reconcile(*WEBAPPS, registry=registry)
    async def reconcile(requeue, trigger):
        if opkit.Trigger.REQUEUE not in trigger:
            requeue()

    @opkit.finalizer(*WEBAPPS, registry=registry)
    async def cleanup():
        return None

    op = event_injector(registry)
    web = op.add("webapps", "shop")
    with op.burst():
        op.modify(web, {"spec": {"size": 1}})
        op.modify(web, {"spec": {"size": 2}})
    op.settle()
    assert op.get(web)["metadata"]["finalizers"] == ["example.com/cleanup"]
    assert len(op.writes(web)) == 1


def test_an_old_name_is_run_and_taken_off(registry, event_injector):
    """A finalizer of an earlier release is declared with `when` that accepts nothing: never put on, yet honoured."""
    cleaned = []

    @opkit.reconcile(*WEBAPPS, registry=registry)
    async def reconcile():
        return None

    @opkit.finalizer(*WEBAPPS, registry=registry, name="example.com/new")
    async def cleanup(name):
        cleaned.append(("new", name))

    @opkit.finalizer(*WEBAPPS, registry=registry, name="old.example.org/fin", when=lambda body: False)
    async def legacy(name):
        cleaned.append(("old", name))

    op = event_injector(registry)
    old = op.add("webapps", "old", finalizers=["old.example.org/fin"])
    young = op.add("webapps", "young")
    op.settle()
    assert op.get(young)["metadata"]["finalizers"] == ["example.com/new"]
    op.delete(old)
    op.delete(young)
    op.settle()
    assert not op.exists(old) and not op.exists(young)
    assert ("old", "old") in cleaned and ("old", "young") not in cleaned


def test_what_is_terminating_at_the_start_is_only_cleaned_up(registry, event_injector):
    """No reconcile handler takes up work for an object that is already on its way out."""
    held = {}

    @opkit.reconcile(*WEBAPPS, registry=registry)
    async def reconcile(uid):
        held[uid] = object()

    @opkit.finalizer(*WEBAPPS, registry=registry)
    async def cleanup(uid):
        held.pop(uid, None)

    op = event_injector(registry)
    web = op.add("webapps", "shop", finalizers=["example.com/cleanup"])
    op.delete(web)
    op.settle()
    assert not held and not op.exists(web)
    assert [call.handler for call in op.calls()] == ["cleanup"]


def test_what_exists_at_the_start_is_reconciled(webapps):
    """Nobody can report what went while the operator was off, so all that is left is looked at."""

    async def reconcile():
        return None

    op = webapps(reconcile)
    gone = op.add("webapps", "a")
    op.add("webapps", "b")
    op.settle()
    op.restart(kill=True)
    op.delete(gone)
    op.settle()
    assert [call.name for call in op.calls()] == ["a", "b", "b"]
