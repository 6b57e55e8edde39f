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


def explains(write: Any, old: Any, new: Any) -> bool:
    """
    Whether a write can be all that lies between two bodies: each difference is within what it names.

    `write` is a merge patch, a whole body or the operations of a JSON patch. The stamps that a server makes at each
    write are no differences.
    """
    named = _named_by_operations(write) if isinstance(write, list | tuple) else set(_leaves(write))
    return all(
        any(path[:length] in named for length in range(len(path) + 1))
        for path in _differing_leaves(old, new)
        if path not in _STAMPS
    )


_Path = tuple[str, ...]

_STAMPS: frozenset[_Path] = frozenset(
    {("metadata", "resourceVersion"), ("metadata", "generation"), ("metadata", "managedFields")}
)


def _leaves(value: Any, path: _Path = ()) -> Iterator[_Path]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, str(key)))
    else:
        yield path


def _named_by_operations(operations: Any) -> set[_Path]:
    named: set[_Path] = set()
    for operation in operations:
        if operation.get("op") != "test":
            named |= {_of_pointer(operation[key]) for key in ("path", "from") if key in operation}
    return named


def _of_pointer(pointer: str) -> _Path:
    """The path of a JSON pointer, as far as it leads through maps: lists count as a whole."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    for position, step in enumerate(steps):
        if step == "-" or step.isdigit():
            return tuple(steps[:position])
    return tuple(steps)


def _differing_leaves(old: Any, new: Any, path: _Path = ()) -> Iterator[_Path]:
    if isinstance(old, Mapping) or isinstance(new, Mapping):
        # What is absent or null reads as empty, so an empty map that came or went is no difference.
        before, after = (side if isinstance(side, Mapping) else {} for side in (old, new))
        for key in before.keys() | after.keys():
            yield from _differing_leaves(before.get(key), after.get(key), (*path, str(key)))
    elif not same(old, new):
        yield path


def same(one: Any, other: Any) -> bool:
    """Equality of decoded JSON. Unlike Python's, `true` is not 1 there."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
