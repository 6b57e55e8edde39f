"""
Credentials that are kept fresh: when they are asked for again, and how often at most.

Takes a function that reads them, which may take its time; gives what it read last. Asks again when a file behind them
has changed, once a minute if that costs nothing, shortly before they expire, and when the server refuses them: then
with pauses that grow for as long as that is no help. May be used from any thread. Knows nothing of what it keeps.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from opkit.clock import time_of_day
from opkit.errors import CredentialsError

logger = logging.getLogger("opkit.cluster")

T = TypeVar("T")

# Seconds after which files are read again, changed or not: some file systems tell no time of a change.
_AGE = 60.0

# The longest pauses (seconds) between two attempts while the server refuses what they give: files cost nothing, while
# a plugin or a login handler may bother a person, or a service that counts.
_LONGEST, _LONGEST_OF_FILES = 60.0, 1.0

# Seconds between two attempts that were some help.
_SPACING = 1.0

_Signature = tuple[tuple[int, int, int] | None, ...]


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Reading(Generic[T]):
    """What was read; the files that it comes from, whether asking again costs nothing, and when it expires."""

    value: T
    files: Sequence[str] = ()
    is_cheap: bool = False
    expiration: datetime.datetime | None = None


class Keeper(Generic[T]):
    """The newest credentials. What did not change stays the same object: its identity is its version."""

    def __init__(
        self,
        read: Callable[[], Reading[T]],
        *,
        first_pause: float = 5.0,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime.datetime] = time_of_day,
    ) -> None:
        self._read = read
        self._first_pause = first_pause
        self._now, self._wall = now, wall
        self._lock = threading.RLock()
        self._reading: Reading[T] | None = None
        # Of the files: as they were when they were read, and when that was last tried.
        self._signature: _Signature = ()
        self._seen: _Signature = ()
        self._has_failed = False
        self._asked = 0.0
        self._expires: float | None = None
        self._pause = 0.0
        self._not_before = 0.0
        self._complaint = ""

    @property
    def value(self) -> T:
        """What was read last."""
        if self._reading is None:
            raise CredentialsError("there was no login yet")
        return self._reading.value

    def start(self) -> T:
        """Read for the first time. Raises `CredentialsError`."""
        with self._lock:
            self._ask()
            return self.value

    def is_due(self) -> bool:
        """Whether to ask again though the server refuses nothing. Quick."""
        if self._reading is None:
            return False
        files, now = self._reading.files, self._now()
        if files and _signature(files) != self._seen:
            return True
        if now < self._asked + self._pause:
            return False
        is_over = self._expires is not None and now >= self._expires
        is_old = bool(files) and self._reading.is_cheap and now >= self._asked + _AGE
        return self._has_failed or is_over or is_old

    def renewed(self) -> T:
        """What is to be used now, asked for again if that is due. The old one stays where nothing new is to be had."""
        with self._lock:
            if self.is_due() and not self._try():
                self._grow()
            return self.value

    def after_refusal(self, refused: T) -> T | None:
        """What to use instead of what the server has refused; `None` if there is nothing else at this time."""
        with self._lock:
            if self.value is refused and (self.is_due() or self._now() >= self._not_before):
                self._grow()
                self._not_before = self._now() + self._pause
                self._try()
            return self.value if self.value is not refused else None

    def helped(self, value: T) -> None:
        """The server takes what was given after a refusal: the next one is met without a pause."""
        with self._lock:
            if self._reading is not None and value is self._reading.value and self._pause:
                self._pause = 0.0
                self._not_before = self._asked + (0.0 if self._reading.is_cheap else min(_SPACING, self._first_pause))

    def _grow(self) -> None:
        longest = _LONGEST_OF_FILES if self._reading is not None and self._reading.is_cheap else _LONGEST
        self._pause = min(longest, self._pause * 2 or self._first_pause)

    def _try(self) -> bool:
        try:
            self._ask()
        except CredentialsError as error:
            if str(error) != self._complaint:
                logger.warning("%s; what was there before is used for now", error)
            self._complaint = str(error)
            return False
        self._complaint = ""
        return True

    def _ask(self) -> None:
        old = self._reading
        # Looked at before: what changes while it is read is then read again.
        self._seen = _signature(old.files) if old is not None else ()
        self._has_failed = True
        try:
            new = self._read()
        finally:
            self._asked = self._now()
        self._has_failed = False
        signature = self._seen if old is not None and new.files == old.files else _signature(new.files)
        if old is not None and new.value == old.value and signature == self._signature:
            new = dataclasses.replace(new, value=old.value)
        self._reading, self._signature, self._seen = new, signature, signature
        self._expires = self._end(new.expiration)

    def _end(self, expiration: datetime.datetime | None) -> float | None:
        """When to ask again, by the monotonic clock. What has expired when it comes is used until it is refused."""
        if expiration is None:
            return None
        if expiration.tzinfo is None:
            expiration = expiration.replace(tzinfo=datetime.UTC)
        left = (expiration - self._wall()).total_seconds()
        return self._now() + left if left > 0 else None


def _signature(files: Sequence[str]) -> _Signature:
    """What changes when a file does."""

    def one(path: str) -> tuple[int, int, int] | None:
        try:
            found = os.stat(path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    return tuple(one(path) for path in files)
