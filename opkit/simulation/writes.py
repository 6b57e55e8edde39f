"""
From a request's body to a stored object: the rules of create and update.

Each function is one step of the store's: it either raises an `ApiError` and changes nothing, or commits once.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from opkit.cluster.body import Raw
from opkit.simulation import managers, metadata, refusals, strategies
from opkit.simulation.kinds import Endpoint
from opkit.simulation.managers import Entry
from opkit.simulation.records import Record, encode
from opkit.simulation.refusals import Cause, bad_value

if TYPE_CHECKING:
    from opkit.simulation.store import Store

# No vowels and no digits that look like letters, as on a real server.
_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_NAME_BASE_LIMIT = 58


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """How a write was asked for."""

    manager: str = "unknown"
    subresource: str = ""
    dry_run: bool = False
    force: bool = False
    """Apply only: take fields from other managers."""


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """The object that a URL names."""

    endpoint: Endpoint
    namespace: str | None
    name: str


def create(
    store: Store,
    endpoint: Endpoint,
    body: Raw,
    namespace: str | None,
    options: Options,
    entries: list[Entry] | None,
) -> Record:
    """Create an object. The body is the store's from now on."""
    kind = endpoint.kind
    check_type(endpoint, body)
    meta = metadata.clean(kind, body)
    if "resourceVersion" in meta:
        raise refusals.bad_request("resourceVersion should not be set on objects to be created")
    if kind.verbs == ("create",):
        return _review(endpoint, body)
    namespace = _namespace_of(endpoint, meta, namespace)
    if kind.namespaced:
        store.require_namespace(kind, namespace or "", meta.get("name") or "")
    meta = _new_metadata(store, endpoint, meta, namespace)
    new = {"metadata": meta} | _rest(endpoint.to_storage(body))
    if endpoint.version.has_status:
        new.pop("status", None)
    new = _complete(endpoint, new, None)
    _refuse(endpoint, meta, _causes(endpoint, new, None))
    if store.find(endpoint, meta["name"], namespace) is not None:
        raise refusals.already_exists(kind, meta["name"])
    time = store.timestamp()
    managers.write(meta, managers.created(endpoint, new, options.manager, time) if entries is None else entries)
    if options.dry_run:
        return _dry(new, "")
    return store.commit(kind, new, None)


def _new_metadata(store: Store, endpoint: Endpoint, meta: Raw, namespace: str | None) -> Raw:
    """What a client may choose, and the server's own for a new object."""
    for field in (*metadata.SYSTEM_FIELDS, "managedFields"):
        meta.pop(field, None)
    if "name" not in meta and "generateName" in meta:
        letters = "".join(store.rng.choice(_NAME_LETTERS) for _ in range(5))
        meta["name"] = meta["generateName"][:_NAME_BASE_LIMIT] + letters
    if namespace is not None:
        meta["namespace"] = namespace
    meta["uid"] = store.new_uid()
    meta["creationTimestamp"] = store.timestamp()
    if endpoint.kind.has_generation:
        meta["generation"] = 1
    return meta


def update(
    store: Store,
    endpoint: Endpoint,
    record: Record,
    body: Raw,
    options: Options,
    *,
    is_patch: bool = False,
    entries: list[Entry] | None = None,
) -> Record:
    """
    Replace an object's state by a body, which is the store's from now on.

    A write that changes nothing gives the stored record and tells nobody. Removing the last finalizer of an
    object that is being deleted deletes it. `entries` are given by an apply, which knows its managers
    already.
    """
    kind = endpoint.kind
    check_type(endpoint, body)
    old = record.body()
    meta = metadata.clean(kind, body)
    _check_identity(endpoint, record, meta, is_patch)
    _check_version(endpoint, record, meta, is_patch)
    new, causes = _new_state(endpoint, old, meta, body, options)
    if "managedFields" in old["metadata"]:
        new["metadata"]["managedFields"] = old["metadata"]["managedFields"]
    if options.subresource != "finalize":
        new = _complete(endpoint, new, old)
    _refuse(endpoint, meta, [*causes, *_causes(endpoint, new, old)])
    if _is_same(old, new) and (entries is None or entries == managers.read(old["metadata"])):
        return record
    if entries is None:
        time = store.timestamp()
        entries = managers.updated(endpoint, old, new, options.manager, options.subresource, time)
    managers.write(new["metadata"], entries)
    return _keep(store, endpoint, record, old, new, options)


