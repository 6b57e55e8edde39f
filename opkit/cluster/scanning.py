"""
Scanning: the resources of one API group, as its server names them.

Takes a function that gets a path; gives resources of all versions. Odd entries are common (aggregated APIs, old
servers): what can't be used is left out, and keeps nothing else from being found.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from opkit.cluster.resource import Resource
from opkit.errors import ApiError, NotFound

logger = logging.getLogger("opkit.discovery")

# No answer, wrong credentials, too many requests: that is not about what was asked for.
_ABOUT_US = (0, 401, 429)

Get = Callable[[str], Awaitable[Any]]
"""Gets a path, and gives the decoded answer. Raises `ApiError`."""


async def scan_groups(get: Get) -> list[str]:
    """The API groups that the server has; the core group is the empty one."""
    answer = await get("/apis")
    return ["", *(str(group["name"]) for group in _entries(answer, "groups") if group.get("name"))]


async def scan_group(get: Get, group: str) -> list[Resource]:
    """The resources of one group, in all its versions. Raises `ApiError`; a group that is not there has none."""
    if not group:
        return [*_resources(await get("/api/v1"), "", "v1", preferred=True)]
    try:
        answer = await get(f"/apis/{group}")
    except NotFound:
        return []
    preferred = (answer.get("preferredVersion") or {}).get("version")
    found: list[Resource] = []
    for entry in _entries(answer, "versions"):
        version = str(entry.get("version") or "")
        try:
            found += _resources(await get(f"/apis/{group}/{version}"), group, version, version == preferred)
        except NotFound:
            continue  # the last resource of this version is gone, and the version with it
        except ApiError as error:
            if error.status in _ABOUT_US:
                raise
            logger.warning("%s/%s can't be discovered and is skipped: %s", group, version, error)
    return found


def _resources(answer: Mapping[str, Any], group: str, version: str, preferred: bool) -> Iterator[Resource]:
    entries: Sequence[Mapping[str, Any]] = [entry for entry in _entries(answer, "resources") if entry.get("name")]
    for entry in entries:
        name, kind = str(entry["name"]), str(entry.get("kind") or "")
        if "/" in name:
            continue
        yield Resource(
            group=group,
            version=version,
            plural=name,
            kind=kind,
            singular=str(entry.get("singularName") or kind.lower()),
            shortcuts=frozenset(entry.get("shortNames") or ()),
            categories=frozenset(entry.get("categories") or ()),
            subresources=frozenset(
                str(other["name"]).partition("/")[2] for other in entries if str(other["name"]).startswith(f"{name}/")
            ),
            namespaced=bool(entry.get("namespaced")),
            preferred=preferred,
            verbs=frozenset(entry.get("verbs") or ()),
        )


def _entries(answer: Any, key: str) -> list[Mapping[str, Any]]:
    """The entries of a list that may be absent, null, or hold something else."""
    found = answer.get(key) if isinstance(answer, Mapping) else None
    return [entry for entry in found or () if isinstance(entry, Mapping)]
