"""The `cluster` argument: the API as handlers see it, async and plain alike."""

import asyncio
import weakref

import pytest

import opkit
from opkit.cluster.body import Body
from opkit.errors import ForgottenAwait
from opkit.flow.access import Calls

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}


@pytest.fixture(params=["async", "plain"])
def within(request, webapps):
    """Do something with `cluster` in a run of the webapp default/shop: a generator yields each of its calls."""

    def run(act, prepare=lambda op: None):
        outcome = {}

        async def asynchronous(cluster, body):
            steps = act(cluster, body)
            try:
                wanted = next(steps)
                while True:
                    try:
                        answer = await wanted
                    except opkit.ApiError as error:
                        wanted = steps.throw(error)
                    else:
                        wanted = steps.send(answer)
            except StopIteration as end:
                outcome["value"] = end.value

        def plain(cluster, body):
            steps = act(Lazy(cluster), body)
            try:
                wanted = next(steps)
                while True:
                    try:
                        answer = wanted()
                    except opkit.ApiError as error:
                        wanted = steps.throw(error)
                    else:
                        wanted = steps.send(answer)
            except StopIteration as end:
                outcome["value"] = end.value

        op = webapps(asynchronous if request.param == "async" else plain)
        prepare(op)
        op.add("webapps", "shop", spec={"n": 1})
        op.settle()
        assert op.calls()[0].outcome == "success", op.timeline()
        return op, outcome["value"]

    return run


class Lazy:
    """The blocking access, whose calls are made when they are asked for, as those of the other are awaited."""

    def __init__(self, access):
        self._access = access

    def __getattr__(self, name):
        return lambda *args, **options: lambda: getattr(self._access, name)(*args, **options)


def test_get_gives_the_object_as_it_is_on_the_server(within):
    """In the handled object's namespace if none is named."""

    def act(cluster, body):
        return (yield cluster.get("webapps", "shop"))

    _, got = within(act)
    assert isinstance(got, Body) and got.spec == {"n": 1}


@pytest.mark.parametrize("call, error", [
    (lambda cluster: cluster.get(("v1", "configmaps"), "nobody"), opkit.NotFound),
    (lambda cluster: cluster.get("nonsense", "nobody"), opkit.NotFound),
    (lambda cluster: cluster.create({**CONFIG, "metadata": {"name": "there"}}), opkit.AlreadyExists),
    (lambda cluster: cluster.delete(("v1", "configmaps"), "there", uid="another"), opkit.Conflict),
    (lambda cluster: cluster.patch(("v1", "configmaps"), "nobody", None, {"data": {"a": "b"}}), opkit.NotFound),
], ids=["no object", "no resource", "exists", "another uid", "patch nobody"])  # fmt: skip
def test_errors_are_of_a_class_of_their_own(within, call, error):
    """Each with status, reason and message."""

    def act(cluster, body):
        try:
            yield call(cluster)
        except opkit.ApiError as caught:
            return caught

    _, caught = within(act, lambda op: op.add("configmaps", "there"))
    assert type(caught) is error and caught.status and caught.reason and caught.message


def test_list_looks_everywhere_unless_a_namespace_is_named(within):
    """With selectors."""

    def act(cluster, body):
        everywhere = yield cluster.list(("v1", "configmaps"))
        here = yield cluster.list(("v1", "configmaps"), namespace="default")
        some = yield cluster.list(("v1", "configmaps"), label_selector="a=b")
        one = yield cluster.list(("v1", "configmaps"), field_selector="metadata.name=x")
        return [sorted(item.name for item in found) for found in (everywhere, here, some, one)]

    def prepare(op):
        op.add("configmaps", "x", labels={"a": "b"})
        op.add("configmaps", "y")
        op.add("configmaps", "z", "elsewhere", labels={"a": "b"})

    assert within(act, prepare)[1] == [["x", "y", "z"], ["x", "y"], ["x", "z"], ["x"]]


def test_a_body_without_namespace_gets_the_handled_objects(within):
    """Where its kind has one."""

    def act(cluster, body):
        made = yield cluster.create({**CONFIG, "metadata": {"name": "made"}})
        space = yield cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "space"}})
        return made.namespace, space.namespace

    assert within(act)[1] == ("default", None)


def test_owner_adds_the_owner_reference(within):
    """As controller, blocking the deletion, so that garbage collection takes it along."""

    def act(cluster, body):
        made = yield cluster.create({**CONFIG, "metadata": {"name": "made"}}, owner=body)
        return made.metadata["ownerReferences"], body.uid

    (reference,), uid = within(act)[1]
    assert reference["uid"] == uid and reference["kind"] == "Webapp"
    assert reference["controller"] is reference["blockOwnerDeletion"] is True


def test_apply_creates_and_changes_only_what_it_names(within):
    """In the operator's name; fields that are named no more go."""

    def act(cluster, body):
        yield cluster.apply({**CONFIG, "metadata": {"name": "made"}, "data": {"a": "1", "b": "1"}})
        yield cluster.patch(("v1", "configmaps"), "made", None, {"data": {"foreign": "1"}})
        return (yield cluster.apply({**CONFIG, "metadata": {"name": "made"}, "data": {"a": "2"}}))

    _, applied = within(act)
    assert applied["data"] == {"a": "2", "foreign": "1"}


def test_replace_is_refused_when_the_object_has_changed(within):
    """By the version in the body."""

    def act(cluster, body):
        old = yield cluster.get(("v1", "configmaps"), "there")
        yield cluster.patch(("v1", "configmaps"), "there", None, {"data": {"a": "1"}})
        try:
            yield cluster.replace(old)
        except opkit.Conflict:
            return "conflict"

    assert within(act, lambda op: op.add("configmaps", "there"))[1] == "conflict"


