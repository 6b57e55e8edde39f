"""
The view: what one controller sees of its store.

Takes changes of the store; gives them as the controller's selector shows them. Entering the selector is an
addition, leaving it a deletion (semantics: 3). As both bodies are compared, that holds across a relist too.
"""

from __future__ import annotations

from collections.abc import Callable

from opkit.cluster.body import Raw, is_deleting, metadata
from opkit.cluster.selector import LabelSelector
from opkit.flow.store import Change, ChangeType


class View:
    """
    One controller's selector over a store.

    `by_server` tells that the watch itself is narrowed by it, so that the store holds nothing else. `fields` tells that
    it is narrowed by a field selector as well. `keeps` tells which objects are still ours though they match no more:
    for their deletion, and nothing else, they are seen again.
    """

    def __init__(
        self,
        selector: LabelSelector | None,
        *,
        by_server: bool,
        fields: bool = False,
        keeps: Callable[[Raw], bool] = lambda raw: False,
    ) -> None:
        self._selector = selector
        self._by_server = by_server
        self._keeps = keeps
        self.may_leave_unseen = (selector is not None and by_server) or fields
        """A deletion in the stream may only mean that the object does not match any more."""

    def matches(self, raw: Raw) -> bool:
        """Whether the controller is for this object, as far as labels tell."""
        if self._selector is None or self._selector.matches(metadata(raw).get("labels")):
            return True
        return is_deleting(raw) and self._keeps(raw)

    def of(self, change: Change) -> Change | None:
        """The change as the controller sees it; `None` if it sees nothing of it."""
        if self._selector is None or self._by_server:
            return change
        if change.type is ChangeType.ADDED:
            return change if self.matches(change.body) else None
        old = change.old
        was = old is not None and self.matches(old)
        if change.type is ChangeType.DELETED:
            return change if was else None
        now = self.matches(change.body)
        if was and now:
            return change
        # Neither is an echo to anybody: a controller that writes the label itself has to see what follows.
        if now:
            return Change(ChangeType.ADDED, change.uid, change.body)
        if was:
            return Change(ChangeType.DELETED, change.uid, change.body, old, left=True)
        return None
