"""
Files of objects, applied in an order that works: definitions first, then namespaces, then the rest.

Takes files and folders of YAML or JSON. Applies by server-side apply, so it may be repeated.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from opkit.apiserver import json_yaml
from opkit.cluster.body import Raw
from opkit.errors import NotFound, OpkitError
from opkit.simulation.cluster import SimulatedCluster
from opkit.simulation.store import Store

_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_FIRST = ("CustomResourceDefinition", "Namespace")
_MANAGER = "opkit-apply"


class ManifestError(OpkitError):
    """A file can't be read, or what it holds are no objects; the text names the file."""


def load(paths: Iterable[str | Path]) -> list[Raw]:
    """
    All objects of files and folders (with their subfolders, in the order of the names), in the order to apply
    them.

    Raises `ManifestError`.
    """
    bodies = [body for path in paths for file in _files(Path(path)) for body in _read(file)]
    return sorted(bodies, key=_rank)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = []
    for folder, folders, names in os.walk(path, onerror=_refuse_folder):  # follows no links, which may lead in circles
        folders.sort()
        files += [Path(folder, name) for name in names if Path(name).suffix in _SUFFIXES]
    return sorted(file for file in files if file.is_file())


def _refuse_folder(error: OSError) -> None:
    raise ManifestError(f"{error.filename} can't be read: {error.strerror}")


def _read(path: Path) -> list[Raw]:
    try:
        documents = json_yaml.load_all(path.read_bytes())
    except OSError as error:
        raise ManifestError(f"{path} can't be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ManifestError(not_yaml(path, error)) from None
    return [body for document in documents if document is not None for body in _objects(path, document)]


def not_yaml(path: Path, error: Exception, first_line: int = 1) -> str:
    """One line that names the file, and the line where the parser says it."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        words = f"{error.context or ''} {error.problem or ''}".strip()
        return f"{path}:{error.problem_mark.line + first_line}: not YAML: {' '.join(words.split())}"
    return f"{path} is not YAML: {' '.join(str(error).split())}"


def _objects(path: Path, document: Any) -> list[Raw]:
    if isinstance(document, dict) and str(document.get("kind")).endswith("List") and "items" in document:
        return [body for item in document["items"] or () for body in _objects(path, item)]
    meta = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(meta, dict) or not meta.get("name") or not document.get("apiVersion") or not document.get("kind"):
        raise ManifestError(f"{path} holds something without apiVersion, kind or metadata.name: {str(document)[:80]}")
    return [document]


def _rank(body: Raw) -> int:
    return _FIRST.index(body["kind"]) if body["kind"] in _FIRST else len(_FIRST)


async def apply(target: SimulatedCluster | Store, bodies: Sequence[Raw], *, namespace: str = "default") -> list[Raw]:
    """
    Apply objects in this order; one without a namespace goes to `namespace` where its kind has one.

    Gives the objects as stored. Raises `ApiError` at the first that is refused, `ManifestError` for an
    unknown kind.
    """
    cluster = target if isinstance(target, SimulatedCluster) else SimulatedCluster(target)
    return [await _apply(cluster, body, namespace) for body in bodies]


async def _apply(cluster: SimulatedCluster, body: Raw, namespace: str) -> Raw:
    try:
        endpoint = cluster.store.endpoint_of(body)  # a definition is established as soon as it is stored
    except NotFound:
        kind, version = body["kind"], body["apiVersion"]
        raise ManifestError(f"no kind {kind} is served in {version}: is its definition missing?") from None
    meta = body["metadata"]
    where = (meta.get("namespace") or namespace) if endpoint.kind.namespaced else None
    return await cluster.apply(endpoint.resource(), meta["name"], where, body, manager=_MANAGER, force=True)
