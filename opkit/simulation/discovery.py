"""The documents by which clients find out what a server serves."""

from __future__ import annotations

from opkit.cluster.body import Raw
from opkit.cluster.resource import version_rank
from opkit.simulation.kinds import Endpoint, Kind
from opkit.simulation.store import Store

_SUBRESOURCE_VERBS = {
    "status": ["get", "patch", "update"],
    "scale": ["get", "patch", "update"],
    "finalize": ["update"],
}


def core_versions() -> Raw:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups(store: Store) -> Raw:
    """All groups but the core one."""
    names = sorted({kind.group for kind in store.kinds() if kind.group})
    found = [document for name in names if (document := _group(store, name))]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def group(store: Store, name: str) -> Raw | None:
    """One group, or nothing if there is none of that name."""
    document = _group(store, name)
    return {"kind": "APIGroup", "apiVersion": "v1", **document} if document else None


def _group(store: Store, name: str) -> Raw | None:
    served = {version for kind in store.kinds() if kind.group == name for version in kind.served_versions}
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in sorted(served, key=version_rank, reverse=True)
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]} if versions else None


def endpoints(store: Store, group: str, version: str) -> list[Endpoint]:
    """All that is served in one version of a group."""
    found = [kind.endpoint(version) for kind in store.kinds() if kind.group == group]
    return [endpoint for endpoint in found if endpoint is not None]


def resources(store: Store, group: str, version: str) -> Raw | None:
    """The resources of one version of a group, or nothing if it is not served."""
    served = endpoints(store, group, version)
    if not served:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [entry for endpoint in served for entry in _entries(endpoint)],
    }


def _entries(endpoint: Endpoint) -> list[Raw]:
    kind = endpoint.kind
    entry: Raw = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    return [entry, *(_subresource(kind, name) for name in sorted(endpoint.version.subresources))]


def _subresource(kind: Kind, name: str) -> Raw:
    entry: Raw = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _SUBRESOURCE_VERBS[name],
    }
    return entry | {"group": "autoscaling", "version": "v1", "kind": "Scale"} if name == "scale" else entry
