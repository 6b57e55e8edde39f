"""Tests of the minimal sample: the shortest there can be."""

from pathlib import Path

HANDLERS = Path(__file__).with_name("handlers.py")


def test_greets(event_injector):
    """The greeting stands in the status."""
    op = event_injector(HANDLERS)
    greeting = op.add("greetings", "first", spec={"name": "you"})
    op.drain()
    assert op.get(greeting).status["message"] == "Hello, you!"


def test_greets_somebody_else(event_injector):
    """A change of the spec is a new greeting; a label is none."""
    op = event_injector(HANDLERS)
    greeting = op.add("greetings", "first", spec={"name": "you"})
    op.drain()
    op.modify(greeting, {"spec": {"name": "them"}})
    op.modify(greeting, {"metadata": {"labels": {"a": "b"}}})
    op.drain()
    assert op.get(greeting).status["message"] == "Hello, them!"
    assert len(op.calls("greet")) == 2
