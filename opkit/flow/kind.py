"""
A kind: what all versions of a resource share, since they show the same objects.

An object has one lock, one journal and one memo, whatever version it is looked at through, and a cleanup that one
version has done is done for all. Made with the first resource of the kind; never knows which versions there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from opkit.flow.coordinator import Coordinator
from opkit.flow.finalizers import Cleanups
from opkit.flow.invocation import Memo
from opkit.flow.journal import Journal
from opkit.flow.runtime import Runtime
from opkit.flow.store import Store


class Member(Protocol):
    """A resource of the kind."""

    @property
    def stores(self) -> dict[tuple[str | None, str | None], Store]: ...

    def says_goodbye(self, uid: str) -> bool: ...


class Kind:
    """The shared rooms of one kind."""

    def __init__(self, runtime: Runtime) -> None:
        settings = runtime.settings
        self.journal = Journal(runtime.clock.now)
        self.coordinator = Coordinator(
            clock=runtime.clock,
            limit=settings.parallel.limit,
            conflict=settings.parallel.conflict,
            requeue_delay=settings.parallel.requeue_delay,
            on_bug=runtime.onlooker.on_bug,
        )
        self.memos: dict[str, Memo] = {}
        self.cleanups = Cleanups()
        self._members: list[Member] = []

    def join(self, member: Member) -> None:
        """One more resource shows the objects of this kind."""
        self._members.append(member)

    def forget(self, uid: str, name: str) -> None:
        """Nothing of an object that no store knows any more is kept, but what explains its end."""
        if any(uid in store for store in self._stores()):
            return
        self.cleanups.forget(uid)
        self.journal.close(uid, name)
        self.drop_memo(uid)

    def drop_memo(self, uid: str) -> None:
        """Forget the author's values about an object that nobody knows any more, or is still to be told of."""
        if any(uid in store for store in self._stores()):
            return
        if not any(member.says_goodbye(uid) for member in self._members):
            self.memos.pop(uid, None)

    def _stores(self) -> Iterable[Store]:
        return (store for member in self._members for store in member.stores.values())
