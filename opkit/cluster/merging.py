"""
Merge patches (RFC 7386): what one would change.

Pure functions over decoded JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_MISSING = object()


def would_change(body: Any, patch: Any) -> bool:
    """Whether applying the merge patch to the body would change anything at all."""
    return next(changed_paths(body, patch), None) is not None


def changed_paths(body: Any, patch: Any, path: str = "") -> Iterator[str]:
    """The dotted paths of what the merge patch would change in the body."""
    if not isinstance(patch, Mapping):
        if not same(body, patch):
            yield path
        return
    if not isinstance(body, Mapping):
        yield path  # whatever is here becomes a map
        return
    for key, value in patch.items():
        here = f"{path}.{key}" if path else str(key)
        present = body.get(key, _MISSING)
        if value is None:
            if present is not _MISSING and present is not None:
                yield here
        elif present is _MISSING:
            yield here
        else:
            yield from changed_paths(present, value, here)


def differing_paths(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """The dotted paths of the leaves and lists in which two bodies differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            here = f"{path}.{key}" if path else str(key)
            yield from differing_paths(old.get(key), new.get(key), here)
    elif not same(old, new):
        yield path


def same(one: Any, other: Any) -> bool:
    """Equality of decoded JSON. Unlike Python's, `true` is not 1 there."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
