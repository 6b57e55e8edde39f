"""
The default filters: which updates of a primary object are worth a run, before the author's own filters.

Pure functions over two raw bodies, the new one first, as in the author's update filters. They never raise for
what a server may send: fields may be absent or null.
"""

from __future__ import annotations

from collections.abc import Collection

from opkit.cluster.body import Raw, metadata
from opkit.settings import ReconcileStrategy


def accepts_update(new: Raw, old: Raw, *, strategy: ReconcileStrategy, finalizers: Collection[str] = ()) -> bool:
    """
    Whether the default filters of this strategy accept an update.

    `finalizers` are the names that this operator puts on objects of this resource.
    """
    if strategy == ReconcileStrategy.BY_RESOURCE_VERSION:
        return by_resource_version(new, old)
    return by_generation(new, old, finalizers)


def by_resource_version(new: Raw, old: Raw) -> bool:
    """Every real change. Versions are opaque: equal or not is all that can be asked of them."""
    version = metadata(new).get("resourceVersion")
    # Where there is no version there is no saying that nothing changed.
    return version is None or version != metadata(old).get("resourceVersion")


def by_generation(new: Raw, old: Raw, finalizers: Collection[str] = ()) -> bool:
    """
    Changes of what the author of the object wants: its spec, its deletion, and our finalizers on it.

    Kinds without a generation (Pods, ConfigMaps, ...) don't tell such changes from others: all are accepted.
    """
    now, before = metadata(new), metadata(old)
    generation, earlier = now.get("generation"), before.get("generation")
    # A lower one is news too: the database was restored, and holds another spec than the one that was seen.
    if generation is None or earlier is None or generation != earlier:
        return True
    if _misses_any(now, finalizers) or _misses_any(before, finalizers):
        return True
    return moves_deletion(new, old)


def moves_deletion(new: Raw, old: Raw) -> bool:
    """Whether an update begins the deletion of an object, or moves it on."""
    now, before = metadata(new), metadata(old)
    return bool(now.get("deletionTimestamp")) and _deletion(now) != _deletion(before)


def _misses_any(meta: Raw, finalizers: Collection[str]) -> bool:
    if not finalizers:
        return False
    present = meta.get("finalizers") or ()
    return any(name not in present for name in finalizers)


def _deletion(meta: Raw) -> tuple[object, ...]:
    """What moves the deletion of a marked object on. Its status does not: each write of it would be a run."""
    return meta.get("generation"), meta.get("deletionTimestamp"), meta.get("finalizers") or []
