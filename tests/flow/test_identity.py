"""Writes reach the very object that they are meant for, and no later one of its name."""

import pytest

import opkit

PRIMARY = ("example.com", "v1", "webs")


@pytest.fixture
def registry():
    return opkit.Registry()


def replaced_during_its_run(op, handler="reconcile", **body):
    """An object that is deleted and made again while its run is under way; the stream tells of that later."""
    op.drain()
    with op.hold(handler):
        first = op.add("webs", "a", **body)
        op.drain()
        op.watch("webs").hold()
        op.delete(first)
        second = op.add("webs", "a", **body)
    op.drain()
    return first, second


WRITES = {
    "status-patch": lambda uid, patch: patch.status.update(made_for=uid),
    "metadata-patch": lambda uid, patch: patch.metadata.update(annotations={"made_for": uid}),
    "both": lambda uid, patch: (patch.status.update(made_for=uid), patch.spec.update(made_for=uid)),
}


@pytest.mark.parametrize("what", WRITES)
def test_a_late_patch_does_not_land_on_the_namesake(event_injector, registry, what):
    """The server refuses it, the run is over with that, and the namesake gets its own."""

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(uid, patch):
        WRITES[what](uid, patch)

    op = event_injector(registry)
    first, second = replaced_during_its_run(op)
    assert first.uid not in str(op.get(second))
    op.watch("webs").release()
    op.settle()
    assert op.get(second).uid in str({**op.get(second), "metadata": op.get(second).annotations})


OWN = {"apiVersion": "/".join(PRIMARY[:2]), "kind": PRIMARY[2].removesuffix("s").capitalize()}

CALLS = {
    "patch": lambda cluster, uid: cluster.patch(PRIMARY, "a", None, {"spec": {"by": uid}}),
    "json-patch": lambda cluster, uid: cluster.patch(
        PRIMARY, "a", "default", [{"op": "add", "path": "/metadata/labels", "value": {"by": uid}}], "json"
    ),
    "patch-status": lambda cluster, uid: cluster.patch_status(PRIMARY, "a", "default", {"by": uid}),
    "apply": lambda cluster, uid: cluster.apply({**OWN, "metadata": {"name": "a", "labels": {"by": uid}}}),
    "attach": lambda cluster, uid: cluster.attach_finalizer(f"example.com/{uid}"),
    "delete": lambda cluster, uid: cluster.delete(PRIMARY, "a"),
}


def test_an_apply_does_not_bring_back_the_object_that_is_run(event_injector, registry):
    """It was deleted meanwhile: what its handler applies to it is refused, and makes no new one."""

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(uid, cluster):
        await CALLS["apply"](cluster, uid)

    op = event_injector(registry)
    op.drain()
    with op.hold("reconcile"):
        web = op.add("webs", "a")
        op.drain()
        op.delete(web)
    op.settle()
    assert not op.exists("webs", "a")


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("call", CALLS)
def test_a_handler_that_writes_its_own_object_by_name_means_that_very_one(event_injector, registry, call, is_async):
    """What `cluster` is asked to do to it is refused for a namesake, in words."""
    refused = []

    async def asynchronous(uid, cluster):
        try:
            await CALLS[call](cluster, uid)
        except opkit.ApiError as error:
            refused.append(error.status)

    def synchronous(uid, cluster):
        try:
            CALLS[call](cluster, uid)
        except opkit.ApiError as error:
            refused.append(error.status)

    opkit.reconcile(*PRIMARY, registry=registry)(asynchronous if is_async else synchronous)
    op = event_injector(registry)
    first, second = replaced_during_its_run(op, "asynchronous" if is_async else "synchronous")
    assert op.exists(second) and first.uid not in str(op.get(second))
    assert refused[0] in (404, 409)


def test_a_status_patch_on_a_busy_object_arrives(event_injector, registry):
    """Somebody else has written meanwhile: the version in the patch is old, and it is sent again for the new one."""

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(spec, patch):
        patch.status["n"] = spec["n"]

    op = event_injector(registry)
    op.drain()
    with op.hold("reconcile"):
        web = op.add("webs", "a", spec={"n": 1})
        op.drain()
        op.watch("webs").hold()
        op.modify(web, {"metadata": {"labels": {"seen": "not-yet"}}})
        op.modify_status(web, {"by": "somebody"})
    op.drain()
    (call,) = op.calls()
    assert op.get(web).status == {"n": 1, "by": "somebody"} and call.outcome == "success"
    op.watch("webs").release()
    op.settle()
    assert len(op.calls()) == 1


