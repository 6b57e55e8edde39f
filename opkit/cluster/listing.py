"""
Listing: from the bytes of a list to its objects, while they arrive.

A server may answer with all objects of a large resource at once. Decoded at its end, such an answer takes its memory
twice and stops the event loop for seconds; here what is complete is decoded piece by piece.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from opkit.cluster.body import Raw
from opkit.cluster.decoding import decode

# Where the objects begin, in the compact form that API servers write. Other forms are decoded at the end, as a whole.
_ITEMS = b'"items":['

# How an object begins, up to the first thing that is its own.
_BEGINNING = re.compile(rb'\{(?:"apiVersion":"[^"\\]*",)?(?:"kind":"[^"\\]*",)?"metadata":\{')

# Bytes that are worth a call of the decoder, and a turn of the loop: some hundred small objects.
_ENOUGH = 2**17


class ListDecoder:
    """
    Decodes one list.

    `feed` it with chunks as the network cuts them, and take the objects that are complete; then `end` gives the rest of
    them in the list as it was, with its metadata. What was given stays valid only if `end` does not raise.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._enough = _ENOUGH
        self._head = b""
        self._separator = b""

    def feed(self, chunk: bytes) -> Sequence[Raw]:
        """Add a chunk; the objects that are complete by it, once they are enough to be worth it."""
        self._pieces.append(chunk)
        self._size += len(chunk)
        if self._size < self._enough:
            return ()
        text = b"".join(self._pieces)
        if not self._head:
            text = self._begin(text)
        items, rest = self._split(text) if self._head else ((), text)
        self._pieces, self._size = [rest], len(rest)
        # An object of megabytes is looked at each time that it has grown by half: all of it stays linear.
        self._enough = max(_ENOUGH, self._size * 3 // 2)
        return items

    def end(self) -> Any:
        """The list, with the objects that `feed` has not given. Raises `ValueError` if it is no JSON."""
        return decode(b"".join((self._head, *self._pieces)))

    def _begin(self, text: bytes) -> bytes:
        """Keep what stands before the objects, and see how they are told apart; the objects' part of the text."""
        before, items, rest = text.partition(_ITEMS)
        beginning = _BEGINNING.match(rest)
        if beginning is None or not _is_whole(before + items + b"]}"):
            return text
        self._head, self._separator = before + items, b"," + beginning.group()
        return rest

    def _split(self, text: bytes) -> tuple[Sequence[Raw], bytes]:
        """
        The objects up to the last separator, and the rest of the text.

        What looks like a separator may be part of an object. Then the text before it is no list of whole objects, which
        the decoder notices. An object may be full of them, so not each is tried.
        """
        cut = text.rfind(self._separator)
        if cut > 0:
            try:
                items: Sequence[Raw] = decode(b"[" + text[:cut] + b"]")
                return items, text[cut + 1 :]
            except ValueError:
                cut = _end_of_whole_objects(text)
        if cut <= 0:
            return (), text
        return decode(b"[" + text[:cut] + b"]"), text[cut + 1 :]


def _end_of_whole_objects(text: bytes) -> int:
    """Where the last object ends that another one follows, found from the front; 0 if there is none."""
    scan = json.JSONDecoder().raw_decode
    characters = text.decode("latin-1")  # one for each byte: what strings say does not matter for where they end
    end = position = 0
    while True:
        try:
            _, position = scan(characters, position)
        except ValueError:
            return end
        if characters[position : position + 1] != ",":
            return end
        end, position = position, position + 1


def _is_whole(text: bytes) -> bool:
    try:
        decode(text)
    except ValueError:
        return False
    return True
