"""
What a kind is: its names, its versions, their subresources. Built-in or defined by a CRD, all are of this
shape.

An `Endpoint` is a kind in one served version: what a URL names. It turns records into what clients read.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from opkit.cluster.body import Raw
from opkit.cluster.resource import Resource, version_rank
from opkit.simulation.records import Record, decode, encode

if TYPE_CHECKING:
    from opkit.simulation.schema import Schema

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
METADATA_FIELDS = frozenset({"metadata.name", "metadata.namespace"})

Conversion = Callable[[Raw], Raw]


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """One more column of a table, beside the name."""

    name: str
    type: str
    path: str
    description: str = ""
    format: str = ""
    priority: int = 0


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Version:
    """One version of a kind."""

    name: str
    subresources: frozenset[str] = frozenset()
    schema: Schema | None = None
    scale: Mapping[str, str] | None = None
    columns: tuple[Column, ...] = ()
    served: bool = True
    to_storage: Conversion | None = None
    from_storage: Conversion | None = None

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """
    A kind of objects.

    `has_generation` tells whether `metadata.generation` is kept at all. `storage` is where the objects are:
    two kinds may show the same ones (core Events and those of events.k8s.io). `fields` are those that field
    selectors may name. `verbs` are those that exist.
    """

    group: str
    plural: str
    kind: str
    versions: tuple[Version, ...]
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    is_builtin: bool = True
    has_generation: bool = True
    fields: frozenset[str] = METADATA_FIELDS
    storage: tuple[str, str] = ("", "")

    @property
    def key(self) -> tuple[str, str]:
        """Where the objects are kept."""
        return self.storage if self.storage[1] else (self.group, self.plural)

    @property
    def qualified(self) -> str:
        """The name in messages: `widgets.example.com`, or just `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def served_versions(self) -> list[str]:
        """Best first."""
        names = [version.name for version in self.versions if version.served]
        return sorted(names, key=version_rank, reverse=True)

    def endpoint(self, version: str) -> Endpoint | None:
        """This kind in a served version."""
        for candidate in self.versions:
            if candidate.name == version and candidate.served:
                return Endpoint(self, candidate)
        return None

    @property
    def preferred(self) -> Endpoint:
        endpoint = self.endpoint(self.served_versions[0])
        assert endpoint is not None
        return endpoint


@dataclasses.dataclass(frozen=True, eq=False)
class Endpoint:
    """A kind in one served version."""

    kind: Kind
    version: Version

    @functools.cached_property
    def api_version(self) -> str:
        return f"{self.kind.group}/{self.version.name}" if self.kind.group else self.version.name

    @functools.cached_property
    def prefix(self) -> bytes:
        """What stands before a record's own text to make the object in this version."""
        head = json.dumps({"apiVersion": self.api_version, "kind": self.kind.kind}, separators=(",", ":"))
        return head[:-1].encode() + b","

    @property
    def list_kind(self) -> str:
        return self.kind.list_kind or f"{self.kind.kind}List"

    def encode(self, record: Record) -> bytes:
        """The object as JSON text in this version."""
        if self.version.from_storage is not None:
            return encode(self.decode(record))
        return self.prefix + record.data[1:]

    def encode_item(self, record: Record) -> bytes:
        """The object as an item of a list: those of built-in kinds don't repeat the kind."""
        if self.version.from_storage is not None:
            return encode(self.version.from_storage(decode(record.data)))
        return record.data if self.kind.is_builtin else self.prefix + record.data[1:]

    def decode(self, record: Record) -> Raw:
        """The object as a dict of its own in this version."""
        body = decode(record.data)
        if self.version.from_storage is not None:
            body = self.version.from_storage(body)
        return {"apiVersion": self.api_version, "kind": self.kind.kind, **body}

    def to_storage(self, body: Raw) -> Raw:
        """What is kept of a body of this version: all but the two words that say the version."""
        kept = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
        return self.version.to_storage(kept) if self.version.to_storage is not None else kept

    def event(self, type: str, record: Record) -> bytes:
        """One line of a watch stream."""
        return b'{"type":"' + type.encode() + b'","object":' + self.encode(record) + b"}\n"

    def resource(self) -> Resource:
        """The same in opkit's own words."""
        kind = self.kind
        return Resource(
            group=kind.group,
            version=self.version.name,
            plural=kind.plural,
            kind=kind.kind,
            singular=kind.singular or kind.kind.lower(),
            shortcuts=frozenset(kind.short_names),
            categories=frozenset(kind.categories),
            subresources=self.version.subresources,
            namespaced=kind.namespaced,
            preferred=kind.served_versions[0] == self.version.name,
            verbs=frozenset(kind.verbs),
        )
