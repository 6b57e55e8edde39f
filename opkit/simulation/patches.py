"""
Merge patches (RFC 7386) and JSON patches (RFC 6902), refused in the words of a real server.

Takes a document that is the caller's own and may be changed; gives the patched one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jsonpatch
import jsonpointer

from opkit.cluster.body import Raw
from opkit.simulation import refusals
from opkit.simulation.records import encode

_OPERATIONS_LIMIT = 10_000
_SIZE_LIMIT = 3 * 1024 * 1024


def merge(document: Any, patch: Any) -> Any:
    """RFC 7386: null deletes, objects merge, all else is replaced."""
    if not isinstance(patch, dict):
        return patch
    merged = document if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def apply_merge_patch(document: Raw, patch: Any) -> Raw:
    """Raises 422 for what is not an object."""
    if not isinstance(patch, dict):
        raise refusals.invalid_patch("a merge patch must be an object")
    merged: Raw = merge(document, patch)
    return merged


def apply_json_patch(document: Raw, patch: Any) -> Raw:
    """Raises 400 for what is not a list of operations, 422 for operations that can't be carried out."""
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise refusals.bad_request("a JSON patch must be a list of operations")
    if len(patch) > _OPERATIONS_LIMIT:
        raise refusals.too_large(f"The allowed maximum operations in a JSON patch is {_OPERATIONS_LIMIT}")
    try:
        patched = _apply(document, patch)
    except (
        jsonpatch.JsonPatchException,
        jsonpointer.JsonPointerException,
        TypeError,
        ValueError,
        KeyError,
        AttributeError,
    ) as error:
        # The library checks values' types only as far as it happens to need them.
        raise refusals.invalid_patch() from error
    if not isinstance(patched, dict):
        raise refusals.invalid_patch("the result is not an object")
    return patched


def _apply(document: Any, patch: Sequence[Raw]) -> Any:
    """
    Copies are carried out one by one under a limit: a few dozen of them can double a document beyond any
    memory.
    """
    if not any(operation.get("op") == "copy" for operation in patch):
        return jsonpatch.JsonPatch(patch).apply(document, in_place=True)
    for operation in patch:
        document = jsonpatch.JsonPatch([operation]).apply(document, in_place=True)
        if operation.get("op") == "copy" and len(encode(document)) > _SIZE_LIMIT:
            raise refusals.too_large(f"the copies in the JSON patch make more than {_SIZE_LIMIT} bytes")
    return document
