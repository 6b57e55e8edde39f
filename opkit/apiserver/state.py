"""
The store in a file, so that it outlives the process.

The file is written beside and then renamed, so that a crash at any moment leaves the old or the new state,
each of them complete. What happened since the last write (a fraction of a second, more for large states) is
lost in a crash. One line of JSON for the header, then one for each object.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

from opkit.errors import OpkitError
from opkit.simulation.kinds import Kind
from opkit.simulation.records import Record
from opkit.simulation.store import Store

logger = logging.getLogger(__name__)

_FORMAT = 1
_DELAY = 0.2

# After a crash the file may be older than what clients saw. They must not meet those versions again.
_VERSION_GAP = 100_000


class StateError(OpkitError):
    """The file is not a state, or can't be read or written; the text says why."""


def load(path: Path, store: Store) -> bool:
    """
    Restore a state into a store made with `is_empty`. Tells whether there was one. Raises `StateError`.

    Versions go on from where they were; watching from an older one is answered with 410.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StateError(f"the state file {path} can't be read: {error.strerror}") from None
    try:
        header = json.loads(lines[0])
        if header["opkit-state"] != _FORMAT or header["objects"] != len(lines) - 1:
            raise ValueError("another format, or a part of it is missing")
        for line in lines[1:]:
            entry = json.loads(line)
            store.restore((entry["group"], entry["plural"]), entry["object"], entry["version"])
        store.version = header["version"] + _VERSION_GAP
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise StateError(f"the file {path} is not a state of the embedded API server: {error}") from None
    store.compact()
    return True


def open_store(path: Path | None, make: Callable[[bool], Store]) -> Store:
    """
    The store whose state is in a file, or a new one. Raises `StateError`.

    `make` is called with whether the store has to be empty, to be restored into.
    """
    if path is not None and path.exists():
        store = make(True)
        load(path, store)
        return store
    return make(False)


def save(path: Path, version: int, records: Iterable[tuple[Kind, Record]]) -> None:
    """Write a state: afterwards the file holds the old or the new one. Raises `StateError`."""
    lines = [_line(kind, record) for kind, record in records]
    header = {"opkit-state": _FORMAT, "version": version, "objects": len(lines)}
    text = b"\n".join([json.dumps(header).encode(), *lines, b""])
    try:
        _replace(path, text)
    except OSError as error:
        raise StateError(f"the state file {path} can't be written: {error.strerror}") from None


def _line(kind: Kind, record: Record) -> bytes:
    head = {"group": kind.key[0], "plural": kind.key[1], "version": record.version}
    return json.dumps(head).encode()[:-1] + b', "object": ' + record.data + b"}"


def _replace(path: Path, text: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself
    finally:
        os.close(folder)


class StateKeeper:
    """Keeps a store's state in a file, from the beginning of the `async with` block; once more at its end."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._path = path
        self._dirty = asyncio.Event()
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> StateKeeper:
        await self._save()
        self._store.observe(self._dirty.set)
        self._task = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._save()

    async def _keep(self) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(_DELAY)
            try:
                # A write under way is not cut short; the last one waits for it.
                await asyncio.shield(self._save())
            except StateError as error:
                logger.error("%s; the next change tries again", error)

    async def _save(self) -> None:
        async with self._writing:
            self._dirty.clear()
            version, records = self._store.version, list(self._store.all_records())
            await asyncio.to_thread(save, self._path, version, records)
