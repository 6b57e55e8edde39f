"""
Delivery: patches that arrive, whatever happens to the definition of their resource in between.

What is known of a definition can be a moment old. A status that is sent to a subresource which is not there any more is
refused as if the object was gone; one that is sent to the object where the subresource is new is dropped in silence.
Takes a patch; gives the server's answer, or raises `ApiError`. Never decides what to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opkit.cluster.body import Raw
from opkit.cluster.merging import would_change
from opkit.cluster.protocol import PatchType
from opkit.cluster.resource import Resource
from opkit.errors import ApiError, NotFound
from opkit.flow.store import Origin
from opkit.flow.writes import Gone, Writes


class Delivery:
    """The patches for one object, in the name of a controller; with `only`, for that very object."""

    def __init__(
        self,
        writes: Writes,
        resource: Resource,
        name: str,
        namespace: str | None,
        *,
        origin: Origin | None,
        manager: str | None = None,
        only: Raw | None = None,
    ) -> None:
        self._writes = writes
        self._resource = resource
        self._name = name
        self._namespace = namespace
        self._origin = origin
        self._manager = manager
        self._only = only

    async def send(self, patch: dict[str, Any]) -> None:
        """
        Send a merge patch: the status to its subresource where there is one, the rest to the object.

        Each part is a request of its own, and the refusal of one does not hold up the other.
        """
        # An empty map is what a mere look at `patch.status` leaves; None, which removes it, is sent like any value.
        rest = {key: value for key, value in patch.items() if value != {}}
        status: Raw = {}
        if "status" in rest and "status" in self._resource.subresources:
            status = {"status": rest.pop("status")}
        failed: ApiError | None = None
        if rest:
            try:
                await self._patch_object(rest)
            except ApiError as error:
                failed = error
        if status:
            try:
                await self.patch_status(status)
            except ApiError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    async def patch(self, patch: Raw | Sequence[Raw], type: PatchType = "merge") -> Raw:
        """Send a patch to the object itself, as it is."""
        return await self._patch(patch, type, None)

    async def patch_status(self, patch: Raw | Sequence[Raw], type: PatchType = "merge") -> Raw:
        """Send what concerns nothing but the status."""
        if "status" not in self._resource.subresources:
            return await self._patch_object(patch, type)
        try:
            return await self._patch(patch, type, "status")
        except Gone:
            raise
        except NotFound:
            # Servers say the same of an object that is gone and of a subresource that is: the object tells.
            answer = await self._patch(patch, type, None)
            if _has_dropped(answer, patch):
                raise
            return answer

    async def _patch_object(self, patch: Raw | Sequence[Raw], type: PatchType = "merge") -> Raw:
        answer = await self._patch(patch, type, None)
        # Kinds without a dot in their group are the server's own: they don't change while it runs.
        if isinstance(patch, dict) and "." in self._resource.group and _has_dropped(answer, patch):
            try:
                return await self._patch({"status": patch["status"]}, type, "status")
            except NotFound:
                pass  # there is no subresource: the definition itself does not have these fields
        return answer

    async def _patch(self, patch: Raw | Sequence[Raw], type: PatchType, subresource: str | None) -> Raw:
        return await self._writes.patch(
            self._resource, self._name, self._namespace, patch, type=type, subresource=subresource,
            origin=self._origin, manager=self._manager, only=self._only,
        )  # fmt: skip


def _has_dropped(answer: Raw, patch: Raw | Sequence[Raw]) -> bool:
    """Whether the server took a patch, and left the status as it was."""
    return isinstance(patch, dict) and "status" in patch and would_change(answer, {"status": patch["status"]})
