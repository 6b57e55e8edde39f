"""
Slots: who is served together.

A slot is a kind, and the version that was named for it or none: all who name a resource in the same way share its
rooms, in whatever version it is served. Pure functions, and a view of several rooms of one kind as if they were one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from opkit.cluster.body import Raw
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.flow.store import Origin
from opkit.flow.writes import Watched

Slot = tuple[str, str, str | None]
"""Group, plural, and the version if it was named."""


def slot_of(selector: ResourceSelector, resource: Resource) -> Slot:
    """The slot of those who name a resource so. The core group has one version, and will never have another."""
    return (*resource.kind_key, selector.version if resource.group else None)


def means(selector: ResourceSelector, slot: Slot, resource: Resource) -> bool:
    """Whether those who name a resource so belong to this slot, which this resource serves."""
    return slot_of(selector, resource) == slot and dataclasses.replace(selector, version=resource.version).matches(
        resource
    )


class Together:
    """Several rooms of one kind, as far as writes are concerned: what is written concerns all of them."""

    def __init__(self, members: Sequence[Watched]) -> None:
        self._members = members

    def find(self, name: str, namespace: str | None) -> Raw | None:
        return next(iter(self.views(name, namespace)), None)

    def views(self, name: str, namespace: str | None) -> Sequence[Raw]:
        return [raw for member in self._members for raw in member.views(name, namespace)]

    def begin_write(self, name: str, namespace: str | None) -> None:
        for member in self._members:
            member.begin_write(name, namespace)

    def end_write(
        self, name: str, namespace: str | None, answer: Raw | None, *, origin: Origin | None, created: bool
    ) -> None:
        for member in self._members:
            member.end_write(name, namespace, answer, origin=origin, created=created)

    def note_write(self, uid: str, verb: str, subresource: str | None, sent: bool, why: str) -> None:
        self._members[0].note_write(uid, verb, subresource, sent, why)
