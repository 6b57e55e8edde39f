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


def of(store: Store, selectors: Iterable[ResourceSelector], patterns: frozenset[str], clusterwide: bool) -> Topology:
    """The topology as it is now. Without patterns all namespaces are meant."""
    served = resources(store)
    found = frozenset(resource for selector in selectors for resource in selector.select(served))
    if clusterwide or not patterns:
        return Topology(found, frozenset({None}))
    names = [record.name for record in store.records(store.endpoint("", "v1", "namespaces"))]
    return Topology(found, frozenset(name for name in names if any(matches(name, pattern) for pattern in patterns)))


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
