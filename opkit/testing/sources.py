"""Sources: where a test's handlers come from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from opkit.cli.loading import load
from opkit.declaration.registry import Registry, default_registry


def registry_of(handlers: str | Path | ModuleType | Registry | Sequence[str | Path]) -> tuple[Registry, list[Path]]:
    """
    The declarations, and the folders that they come from.

    A path is loaded anew, so that each test has a module of its own; it is found in `sys.modules` under the file's
    name, for `mocker.patch("handlers.create_dns")`. Of a module, what it declared when it was imported is taken.
    """
    if isinstance(handlers, Registry):
        return handlers, _folders(handlers)
    if isinstance(handlers, ModuleType):
        registry = _declared_by(handlers)
        return registry, _folders(registry)
    paths = [handlers] if isinstance(handlers, (str, os.PathLike)) else list(handlers)
    registry = load(paths)
    return registry, _folders(registry)


def _declared_by(module: ModuleType) -> Registry:
    registry = Registry()
    for declaration in default_registry().declarations:
        if getattr(declaration.function, "__module__", None) == module.__name__:
            registry.add(declaration)
    if not registry.declarations:
        raise ValueError(
            f"the module {module.__name__} has declared nothing in the default registry; give its registry, or its path"
        )
    return registry


def _folders(registry: Registry) -> list[Path]:
    """The folders of the files with declarations, where definitions may lie as well."""
    folders = {Path(declaration.place.file).parent for declaration in registry.declarations}
    return sorted(folder for folder in folders if folder.is_dir())
