"""
Events: Kubernetes Events about handled objects, in the author's words.

Takes what handlers want to be told; posts it from one background task, so that a handler never waits for it. Equal
events of one object are counted up in one Event rather than posted again. Never a reason for a run to fail.
"""

from __future__ import annotations

import asyncio
import collections
import hashlib
import logging

from opkit.clock import Clock
from opkit.cluster.body import Raw, metadata
from opkit.cluster.protocol import Cluster
from opkit.cluster.resource import Resource
from opkit.errors import AlreadyExists, ApiError, NotFound
from opkit.flow.lead import Lead

logger = logging.getLogger("opkit.events")

_EVENTS = Resource(group="", version="v1", plural="events", kind="Event", namespaced=True)
_TYPES = ("Normal", "Warning")
_LONGEST_MESSAGE = 1024  # the API server's own limit
_WAITING = 1000  # an outage must not fill the memory with old news
_COUNTED = 1000


def check(reason: str, type: str) -> None:
    """Raise `ValueError` for an event that no server would take."""
    if type not in _TYPES:
        raise ValueError(f"the type of an event is Normal or Warning, not {type!r}")
    if not reason:
        raise ValueError("an event needs a reason: one word in CamelCase")


class EventPoster:
    """Posts Events in the operator's name."""

    def __init__(self, cluster: Cluster, clock: Clock, source: str, lead: Lead) -> None:
        self._lead = lead
        self._cluster = cluster
        self._clock = clock
        self._source = source
        self._waiting: collections.deque[tuple[Raw, str, str, str]] = collections.deque(maxlen=_WAITING)
        self._counts: collections.OrderedDict[str, int] = collections.OrderedDict()
        self._task: asyncio.Task[None] | None = None

    def post(self, raw: Raw, reason: str, message: str, type: str = "Normal") -> None:
        """Post an Event about an object, some time soon."""
        self._waiting.append((raw, reason, message[:_LONGEST_MESSAGE], type))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._post_all(), name="poster of events")

    async def _post_all(self) -> None:
        while self._waiting:
            raw, reason, message, type_ = self._waiting.popleft()
            if not self._lead.is_held:
                continue  # another process leads, and tells of its own work
            try:
                await self._post_one(raw, reason, message, type_)
            except ApiError as error:
                logger.debug("The event %s about %s was not taken: %s", reason, metadata(raw).get("name"), error)

    async def _post_one(self, raw: Raw, reason: str, message: str, type_: str) -> None:
        meta = metadata(raw)
        # Events about objects without a namespace live in "default", as everywhere in Kubernetes.
        namespace = meta.get("namespace") or "default"
        identity = "\0".join((str(meta.get("uid")), reason, message, type_))
        name = f"{str(meta.get('name'))[:200]}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
        now = self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
        count = self._count(name)
        if count > 1:
            try:
                await self._cluster.patch(
                    _EVENTS, name, namespace, {"count": count, "lastTimestamp": now}, manager=self._source
                )
                return
            except NotFound:
                pass  # Events expire, an hour after the last change by default
        body = self._body(raw, name, namespace, reason, message, type_, now)
        try:
            await self._cluster.create(_EVENTS, body, namespace, manager=self._source)
        except AlreadyExists:  # posted by this operator before it was started again
            await self._cluster.patch(_EVENTS, name, namespace, {"lastTimestamp": now}, manager=self._source)

    def _count(self, name: str) -> int:
        count = self._counts[name] = self._counts.pop(name, 0) + 1
        if len(self._counts) > _COUNTED:
            self._counts.popitem(last=False)
        return count

    def _body(self, raw: Raw, name: str, namespace: str, reason: str, message: str, type_: str, now: str) -> Raw:
        meta = metadata(raw)
        involved = {
            "apiVersion": raw.get("apiVersion"),
            "kind": raw.get("kind"),
            "name": meta.get("name"),
            "namespace": meta.get("namespace"),
            "uid": meta.get("uid"),
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {key: value for key, value in involved.items() if value is not None},
            "reason": reason,
            "message": message,
            "type": type_,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "source": {"component": self._source},
            "reportingComponent": self._source,
        }

    async def flush(self, within: float) -> None:
        """Wait until all is posted, at most so many seconds; then give up the rest."""
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=within)
            self._task.cancel()
            await asyncio.wait({self._task})
