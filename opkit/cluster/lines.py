"""
Lines: from the bytes of a watch to its events.

Takes chunks as the network cuts them; gives the events whose lines are complete. Cuts at line feeds in bytes, so that
neither a character nor a line of any length can be cut wrong; a fragment at the end of the stream is thrown away.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from opkit.cluster.decoding import decode
from opkit.cluster.protocol import WatchEvent
from opkit.errors import Unreachable

logger = logging.getLogger("opkit.cluster")

_KNOWN = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


class WatchFailed(Exception):
    """The server sent an ERROR event; `status` is its object."""

    def __init__(self, status: Any) -> None:
        super().__init__(status)
        self.status = status


class LineSplitter:
    """Puts lines together again."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> Sequence[bytes]:
        """Add a chunk; the lines that are complete by it."""
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            self._pieces.append(chunk)  # joined once, when the line ends: a line of megabytes stays linear
            return ()
        if self._pieces:
            head = b"".join((*self._pieces, head))
            self._pieces.clear()
        if tail:
            self._pieces.append(tail)
        return head.split(b"\n")


def decode_events(lines: Sequence[bytes]) -> list[WatchEvent]:
    """
    The events of complete lines.

    Raises `WatchFailed` for an ERROR event, `Unreachable` for a line that is not JSON: somebody in between has
    damaged the stream. Events before it are lost with it, and seen again when the stream goes on.
    """
    events: list[WatchEvent] = []
    for line in lines:
        if not line or line.isspace():
            continue
        try:
            event = decode(line)
            type_, raw = event["type"], event["object"]
        except (ValueError, KeyError, TypeError) as error:
            raise Unreachable("the watch sent a line that is not an event") from error
        if type_ in _KNOWN:
            events.append((type_, raw))
        elif type_ == "ERROR":
            raise WatchFailed(raw)
        else:
            logger.warning("A watch event of the unknown type %.20r is ignored.", type_)
    return events
