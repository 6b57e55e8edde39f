"""
Decoding: from the bytes of an answer, or of a line of a watch, to values.

Takes bytes, gives what they stand for, or raises `ValueError`. With the extra `orjson` it takes that library, which
needs half the time and shares the keys of all objects; what it refuses, such as half of a surrogate pair, is left
to the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Decode = Callable[[bytes], Any]


def _decoder() -> Decode:
    try:
        import orjson
    except ImportError:
        return json.loads
    return fallback(orjson.loads)


def fallback(fast: Decode) -> Decode:
    """A decoder that asks the standard library about what the fast one refuses."""

    def decode(text: bytes) -> Any:
        try:
            return fast(text)
        except ValueError:
            return json.loads(text)

    return decode


decode = _decoder()