def test_a_patch_that_the_server_refuses_for_itself_is_sent_once(event_injector, registry):
    """A refusal that is not about the version is the patch's own fault."""

    @opkit.reconcile(*PRIMARY, retry=opkit.Retry(attempts=1), registry=registry)
    async def reconcile(patch):
        patch.status["n"] = 1

    op = event_injector(registry)
    op.fail("patch", "webs", "status").times(5, status=422)
    web = op.add("webs", "a")
    op.settle()
    assert [str(call.outcome) for call in op.calls()] == ["failure"] and op.get(web).status == {}


def test_a_status_is_written_by_those_who_may_not_look(event_injector, registry):
    """Without the right to get the object, a refused version is a conflict, which is tried again with the next body."""

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(spec, patch):
        patch.status["n"] = spec["n"]

    op = event_injector(registry)
    op.fail("get", "webs").times(100, status=403)
    op.drain()
    with op.hold("reconcile"):
        web = op.add("webs", "a", spec={"n": 1})
        op.drain()
        op.watch("webs").hold()
        op.modify_status(web, {"by": "somebody"})
    op.drain()
    assert (op.calls()[0].outcome, op.calls()[0].error.status) == ("failure", 409)
    op.watch("webs").release()
    op.settle()
    assert op.get(web).status == {"n": 1, "by": "somebody"}


def test_the_cleanup_of_the_former_takes_no_finalizer_off_the_namesake(event_injector, registry):
    """Also where the namesake is being deleted already."""
    cleaned = []

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile():
        pass

    @opkit.finalizer(*PRIMARY, name="example.com/clean", registry=registry)
    async def clean(uid):
        cleaned.append(uid)

    op = event_injector(registry)
    first = op.add("webs", "a")
    op.settle()
    with op.hold("clean"):
        op.delete(first)
        op.drain()
        op.watch("webs").hold()
        op.modify(first, {"metadata": {"finalizers": None}})
        second = op.add("webs", "a", finalizers=["example.com/clean", "other.io/keep"])
        op.delete(second)
    op.drain()
    assert "example.com/clean" in op.get(second).metadata["finalizers"]
    op.watch("webs").release()
    op.settle()
    assert cleaned == [first.uid, second.uid]
    assert op.get(second).metadata["finalizers"] == ["other.io/keep"]


def test_writes_carry_the_name_of_the_controller(event_injector, registry):
    """Patches, finalizers, and all that `cluster` does: the operator's name and the controller's."""

    @opkit.startup(registry=registry)
    def configure(settings):
        settings.name = "shop"

    @opkit.reconcile(*PRIMARY, controller="main", registry=registry)
    async def reconcile(name, patch, cluster):
        patch.status["n"] = 1
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-created"}}
        await cluster.create(body)
        applied = {**body, "metadata": {"name": f"{name}-applied"}, "data": {"a": "b"}}
        await cluster.apply(applied)
        await cluster.apply({**applied, "data": {"c": "d"}}, manager="another")
        await cluster.patch(("v1", "configmaps"), f"{name}-created", "default", {"data": {"a": "b"}})

    @opkit.finalizer(*PRIMARY, registry=registry)
    async def clean():
        pass

    def managers(op, *ref):
        return {one["manager"] for one in op.get(*ref).metadata["managedFields"]} - {"someone-else"}

    op = event_injector(registry)
    op.add("webs", "a")
    op.settle()
    assert managers(op, "webs", "a") == managers(op, "configmaps", "a-created") == {"shop/main"}
    assert managers(op, "configmaps", "a-applied") == {"shop/main", "another"}
    assert op.get("configmaps", "a-applied")["data"] == {"a": "b", "c": "d"}


def test_two_controllers_keep_their_applied_fields(event_injector, registry):
    """Each applies in a name of its own, so neither takes the other's fields away."""
    for controller in ("one", "two"):

        @opkit.reconcile(*PRIMARY, controller=controller, registry=registry)
        async def reconcile(name, cluster, controller=controller):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {controller: "x"}}
            await cluster.apply(body)

        reconcile.__name__ = controller

    op = event_injector(registry)
    op.add("webs", "a")
    op.settle()
    assert op.get("configmaps", "a")["data"] == {"one": "x", "two": "x"}


@pytest.mark.parametrize("subresource", [True, False], ids=["status", "object"])
def test_the_authors_own_version_is_held_against_the_object(event_injector, registry, subresource):
    """A patch of the handled object with an old version in it is a conflict, and not sent again for the new one."""
    answers = []

    @opkit.reconcile(*PRIMARY, registry=registry)
    async def reconcile(cluster, name):
        patch = {"metadata": {"resourceVersion": "1"}, "status" if subresource else "spec": {"n": 1}}
        send = cluster.patch_status if subresource else cluster.patch
        try:
            await send(PRIMARY, name, None, patch)
        except opkit.Conflict as error:
            answers.append(error.status)

    op = event_injector(registry)
    web = op.add("webs", "a", spec={})
    op.settle()
    assert answers == [409] and "n" not in {**op.get(web).spec, **op.get(web).status}
