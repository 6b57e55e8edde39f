"""
Scanning: the resources of one API group, as its server names them.

Takes a function that gets a path; gives resources of all versions. Odd entries are common (aggregated APIs, old
servers): what can't be used is left out, and keeps nothing else from being found.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from opkit.cluster.resource import Resource
from opkit.errors import ApiError, NotFound

logger = logging.getLogger("opkit.discovery")

# No answer, wrong credentials, too many requests: that is not about what was asked for.
_ABOUT_US = (0, 401, 429)

# Seconds for one answer: a part of the server that hangs must not keep the others from being looked at.
_PATIENCE = 15.0

Get = Callable[[str], Awaitable[Any]]
"""Gets a path, and gives the decoded answer. Raises `ApiError`."""


class Found(list[Resource]):
    """The resources of a group, as far as it could be discovered."""

    failed: frozenset[str] = frozenset()
    """The versions that could not be: nothing is known of what they serve now."""


async def scan_groups(get: Get) -> list[str]:
    """The API groups that the server has; the core group is the empty one. Raises `ApiError`."""
    answer = await _ask(get, "/apis", "groups")
    return ["", *(str(group["name"]) for group in _entries(answer, "groups") if group.get("name"))]


async def scan_group(get: Get, group: str) -> Found:
    """The resources of one group, in all its versions. Raises `ApiError`; a group that is not there has none."""
    if not group:
        return Found(_resources(await _ask(get, "/api/v1", "resources"), "", "v1", preferred=True))
    try:
        answer = await _ask(get, f"/apis/{group}", "versions")
    except NotFound:
        return Found()
    preferred = (answer.get("preferredVersion") or {}).get("version")
    versions = [str(entry.get("version") or "") for entry in _entries(answer, "versions")]
    answers = await asyncio.gather(*(_scan_version(get, group, version) for version in versions))
    found = Found()
    found.failed = frozenset(version for version, one in zip(versions, answers, strict=True) if one is None)
    for version, one in zip(versions, answers, strict=True):
        found += _resources(one or {}, group, version, version == preferred)
    return found


async def _scan_version(get: Get, group: str, version: str) -> Mapping[str, Any] | None:
    """What one version serves; `None` if it can't be discovered. Raises `ApiError` for what is not about it."""
    try:
        return await _ask(get, f"/apis/{group}/{version}", "resources")
    except NotFound:
        return {}  # the last resource of this version is gone, and the version with it
    except ApiError as error:
        if error.status in _ABOUT_US:
            raise
        logger.warning("%s/%s can't be discovered and is skipped: %s", group, version, error)
        return None


async def _ask(get: Get, path: str, key: str) -> Mapping[str, Any]:
    """
    One document of the discovery. Raises `ApiError` for whatever else was answered, and for no answer in time.

    An empty answer, a page of a proxy, a Status: to believe them would be to take all resources for gone.
    """
    try:
        async with asyncio.timeout(_PATIENCE):
            answer = await get(path)
    except TimeoutError as error:
        raise ApiError(f"{path} got no answer within {_PATIENCE:g} s", status=504) from error
    if isinstance(answer, Mapping) and key in answer and isinstance(answer[key], list | None):
        return answer
    raise ApiError(f"the answer to {path} has no list of {key}", status=502)


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
