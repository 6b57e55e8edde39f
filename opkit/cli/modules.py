"""
Modules: what a load of handlers makes of `sys.modules` and `sys.path`, and how that is taken back.

Takes folders, names and functions that import; keeps the operator's own modules apart from those that have the same
names elsewhere. Never touches the modules of libraries.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

OURS = os.path.join(Path(__file__).parents[1], "")
LIBRARIES = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib", "purelib", "platlib"))

_INSTALLED = frozenset({"site-packages", "dist-packages"})

# Loads whose modules are in use. Each has modules of its own: a load does not find what another one has run.
_live: list[ModuleSet] = []


class ModuleSet:
    """The modules that one load has run."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, ModuleType]] = []
        """By name, in the order in which they were found. Files of one name in several folders have one name."""
        self._displaced: dict[str, ModuleType] = {}
        self._folders: list[Path] = []
        self._packages: set[str] = set()
        self._entries: list[str] = []
        self._before: dict[str, ModuleType] = {}

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """For a block, what other loads have run is not there; after it, it is back where the name is still free."""
        aside = {name: module for one in _live for name, module in one.ran if sys.modules.get(name) is module}
        for name, module in aside.items():
            _take_out(name, module)
        importlib.invalidate_caches()  # a file may be younger than what is remembered of its folder
        self._before = dict(sys.modules)
        _live.append(self)
        try:
            yield
        finally:
            self._note_ran()
            self._put_back(aside)

    @contextlib.contextmanager
    def beside(self, folder: Path, package: str = "") -> Iterator[None]:
        """For a block, imports look into this folder first, and find no namesakes of what lies in it."""
        self._folders.append(folder)
        if package:
            self._packages.add(package)
        if not sys.path or sys.path[0] != str(folder):
            self._entries.append(str(folder))
            sys.path.insert(0, self._entries[-1])
        hidden = {} if package else dict(_namesakes(folder))
        for name in hidden:
            del sys.modules[name]
        try:
            yield
        finally:
            self._note_ran()
            self._put_back(hidden)

    def _put_back(self, hidden: dict[str, ModuleType]) -> None:
        """What has no namesake by now. A package that has one stays away with all below it."""
        gone = {name for name in hidden if "." not in name and name in sys.modules}
        mine = {id(module) for _, module in self.ran}
        for name, module in hidden.items():
            if name.partition(".")[0] not in gone and name not in sys.modules:
                _put_in(name, module)
            elif id(module) not in mine:
                self._displaced[name] = module

    def _note_ran(self) -> None:
        known = {id(module) for _, module in self.ran}
        for name, module in list(sys.modules.items()):
            if self._before.get(name) is not module and id(module) not in known and self._has(name, module):
                self.ran.append((name, module))

    def _has(self, name: str, module: ModuleType) -> bool:
        if name.partition(".")[0] in self._packages:
            return True
        return is_own(module) and lies_in(module, self._folders)

    def note_declaring(self, files: Iterable[str]) -> None:
        """Modules elsewhere that declared something: the next load has to run them, or it would find nothing."""
        declaring = set(files)
        known = {id(module) for _, module in self.ran}
        for name, module in list(sys.modules.items()):
            if id(module) not in known and self._before.get(name) is not module and file_of(module) in declaring:
                self.ran.append((name, module))

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """For a block, the names mean these modules, and imports find what lies beside them, whoever has them else."""
        mine = dict(self.ran)
        others = {name: sys.modules.get(name) for name, module in mine.items() if sys.modules.get(name) is not module}
        hidden = {} if self._packages else {n: m for folder in self._folders for n, m in _namesakes(folder)}
        if not others and not hidden:
            yield
            return
        sys.modules.update(mine)
        for name in hidden.keys() - mine.keys():
            del sys.modules[name]
        entries = [str(folder) for folder in dict.fromkeys(reversed(self._folders))]
        sys.path[:0] = entries
        try:
            yield
        finally:
            for entry in entries:
                _remove_entry(entry)
            self._note_ran()
            self._put_back(hidden)
            for name, other in others.items():
                if other is None:
                    sys.modules.pop(name, None)
                else:
                    sys.modules[name] = other

    def add(self, late: Iterable[tuple[str, ModuleType]]) -> None:
        """Take modules that were imported while the handlers ran, if nobody else had imported them before."""
        known = {id(module) for _, module in self.ran}
        self.ran += [
            (name, module) for name, module in late if id(module) not in known and self._before.get(name) is not module
        ]

    def drop(self) -> None:
        """Forget the modules; what had their names before has them again."""
        if self not in _live:
            return
        _live.remove(self)
        for name, module in self.ran:
            if sys.modules.get(name) is module:
                _take_out(name, module)
            for other in _live:
                if other._displaced.get(name) is module:
                    del other._displaced[name]
                    if name in self._displaced:
                        other._displaced[name] = self._displaced[name]
        for name, module in self._displaced.items():
            if name not in sys.modules:
                _put_in(name, module)
        for entry in self._entries:
            _remove_entry(entry)
        importlib.invalidate_caches()


