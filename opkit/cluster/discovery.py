"""
Discovery: what a server serves of what is asked for, while it changes.

Takes a server that can be scanned group by group; gives topologies, a new one whenever CustomResourceDefinitions or
namespaces come, go or change. What can't be scanned now stays as it was, and keeps nothing else from being served.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, Protocol

from opkit.cluster.body import Raw
from opkit.cluster.pacing import Pacing, Spacing
from opkit.cluster.protocol import Batch, Mark, Topology, WatchScope
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.cluster.scanning import Found
from opkit.errors import ApiError, NotFound

logger = logging.getLogger("opkit.discovery")

_CRDS = ResourceSelector(name="customresourcedefinitions", group="apiextensions.k8s.io")
_NAMESPACES = Resource(group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False)

# CRDs come in bursts, and a new one changes three times until it serves: one scan is made for all of that. Where they
# never come to rest, the scans get rarer, up to one in so many seconds.
_SETTLE = 0.1
_LONGEST_SETTLE = 1.0

# A server answers discovery a little later than it shows a definition: look again, for what is missing and for what has
# changed. Where definitions can't be watched, the last of these is how late a change may be noticed.
_LOOK_AGAIN = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

# Seconds between two renewals of what is known of a group, while they bring nothing new: from the first to the most.
_RENEW_AGAIN = (0.25, 5.0)

# The same for looks at everything since a path was not known to the server.
_DOUBT_AGAIN = (0.5, 30.0)

# Seconds before a watch of definitions or namespaces that has failed is asked for again, at first.
_PAUSE = 1.0

# Seconds without any sign of life after which a watch of definitions or namespaces counts as dead.
_PATIENCE = 90.0

# No answer, wrong credentials: nothing else will be answered either.
_ABOUT_THE_SERVER = (0, 401)

_SERVABLE = frozenset({"list", "watch"})


class Scannable(Protocol):
    """A server, as far as discovery needs it. All requests raise `ApiError`."""

    async def groups(self) -> Sequence[str]:
        """The API groups; the core group is the empty one."""

    async def scan(self, group: str) -> Sequence[Resource]:
        """The resources of one group in all its versions; a `Found` where some of them can't be discovered."""

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
        self._failed: set[str] = set()
        self._stale: set[str] = set()
        self._renewals: dict[str, Spacing] = {}
        self._doubts = Spacing(*_DOUBT_AGAIN)
        self._noted: set[tuple[str, str]] = set()
        self._claims: dict[ResourceSelector, Resource] = {}
        self._followers: set[asyncio.Event] = set()
        self._definitions: dict[str, str] | None = None
        self._is_blind = False

    # For those who ask once.

    async def resolve(self, selector: ResourceSelector) -> Resource:
        """The one resource that is named; scans again before it says that there is none."""
        for fresh in (False, True):
            found = selector.select(await self._find(selector, fresh=fresh))
            if len(found) == 1:
                return found[0]
            if len(found) > 1:
                names = ", ".join(sorted(map(str, found)))
                raise NotFound(f"{selector} can mean {names}: name the group and version too", reason="Ambiguous")
        raise NotFound(f"the server does not serve {selector}: its CustomResourceDefinition may be missing")

    def doubt(self, group: str) -> None:
        """The server did not know a path of this group: what is known of it may not be true any more."""
        self._stale.add(group)
        if self._followers and self._doubts.passes(_now()):
            for changed in self._followers:
                changed.set()

    async def _find(self, selector: ResourceSelector, fresh: bool) -> list[Resource]:
        groups = await self._cluster.groups() if selector.group is None else [selector.group]
        found: list[Resource] = []
        for group in groups:
            known = self._known.get(group)
            if known is None or ((fresh or group in self._stale) and self._may_renew(group)):
                try:
                    known = await self._scan(group)
                except ApiError as error:
                    if known is None and selector.group is not None:
                        raise
                    self._note(group, f"The group {group} can't be discovered and is skipped: {error}")
            found += known or ()
        return found

    def _may_renew(self, group: str) -> bool:
        return self._renewals.setdefault(group, Spacing(*_RENEW_AGAIN)).passes(_now())

    async def _scan(self, group: str) -> Sequence[Resource]:
        found = self._known[group] = await self._cluster.scan(group)
        self._stale.discard(group)
        return found

    # For those who follow.

    async def topology(
        self, selectors: frozenset[ResourceSelector], patterns: frozenset[str], clusterwide: bool
    ) -> AsyncGenerator[Topology, None]:
        """Topologies, the first as soon as it is known."""
        changed = asyncio.Event()
        self._followers.add(changed)
        namespaces: set[str | None] = {None} if clusterwide else set()
        watchers = [asyncio.ensure_future(self._watch_crds(changed))]
        try:
            if not clusterwide:
                watchers.append(asyncio.ensure_future(self._watch_namespaces(patterns, namespaces, changed)))
                await self._wait(changed, watchers, None)
            last: Topology | None = None
            looks, settle = iter(_LOOK_AGAIN), _SETTLE
            while True:
                changed.clear()
                current = Topology.of(await self._served(selectors), namespaces)
                if current != last:
                    last = current
                    yield current
                wait = next(looks, _LOOK_AGAIN[-1] if self._is_unsettled(selectors) else None)
                if await self._wait(changed, watchers, wait):
                    looks = iter(_LOOK_AGAIN)
                    self._stale |= self._known.keys()  # those who ask once are to see the change, too
                    await asyncio.sleep(settle)
                    settle = min(2 * settle, _LONGEST_SETTLE)
                elif wait is None or wait > _LONGEST_SETTLE:
                    settle = _SETTLE
        finally:
            self._followers.discard(changed)
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)

    def _is_unsettled(self, selectors: Iterable[ResourceSelector]) -> bool:
        """Whether something may come to be served, or change, without anybody telling."""
        partly = any(isinstance(found, Found) and found.failed for found in self._known.values())
        return self._is_blind or partly or bool(self._failed) or any(one not in self._claims for one in selectors)

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

    async def _served(self, selectors: Iterable[ResourceSelector]) -> dict[ResourceSelector, Resource]:
        """The resource for each selector that has one. Raises `ApiError` if nothing at all could be discovered."""
        selectors = sorted(selectors, key=str)
        await self._scan_all(selectors)
        served: dict[ResourceSelector, Resource] = {}
        for selector in selectors:
            if (resource := await self._choose(selector)) is not None:
                served[selector] = resource
        self._claims = served
        return dict(served)

    async def _scan_all(self, selectors: Iterable[ResourceSelector]) -> None:
        """Scan all groups that may be meant. What is known of one that fails stays, and is known to be old."""
        groups = {selector.group for selector in selectors if selector.group is not None}
        errors: list[ApiError] = []
        if any(selector.group is None for selector in selectors):
            try:
                groups |= set(await self._cluster.groups())
                self._known = {group: found for group, found in self._known.items() if group in groups}
            except ApiError as error:
                errors.append(error)
                groups |= self._known.keys()
                self._note("groups", f"The API groups can't be discovered, so new ones are not found: {error}")
        named = sorted(groups)
        for group, answer in zip(
            named, await asyncio.gather(*map(self._scan, named), return_exceptions=True), strict=True
        ):
            if not isinstance(answer, BaseException):
                self._failed.discard(group)
            elif isinstance(answer, ApiError):
                self._failed.add(group)
                errors.append(answer)
            else:
                raise answer
        self._failed &= groups
        if errors and (self._failed.issuperset(named) or any(error.status == 401 for error in errors)):
            raise errors[0]
        for group in self._failed:
            self._note(group, f"The group {group} can't be discovered: what was served of it stays served.")

    async def _choose(self, selector: ResourceSelector) -> Resource | None:
        """
        What serves those who name a resource so. The unclear is left out, and told once.

        What was served stays served, in the version that there is now, until it is really gone: a server that starts
        answers discovery before it knows all of its resources, and to believe it would be to take all of their objects
        for deleted.
        """
        known = [resource for found in self._known.values() for resource in found]
        before = self._claims.get(selector)
        if before is not None:
            if self._is_unsure(before):
                return before
            if (found_again := selector.follow(known, before)) is not None:
                return found_again
            return None if await self._is_gone(before, selector.version is not None) else before
        found = selector.select(known)
        if not found:
            self._note(str(selector), f"{selector} is not served by the server (yet); it is waited for. "
                       "Apply its CustomResourceDefinition if it is missing.")  # fmt: skip
        elif len(found) > 1:
            names = ", ".join(sorted(map(str, found)))
            self._note(str(selector), f"{selector} can mean {names} and is not served: name its group and version.")
        elif not found[0].verbs >= _SERVABLE:
            self._note(str(selector), f"{found[0]} can't be listed and watched, so it is not served.")
        else:
            return found[0]
        return None

    def _is_unsure(self, resource: Resource) -> bool:
        """Whether the place where this resource was found can't be looked at now."""
        found = self._known.get(resource.group)
        return resource.group in self._failed or (isinstance(found, Found) and resource.version in found.failed)

    async def _is_gone(self, resource: Resource, in_this_version: bool) -> bool:
        """Whether the definition of a resource is gone, or serves nothing any more, in the server's own words."""
        try:
            crds = await self.resolve(_CRDS)
            definition = await self._cluster.get(crds, f"{resource.plural}.{resource.group}")
        except NotFound as error:
            return error.is_about_an_object
        except ApiError:
            return False  # who can't be asked has not said so
        spec = definition.get("spec") if isinstance(definition, dict) else None
        if not isinstance(spec, dict):
            return False
        versions = [one for one in spec.get("versions") or () if isinstance(one, dict) and one.get("served")]
        # Whoever names no version is served in another one, as soon as discovery shows it.
        return not any(not in_this_version or one.get("name") == resource.version for one in versions)

    def _note(self, what: str, message: str) -> None:
        if (what, message) not in self._noted:
            self._noted.add((what, message))
            logger.warning("%s", message)

    # What is watched for that.

    async def _watch_crds(self, changed: asyncio.Event) -> None:
        """Tell when definitions come, go or change. Without the permission, others have to look from time to time."""
        pacing = Pacing(_PAUSE, random.random)
        while True:
            started = _now()
            try:
                crds = await self.resolve(_CRDS)
                await self._follow_crds(crds, changed)
                pause = pacing.ended(_now() - started)
            except ApiError as error:
                if error.status in _ABOUT_THE_SERVER:
                    raise
                pause = pacing.failed(_now() - started)
                if error.status == 410 and pacing.failures == 1:
                    continue  # it has grown old: list at once
                self._note("crds", "CustomResourceDefinitions can't be watched, so new ones are noticed more slowly: "
                           f"{error}")  # fmt: skip
                if not self._is_blind:
                    self._is_blind = True
                    changed.set()
            await asyncio.sleep(pause)

    async def _follow_crds(self, crds: Resource, changed: asyncio.Event) -> None:
        listed: dict[str, str] = {}
        async for batch in self._cluster.watch(WatchScope(crds), patience=_PATIENCE):
            if batch is Mark.BEGIN_LIST:
                listed = {}
            elif batch is Mark.END_LIST:
                if self._is_blind or (self._definitions is not None and self._definitions != listed):
                    changed.set()  # between two watches
                self._definitions, self._is_blind = listed, False
            elif not isinstance(batch, Mark):
                for type_, raw in batch:
                    name, version = _name_and_version(raw)
                    if type_ == "LISTED":
                        listed[name] = version
                    elif type_ != "BOOKMARK":
                        changed.set()
                        if self._definitions is not None:
                            self._definitions.pop(name, None)
                            if type_ != "DELETED":
                                self._definitions[name] = version

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
        pacing, known = Pacing(_PAUSE, random.random), asyncio.Event()
        while True:
            started = _now()
            try:
                await self._follow_namespaces(patterns, namespaces, changed, known)
                pause = pacing.ended(_now() - started)
            except ApiError as error:
                if error.status != 403 and not known.is_set():
                    raise
                if error.status == 403:
                    self._note(
                        "namespaces", f"Namespaces can't be watched, so only {sorted(exact)} are served: {error}"
                    )
                    known.set()
                    if not exact <= namespaces or not namespaces:
                        namespaces.update(exact)
                        changed.set()
                elif pacing.failures == 1:
                    self._note("namespaces", f"Namespaces can't be watched; those that are known stay served: {error}")
                pause = pacing.failed(_now() - started)
            await asyncio.sleep(pause)

    async def _follow_namespaces(
        self, patterns: frozenset[str], namespaces: set[str | None], changed: asyncio.Event, known: asyncio.Event
    ) -> None:
        def matches(name: str) -> bool:
            return self._cluster.namespace_matches(name, patterns)

        listed: set[str] = set()
        async for batch in self._cluster.watch(WatchScope(_NAMESPACES), patience=_PATIENCE):
            if batch is Mark.BEGIN_LIST:
                listed = set()
            elif batch is Mark.END_LIST:
                if namespaces != listed or not known.is_set():
                    namespaces.clear()
                    namespaces.update(listed)
                    known.set()
                    changed.set()
            elif not isinstance(batch, Mark):
                for type_, raw in batch:
                    name, _ = _name_and_version(raw)
                    if type_ == "LISTED" and matches(name):
                        listed.add(name)
                    elif type_ == "DELETED" and name in namespaces:
                        namespaces.discard(name)
                        changed.set()
                    elif type_ in ("ADDED", "MODIFIED") and matches(name) and name not in namespaces:
                        namespaces.add(name)
                        changed.set()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _name_and_version(raw: Any) -> tuple[str, str]:
    """Of whatever a watch shows; empty where there is none."""
    meta = raw.get("metadata") if isinstance(raw, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    return str(meta.get("name") or ""), str(meta.get("resourceVersion") or "")
