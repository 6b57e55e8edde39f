"""
Field managers: who set which fields, as `metadata.managedFields` tells.

An entry belongs to a manager, an operation (Update or Apply), a version and a subresource. Entries are kept
as JSON in the object and read into `Entry` where they are needed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from opkit.cluster.body import Raw
from opkit.simulation import fieldsets
from opkit.simulation.fieldsets import BuiltinRules, Fields, Rules, SchemaRules
from opkit.simulation.kinds import Endpoint

UPDATE, APPLY = "Update", "Apply"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One manager's fields."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    fields: Fields
    time: str = ""

    @property
    def owner(self) -> tuple[str, str, str]:
        """Who: entries with the same owner are one."""
        return (self.manager, self.operation, self.subresource)

    def as_json(self) -> Raw:
        entry = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fieldsets.to_json(self.fields),
        }
        return entry | ({"subresource": self.subresource} if self.subresource else {})


def rules_of(endpoint: Endpoint) -> Rules:
    """How the fields of this kind are merged."""
    schema = endpoint.version.schema
    return SchemaRules(schema.source, is_root=True) if schema is not None else BuiltinRules("", endpoint.kind.kind)


def read(meta: Raw) -> list[Entry]:
    """The entries of an object. Those that can't be read count as empty."""
    return [_read_entry(entry) for entry in meta.get("managedFields") or ()]


def _read_entry(entry: dict[str, Any]) -> Entry:
    return Entry(
        manager=str(entry.get("manager") or ""),
        operation=str(entry.get("operation") or UPDATE),
        api_version=str(entry.get("apiVersion") or ""),
        subresource=str(entry.get("subresource") or ""),
        fields=fieldsets.from_json(entry.get("fieldsV1")),
        time=str(entry.get("time") or ""),
    )


def write(meta: Raw, entries: list[Entry]) -> None:
    """Store the entries that have any fields left."""
    kept = [entry.as_json() for entry in entries if entry.fields]
    if kept:
        meta["managedFields"] = kept
    else:
        meta.pop("managedFields", None)


def created(endpoint: Endpoint, body: Raw, manager: str, time: str) -> list[Entry]:
    """The entry of the one who creates an object."""
    fields = fieldsets.of(body, rules_of(endpoint))
    return [Entry(manager, UPDATE, endpoint.api_version, "", fields, time)]


def updated(endpoint: Endpoint, old: Raw, new: Raw, manager: str, subresource: str, time: str) -> list[Entry]:
    """The entries after an update: what it changes is its manager's, what it removes is nobody's."""
    entries = read(old["metadata"])
    changed, removed = fieldsets.changed(old, new, rules_of(endpoint))
    if not changed and not removed:
        return entries
    lost = changed | removed
    mine = Entry(manager, UPDATE, endpoint.api_version, subresource, changed, time)
    kept = []
    for entry in entries:
        if entry.owner == mine.owner:
            mine = dataclasses.replace(mine, fields=(entry.fields - removed) | changed)
        else:
            kept.append(dataclasses.replace(entry, fields=entry.fields - lost))
    return [*kept, mine]
