"""
Deletions: preconditions, finalizers, propagation; what becomes of custom resources whose definition goes.

Each function is one step of the store's.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from opkit.cluster.body import Raw
from opkit.errors import ApiError
from opkit.simulation import definitions, refusals
from opkit.simulation.kinds import Endpoint, Kind
from opkit.simulation.records import Record
from opkit.simulation.refusals import Cause

if TYPE_CHECKING:
    from opkit.simulation.store import Store

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_LASTING_NAMESPACES = frozenset({"default", "kube-public", "kube-system"})
_POLICIES = ("Foreground", "Background", "Orphan")


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How a deletion was asked for."""

    uid: str | None = None
    version: str | None = None
    propagation: str | None = None
    dry_run: bool = False

    @classmethod
    def parse(cls, body: Any) -> DeleteOptions:
        """Read `DeleteOptions` in JSON. Raises 400 or 422."""
        if body is None:
            return cls()
        if not isinstance(body, dict):
            raise refusals.bad_request("delete options must be an object")
        preconditions = body.get("preconditions") or {}
        if not isinstance(preconditions, dict):
            raise refusals.bad_request("preconditions must be an object")
        propagation = body.get("propagationPolicy")
        if propagation is None and body.get("orphanDependents") is not None:
            propagation = "Orphan" if body["orphanDependents"] else "Background"
        return cls(
            uid=_text(preconditions, "uid"),
            version=_text(preconditions, "resourceVersion"),
            propagation=check_propagation(propagation),
            dry_run=check_dry_run(body.get("dryRun")),
        )


def check_propagation(policy: Any) -> str | None:
    """Raises 422 for a policy that does not exist."""
    if policy is not None and policy not in _POLICIES:
        values = ", ".join(f'"{name}"' for name in _POLICIES)
        message = f"Unsupported value: {refusals.show(policy)}: supported values: {values}"
        raise _bad_options("propagationPolicy", message)
    return policy if policy is None else str(policy)


def check_dry_run(values: Any) -> bool:
    """Raises 422 for anything but `All`."""
    if values in (None, [], ""):
        return False
    if values not in ("All", ["All"]):
        raise _bad_options("dryRun", f'Unsupported value: {refusals.show(values)}: supported values: "All"')
    return True


def _bad_options(field: str, message: str) -> ApiError:
    cause = Cause("FieldValueNotSupported", field, message)
    options = Kind(group="meta.k8s.io", plural="deleteoptions", kind="DeleteOptions", versions=())
    return refusals.invalid(options, "", [cause])


def _text(holder: Raw, field: str) -> str | None:
    value = holder.get(field)
    if value is not None and not isinstance(value, str):
        raise refusals.bad_request(f"{field} must be a string")
    return value


@dataclasses.dataclass(frozen=True, slots=True)
class Deleted:
    """What became of it: `is_gone`, or only marked and waiting for finalizers."""

    record: Record
    is_gone: bool


def delete(store: Store, endpoint: Endpoint, record: Record, options: DeleteOptions) -> Deleted:
    """Ask for an object's deletion. Raises 409 if a precondition does not hold."""
    kind = endpoint.kind
    _check_preconditions(kind, record, options)
    if _is_namespace(kind) and record.name in _LASTING_NAMESPACES:
        raise refusals.forbidden(kind, record.name, "this namespace may not be deleted")
    body = record.body()
    meta = body["metadata"]
    if meta.get("deletionTimestamp"):
        return Deleted(record, is_gone=False)
    finalizers = list(meta.get("finalizers") or ())
    finalizers += _added_finalizers(kind, options.propagation, finalizers)
    is_guarded = bool(finalizers) or _is_namespace(kind)
    if options.dry_run:
        return Deleted(record, is_gone=not is_guarded)
    if not is_guarded:
        store.remove(kind, record)
        return Deleted(record, is_gone=True)
    meta["finalizers"] = finalizers
    if not finalizers:
        del meta["finalizers"]
    return Deleted(_mark(store, kind, body, record), is_gone=False)


def _mark(store: Store, kind: Kind, body: Raw, record: Record) -> Record:
    meta = body["metadata"]
    time = store.timestamp()
    meta["deletionTimestamp"] = time
    if not _is_namespace(kind):
        meta["deletionGracePeriodSeconds"] = 0
    else:
        body["status"] = {**(body.get("status") or {}), "phase": "Terminating"}
    if meta.get("generation"):
        meta["generation"] += 1
    if definitions.is_definition(kind):
        status = body.setdefault("status", {})
        message = "CustomResource deletion is in progress"
        mark = definitions.condition("Terminating", True, "InstanceDeletionInProgress", message, time)
        status["conditions"] = [*(status.get("conditions") or ()), mark]
    return store.commit(kind, body, record)


def _added_finalizers(kind: Kind, propagation: str | None, finalizers: list[str]) -> list[str]:
    if definitions.is_definition(kind):
        return [definitions.CLEANUP_FINALIZER]
    added = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(propagation or "")
    return [added] if added and added not in finalizers else []


def _is_namespace(kind: Kind) -> bool:
    return (kind.group, kind.plural) == ("", "namespaces")


def _check_preconditions(kind: Kind, record: Record, options: DeleteOptions) -> None:
    for word, asked, actual in (
        ("UID", options.uid, record.uid),
        ("ResourceVersion", options.version, str(record.version)),
    ):
        if asked is not None and asked != actual:
            raise refusals.conflict(
                kind,
                record.name,
                f"the {word} in the precondition ({asked}) does not match the {word} in record ({actual})."
                " The object might have been deleted and then recreated",
            )
