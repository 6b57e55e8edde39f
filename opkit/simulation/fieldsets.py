"""
Sets of fields, as `metadata.managedFields` holds them.

A set is a frozenset of paths, a path a tuple of steps: `f:name` for a field, `k:{"name":"a"}` for an item of
a list with keys, `v:"x"` for a value of a list that is a set, and a last `.` for the item itself. Which lists
have keys is told by `Rules`: from a schema for custom resources, from a table for built-in kinds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol

from opkit.cluster.body import Raw
from opkit.simulation import strategic

Path = tuple[str, ...]
Fields = frozenset[Path]

_IDENTITY = frozenset({"apiVersion", "kind"})
_MANAGED_METADATA = ("annotations", "finalizers", "labels", "ownerReferences")
_METADATA = "f:metadata"


class Rules(Protocol):
    """How the value at some place is merged."""

    def field(self, name: str) -> Rules: ...

    def item(self) -> Rules: ...

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields that tell items of this list apart; none for a list that is replaced as a whole."""

    @property
    def is_set(self) -> bool:
        """Whether this list is a set of values."""

    @property
    def is_atomic(self) -> bool:
        """Whether this object is replaced as a whole."""


class SchemaRules:
    """Rules from a custom resource's schema; metadata has those of every kind."""

    def __init__(self, schema: Raw, is_root: bool = False) -> None:
        self._schema = schema
        self._is_root = is_root

    def field(self, name: str) -> Rules:
        if self._is_root and name == "metadata":
            return BuiltinRules("metadata", "")
        known = (self._schema.get("properties") or {}).get(name)
        if known is None:
            additional = self._schema.get("additionalProperties")
            known = additional if isinstance(additional, dict) else None
        return SchemaRules(known) if known else _OPEN

    def item(self) -> Rules:
        items = self._schema.get("items")
        return SchemaRules(items if isinstance(items, dict) else {})

    @property
    def keys(self) -> tuple[str, ...]:
        if self._schema.get("x-kubernetes-list-type") != "map":
            return ()
        return tuple(self._schema.get("x-kubernetes-list-map-keys") or ())

    @property
    def is_set(self) -> bool:
        return self._schema.get("x-kubernetes-list-type") == "set"

    @property
    def is_atomic(self) -> bool:
        return self._schema.get("x-kubernetes-map-type") == "atomic"


_OPEN = SchemaRules({})
"""The rules of what no schema tells of."""


class BuiltinRules:
    """Rules of built-in kinds, from the names of the fields."""

    def __init__(self, name: str, kind: str) -> None:
        self._name = name
        self._kind = kind

    def field(self, name: str) -> Rules:
        return BuiltinRules(name, self._kind)

    def item(self) -> Rules:
        return BuiltinRules("", self._kind)

    @property
    def keys(self) -> tuple[str, ...]:
        key = strategic.merge_key(self._name, self._kind)
        return () if key is None else (key,)

    @property
    def is_set(self) -> bool:
        return self._name in strategic.PRIMITIVE_SETS

    @property
    def is_atomic(self) -> bool:
        return self._name in ("selector", "nodeSelector", "resources") and self._kind != "Service"


def of(body: Raw, rules: Rules) -> Fields:
    """All fields that a body sets, but for those that are the object's identity or the server's own."""
    return frozenset(path for path, _ in _leaves(body, rules))


def changed(old: Raw, new: Raw, rules: Rules) -> tuple[Fields, Fields]:
    """The fields that are set anew or to another value, and those that are gone."""
    before, after = values(old, rules), values(new, rules)
    different = frozenset(path for path, value in after.items() if path not in before or before[path] != value)
    return different, frozenset(before.keys() - after.keys())


def values(body: Raw, rules: Rules) -> dict[Path, Any]:
    """Each field with its value."""
    return dict(_leaves(body, rules))


Leaf = tuple[Path, Any]


def _leaves(body: Raw, rules: Rules) -> list[Leaf]:
    found: list[Leaf] = []
    for key, value in body.items():
        if key in _IDENTITY:
            continue
        if key == "metadata":
            below = rules.field("metadata")
            for name in _MANAGED_METADATA:
                if name in value:
                    _walk(value[name], below.field(name), (_METADATA, f"f:{name}"), found)
        else:
            _walk(value, rules.field(key), (f"f:{key}",), found)
    return found


def _walk(value: Any, rules: Rules, path: Path, found: list[Leaf]) -> None:
    if isinstance(value, dict) and value and not rules.is_atomic:
        for key, item in value.items():
            if isinstance(item, (dict, list)):
                _walk(item, rules.field(key), (*path, f"f:{key}"), found)
            else:
                found.append(((*path, f"f:{key}"), item))
    elif isinstance(value, list) and value and (keys := rules.keys) and _have_keys(value, keys):
        for item in value:
            step = item_step(item, keys)
            found.append(((*path, step, "."), None))
            for key, below in item.items():
                _walk(below, rules.item().field(key), (*path, step, f"f:{key}"), found)
    elif isinstance(value, list) and value and rules.is_set:
        found.extend(((*path, f"v:{json.dumps(item)}"), item) for item in value)
    else:
        found.append((path, value))


def _have_keys(items: list[Any], keys: tuple[str, ...]) -> bool:
    return all(isinstance(item, dict) and any(key in item for key in keys) for item in items)


def item_step(item: Raw, keys: tuple[str, ...]) -> str:
    """The step that names an item of a list with keys."""
    return "k:" + json.dumps({key: item[key] for key in sorted(keys) if key in item}, separators=(",", ":"))


def to_json(fields: Fields) -> Raw:
    """The set as `fieldsV1`."""
    root: Raw = {}
    for path in sorted(fields):
        node = root
        for step in path:
            node = node.setdefault(step, {})
    return root


def from_json(tree: Any) -> Fields:
    """Read `fieldsV1`. A node with children stands for itself only where it has a `.`."""
    return frozenset(_paths(tree, ())) if isinstance(tree, dict) else frozenset()


def _paths(tree: Raw, path: Path) -> Iterator[Path]:
    for step, below in tree.items():
        if step == ".":
            yield (*path, ".")
        elif below:
            yield from _paths(below, (*path, step))
        else:
            yield (*path, step)


def show(path: Path) -> str:
    """A path for people: `.spec.containers[name="a"].image`."""
    text = ""
    for step in path:
        if step.startswith("f:"):
            text += f".{step[2:]}"
        elif step.startswith("k:"):
            keys = json.loads(step[2:])
            text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in keys.items()) + "]"
        elif step.startswith("v:"):
            text += f"[={step[2:]}]"
    return text
