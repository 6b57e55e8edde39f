"""What a store serves of what an operator asks for: resources by their names, namespaces by patterns."""

from __future__ import annotations

import fnmatch
import weakref
from collections.abc import Iterable

from opkit.cluster.protocol import Topology
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.simulation import definitions
from opkit.simulation.kinds import Kind
from opkit.simulation.store import Store

WATCHED = ((definitions.GROUP, "v1", definitions.PLURAL), ("", "v1", "namespaces"))
"""Whatever changes the topology is a change of these."""


_known: weakref.WeakKeyDictionary[Store, tuple[list[Kind], list[Resource]]] = weakref.WeakKeyDictionary()


def resources(store: Store) -> list[Resource]:
    """All resources that are served now, in every version."""
    kinds, known = store.kinds(), _known.get(store)
    if known is not None and known[0] == kinds:  # kinds are values: a definition that changes makes another
        return known[1]
    found = [
        endpoint.resource()
        for kind in kinds
        for version in kind.served_versions
        if (endpoint := kind.endpoint(version)) is not None
    ]
    _known[store] = (kinds, found)
    return found


def of(
    store: Store,
    selectors: Iterable[ResourceSelector],
    patterns: frozenset[str],
    clusterwide: bool,
    before: Topology | None = None,
) -> Topology:
    """The topology as it is now, after another one or none. Without patterns all namespaces are meant."""
    served = resources(store)
    claims = {}
    for selector in selectors:
        last = before.claims.get(selector) if before is not None else None
        found = (selector.follow(served, last) if last is not None else None) or _only(selector.select(served))
        if found is not None:
            claims[selector] = found
    if clusterwide or not patterns:
        return Topology.of(claims, {None})
    names = [record.name for record in store.records(store.endpoint("", "v1", "namespaces"))]
    return Topology.of(claims, (name for name in names if any(matches(name, pattern) for pattern in patterns)))


def _only(found: list[Resource]) -> Resource | None:
    return found[0] if len(found) == 1 else None


def matches(name: str, pattern: str) -> bool:
    """
    Whether a namespace matches a pattern: globs with commas between them, of which the last that fits
    decides.

    A glob after `!` excludes; if the first one excludes, all else is included.
    """
    globs = [glob.strip() for glob in pattern.split(",") if glob.strip()]
    matched = bool(globs) and globs[0].startswith("!")
    for glob in globs:
        if fnmatch.fnmatchcase(name, glob.removeprefix("!")):
            matched = not glob.startswith("!")
    return matched
