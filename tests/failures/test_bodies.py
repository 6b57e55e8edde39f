"""What is read from and written to objects."""

import pytest

import opkit


def test_no_bookkeeping_is_left_on_objects(registry, event_injector):
    """A Secret of 300 KiB and a handler with a long name: no annotation, no label, no finalizer, no write at all."""

    async def reconcile(body, name):
        raise opkit.TemporaryError("once more", delay=5) if len(op.calls()) == 1 else opkit.PermanentError("no")

    reconcile.__name__ = "r" * 120
    opkit.reconcile("v1", "secrets", registry=registry)(reconcile)
    op = event_injector(registry)
    secret = op.add("secrets", "large", data={"key": "eHh4" * (75 * 1024)})
    before = op.get(secret)
    op.settle()
    assert [call.outcome for call in op.calls()] == ["failure", "failure"]
    assert not op.writes() and op.get(secret) == before


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param({"gone": None}, {"kept": 1}, id="removed"),
        pytest.param({"deep": {"gone": None, "zero": 0}}, {"kept": 1, "gone": 1, "deep": {"zero": 0}}, id="nested"),
    ],
)
def test_none_removes_and_zero_stays(webapps, written, expected):
    """In a merge patch None means: away with it. Everything else that is false is a value."""

    async def reconcile(patch):
        patch.status.update(written)

    op = webapps(reconcile)
    web = op.add("webapps", "shop", status={"kept": 1, "gone": 1})
    op.settle()
    assert op.get(web).status == expected


def test_keys_with_slashes_and_tildes_are_patched_as_they_are_meant(webapps):
    """`e.io/a` is `e.io~1a` in a JSON pointer, and `a~b` is `a~0b`."""

    async def reconcile(cluster, name, namespace):
        patch = [{"op": "add", "path": "/metadata/annotations", "value": {}},
                 {"op": "add", "path": "/metadata/annotations/e.io~1a", "value": "yes"},
                 {"op": "add", "path": "/spec", "value": {}},
                 {"op": "add", "path": "/spec/a~0b", "value": 1}]  # fmt: skip
        await cluster.patch("webapps", name, namespace, patch, type="json")

    op = webapps(reconcile)
    web = op.add("webapps", "shop")
    op.settle()
    assert (op.get(web).annotations, op.get(web).spec) == ({"e.io/a": "yes"}, {"a~b": 1})