def test_patch_status_touches_only_the_status(within):
    """Spec and labels are as before."""

    def act(cluster, body):
        yield cluster.patch_status("webapps", "shop", None, {"status": {"phase": "ok"}})
        return (yield cluster.patch_status("webapps", "shop", None, {"more": 0}))

    op, answer = within(act)
    assert answer.status == {"phase": "ok", "more": 0} and op.get("webapps", "shop").spec == {"n": 1}


def test_delete_asks_for_the_deletion(within):
    """By name, or only of the very object."""

    def act(cluster, body):
        yield cluster.delete(("v1", "configmaps"), "x")

    op, _ = within(act, lambda op: op.add("configmaps", "x"))
    assert not op.exists("configmaps", "x")


@pytest.mark.parametrize("body", [{}, {"kind": "ConfigMap"}, {"apiVersion": "v1"}], ids=str)
def test_a_body_that_does_not_say_what_it_is_is_refused(webapps, body):
    """With what is missing."""

    async def reconcile(cluster):
        await cluster.create({**body, "metadata": {"name": "x"}})

    op = webapps(reconcile)
    op.add("webapps", "shop")
    op.drain()
    assert isinstance(op.calls()[0].error, TypeError)


def test_an_owner_in_another_namespace_is_refused(webapps):
    """Kubernetes would collect the child at once."""

    async def reconcile(cluster, body):
        await cluster.create({**CONFIG, "metadata": {"name": "x", "namespace": "other"}}, owner=body)

    op = webapps(reconcile)
    op.add("webapps", "shop")
    op.drain()
    assert isinstance(op.calls()[0].error, ValueError)


def test_the_given_bodies_are_left_as_they_are(within):
    """What a handler passes is copied."""
    given = {**CONFIG, "metadata": {"name": "made"}}

    def act(cluster, body):
        yield cluster.create(given, owner=body)

    within(act)
    assert given == {**CONFIG, "metadata": {"name": "made"}}


def test_the_blocking_access_is_refused_in_the_loop(webapps):
    """It would wait for itself for ever."""
    kept = []

    def plain(cluster, name):
        if name == "first":
            kept.append(cluster)

    op = webapps(plain)
    op.add("webapps", "first")
    op.settle()

    async def misuse():
        kept[0].get("webapps", "first")

    task = op._loop.create_task(misuse())
    op.drain()
    assert isinstance(task.exception(), RuntimeError)


# A forgotten await.


@pytest.mark.parametrize(
    "call",
    [
        lambda cluster: cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}),
        lambda cluster: cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}),
        lambda cluster: cluster.get("configmaps", "c"),
        lambda cluster: cluster.list("configmaps"),
        lambda cluster: cluster.patch("configmaps", "c", None, {}),
        lambda cluster: cluster.patch_status("configmaps", "c", None, {}),
        lambda cluster: cluster.replace({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}),
        lambda cluster: cluster.delete("configmaps", "c"),
        lambda cluster: cluster.attach_finalizer("example.com/f"),
    ],
    ids=["create", "apply", "get", "list", "patch", "patch_status", "replace", "delete", "attach_finalizer"],
)
def test_a_forgotten_await_fails_the_run_and_the_test(registry, call):
    """Nothing was done, so it is no success; and a test must not pass with it."""
    from opkit.testing import FakeEventInjector

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile(cluster):
        call(cluster)

    op = FakeEventInjector(registry)
    op.add("webapps", "shop")
    with pytest.raises(opkit.OpkitError, match=r"cluster\.\w+\(\.\.\.\): called without `await`"):
        op.drain()
    assert op.calls()[0].outcome == "failure"
    op.close()


def test_a_task_of_a_call_is_no_forgotten_await(registry, event_injector):
    """Calls may be gathered, or made tasks of."""
    import asyncio

    body = {"apiVersion": "v1", "kind": "ConfigMap"}

    @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
    async def reconcile(cluster):
        await asyncio.gather(*(cluster.create({**body, "metadata": {"name": f"c{n}"}}) for n in range(200)))
        async with asyncio.TaskGroup() as group:
            group.create_task(cluster.create({**body, "metadata": {"name": "in-a-group"}}))
        await asyncio.wait_for(cluster.get("configmaps", "c0"), 5)

    op = event_injector(registry)
    op.add("webapps", "shop")
    op.settle()
    assert [str(call.outcome) for call in op.calls()] == ["success"] and len(op.list("configmaps")) == 201


def test_a_handler_that_raises_is_told_by_its_own_error(registry, event_injector):
    """What it has not awaited before that is the lesser trouble."""

    @opkit.reconcile("example.com", "v1", "webapps", retry=opkit.Retry(attempts=1), registry=registry)
    async def reconcile(cluster):
        cluster.get("configmaps", "c").close()
        raise ValueError("boom")

    op = event_injector(registry)
    op.add("webapps", "shop")
    op.settle()
    assert isinstance(op.calls()[0].error, ValueError)


def test_calls_that_are_over_are_not_kept_for_the_rest_of_the_run():
    """A run may make thousands: what came of them is not held in memory, and a forgotten one is still told of."""

    async def nothing():
        pass

    async def many():
        calls, seen = Calls(), []
        calls.note("list", nothing())
        for _ in range(1000):
            call = calls.note("get", nothing())
            seen.append(weakref.ref(call))
            await call
            del call
        assert sum(one() is not None for one in seen) <= 100
        with pytest.raises(ForgottenAwait, match="list") as raised:
            await calls.check()
        assert "get" not in str(raised.value)

    asyncio.run(many())
