"""The door to the server: what is not sent, and whose events are no news."""

import pytest

import opkit
from opkit import ReconcileStrategy

BOTH = pytest.mark.parametrize("strategy", list(ReconcileStrategy))


@BOTH
def test_own_status_writes_wake_nobody_up(webapps, strategy):
    """Under either strategy."""

    async def reconcile(patch, spec):
        patch.status["n"] = spec["n"]

    op = webapps(reconcile, strategy=strategy)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    op.modify(web, {"spec": {"n": 2}})
    op.settle()
    assert len(op.calls()) == 2 and op.get(web).status == {"n": 2}
    assert {one.by for one in op.refused()} == {"write-echo"}


@BOTH
@pytest.mark.parametrize("way", ["patch", "status", "json", "replace", "apply"])
def test_own_writes_in_any_way_wake_nobody_up(webapps, strategy, way):
    """Metadata, status, whole bodies: they are all echoes."""

    async def reconcile(cluster, name, body):
        label = {"metadata": {"labels": {"a": "b"}}}
        if way == "patch":
            await cluster.patch("webapps", name, None, label)
        elif way == "status":
            await cluster.patch_status("webapps", name, None, {"phase": "Ready"})
        elif way == "json":
            await cluster.patch("webapps", name, None, [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}],
                                type="json")  # fmt: skip
        elif way == "replace":
            fresh = await cluster.get("webapps", name)
            fresh["metadata"]["labels"] = {"a": "b"}
            await cluster.replace(fresh)
        else:
            await cluster.apply({"apiVersion": body["apiVersion"], "kind": body["kind"],
                                 "metadata": {"name": name, "labels": {"a": "b"}}})  # fmt: skip

    op = webapps(reconcile, strategy=strategy)
    op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    op.advance(100)
    assert len(op.calls()) == 1 and len(op.writes()) == 1


@BOTH
def test_somebody_elses_write_in_between_still_counts(webapps, strategy):
    """Before our write, while its event is still on its way."""
    seen = []

    async def reconcile(patch, spec):
        seen.append(spec["n"])
        patch.status["n"] = spec["n"]

    op = webapps(reconcile, strategy=strategy)
    op.fail("patch", "webapps", "status").delay(5)
    web = op.add("webapps", "shop", spec={"n": 1})
    op.advance(1)
    op.modify(web, {"spec": {"n": 2}})
    op.settle()
    assert seen == [1, 2] and op.get(web).status == {"n": 2}


def test_a_write_that_turns_out_to_change_nothing_claims_no_foreign_event(webapps):
    """The server answers it with the version of somebody else's change, whose event is no echo."""
    seen = []

    async def reconcile(patch, body):
        seen.append(dict(body["data"]))
        patch.setdefault("data", {})["ready"] = "yes"

    op = webapps(reconcile, resource=("v1", "configmaps"))
    op.fail("patch", "configmaps").delay(5)
    with op.hold("reconcile"):
        config = op.add("configmaps", "shop", data={"n": "1"})
        op.drain()
    op.advance(1)
    op.modify(config, {"data": {"n": "2", "ready": "yes"}})
    op.settle()
    assert seen == [{"n": "1"}, {"n": "2", "ready": "yes"}]


def test_a_merge_patch_that_would_change_nothing_is_not_sent(webapps):
    """Neither from `patch` nor from `cluster`; a null for what is not there neither."""

    async def reconcile(patch, cluster, name):
        patch.status["phase"] = "Ready"
        patch.status["gone"] = None
        await cluster.patch("webapps", name, None, {"metadata": {"labels": {"a": "b"}}})
        await cluster.patch_status("webapps", name, None, {"phase": "Ready"})

    op = webapps(reconcile)
    op.add("webapps", "shop", labels={"a": "b"}, status={"phase": "Ready"})
    op.settle()
    assert not op.writes() and len(op.skipped_writes()) == 3