def _keep(store: Store, endpoint: Endpoint, record: Record, old: Raw, new: Raw, options: Options) -> Record:
    """Store a state that differs, or delete what was only waiting for this."""
    kind = endpoint.kind
    if kind.has_generation and not _is_same(_spec_of(endpoint, old), _spec_of(endpoint, new)):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    if options.dry_run:
        return _dry(new, str(record.version))
    if is_finished(new):
        store.remove(kind, record)
        return _dry(new, str(record.version))
    return store.commit(kind, new, record)


def _new_state(endpoint: Endpoint, old: Raw, meta: Raw, body: Raw, options: Options) -> tuple[Raw, list[Cause]]:
    """What the write may change goes into the new state, all else stays."""
    given = endpoint.to_storage(body)
    if options.subresource:
        new = {**old, "metadata": dict(old["metadata"])}
        if options.subresource == "finalize":
            spec = given.get("spec")
            finalizers = spec.get("finalizers") if isinstance(spec, dict) else None
            new["spec"] = {
                **(old.get("spec") or {}),
                "finalizers": finalizers if isinstance(finalizers, list) else [],
            }
        elif given.get("status") is not None:
            new["status"] = given["status"]
        else:
            new.pop("status", None)
        return new, []
    causes = list(metadata.change_causes(old["metadata"], meta))
    metadata.restore(old["metadata"], meta)
    new = {"metadata": meta} | _rest(given)
    if endpoint.version.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    return new, causes


def is_finished(body: Raw) -> bool:
    """Whether an object that is being deleted has nothing left to wait for."""
    meta = body["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    spec = body.get("spec")
    return not (isinstance(spec, dict) and "finalizers" in spec and spec["finalizers"] == ["kubernetes"])


def check_type(endpoint: Endpoint, body: Any) -> None:
    """Raises 400 or 422 unless the body says the version and the kind that the URL says."""
    kind = endpoint.kind
    if not isinstance(body, dict):
        raise refusals.bad_request(f"the object provided is unrecognized (must be of type {kind.kind})")
    version, name = body.get("apiVersion"), body.get("kind")
    if kind.is_builtin and not version and not name:
        return
    if not isinstance(name, str) or not name:
        raise refusals.bad_request(f"Object 'Kind' is missing in the body for {kind.kind}")
    if not isinstance(version, str) or not version:
        raise refusals.bad_request(f"Object 'apiVersion' is missing in the body for {kind.kind}")
    if version != endpoint.api_version:
        raise refusals.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({endpoint.api_version})"
        )
    if name != kind.kind and kind.is_builtin:
        raise refusals.bad_request(f'{name} in version "{version}" cannot be handled as a {kind.kind}')
    if name != kind.kind:
        meta = body.get("metadata")
        named = str(meta.get("name") or "") if isinstance(meta, dict) else ""
        raise refusals.invalid(kind, named, [bad_value("kind", name, f"must be {kind.kind}")])


def _namespace_of(endpoint: Endpoint, meta: Raw, namespace: str | None) -> str | None:
    if not endpoint.kind.namespaced:
        if meta.pop("namespace", None):
            raise refusals.bad_request("namespace may not be set for objects that are not in a namespace")
        return None
    namespace = namespace or meta.get("namespace")
    if not namespace:
        raise refusals.bad_request("an object of this kind needs a namespace")
    if meta.get("namespace", namespace) != namespace:
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return str(namespace)


