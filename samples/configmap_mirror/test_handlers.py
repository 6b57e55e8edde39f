"""The mirror's handlers, in virtual time."""

from pathlib import Path

import pytest

HANDLERS = Path(__file__).with_name("handlers.py")
LABELS = {"mirror.example.com/enabled": "true"}
TARGETS = "mirror.example.com/namespaces"


@pytest.fixture
def op(event_injector):
    return event_injector(HANDLERS)


@pytest.fixture
def original(op):
    for name in ("one", "two"):
        op.add("namespaces", name)
    found = op.add("configmaps", "cm", labels=LABELS, annotations={TARGETS: "one,two"}, data={"a": "1"})
    op.settle()
    return found


def test_copies_into_the_named_namespaces(op, original):
    """The data is the original's, the labels that make it one are not."""
    for namespace in ("one", "two"):
        copy = op.get("configmaps", "cm", namespace)
        assert copy["data"] == {"a": "1"}
        assert "mirror.example.com/enabled" not in copy.labels


def test_follows_the_original(op, original):
    """A ConfigMap has no generation: every change counts."""
    op.modify(original, {"data": {"a": "2"}})
    op.settle()
    assert op.get("configmaps", "cm", "two")["data"] == {"a": "2"}


def test_removes_what_is_not_wanted_any_more(op, original):
    """A namespace that is taken off the list loses its copy."""
    op.modify(original, {"metadata": {"annotations": {TARGETS: "one"}}})
    op.settle()
    assert op.exists("configmaps", "cm", "one")
    assert not op.exists("configmaps", "cm", "two")


def test_leaves_a_namesake_alone(op):
    """What somebody else has made under that name is theirs, and a warning says so."""
    op.add("configmaps", "cm", "one", data={"theirs": "yes"})
    op.add("configmaps", "cm", labels=LABELS, annotations={TARGETS: "one"}, data={"a": "1"})
    op.settle()
    assert op.get("configmaps", "cm", "one")["data"] == {"theirs": "yes"}
    assert [event["reason"] for event in op.list("events")] == ["NotMirrored"]


def test_waits_for_a_namespace(op):
    """A namespace that is not there yet is looked for once a minute."""
    op.add("configmaps", "cm", labels=LABELS, annotations={TARGETS: "late"}, data={"a": "1"})
    op.drain()
    op.add("namespaces", "late")
    op.advance(60)
    assert op.exists("configmaps", "cm", "late")


def test_the_copies_go_with_the_original(op, original):
    """The finalizer removes them before the original is gone."""
    op.delete(original)
    op.settle()
    assert op.list("configmaps") == []


def test_the_copies_go_when_the_label_does(op, original):
    """Without the label it is no mirrored ConfigMap any more, and can be deleted like any other."""
    op.modify(original, {"metadata": {"labels": {"mirror.example.com/enabled": None}}})
    op.settle()
    assert [body.namespace for body in op.list("configmaps")] == ["default"]
    assert not op.get(original).metadata.get("finalizers")
