"""The onlooker: is told what happens in the rooms, for tests and tools. Never changes anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable
from typing import Any

from opkit.cluster.body import Raw
from opkit.cluster.resource import Resource
from opkit.flow.report import Call


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """A change that did not become a request, and who refused it."""

    type: str
    by: str
    controller: str
    resource: Resource
    uid: str
    body: Raw


@dataclasses.dataclass(frozen=True, slots=True)
class Write:
    """A write that was sent, or was not because it would have changed nothing."""

    verb: str
    resource: Resource
    name: str | None
    namespace: str | None
    subresource: str | None
    body: Any


class Onlooker:
    """This one does nothing; a tool overrides what it wants to see."""

    def wants(self, method: str) -> bool:
        """Whether a tool looks at what this method is told: what nobody looks at need not be made."""
        return getattr(getattr(self, method), "__func__", None) is not getattr(Onlooker, method)

    def on_call(self, call: Call) -> None:
        """A function of the author is about to be called. The call is filled in when it is over."""

    def on_refusal(self, refusal: Refusal) -> None:
        """A change was refused."""

    def on_write(self, write: Write) -> None:
        """A write is about to be sent."""

    def on_skipped_write(self, write: Write) -> None:
        """A write was not sent, because it would have changed nothing."""

    def on_bug(self, error: BaseException) -> None:
        """Something failed inside opkit itself."""

    def gate(self, handler: str) -> Awaitable[None] | None:
        """What a call of this handler has to wait for before its first line, if anything."""
        return None
