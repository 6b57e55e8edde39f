"""
The rules of `metadata`: what of a client's is taken, what is the server's own, what may change.

Takes decoded JSON of any shape from clients; gives a clean dict, or an `ApiError`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from opkit.cluster.body import Raw
from opkit.errors import ApiError
from opkit.simulation import names, refusals
from opkit.simulation.kinds import Kind
from opkit.simulation.refusals import Cause, bad_value, forbidden_value, required

_TEXTS = frozenset(
    {"name", "generateName", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"}
)
_NUMBERS = frozenset({"generation", "deletionGracePeriodSeconds"})
_OWNER_FIELDS: dict[str, type] = {
    "apiVersion": str,
    "kind": str,
    "name": str,
    "uid": str,
    "controller": bool,
    "blockOwnerDeletion": bool,
}

SYSTEM_FIELDS = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
)
"""What is the server's own. On an update it is put back whatever the client says."""


def timestamp(moment: datetime.datetime) -> str:
    """A time as Kubernetes writes it: whole seconds, UTC."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clean(kind: Kind, body: Raw) -> Raw:
    """
    A new metadata with the known fields only; empty and null ones are left out.

    Raises 400 for fields of a wrong type.
    """
    meta = body.get("metadata")
    if meta is None:
        return {}
    if not isinstance(meta, dict):
        raise _wrong_type(kind, "metadata", "an object")
    kept: Raw = {}
    for key, value in meta.items():
        if value is not None and value != "" and (taken := _take(kind, key, value)) is not None:
            kept[key] = taken
    return kept


def _take(kind: Kind, key: str, value: Any) -> Any:
    if key in _TEXTS:
        if not isinstance(value, str):
            raise _wrong_type(kind, f"metadata.{key}", "a string")
        return value
    if key in ("labels", "annotations"):
        return _take_texts(kind, key, value)
    if key == "finalizers":
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise _wrong_type(kind, "metadata.finalizers", "a list of strings")
        return list(dict.fromkeys(value)) or None
    if key in ("ownerReferences", "managedFields"):
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise _wrong_type(kind, f"metadata.{key}", "a list of objects")
        return ([_take_owner(kind, item) for item in value] if key == "ownerReferences" else value) or None
    if key in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong_type(kind, f"metadata.{key}", "an integer")
        return value
    return None


def _take_owner(kind: Kind, owner: Raw) -> Raw:
    kept: Raw = {}
    for name, value in owner.items():
        expected = _OWNER_FIELDS.get(name)
        if expected is not None and value is not None:
            if not isinstance(value, expected):
                raise _wrong_type(kind, f"metadata.ownerReferences.{name}", f"a {expected.__name__}")
            kept[name] = value
    return kept


def _take_texts(kind: Kind, key: str, value: Any) -> dict[str, str] | None:
    if not isinstance(value, dict):
        raise _wrong_type(kind, f"metadata.{key}", "an object of strings")
    texts = {name: "" if text is None else text for name, text in value.items()}
    if not all(isinstance(text, str) for text in texts.values()):
        raise _wrong_type(kind, f"metadata.{key}", "an object of strings")
    return texts or None


def _wrong_type(kind: Kind, field: str, expected: str) -> ApiError:
    word = kind.kind
    return refusals.bad_request(f"{word} in this version cannot be handled as a {word}: {field} must be {expected}")


def causes(kind: Kind, meta: Raw) -> Iterator[Cause]:
    """All that is wrong with clean metadata."""
    name = meta.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif problem := names.name_problem(kind.group, kind.plural, name):
        yield bad_value("metadata.name", name, problem)
    yield from names.label_causes(meta.get("labels") or {})
    yield from names.annotation_causes(meta.get("annotations") or {})
    yield from names.finalizer_causes(meta.get("finalizers") or (), kind.is_builtin)
    yield from names.owner_causes(meta.get("ownerReferences") or ())


def change_causes(old: Raw, new: Raw) -> Iterator[Cause]:
    """All that may not change between two clean metadata, the new one still as the client sent it."""
    for field in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if field in new and new[field] != old.get(field):
            yield bad_value(f"metadata.{field}", new[field], "field is immutable")
    if old.get("deletionTimestamp"):
        added = [name for name in new.get("finalizers") or () if name not in (old.get("finalizers") or ())]
        if added:
            yield forbidden_value(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"{refusals.show(added)}",
            )


def restore(old: Raw, new: Raw) -> None:
    """Put the server's own fields back into new metadata."""
    for field in SYSTEM_FIELDS:
        if field in old:
            new[field] = old[field]
        else:
            new.pop(field, None)
    new["name"] = old["name"]
    if "namespace" in old:
        new["namespace"] = old["namespace"]
    else:
        new.pop("namespace", None)
