"""
Stored objects and changes.

A record keeps an object as JSON text without `apiVersion` and `kind` (which depend on the version that a
client reads), and beside it the little that lists and watches look at. Records never change: who wants to
change an object decodes it, which gives a dict of its own, and stores another record.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from opkit.cluster.body import Raw
from opkit.simulation import refusals

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def encode(value: Any) -> bytes:
    """JSON text. Raises 400 for what JSON can't say; lone surrogates become U+FFFD, as in Go."""
    try:
        text = _encode(value)
    except (TypeError, ValueError) as error:  # infinite numbers; dates and the like, from callers in Python
        raise refusals.bad_request(f"the object can't be written as JSON: {error}") from None
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def decode(data: bytes) -> Any:
    return json.loads(data)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One state of one object. `data` is its JSON text, which begins with its metadata."""

    namespace: str
    name: str
    uid: str
    version: int
    labels: dict[str, str] | None
    data: bytes

    @classmethod
    def of(cls, body: Raw, version: int) -> Record:
        """Store this body (without apiVersion and kind) as of this version, which is written into it."""
        meta = body["metadata"]
        meta["resourceVersion"] = str(version)
        return cls(
            namespace=meta.get("namespace") or "",
            name=meta["name"],
            uid=meta["uid"],
            version=version,
            labels=meta.get("labels") or None,
            data=encode(body),
        )

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone: lists are in the order of this text."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def body(self) -> Raw:
        """A dict of its own, without apiVersion and kind."""
        return decode(self.data)  # type: ignore[no-any-return]  # a stored object is a dict

    def at(self, version: int) -> Record:
        """The same state as the last word on an object that is gone as of this version."""
        return Record.of(self.body(), version)


@dataclasses.dataclass(slots=True, eq=False)
class Change:
    """One change of one object. `record` is the new state, or the last one of an object that is gone."""

    type: str
    record: Record
    previous: Record | None = None
    _departed: Record | None = None

    @property
    def version(self) -> int:
        return self.record.version

    @property
    def departed(self) -> Record:
        """
        What a watch is shown whose selector no longer matches: the state before, at the version of the
        change.
        """
        if self._departed is None:
            self._departed = (self.previous or self.record).at(self.version)
        return self._departed
