"""Why a run happens, and why an object is gone: words for logs, `explain` and tests."""

from __future__ import annotations

import enum


class Trigger(enum.StrEnum):
    """What led to a run. For diagnosis only: a level-triggered handler must not need it."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    RESYNC = "RESYNC"
    REQUEUE = "REQUEUE"
    RETRY = "RETRY"
    MANUAL = "MANUAL"
    SECONDARY = "SECONDARY"
    POLL = "POLL"
    FINALIZER = "FINALIZER"


class DeleteReason(enum.StrEnum):
    """What a delete handler is told about the end of an object."""

    DELETED = "DELETED"
    """The API server reported the deletion."""

    LEFT_SELECTOR = "LEFT_SELECTOR"
    """The object lives on, but the controller's selector does not match it any more."""

    UNKNOWN = "UNKNOWN"
    """The object went away while nobody was watching; the last known body may be old."""
