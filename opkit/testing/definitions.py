"""
Definitions: the CustomResourceDefinitions that a test's handlers need.

Takes a plan and the folder it came from; gives definitions for what is not built in: those that lie beside the
handlers or in a folder there, and permissive ones, with a status subresource, for what has none.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from opkit.apiserver import json_yaml
from opkit.apiserver.manifests import ManifestError, not_yaml
from opkit.cluster.body import Raw, clone
from opkit.cluster.resource import ResourceSelector
from opkit.errors import ApiError
from opkit.plan.plan import Plan
from opkit.simulation import topology
from opkit.simulation.store import Store

logger = logging.getLogger("opkit.testing")

_GROUP = "example.com"

_DEFINITION = "CustomResourceDefinition"
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})

# What is larger holds data: the longest definitions that are in use have some megabytes.
_LARGEST = 16 * 2**20

# Between two documents, as kubectl splits files before it reads them.
_SEPARATOR = re.compile(rb"^---(?=\s)[^\n]*\n", re.MULTILINE)


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
    for file, body in _found_in(folders):
        try:
            store.create(definitions, body)
        except ApiError as error:
            raise ManifestError(f"{file}: the definition {body['metadata']['name']} is refused: {error}") from error
    made: dict[str, Raw] = {}
    for selector in needed(plan):
        if selector.select(topology.resources(store)):
            continue
        body = _permissive(selector)
        name = body["metadata"]["name"]
        if name in made:
            # The same kind by another version: its definition, which we have made, gets that one, too.
            versions = made[name]["spec"]["versions"]
            versions += [{**one, "storage": False} for one in body["spec"]["versions"]]
            store.patch(definitions, name, None, {"spec": {"versions": versions}})
        elif store.find(definitions, name) is not None:
            raise ManifestError(f"the definition {name} beside the handlers does not serve {selector}")
        else:
            made[name] = body
            store.create(definitions, clone(body))


def _found_in(folders: Iterable[Path]) -> Iterator[tuple[Path, Raw]]:
    """The definitions in the files of these folders, each once, with where it stands."""
    seen: set[str] = set()
    for folder in folders:
        for file in _files(folder):
            for body in _definitions(file):
                name = str(body["metadata"]["name"])
                if name not in seen:
                    seen.add(name)
                    yield file, body


def _files(folder: Path) -> Iterator[Path]:
    """The files beside the handlers, and in the folders there, which may hold definitions."""
    for place in [folder, *_listed(folder)]:
        yield from (file for file in _listed(place) if file.suffix in _SUFFIXES)


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []  # no folder, or none that may be read


def _definitions(file: Path) -> Iterator[Raw]:
    """
    The definitions in a file. What else is there, in whatever language, is none of the injector's business.

    Each document is read for itself: one that can't be read, a template among them, does not hide the others.
    """
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            return
        text = file.read_bytes()
    except OSError:
        return
    if _DEFINITION.encode() not in text:
        return
    for part in [text] if file.suffix == ".json" else _SEPARATOR.split(text):
        if _DEFINITION.encode() not in part:
            continue
        try:
            documents = json_yaml.load_all(part)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            line = text[: text.index(part)].count(b"\n") + 1
            logger.warning("A definition is left out: %s", not_yaml(file, error, line))
            continue
        for document in documents:
            yield from _in_document(document)


def _in_document(document: Any) -> Iterator[Raw]:
    if not isinstance(document, dict):
        return
    if str(document.get("kind")).endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _in_document(item)
    elif document.get("kind") == _DEFINITION and document.get("apiVersion") == "apiextensions.k8s.io/v1":
        meta = document.get("metadata")
        if isinstance(meta, dict) and meta.get("name"):
            yield document


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
