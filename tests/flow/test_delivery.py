"""Delivery: where a status goes when the definition is not what it was taken for."""

import asyncio

import pytest

from opkit.cluster.resource import Resource
from opkit.errors import ApiError, NotFound
from opkit.flow.delivery import Delivery

WITH = Resource("example.com", "v1", "webs", subresources=frozenset({"status"}))
WITHOUT = Resource("example.com", "v1", "webs")
GONE = NotFound('webs "a" not found', details={"name": "a"})
NO_PATH = NotFound("404 page not found")


class Writes:
    """A server that answers by the subresource; what was sent is written down."""

    def __init__(self, **answers):
        self.answers = answers
        self.sent = []

    async def patch(self, resource, name, namespace, patch, *, type, subresource, origin, manager, only):
        assert only == OBJECT
        self.sent.append((subresource or "object", patch))
        answer = self.answers[subresource or "object"]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def deliver():
    """Send a patch; what was sent, and what was raised."""

    def run(resource, patch, **answers):
        writes, raised = Writes(**answers), None
        try:
            asyncio.run(Delivery(writes, resource, "a", "default", origin=None, only=OBJECT).send(patch))
        except ApiError as error:
            raised = error
        return writes.sent, raised

    return run


OBJECT = {"metadata": {"name": "a", "uid": "u1"}}
TAKEN = {"status": {"n": 1}}


@pytest.mark.parametrize("missing", [GONE, NO_PATH])
def test_a_subresource_that_is_gone_is_not_an_object_that_is(deliver, missing):
    """Real servers name the object in that answer, too: the object itself tells."""
    sent, raised = deliver(WITH, {"status": {"n": 1}}, status=missing, object=TAKEN)
    assert sent == [("status", TAKEN), ("object", TAKEN)] and raised is None


@pytest.mark.parametrize("last", [GONE, NO_PATH])
def test_an_object_that_is_gone_is_told(deliver, last):
    """By what the object itself answers."""
    assert deliver(WITH, {"status": {"n": 1}}, status=GONE, object=last)[1] is last


def test_a_status_that_neither_takes_is_a_failure(deliver):
    """Never a silent success."""
    assert deliver(WITH, {"status": {"n": 1}}, status=GONE, object={"status": {}})[1] is GONE


def test_a_status_that_was_dropped_goes_to_the_subresource(deliver):
    """There is one by now."""
    sent, raised = deliver(WITHOUT, {"spec": {"x": 1}, "status": {"n": 1}}, object={"spec": {"x": 1}}, status=TAKEN)
    assert sent[1:] == [("status", TAKEN)] and raised is None


def test_fields_that_the_definition_does_not_have_are_no_failure(deliver):
    """There is no subresource, and the server has dropped them."""
    assert deliver(WITHOUT, {"status": {"n": 1}}, object={"status": {}}, status=GONE)[1] is None


def test_one_part_does_not_hold_up_the_other(deliver):
    """The first refusal is told."""
    refused = ApiError.of(422)
    sent, raised = deliver(WITH, {"spec": {"x": 1}, "status": {"n": 1}}, object=refused, status=TAKEN)
    assert [where for where, _ in sent] == ["object", "status"] and raised is refused
