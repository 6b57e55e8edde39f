"""The scale subresource: one number of an object's spec, read and written in the words of autoscaling."""

from __future__ import annotations

from typing import Any

from opkit.cluster.body import Raw
from opkit.simulation import jsonpath, patches, refusals
from opkit.simulation.kinds import Endpoint
from opkit.simulation.records import Record
from opkit.simulation.store import Store
from opkit.simulation.writes import Options

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def read(endpoint: Endpoint, record: Record) -> Raw:
    """The Scale of an object."""
    paths = _paths(endpoint)
    body = endpoint.decode(record)
    wanted = jsonpath.find(body, paths["specReplicasPath"])
    actual = jsonpath.find(body, paths["statusReplicasPath"])
    scale: Raw = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: body["metadata"][key] for key in _KEPT if key in body["metadata"]},
        "spec": {"replicas": wanted[0] if wanted else 0},
        "status": {"replicas": actual[0] if actual else 0},
    }
    if selector := jsonpath.find(body, paths.get("labelSelectorPath") or ".none"):
        scale["status"]["selector"] = selector[0]
    return scale


def write(store: Store, endpoint: Endpoint, record: Record, scale: Any, options: Options) -> Record:
    """Set the number. A version in the Scale is a lock."""
    spec = scale.get("spec") if isinstance(scale, dict) else None
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else 0
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise refusals.bad_request("spec.replicas of a Scale must be an integer")
    patch: Any = replicas
    for name in reversed(jsonpath.names(_paths(endpoint)["specReplicasPath"])):
        patch = {name: patch}
    meta = scale.get("metadata") if isinstance(scale, dict) else None
    if isinstance(meta, dict) and isinstance(meta.get("resourceVersion"), str):
        patch["metadata"] = {"resourceVersion": meta["resourceVersion"]}
    plain = Options(manager=options.manager, dry_run=options.dry_run)
    return store.patch(endpoint, record.name, record.namespace or None, patch, "merge", plain)


def patched(endpoint: Endpoint, record: Record, patch: Any, type: str) -> Raw:
    """The Scale of an object after a patch to it."""
    current = read(endpoint, record)
    current["metadata"].pop("resourceVersion", None)
    return patches.apply_json_patch(current, patch) if type == "json" else patches.apply_merge_patch(current, patch)


def _paths(endpoint: Endpoint) -> dict[str, str]:
    if endpoint.version.scale is None:
        raise refusals.no_such_resource()
    return dict(endpoint.version.scale)
