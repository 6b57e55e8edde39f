"""
Running modules again, as a new process would: the same module objects, with nothing in them of what was there.

Takes modules that are loaded, and the names with which their load begins; gives what they declare. A module that is not
imported on the way is run as well, at the end.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from opkit.cli.loading import failure
from opkit.cli.modules import file_of
from opkit.declaration.registry import Registry

Named = tuple[str, ModuleType]
Root = tuple[str, Path | None]
"""The name of a module, and the folder in which its file was given."""


def run_again(roots: Sequence[Root], modules: Sequence[Named]) -> Registry:
    """Run modules again. Raises `LoadError`, and leaves them half-run then: the caller has what was in them."""
    modules = [one for one in modules if file_of(one[1]) is not None]
    for name, module in modules:
        if sys.modules.get(name) is module:
            del sys.modules[name]
    with Registry().as_default() as registry, _Again(modules).first() as waiting:
        for name, folder in [*roots, *((name, None) for name, _ in modules)]:
            for namesake in {one for one, _ in waiting} & sys.modules.keys():
                del sys.modules[namesake]
            _import(name, folder)
    _restore_children(modules)
    return registry


def _import(name: str, folder: Path | None) -> None:
    entry = [str(folder)] if folder is not None else []
    sys.path[:0] = entry
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise failure(error, name) from error
    finally:
        if entry:
            sys.path.remove(entry[0])


def _restore_children(modules: Sequence[Named]) -> None:
    """Packages have their modules as attributes, also those that were not run again."""
    packages = {name: module for name, module in modules if hasattr(module, "__path__")}
    for name, module in list(sys.modules.items()):
        package, _, child = name.rpartition(".")
        if package in packages:
            vars(packages[package]).setdefault(child, module)


class _Again(MetaPathFinder):
    """Finds the modules that are to be run again, and gives the objects that they were."""

    def __init__(self, modules: Sequence[Named]) -> None:
        self._waiting = list(modules)

    @contextlib.contextmanager
    def first(self) -> Iterator[list[Named]]:
        """For a block, ask this one before all others. Gives what is still to be found."""
        sys.meta_path.insert(0, self)
        try:
            yield self._waiting
        finally:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        found = [module for one, module in self._waiting if one == name]
        if not found:
            return None
        module = self._choice(name, path, found)
        self._waiting.remove((name, module))
        file = str(file_of(module))
        folders = [str(Path(file).parent)] if hasattr(module, "__path__") else None
        loader = _Loader(name, file)
        loader.module = module
        return spec_from_file_location(name, file, loader=loader, submodule_search_locations=folders)

    def _choice(self, name: str, path: Any, found: list[ModuleType]) -> ModuleType:
        """Of namesakes the one that would be imported."""
        spec = PathFinder.find_spec(name, path) if len(found) > 1 else None
        return next((module for module in found if spec is not None and file_of(module) == spec.origin), found[0])


class _Loader(SourceFileLoader):
    """Runs a file in a module that is there."""

    module: ModuleType

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        vars(self.module).clear()
        return self.module
