"""
Discovery: what a server serves of what is asked for, while it changes.

Takes a server that can be scanned group by group; gives topologies, a new one whenever CustomResourceDefinitions or
namespaces come and go. A group that can't be scanned does not keep the others from being served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, Protocol

from opkit.cluster.body import Raw
from opkit.cluster.protocol import Batch, Mark, Topology, WatchScope
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.errors import ApiError, NotFound

logger = logging.getLogger("opkit.discovery")

_CRDS = ResourceSelector(name="customresourcedefinitions", group="apiextensions.k8s.io")
_NAMESPACES = Resource(group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False)

# CRDs come in bursts, and a new one changes three times until it serves: one scan is made for all of that.
_SETTLE = 0.1

# A server answers discovery a little later than it establishes a CRD: look again for what is still missing.
_LOOK_AGAIN = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

# Seconds without any sign of life after which a watch of definitions or namespaces counts as dead.
_PATIENCE = 90.0

_SERVABLE = frozenset({"list", "watch"})


class Scannable(Protocol):
    """A server, as far as discovery needs it. All requests raise `ApiError`."""

    async def groups(self) -> Sequence[str]:
        """The API groups; the core group is the empty one."""

    async def scan(self, group: str) -> Sequence[Resource]:
        """The resources of one group in all its versions."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Raw: ...

    def watch(self, scope: WatchScope, *, patience: float | None = None) -> AsyncGenerator[Batch, None]: ...

    def namespace_matches(self, name: str, patterns: Iterable[str]) -> bool:
        """Whether a namespace is meant by one of the patterns."""

    def exact_namespaces(self, patterns: Iterable[str]) -> frozenset[str]:
        """Those of the patterns that are just names."""


