"""
Which declarations mean the same resource, as far as words can tell without a server.

Takes the selectors that authors wrote, gives one per resource. A bare name of a core resource (`pods`) is the
core one, as in kubectl; any other bare name (`webapps`) joins what says more about it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from opkit.cluster.resource import ResourceSelector

_CORE = frozenset(
    {
        "componentstatuses", "componentstatus", "cs",
        "configmaps", "configmap", "cm",
        "endpoints", "ep",
        "events", "event", "ev",
        "limitranges", "limitrange", "limits",
        "namespaces", "namespace", "ns",
        "nodes", "node", "no",
        "persistentvolumeclaims", "persistentvolumeclaim", "pvc",
        "persistentvolumes", "persistentvolume", "pv",
        "pods", "pod", "po",
        "podtemplates", "podtemplate",
        "replicationcontrollers", "replicationcontroller", "rc",
        "resourcequotas", "resourcequota", "quota",
        "secrets", "secret",
        "serviceaccounts", "serviceaccount", "sa",
        "services", "service", "svc",
    }
)  # fmt: skip


def named(words: Any) -> ResourceSelector:
    """
    Read a resource as an author names it: the words of a decorator, or a text or tuple in an option.

    Raises `TypeError` with one sentence.
    """
    selector = ResourceSelector.parse(*((words,) if isinstance(words, str) else tuple(words)))
    if selector.group is None and selector.name.lower() in _CORE:
        return dataclasses.replace(selector, group="")
    return selector


def joined(one: ResourceSelector, other: ResourceSelector) -> ResourceSelector:
    """All that two selectors of one resource say about it."""
    return ResourceSelector(
        name=one.name,
        group=one.group if one.group is not None else other.group,
        version=one.version if one.version is not None else other.version,
    )


def distinct(selectors: Iterable[ResourceSelector]) -> list[ResourceSelector]:
    """
    One selector per resource, in the order in which each was first named.

    The most telling selectors come first, so that the order of the declarations doesn't matter.
    """
    selectors = list(selectors)
    found: list[ResourceSelector] = []
    for selector in sorted(selectors, key=_openness):
        same = matching(selector, found)
        if len(same) == 1:
            found[found.index(same[0])] = joined(same[0], selector)
        elif not same:
            found.append(selector)
    return sorted(found, key=lambda one: next(i for i, other in enumerate(selectors) if one.may_equal(other)))


def matching(selector: ResourceSelector, among: Iterable[ResourceSelector]) -> list[ResourceSelector]:
    """Those that may name the same resource."""
    return [other for other in among if other.may_equal(selector)]


def _openness(selector: ResourceSelector) -> int:
    return (selector.group is None) + (selector.version is None)
