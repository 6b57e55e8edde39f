"""
Definitions: the CustomResourceDefinitions that a test's handlers need.

Takes a plan and the folder it came from; gives definitions for what is not built in: those that lie beside the
handlers or in a folder there, and permissive ones, with a status subresource, for what has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from opkit.cluster.resource import ResourceSelector
from opkit.plan.plan import Plan
from opkit.simulation import topology
from opkit.simulation.store import Store

_GROUP = "example.com"


def needed(plan: Plan) -> Iterator[ResourceSelector]:
    """All resources that a plan names."""
    for resource in plan.resources:
        yield resource.resource
        for controller in resource.controllers:
            yield from controller.owns
        yield from (secondary.resource for secondary in resource.secondaries)


def define(store: Store, plan: Plan, folders: Iterable[Path]) -> None:
    """Make the store serve all that the plan names."""
    definitions = store.endpoint("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    for body in _found_in(folders):
        store.create(definitions, body)
    for selector in needed(plan):
        if not selector.select(topology.resources(store)):
            store.create(definitions, _permissive(selector))


def _found_in(folders: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """The definitions in the YAML files of these folders, each once."""
    import yaml

    seen: set[str] = set()
    for folder in folders:
        for file in sorted([*folder.glob("*.y*ml"), *folder.glob("*/*.y*ml")]):
            for body in yaml.safe_load_all(file.read_text(encoding="utf-8")):
                if not isinstance(body, dict) or body.get("kind") != "CustomResourceDefinition":
                    continue
                if body["metadata"]["name"] not in seen:
                    seen.add(body["metadata"]["name"])
                    yield body


def _permissive(selector: ResourceSelector) -> dict[str, Any]:
    """Names that the author did not give are guessed from the one that is."""
    plural, kind = _names(selector.name)
    return permissive(plural, kind, selector.group or _GROUP, selector.version or "v1")


def permissive(plural: str, kind: str, group: str, version: str = "v1") -> dict[str, Any]:
    """The body of a definition, namespaced and with a status subresource, that takes any object."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }


def _names(name: str) -> tuple[str, str]:
    """Plural and kind, of either of them or the singular."""
    if name[0].isupper():
        singular, kind = name.lower(), name
    else:
        singular = _singular(name)
        kind = singular[0].upper() + singular[1:]
    if not name[0].isupper() and name != singular:
        return name, kind
    ending = "es" if singular.endswith(("s", "x", "ch", "sh")) else "s"
    return (f"{singular[:-1]}ies" if singular.endswith("y") else singular + ending), kind


def _singular(plural: str) -> str:
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh")):
        if plural.endswith(ending):
            return plural.removesuffix(ending) + instead
    return plural.removesuffix("s") if not plural.endswith("ss") else plural