def _check_identity(endpoint: Endpoint, record: Record, meta: Raw, is_patch: bool) -> None:
    name = meta.get("name")
    if not name and not is_patch:
        raise refusals.bad_request(
            f"the name of the object ({record.name} based on URL) was undeterminable: name must be provided"
        )
    if name and name != record.name:
        raise refusals.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({record.name})"
        )
    if meta.get("namespace", record.namespace) != record.namespace:
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if not is_patch and meta.get("uid", record.uid) != record.uid:
        raise refusals.conflict(
            endpoint.kind,
            record.name,
            f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {record.uid}",
        )


def _check_version(endpoint: Endpoint, record: Record, meta: Raw, is_patch: bool) -> None:
    version = meta.get("resourceVersion")
    if version is None:
        if not is_patch and not endpoint.kind.is_builtin:
            cause = Cause(
                "FieldValueInvalid",
                "metadata.resourceVersion",
                "Invalid value: 0x0: must be specified for an update",
            )
            raise refusals.invalid(endpoint.kind, record.name, [cause])
        return
    if not (version.isascii() and version.isdigit()):
        raise refusals.bad_request(f"metadata.resourceVersion: Invalid value: {refusals.show(version)}")
    # Zero means "whatever there is", as for built-in kinds on a real server.
    if version != str(record.version) and version != "0":
        raise refusals.conflict(endpoint.kind, record.name)


def _rest(stored: Raw) -> Raw:
    return {key: value for key, value in stored.items() if key != "metadata"}


def _complete(endpoint: Endpoint, new: Raw, old: Raw | None) -> Raw:
    """Prune, and fill in defaults."""
    if endpoint.version.schema is not None:
        return endpoint.version.schema.complete(new)
    new = strategies.prune(endpoint.kind, new)
    strategies.prepare(endpoint.kind, new, old)
    return new


def _causes(endpoint: Endpoint, new: Raw, old: Raw | None) -> list[Cause]:
    """All that is wrong. What a write does not touch is not looked at again."""
    found: list[Cause] = []
    if old is None or old["metadata"] != new["metadata"]:
        found += metadata.causes(endpoint.kind, new["metadata"])
    if old is None or _rest(old) != _rest(new):
        schema = endpoint.version.schema
        found += schema.causes(new) if schema is not None else strategies.causes(endpoint.kind, new, old)
    return found


def _refuse(endpoint: Endpoint, meta: Raw, causes: list[Cause]) -> None:
    if causes:
        raise refusals.invalid(endpoint.kind, meta.get("name") or "", causes)


def _is_same(old: Raw, new: Raw) -> bool:
    # 1, 1.0 and true are equal in Python, but not in JSON.
    return old == new and json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)


def _spec_of(endpoint: Endpoint, body: Raw) -> Raw:
    """All that counts for the generation."""
    ignored = ("metadata", "status") if endpoint.version.has_status else ("metadata",)
    return {key: value for key, value in body.items() if key not in ignored}


def _dry(body: Raw, version: str) -> Record:
    """A record of what is not stored: it has the version of what is."""
    meta = body["metadata"]
    if version:
        meta["resourceVersion"] = version
    return Record(meta.get("namespace") or "", meta["name"], meta["uid"], 0, meta.get("labels"), encode(body))


def _review(endpoint: Endpoint, body: Raw) -> Record:
    """Access reviews are answered, not stored: whoever has the token may do everything."""
    spec = body.get("spec")
    if not isinstance(spec, dict):
        raise refusals.invalid(endpoint.kind, "", [refusals.required("spec")])
    if bool(spec.get("resourceAttributes")) == bool(spec.get("nonResourceAttributes")):
        cause = bad_value("spec.resourceAttributes", None, "exactly one of resource and nonResource is needed")
        raise refusals.invalid(endpoint.kind, "", [cause])
    answer = {
        "metadata": {},
        "spec": spec,
        "status": {"allowed": True, "reason": "everything is allowed here"},
    }
    return Record("", "", "", 0, None, encode(answer))
