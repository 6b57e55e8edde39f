"""
How a definition becomes a kind that is served, and how it goes: objects first, then the definition, then
the kind.

Each function is called by the store right after it has stored or removed a definition, in the same step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opkit.cluster.body import Raw
from opkit.simulation import definitions, deletion
from opkit.simulation.deletion import DeleteOptions
from opkit.simulation.kinds import Endpoint, Kind
from opkit.simulation.records import Record

if TYPE_CHECKING:
    from opkit.simulation.store import Store


def define(store: Store, kind: Kind, body: Raw, record: Record, is_new: bool) -> None:
    """Serve what a definition defines; a new one is accepted in two more steps, as clients wait for that."""
    defined = definitions.kind_of(body)
    if is_new:
        _establish(store, kind, defined, body, record)
    elif store.kind_at((defined.group, defined.plural)) is not None:
        store.install(defined)
        if _is_going(body):
            _clear(store, defined)


def undefine(store: Store, record: Record) -> None:
    """The definition is gone, and with it what it defined."""
    plural, _, group = record.name.partition(".")
    kind = store.kind_at((group, plural))
    if kind is not None and not kind.is_builtin:
        store.uninstall(kind)


def finish(store: Store, defined: Kind) -> None:
    """When the last object of a definition that is being deleted is gone, the definition goes."""
    endpoint = store.endpoint(definitions.GROUP, "v1", definitions.PLURAL)
    record = store.find(endpoint, defined.qualified)
    if record is None or store.count(defined):
        return
    body = endpoint.decode(record)
    if _is_going(body):
        rest = [name for name in body["metadata"]["finalizers"] if name != definitions.CLEANUP_FINALIZER]
        store.patch(endpoint, record.name, None, {"metadata": {"finalizers": rest}})


def _is_going(body: Raw) -> bool:
    meta = body["metadata"]
    is_guarded = definitions.CLEANUP_FINALIZER in (meta.get("finalizers") or ())
    return is_guarded and bool(meta.get("deletionTimestamp"))


def _clear(store: Store, defined: Kind) -> None:
    """The definition is being deleted: its objects go first."""
    endpoint = Endpoint(defined, defined.versions[0])
    for record in store.records(endpoint):
        if store.find(endpoint, record.name, record.namespace) is record:
            deletion.delete(store, endpoint, record, DeleteOptions())
    finish(store, defined)


def _establish(store: Store, kind: Kind, defined: Kind, body: Raw, record: Record) -> None:
    is_taken = any(
        other.group == defined.group and (other.kind == defined.kind or other.plural == defined.plural)
        for other in store.kinds()
    )
    time = store.timestamp()
    stored = [version["name"] for version in body["spec"]["versions"] if version.get("storage")]
    status = definitions.pending(stored)
    reason, message = ("NoConflicts", "no conflicts found")
    if is_taken:
        reason, message = ("KindConflict", "the kind or its plural is in use")
    status["conditions"] = [definitions.condition("NamesAccepted", not is_taken, reason, message, time)]
    if not is_taken:
        status["acceptedNames"] = body["spec"]["names"]
    record = store.commit(kind, {**body, "metadata": dict(body["metadata"]), "status": status}, record)
    if is_taken:
        return
    store.install(defined)
    message = "the initial names have been accepted"
    mark = definitions.condition("Established", True, "InitialNamesAccepted", message, time)
    status = {**status, "conditions": [*status["conditions"], mark]}
    store.commit(kind, {**body, "metadata": dict(body["metadata"]), "status": status}, record)