def test_a_skipped_write_still_gives_the_body(webapps):
    """As the server would answer it."""
    answers = []

    async def reconcile(cluster, name):
        answers.append(await cluster.patch("webapps", name, None, {"spec": {"n": 1}}))

    op = webapps(reconcile)
    op.add("webapps", "shop", spec={"n": 1})
    op.settle()
    assert answers[0].spec == {"n": 1} and not op.writes()


def test_the_answer_to_an_own_write_is_what_the_next_run_sees(webapps):
    """Before its event has come."""
    seen = []

    async def reconcile(patch, status, requeue):
        seen.append(status.get("runs", 0))
        patch.status["runs"] = status.get("runs", 0) + 1
        if len(seen) < 3:
            requeue()

    op = webapps(reconcile)
    op.drain()
    web = op.add("webapps", "shop")
    op.drain()
    op.settle()
    assert seen == [0, 1, 2] and op.get(web).status == {"runs": 3}


@pytest.mark.parametrize("sent, skipped", [(True, False), (False, True)], ids=["sent", "skipped"])
def test_writes_stand_among_the_decisions(webapps, sent, skipped):
    """Sent or not, and why not."""

    async def reconcile(patch):
        patch.status["phase"] = "Ready"

    op = webapps(reconcile)
    web = op.add("webapps", "shop", **({} if sent else {"status": {"phase": "Ready"}}))
    op.settle()
    (write,) = [one for one in op.explain(web) if one["what"] == "write"]
    assert (write["sent"], write["subresource"], bool(write["why"])) == (sent, "status", skipped)


def test_a_process_that_does_not_lead_writes_nothing(webapps):
    """Its own client refuses."""
    errors = []

    def reconcile(cluster, name):
        cluster.get("webapps", name)
        try:
            cluster.patch("webapps", name, None, {"spec": {"n": 2}})
        except opkit.Forbidden as error:
            errors.append(error)

    op = webapps(reconcile)
    op.fail("get", "webapps").delay(10)
    op.add("webapps", "shop", spec={"n": 1})
    op.advance(5)
    op.lose_leadership()
    op.advance(10)
    assert len(errors) == 1 and op.get("webapps", "shop").spec == {"n": 1}


def test_a_patch_for_the_newest_version_that_changes_nothing_claims_no_foreign_event(webapps):
    """What somebody else has made before it, and no stream has shown yet, is still their change."""
    labels = []

    async def reconcile(cluster, name, meta):
        labels.append(dict(meta.labels))
        if len(labels) == 1:
            version = (await cluster.get("webapps", name)).metadata["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version, "labels": {"a": "b"}}}
            await cluster.patch("webapps", name, None, patch)

    op = webapps(reconcile, strategy=ReconcileStrategy.BY_RESOURCE_VERSION)
    op.drain()
    with op.hold("reconcile"):
        web = op.add("webapps", "shop")
        op.drain()
        op.watch("webapps").hold()
        op.modify(web, {"metadata": {"labels": {"a": "b"}}})
    op.drain()
    op.watch("webapps").release()
    op.settle()
    assert labels == [{}, {"a": "b"}]


def test_an_apply_that_changes_nothing_claims_no_foreign_event(webapps):
    """The server answers it with the version of somebody else's change, which is no echo and no creation."""
    seen = []

    async def reconcile(cluster, name, body, meta):
        seen.append(meta.annotations.get("by"))
        await cluster.apply({"apiVersion": body["apiVersion"], "kind": body["kind"],
                             "metadata": {"name": name, "labels": {"a": "b"}}})  # fmt: skip

    op = webapps(reconcile, strategy=ReconcileStrategy.BY_RESOURCE_VERSION)
    web = op.add("webapps", "shop")
    op.settle()
    with op.hold("reconcile"):
        op.modify(web, {"metadata": {"annotations": {"by": "somebody"}}})
        op.drain()
        op.watch("webapps").hold()
        op.modify(web, {"metadata": {"annotations": None}})
        version = op.get(web)["metadata"]["resourceVersion"]
    op.drain()
    assert len(op.writes()) == 2 and op.get(web)["metadata"]["resourceVersion"] == version
    op.watch("webapps").release()
    op.settle()
    assert seen == [None, "somebody", None]
