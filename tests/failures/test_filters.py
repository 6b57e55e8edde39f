"""Filters and selectors where things are not as they should be."""

import opkit


def test_a_refused_deletion_leaves_nothing_behind(webapps):
    """The delete filter keeps the event from the handler, not the end of the object from the runtime."""

    async def reconcile():
        return opkit.success(requeue_after=60)

    op = webapps(reconcile, on_delete=lambda body: False)
    web = op.add("webapps", "shop")
    op.drain()
    assert op.scheduled()
    op.delete(web)
    op.drain()
    assert not op.scheduled() and not op.trigger(("webapps", "shop"))
    op.settle()
    assert len(op.calls()) == 1


def test_a_filter_is_asked_only_about_what_it_was_written_for(registry, event_injector):
    """The resource and the selector come first: a filter that reads `spec.size` never meets what has none."""
    asked = []

    def large(body):
        asked.append(body["spec"]["size"])
        return True

    @opkit.reconcile("example.com", "v1", "webapps", label_selector="tier=web", generic=large, registry=registry)
    async def webapp():
        return None

    @opkit.reconcile("example.com", "v1", "gadgets", registry=registry)
    async def gadget():
        return None

    for strategy in opkit.WatchStrategy:
        asked.clear()
        settings = opkit.Settings()
        settings.watch.strategy = strategy
        op = event_injector(registry, settings)
        op.add("gadgets", "other")
        op.add("webapps", "unlabelled")
        op.add("webapps", "labelled", labels={"tier": "web"}, spec={"size": 3})
        op.settle()
        assert asked == [3]


def test_a_write_of_each_run_is_no_loop_even_without_default_filters(registry, event_injector):
    """Where each write counts (no status subresource, no default filters), the echo of an own one is known."""

    @opkit.reconcile("v1", "configmaps", registry=registry, default_filters=False)
    async def reconcile(patch, body):
        patch["data"] = {"seen": str(int((body.get("data") or {}).get("seen", 0)) + 1)}

    op = event_injector(registry)
    op.add("configmaps", "shop")
    op.settle()
    assert len(op.calls()) == 1
    assert op.get("configmaps", "shop")["data"] == {"seen": "1"}
