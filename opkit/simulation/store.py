"""
The store: all objects of a cluster, with the rules of a real API server. Start reading here.

Takes requests that are parsed already, each as one synchronous step; gives records, or raises `ApiError` with
the status and the reason of a real server. Never does I/O, waits, or asks for the time or for randomness on
its own: both are given. Bodies given to it are its own from then on; records that it gives are immutable
text.
"""

from __future__ import annotations

import datetime
import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from opkit.cluster.body import Raw
from opkit.simulation import (
    apply,
    definitions,
    deletion,
    establishment,
    lists,
    metadata,
    patches,
    refusals,
    strategic,
    writes,
)
from opkit.simulation.builtins import builtin_kinds
from opkit.simulation.deletion import Deleted, DeleteOptions
from opkit.simulation.garbage import Garbage
from opkit.simulation.kinds import Endpoint, Kind
from opkit.simulation.lists import Page
from opkit.simulation.records import Change, Record
from opkit.simulation.shelf import Shelf
from opkit.simulation.watchers import Selection, Watcher
from opkit.simulation.writes import Options

FIRST_VERSION = 500
"""Versions below are too old on any server, however new: clients find out at once if they make them up."""

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_NAMESPACE_KEY = ("", "namespaces")

KindKey = tuple[str, str]


class Store:
    """
    A cluster's objects.

    `clock` gives the time for stamps (with a time zone), `rng` UIDs and generated names. With
    `collect_garbage` objects go with their owners and namespaces with what is in them; without it, as on a
    bare API server, nothing does. `history_limit` changes of each kind can be watched again, `buffer_limit`
    events wait for a reader.
    """

    def __init__(
        self,
        clock: Callable[[], datetime.datetime],
        rng: random.Random,
        *,
        collect_garbage: bool = False,
        history_limit: int = 10_000,
        buffer_limit: int = 10_000,
        is_empty: bool = False,
    ) -> None:
        self.version = FIRST_VERSION
        self.rng = rng
        self._clock = clock
        self._last_second: tuple[datetime.datetime | None, str] = (None, "")
        self._limits = (history_limit, buffer_limit)
        self._kinds: dict[KindKey, Kind] = {(kind.group, kind.plural): kind for kind in builtin_kinds()}
        self._shelves: dict[KindKey, Shelf] = {kind.key: self._new_shelf() for kind in self._kinds.values()}
        self._garbage = Garbage(self) if collect_garbage else None
        self._observers: list[Callable[[], None]] = []
        if not is_empty:
            for name in _NAMESPACES:
                self.create(self.endpoint("", "v1", "namespaces"), {"metadata": {"name": name}})

    # Kinds

    def kinds(self) -> list[Kind]:
        """All kinds that are served now."""
        return list(self._kinds.values())

    def stored_kinds(self) -> list[Kind]:
        """All kinds that keep objects of their own: none twice."""
        return [kind for kind in self._kinds.values() if kind.verbs != ("create",) and not kind.storage[1]]

    def kind_at(self, key: KindKey) -> Kind | None:
        return self._kinds.get(key)

    def endpoint(self, group: str, version: str, plural: str) -> Endpoint:
        """What a URL names. Raises 404."""
        kind = self._kinds.get((group, plural))
        endpoint = kind.endpoint(version) if kind is not None else None
        if endpoint is None:
            raise refusals.no_such_resource()
        return endpoint

    def endpoint_of(self, body: Raw) -> Endpoint:
        """The endpoint for what a body says that it is. Raises 404."""
        group, _, version = str(body.get("apiVersion") or "").rpartition("/")
        for kind in self._kinds.values():
            if kind.group == group and kind.kind == body.get("kind") and (endpoint := kind.endpoint(version)):
                return endpoint
        raise refusals.no_such_resource()

    # Reading

    def find(self, endpoint: Endpoint, name: str, namespace: str | None = None) -> Record | None:
        return self._shelves[endpoint.kind.key].get(namespace or "", name)

    def get(self, endpoint: Endpoint, name: str, namespace: str | None = None) -> Record:
        """Raises 404."""
        record = self.find(endpoint, name, namespace)
        if record is None:
            raise refusals.not_found(endpoint.kind, name)
        return record

    def records(self, endpoint: Endpoint, namespace: str | None = None) -> list[Record]:
        """All objects as they are now, in order."""
        return list(self._shelves[endpoint.kind.key].all(namespace))

    def count(self, kind: Kind) -> int:
        """How many objects of a kind there are now."""
        return len(self._shelves[kind.key])

    def list(
        self,
        endpoint: Endpoint,
        selection: Selection,
        *,
        limit: int = 0,
        token: str = "",
        exactly: int | None = None,
    ) -> Page:
        """
        List a page of at most `limit` objects (0: all), at the current version or `exactly` at an older one.

        Raises 400 for a bad selector or token, 410 for a token or a version that is too old.
        """
        self._check_fields(endpoint, selection)
        if exactly is not None and exactly > self.version:
            raise refusals.too_large_version(exactly, self.version)
        version = self.version if exactly is None else exactly
        shelf = self._shelves[endpoint.kind.key]
        return lists.page(shelf, selection, version, limit=limit, token=token, exact=exactly is not None)

    def watch(self, endpoint: Endpoint, selection: Selection, since: int | None, notify: Callable[[], None]) -> Watcher:
        """
        Watch what comes after `since`; with none, all that exists comes first, as additions.

        Registering and taking what is there already is one step. Raises 400 for a bad selector, 410 if
        `since` is too old.
        """
        self._check_fields(endpoint, selection)
        return self._shelves[endpoint.kind.key].watch(selection, since, notify)

    def _check_fields(self, endpoint: Endpoint, selection: Selection) -> None:
        for path, _, _ in selection.fields.terms:
            if path not in endpoint.kind.fields:
                raise refusals.bad_request(f"field label not supported: {path}")

    # Writing

    def create(
        self, endpoint: Endpoint, body: Raw, namespace: str | None = None, options: Options | None = None
    ) -> Record:
        return writes.create(self, endpoint, body, namespace, options or Options(), None)

    def replace(
        self, endpoint: Endpoint, name: str, namespace: str | None, body: Raw, options: Options | None = None
    ) -> Record:
        """Never creates. A version in the body is a lock; custom resources need one."""
        self._check_subresource(endpoint, options)
        return writes.update(self, endpoint, self.get(endpoint, name, namespace), body, options or Options())

    def patch(
        self,
        endpoint: Endpoint,
        name: str,
        namespace: str | None,
        patch: Any,
        type: str = "merge",
        options: Options | None = None,
    ) -> Record:
        """`type` is merge, json, or (for built-in kinds) strategic. A version in the patch is a lock."""
        self._check_subresource(endpoint, options)
        record = self.get(endpoint, name, namespace)
        document = endpoint.decode(record)
        if type == "json":
            patched = patches.apply_json_patch(document, patch)
        elif type == "merge":
            patched = patches.apply_merge_patch(document, patch)
        elif type == "strategic" and endpoint.kind.is_builtin:
            patched = strategic.apply_strategic_patch(document, patch, endpoint.kind.kind)
        else:
            raise refusals.unsupported_media(f"{type} patches are not supported for {endpoint.kind.qualified}")
        return writes.update(self, endpoint, record, patched, options or Options(), is_patch=True)

    def apply(
        self, endpoint: Endpoint, name: str, namespace: str | None, body: Raw, options: Options
    ) -> tuple[Record, bool]:
        """
        Server-side apply. Tells whether the object was created. Raises 409 with a cause per contested field.
        """
        self._check_subresource(endpoint, options)
        return apply.write(self, endpoint, name, namespace, body, options)

    def delete(
        self, endpoint: Endpoint, name: str, namespace: str | None, options: DeleteOptions | None = None
    ) -> Deleted:
        return deletion.delete(self, endpoint, self.get(endpoint, name, namespace), options or DeleteOptions())

    def delete_collection(self, endpoint: Endpoint, selection: Selection, options: DeleteOptions | None = None) -> Page:
        """Delete all that is selected. Gives them as they were."""
        page = self.list(endpoint, selection)
        for record in page.records:
            if self.find(endpoint, record.name, record.namespace) is record:
                deletion.delete(self, endpoint, record, options or DeleteOptions())
        return page

    def _check_subresource(self, endpoint: Endpoint, options: Options | None) -> None:
        if options is not None and options.subresource and options.subresource not in endpoint.version.subresources:
            raise refusals.no_such_resource()

    # Steps that the rules are made of; not for clients

    def commit(self, kind: Kind, body: Raw, previous: Record | None) -> Record:
        """Assign a version, store, remember and tell the watchers: one step."""
        record = Record.of(body, self.version + 1)
        self.version += 1
        self._shelves[kind.key].put(Change("ADDED" if previous is None else "MODIFIED", record, previous))
        self._tell()
        if definitions.is_definition(kind):
            establishment.define(self, kind, body, record, is_new=previous is None)
        if self._garbage is not None:
            self._garbage.notice(kind, record, body)
        return record

    def remove(self, kind: Kind, record: Record) -> None:
        """Take an object away: the deletion has a version of its own."""
        self.version += 1
        self._shelves[kind.key].put(Change("DELETED", record.at(self.version), record))
        self._tell()
        if definitions.is_definition(kind):
            establishment.undefine(self, record)
        elif not kind.is_builtin:
            establishment.finish(self, kind)
        if self._garbage is not None:
            self._garbage.notice(kind, record, None)

    def timestamp(self) -> str:
        now = self._clock().replace(microsecond=0)
        if now != self._last_second[0]:  # written once a second, and asked for twice a write
            self._last_second = (now, metadata.timestamp(now))
        return self._last_second[1]

    def new_uid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def observe(self, callback: Callable[[], None]) -> None:
        """Be told after each change, whatever it is: for keeping the state in a file."""
        self._observers.append(callback)

    def _tell(self) -> None:
        for callback in self._observers:
            callback()

    def _new_shelf(self) -> Shelf:
        history_limit, buffer_limit = self._limits
        return Shelf(self.version, history_limit, buffer_limit)

    # Namespaces

    def namespace(self, name: str) -> Record | None:
        return self._shelves[_NAMESPACE_KEY].get("", name)

    def require_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        """Raises 404 if it does not exist, 403 if it is being deleted."""
        record = self.namespace(namespace)
        if record is None:
            raise refusals.not_found(self._kinds[_NAMESPACE_KEY], namespace)
        if b'"deletionTimestamp"' in record.data and record.body()["metadata"].get("deletionTimestamp"):
            message = f"namespace {namespace} is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise refusals.forbidden(kind, name, text, [cause])

    def is_empty_namespace(self, name: str) -> bool:
        return not any(next(self._shelves[kind.key].all(name), None) for kind in self.stored_kinds() if kind.namespaced)

    def finalize_namespace(self, name: str) -> None:
        """Take away what keeps an empty namespace that is being deleted."""
        endpoint = self.endpoint("", "v1", "namespaces")
        body = endpoint.decode(self.get(endpoint, name))
        body["spec"] = {**body.get("spec", {}), "finalizers": []}
        self.replace(endpoint, name, None, body, Options(subresource="finalize"))

    # Kinds that come and go

    def install(self, kind: Kind) -> None:
        """Serve a kind, or what has become of it."""
        key = (kind.group, kind.plural)
        self._kinds[key] = kind
        if key not in self._shelves:
            self._shelves[key] = self._new_shelf()

    def uninstall(self, kind: Kind) -> None:
        """Serve a kind no longer; its watches end."""
        del self._kinds[kind.key]
        self._shelves.pop(kind.key).close_watchers()

    # The whole

    def compact(self) -> None:
        """
        Forget all history: what was seen before can't be watched from, and continuation tokens end (410).
        """
        for shelf in self._shelves.values():
            shelf.compact(self.version)

    def close_watchers(self) -> None:
        """End all watches cleanly."""
        for shelf in tuple(self._shelves.values()):
            shelf.close_watchers()

    def statistics(self) -> dict[str, int]:
        """How many objects and watchers there are, and the version."""
        return {
            "objects": sum(len(shelf) for shelf in self._shelves.values()),
            "watchers": sum(shelf.watchers for shelf in self._shelves.values()),
            "version": self.version,
        }

    def all_records(self) -> Iterator[tuple[Kind, Record]]:
        """Each object once, definitions first, then namespaces: in an order in which they can be restored."""
        first = [(definitions.GROUP, definitions.PLURAL), _NAMESPACE_KEY]
        for kind in sorted(self.stored_kinds(), key=lambda kind: kind.key not in first):
            for record in self._shelves[kind.key].all():
                yield kind, record

    def restore(self, key: KindKey, body: Raw, version: int) -> None:
        """Put an object back as it was, without a rule applied. Only into a store made with `is_empty`."""
        kind = self._kinds[key]
        record = Record.of(body, version)
        if definitions.is_definition(kind):
            self.install(definitions.kind_of(body))
        self._shelves[kind.key].put(Change("ADDED", record, None))
        if self._garbage is not None:
            self._garbage.notice(kind, record, body)
