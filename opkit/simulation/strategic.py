"""
Strategic merge patches: what kubectl sends for built-in kinds, whose lists are merged by a key.

Also the table of those keys, which server-side apply needs too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opkit.cluster.body import Raw
from opkit.simulation import refusals

MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "conditions": "type",
    "secrets": "name",
    "addresses": "type",
    "taints": "key",
    "podIPs": "ip",
    "ownerReferences": "uid",
    "webhooks": "name",
    "resourceClaims": "name",
}
"""The key by which the items of a list of this name are told apart. Lists of other names are replaced."""

PRIMITIVE_SETS = frozenset({"finalizers"})
"""Lists of texts that are merged as sets."""

_ORDER, _DELETE_ITEMS = "$setElementOrder/", "$deleteFromPrimitiveList/"


def merge_key(name: str, kind: str) -> str | None:
    """The merge key of a list, or nothing for one that is replaced as a whole."""
    if name == "ports":
        return None if kind == "NetworkPolicy" else "port" if kind in ("Service", "Endpoints") else "containerPort"
    return MERGE_KEYS.get(name)


def apply_strategic_patch(document: Raw, patch: Any, kind: str) -> Raw:
    """Merge in place. Raises 400 for what is not an object, or for items without their key."""
    if not isinstance(patch, dict):
        raise refusals.bad_request("a strategic merge patch must be an object")
    merged = _merge_object(document, patch, kind)
    return merged if isinstance(merged, dict) else {}


def _merge_object(document: Any, patch: Raw, kind: str) -> Raw | None:
    directive = patch.get("$patch")
    if directive == "delete":
        return None
    merged: Raw = document if isinstance(document, dict) and directive != "replace" else {}
    if isinstance(retained := patch.get("$retainKeys"), list):
        merged = {key: value for key, value in merged.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            merged.pop(key, None)
        else:
            _merge_field(merged, key, value, patch.get(f"{_ORDER}{key}"), kind)
    _delete_from_primitives(merged, patch)
    _reorder_untouched(merged, patch, kind)
    return merged


def _merge_field(merged: Raw, key: str, value: Any, order: Any, kind: str) -> None:
    if isinstance(value, dict):
        result = _merge_object(merged.get(key), value, kind)
        if result is None:
            merged.pop(key, None)
        else:
            merged[key] = result
    elif isinstance(value, list) and (name := merge_key(key, kind)) is not None:
        merged[key] = _merge_items(merged.get(key), value, name, order, kind)
    elif isinstance(value, list) and key in PRIMITIVE_SETS:
        known = merged.get(key) or []
        merged[key] = _ordered([*known, *(item for item in value if item not in known)], order, None)
    else:
        merged[key] = value


def _merge_items(items: Any, patch: list[Any], name: str, order: Any, kind: str) -> list[Any]:
    if any(isinstance(change, dict) and change.get("$patch") == "replace" for change in patch):
        return [change for change in patch if not (isinstance(change, dict) and "$patch" in change)]
    merged: list[Any] = list(items) if isinstance(items, list) else []
    for change in patch:
        if not isinstance(change, dict) or name not in change:
            raise refusals.bad_request(f"map does not contain the merge key: {name}")
        position = next((i for i, item in enumerate(merged) if item.get(name) == change[name]), None)
        result = _merge_object({} if position is None else merged[position], change, kind)
        if position is None:
            merged += [] if result is None else [result]
        else:
            merged[position : position + 1] = [] if result is None else [result]
    return _ordered(merged, order, name)


def _delete_from_primitives(merged: Raw, patch: Raw) -> None:
    for directive, values in patch.items():
        if directive.startswith(_DELETE_ITEMS) and isinstance(values, list):
            key = directive.removeprefix(_DELETE_ITEMS)
            left = [item for item in merged.get(key) or [] if item not in values]
            if left:
                merged[key] = left
            else:
                merged.pop(key, None)


def _reorder_untouched(merged: Raw, patch: Raw, kind: str) -> None:
    for directive, order in patch.items():
        key = directive.removeprefix(_ORDER)
        if directive.startswith(_ORDER) and key not in patch and isinstance(merged.get(key), list):
            merged[key] = _ordered(merged[key], order, merge_key(key, kind))


def _ordered(items: Iterable[Any], order: Any, name: str | None) -> list[Any]:
    """Put the items that an order names into it; the others keep their places before them."""
    items = list(items)
    if not isinstance(order, list):
        return items
    wanted = [(entry.get(name) if isinstance(entry, dict) else entry) for entry in order]

    def rank(item: Any) -> int:
        value = item.get(name) if isinstance(item, dict) and name else item
        return wanted.index(value) if value in wanted else -1

    return sorted(items, key=rank)