class Discovery:
    """The resources and namespaces of one server."""

    def __init__(self, cluster: Scannable) -> None:
        self._cluster = cluster
        self._known: dict[str, Sequence[Resource]] = {}
        self._noted: set[tuple[str, str]] = set()
        self._confirmed: frozenset[Resource] = frozenset()

    async def resolve(self, selector: ResourceSelector) -> Resource:
        """The one resource that is named; scans again before it says that there is none."""
        for fresh in (False, True):
            found = selector.select(await self._scan(selector, fresh=fresh))
            if len(found) == 1:
                return found[0]
            if len(found) > 1:
                names = ", ".join(sorted(map(str, found)))
                raise NotFound(f"{selector} can mean {names}: name the group and version too", reason="Ambiguous")
        raise NotFound(f"the server does not serve {selector}: its CustomResourceDefinition may be missing")

    async def _scan(self, selector: ResourceSelector, fresh: bool) -> list[Resource]:
        groups = await self._cluster.groups() if selector.group is None else [selector.group]
        found: list[Resource] = []
        for group in groups:
            if fresh or group not in self._known:
                try:
                    self._known[group] = await self._cluster.scan(group)
                except ApiError as error:
                    if selector.group is not None:
                        raise
                    self._note(group, f"The group {group} can't be discovered and is skipped: {error}")
                    continue
            found += self._known[group]
        return found

    async def topology(
        self, selectors: frozenset[ResourceSelector], patterns: frozenset[str], clusterwide: bool
    ) -> AsyncGenerator[Topology, None]:
        """Topologies, the first as soon as it is known."""
        changed = asyncio.Event()
        namespaces: set[str | None] = {None} if clusterwide else set()
        watchers = [asyncio.ensure_future(self._watch_crds(changed))]
        if not clusterwide:
            watchers.append(asyncio.ensure_future(self._watch_namespaces(patterns, namespaces, changed)))
            await self._wait(changed, watchers, None)
        try:
            last: Topology | None = None
            tries = iter(_LOOK_AGAIN)
            while True:
                changed.clear()
                resources = await self._with_those_that_only_seem_gone(await self._served(selectors))
                current = Topology(frozenset(resources), frozenset(namespaces))
                if current != last:
                    last = current
                    yield current
                missing = [selector for selector in selectors if not selector.select(resources)]
                wait = next(tries, _LOOK_AGAIN[-1]) if missing else None
                if await self._wait(changed, watchers, wait):
                    tries = iter(_LOOK_AGAIN)
                    await asyncio.sleep(_SETTLE)
        finally:
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)

    async def _wait(
        self, changed: asyncio.Event, watchers: Sequence[asyncio.Future[None]], within: float | None
    ) -> bool:
        """Wait for a change, at most so many seconds; whether there was one. Raises what has ended a watcher."""
        waiting = asyncio.ensure_future(changed.wait())
        both: list[asyncio.Future[Any]] = [waiting, *watchers]
        try:
            await asyncio.wait(both, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        for watcher in watchers:
            if watcher.done():
                watcher.result()
        return changed.is_set()

    async def _with_those_that_only_seem_gone(self, resources: set[Resource]) -> frozenset[Resource]:
        """
        Keep what was served before, unless it is really gone.

        A server that starts answers discovery before it knows all of its resources. To believe it would be to take all
        of their objects for deleted.
        """
        seem_gone = self._confirmed - resources
        kept = {resource for resource in seem_gone if not await self._is_gone(resource)}
        self._confirmed = frozenset(resources | kept)
        return self._confirmed

    async def _is_gone(self, resource: Resource) -> bool:
        """Whether the definition of a resource is gone, in the server's own words."""
        try:
            crds = await self.resolve(_CRDS)
            definition = await self._cluster.get(crds, f"{resource.plural}.{resource.group}")
        except NotFound as error:
            return error.is_about_an_object
        except ApiError:
            return False  # who can't be asked has not said so
        versions = definition["spec"].get("versions") or ()
        return not any(one.get("name") == resource.version and one.get("served") for one in versions)

    async def _served(self, selectors: Iterable[ResourceSelector]) -> set[Resource]:
        """All that the selectors name and that can be watched. The unclear is left out, and told once."""
        served: set[Resource] = set()
        self._known.clear()
        for selector in selectors:
            try:
                found = selector.select(await self._scan(selector, fresh=False))
            except NotFound:
                found = []
            if not found:
                self._note(str(selector), f"{selector} is not served by the server (yet); it is waited for. "
                           "Apply its CustomResourceDefinition if it is missing.")  # fmt: skip
            elif len(found) > 1:
                names = ", ".join(sorted(map(str, found)))
                self._note(str(selector), f"{selector} can mean {names} and is not served: name its group and version.")
            elif not found[0].verbs >= _SERVABLE:
                self._note(str(selector), f"{found[0]} can't be listed and watched, so it is not served.")
            else:
                served.add(found[0])
        return served

    def _note(self, what: str, message: str) -> None:
        if (what, message) not in self._noted:
            self._noted.add((what, message))
            logger.warning("%s", message)

    async def _watch_crds(self, changed: asyncio.Event) -> None:
        """Tell when definitions come and go. Without the permission, only what is missing is looked for."""
        try:
            crds = await self.resolve(_CRDS)
            while True:
                async for batch in self._cluster.watch(WatchScope(crds), patience=_PATIENCE):
                    if not isinstance(batch, Mark) and any(type_ not in ("LISTED", "BOOKMARK") for type_, _ in batch):
                        changed.set()
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            self._note("crds", "CustomResourceDefinitions can't be watched, so new ones are noticed more slowly: "
                       f"{error}")  # fmt: skip
            await asyncio.Event().wait()

    async def _watch_namespaces(
        self, patterns: frozenset[str], namespaces: set[str | None], changed: asyncio.Event
    ) -> None:
        """Keep the set of matching namespaces. Without the permission, the patterns that are names are taken."""
        exact = self._cluster.exact_namespaces(patterns)
        if exact == patterns:
            # Plain names need no permission on namespaces, and a watch in one that is not there yet is just empty.
            namespaces.update(exact)
            changed.set()
            await asyncio.Event().wait()
        try:
            while True:
                await self._follow_namespaces(patterns, namespaces, changed)
        except ApiError as error:
            if error.status != 403:
                raise
            self._note("namespaces", f"Namespaces can't be watched, so only {sorted(exact)} are served: {error}")
            namespaces.update(exact)
            changed.set()
            await asyncio.Event().wait()

    async def _follow_namespaces(
        self, patterns: frozenset[str], namespaces: set[str | None], changed: asyncio.Event
    ) -> None:
        def matches(name: str) -> bool:
            return self._cluster.namespace_matches(name, patterns)

        listed: set[str] = set()
        async for batch in self._cluster.watch(WatchScope(_NAMESPACES), patience=_PATIENCE):
            if batch is Mark.BEGIN_LIST:
                listed = set()
            elif batch is Mark.END_LIST:
                namespaces.clear()
                namespaces.update(listed)
                changed.set()
            elif not isinstance(batch, Mark):
                for type_, raw in batch:
                    name = (raw.get("metadata") or {}).get("name") or ""
                    if type_ == "LISTED" and matches(name):
                        listed.add(name)
                    elif type_ == "DELETED" and name in namespaces:
                        namespaces.discard(name)
                        changed.set()
                    elif type_ in ("ADDED", "MODIFIED") and matches(name) and name not in namespaces:
                        namespaces.add(name)
                        changed.set()
