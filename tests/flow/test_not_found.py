"""404: an object that is gone is no failure; a path that the server does not know (yet) is one."""

import pytest

import opkit

WEBS = ("example.com", "v1", "webs")


@pytest.fixture
def registry():
    registry = opkit.Registry()

    @opkit.reconcile(*WEBS, registry=registry)
    async def reconcile(spec, patch):
        patch.status["n"] = spec.get("n")

    @opkit.finalizer(*WEBS, registry=registry)
    async def clean(name):
        pass

    return registry


@pytest.mark.parametrize("subresource", [None, "status"], ids=["attaching-a-finalizer", "writing-status"])
def test_a_path_that_is_not_known_yet_is_a_failure(event_injector, registry, subresource):
    """A server that starts answers 404 for what it will serve: the write is tried again, not forgotten."""
    op = event_injector(registry)
    op.fail("patch", "webs", subresource).once(status=404)
    web = op.add("webs", "a", spec={"n": 1})
    op.settle()
    assert op.get(web).status == {"n": 1}
    assert op.get(web).metadata["finalizers"] == ["example.com/clean"]


def test_a_finalizer_stays_until_the_server_has_taken_it_off(event_injector, registry):
    """404 about no object is no proof that the object is gone, so its finalizer is removed again."""
    op = event_injector(registry)
    web = op.add("webs", "a", spec={"n": 1})
    op.settle()
    op.fail("patch", "webs").once(status=404)
    op.delete(web)
    op.settle()
    assert not op.exists(web)
    assert len(op.calls("clean")) == 1