def is_loaded(module: ModuleType) -> bool:
    """Whether a load has run it, and not the import of somebody else."""
    return any(module is one for load in _live for _, one in load.ran)


def file_of(module: ModuleType | None) -> str | None:
    """The Python file of a module, as it says itself."""
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) else None


def is_own(module: ModuleType) -> bool:
    """Whether a module may be an operator's own: from a Python file, and of no library."""
    places = _places(module)
    return bool(places) and not any(
        place.startswith((*LIBRARIES, OURS)) or not _INSTALLED.isdisjoint(Path(place).parts) for place in places
    )


def lies_in(module: ModuleType, folders: Iterable[Path]) -> bool:
    """Whether a module comes from one of these folders, or from below."""
    prefixes = tuple(os.path.join(folder, "") for folder in folders)
    places = _places(module)
    return bool(prefixes and places) and all(os.path.join(place, "").startswith(prefixes) for place in places)


def _places(module: ModuleType) -> list[str]:
    """Its file; the folders of a package without one. None for what is not from Python files."""
    file = file_of(module)
    if file is not None:
        native = file.endswith((".so", ".pyd", ".pyc"))
        return [] if native else [os.path.abspath(file)]
    # A package without `__init__.py`. Other objects in `sys.modules` answer to any name.
    path = getattr(module, "__path__", None) if type(module) is ModuleType else None
    return [os.path.abspath(one) for one in path] if path is not None else []


def _namesakes(folder: Path) -> Iterator[tuple[str, ModuleType]]:
    """Modules that have the name of something in this folder, but come from elsewhere, with all below them."""
    try:
        names = {entry.name.removesuffix(".py") for entry in os.scandir(folder)}
    except OSError:
        return
    tops = {
        name
        for name in names & sys.modules.keys()
        if name not in ("conftest", "__main__")
        and is_own(sys.modules[name])
        and not lies_in(sys.modules[name], [folder])
    }
    yield from ((name, module) for name, module in list(sys.modules.items()) if name.partition(".")[0] in tops)


def _put_in(name: str, module: ModuleType) -> None:
    sys.modules[name] = module
    package, _, child = name.rpartition(".")
    if package in sys.modules:
        vars(sys.modules[package]).setdefault(child, module)


def _take_out(name: str, module: ModuleType) -> None:
    del sys.modules[name]
    package, _, child = name.rpartition(".")
    # `from package import module` is content with the attribute, and would import nothing.
    if package in sys.modules and vars(sys.modules[package]).get(child) is module:
        del vars(sys.modules[package])[child]


def _remove_entry(entry: str) -> None:
    """The very one: an equal one may be somebody else's."""
    for position, one in enumerate(sys.path):
        if one is entry:
            del sys.path[position]
            return
