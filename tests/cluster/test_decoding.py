"""Decoding: one result, whichever library does it."""

import json

import pytest

from opkit.cluster.decoding import decode, fallback

EVENT = {"type": "ADDED", "object": {"n": 2**63 - 1, "x": 1.5, "text": "漢字 😀", "none": None, "list": [True, {}]}}


def test_values_are_those_of_the_standard_library():
    """Large integers and all of Unicode included."""
    assert decode(json.dumps(EVENT).encode()) == EVENT


@pytest.mark.parametrize("text", [b'"\\ud800"', b"NaN"], ids=["half-a-surrogate-pair", "nan"])
def test_what_a_strict_library_refuses_is_decoded_all_the_same(text):
    """One odd string in one object must not end a stream."""
    assert repr(decode(text)) == repr(json.loads(text))


def test_the_standard_library_is_asked_only_about_what_was_refused():
    """The fast one has the first word."""

    def refusing(text):
        if text == b"1":
            raise ValueError("refused")
        return "fast"

    assert (fallback(refusing)(b"1"), fallback(refusing)(b"2")) == (1, "fast")


def test_what_nobody_can_decode_is_a_value_error():
    """Whoever asked says whose fault it is."""
    with pytest.raises(ValueError):
        decode(b"{")
