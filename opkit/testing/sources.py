"""
Sources: where a test's handlers come from.

Takes what a test names (files, folders, modules, a registry), gives what it declares, and takes it back at the end:
what the test has imported itself is used as it is and stays; what it has not is run anew, and forgotten.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from opkit.cli import loading
from opkit.cli.modules import OURS, ModuleSet, file_of, is_loaded
from opkit.declaration.declarations import Declaration
from opkit.declaration.registry import Registry, default_registry
from opkit.testing.attributes import Attributes, carry_over, watch
from opkit.testing.imports import reached
from opkit.testing.rerun import Named, Root, run_again

Source = str | Path | ModuleType
Handlers = Source | Registry | Sequence[Source]

State = list[tuple[Attributes, dict[str, Any], dict[str, Any]]]
"""What modules hold: their own, and the patches."""


class Code:
    """The handlers of a test: what they declare, and the modules that they stand in."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._roots: list[Root] = []
        self._modules: list[Named] = []
        self._watched: list[Attributes] = []
        self._theirs: list[Attributes] = []
        self._before: State | None = None
        self._loaded: ModuleSet | None = None

    @classmethod
    def of(cls, handlers: Handlers, beside: Sequence[Path] = ()) -> Code:
        """
        Find the handlers. A relative path is looked for in the folder of the test (`beside`, or that of the file which
        calls), then in the current one.

        Raises `LoadError` when they can't be loaded, `ValueError` when a module has declared nothing.
        """
        if isinstance(handlers, Registry):
            return cls(handlers)
        sources = [handlers] if isinstance(handlers, (str, os.PathLike, ModuleType)) else list(handlers)
        loading.forget_last()
        return _found(sources, [*beside, *_folders_of_callers()])

    @property
    def folders(self) -> list[Path]:
        """The folders of the files with declarations, where definitions may lie as well."""
        folders = {Path(declaration.place.file).parent for declaration in self.registry.declarations}
        return sorted(folder for folder in folders if folder.is_dir())

    def take(self, roots: Sequence[Root], modules: Iterable[Named], loaded: ModuleSet) -> None:
        """Be of these modules, some of which were loaded for this; those of a file that is running stay as they are."""
        running = _running_files()
        self._modules = [(name, module) for name, module in modules if file_of(module) not in running]
        self._roots = [(name, folder) for name, folder in roots if any(name == one for one, _ in self._modules)]
        self._loaded = loaded
        fresh = [module for _, module in loaded.ran]
        self._watched = watch([module for _, module in self._modules], fresh)
        self._theirs = [one for one in self._watched if one.module not in fresh]

    def restart(self) -> None:
        """Run the modules again: all that was in them is gone, but for the patches of the test."""
        if not self._roots:
            return
        self._notice_late()
        before = self.state()
        self._before = self._before if self._before is not None else before
        try:
            registry = run_again(self._roots, self._modules)
        except BaseException:
            self._put_back()
            for attributes, own, patches in before:
                attributes.become(own, patches)
            raise
        self._put_back()
        everything = [value for _, _, patches in before for value in patches.values()]
        for attributes, own, patches in before:
            now = dict(vars(attributes.module))
            bound = {name: own[name] for name in carry_over(own, now, everything)}
            attributes.become({**now, **bound}, patches)
        self.registry = registry

    def _notice_late(self) -> None:
        """What the handlers have imported since, inside of functions."""
        names = [name for name, _ in self._roots]
        known = [module for _, module in self._modules]
        late = [(name, module) for name, module in reached(names, ()).items() if module not in known]
        late = [(name, module) for name, module in late if file_of(module) not in _running_files()]
        self._modules += late
        self._watched += watch([module for _, module in late], [module for _, module in late])
        if self._loaded is not None and self._loaded.ran:
            self._loaded.add(late)

    def _put_back(self) -> None:
        for name, module in self._modules:
            sys.modules[name] = module

    def state(self) -> State:
        """What the modules hold now."""
        return [(one, one.own(), one.patches()) for one in self._watched]

    def hold(self, state: State) -> None:
        """Make the modules hold again what they held, but for patches: those of now are the right ones."""
        for attributes, own, _ in state:
            attributes.become({**attributes.learned, **own}, attributes.patches())

    @contextlib.contextmanager
    def tried(self) -> Iterator[None]:
        """A block that may run the modules again; after it they are what they were."""
        registry, before = self.registry, self.state()
        try:
            yield
        finally:
            self.registry = registry
            self.hold(before)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """For a block, the names of the modules mean these."""
        with self._loaded.in_place() if self._loaded is not None else contextlib.nullcontext():
            yield

    def close(self) -> None:
        """Forget what was loaded, and leave what the test had imported as it was before it was run again."""
        if self._before is not None:
            self.hold([one for one in self._before if one[0] in self._theirs])
            self._before = None
        if self._loaded is not None:
            self._notice_late()
            self._loaded.drop()


def _found(sources: Sequence[Source], folders: Sequence[Path]) -> Code:
    wanted = [one for source in sources for one in _looked_up(source, folders)]
    declaring = {declaration.place.file for declaration in default_registry().declarations}
    roots: list[Root | None] = [_imported(one, declaring) for one in wanted]
    names = [root[0] for root in roots if root is not None]
    theirs = reached(names, declaring)
    declared = _declared_by(theirs.values())
    for name in names:
        if not _declared_by(reached([name], declaring).values()).declarations:
            raise ValueError(
                f"the module {name} has declared nothing in the default registry; give its registry, or its path"
            )
    loaded = ModuleSet()
    missing = [one for one, root in zip(wanted, roots, strict=True) if root is None and not isinstance(one, ModuleType)]
    registry, ran = loading.run(missing, loaded, folders)
    new = iter(zip(ran, missing, strict=True))
    complete = [root if root is not None else _root(*next(new)) for root in roots]
    try:
        theirs |= reached([name for name, _ in complete], declaring)
        fresh = [module for _, module in loaded.ran]
        theirs = {name: module for name, module in theirs.items() if module not in fresh}
        code = Code(_merged(_declared_by(theirs.values()), registry) if theirs or declared.declarations else registry)
        if not code.registry.declarations and not code.registry.mistakes:
            raise loading.nothing_in(missing)
        code.take(complete, [*theirs.items(), *loaded.ran], loaded)
    except BaseException:
        loaded.drop()
        raise
    return code


def _root(name: str, source: Path | str) -> Root:
    if isinstance(source, str):
        return name, None
    return name, source.parent.parent if source.name == "__init__.py" else source.parent


def _looked_up(source: Source, folders: Sequence[Path]) -> list[Path | str | ModuleType]:
    """A module, the files of a path, or a module's name."""
    if isinstance(source, ModuleType):
        return [source]
    path = next((folder / source for folder in folders if (folder / source).exists()), Path(source))
    if isinstance(source, str) and not path.exists() and _is_name(source):
        return [source]
    return [*loading.files_of([path])]


def _is_name(source: str) -> bool:
    if not all(part.isidentifier() for part in source.split(".")):
        return False
    return source in sys.modules or not source.endswith(".py")


def _imported(wanted: Path | str | ModuleType, declaring: Collection[str]) -> Root | None:
    """The module that is meant, if the test has imported it itself."""
    if isinstance(wanted, ModuleType):
        return _name_of(wanted), None
    if isinstance(wanted, str):
        module = sys.modules.get(wanted)
        return (wanted, None) if module is not None and not is_loaded(module) else None
    file = os.path.realpath(wanted)
    for name, module in list(sys.modules.items()):
        own = file_of(module)
        if own is None or os.path.basename(own) != wanted.name or os.path.realpath(own) != file or is_loaded(module):
            continue
        if _declared_by(reached([name], declaring).values()).declarations:
            return name, None
    return None


def _name_of(module: ModuleType) -> str:
    """The name by which a module is known, which need not be the one that it gives itself."""
    if sys.modules.get(module.__name__) is module:
        return module.__name__
    for name, one in list(sys.modules.items()):
        if one is module:
            return name
    raise ValueError(f"the module {module.__name__} is not in sys.modules any more; import it anew, or give its path")


def _declared_by(modules: Iterable[ModuleType]) -> Registry:
    """What modules have declared when they were imported; of a module that was run twice, the second time counts."""
    registry, modules = Registry(), list(modules)
    scopes = {id(vars(module)) for module in modules}
    names = {module.__name__ for module in modules}
    files = {file_of(module) for module in modules}
    latest: dict[Any, list[Declaration]] = {}
    for declaration in default_registry().declarations:
        scope = getattr(declaration.function, "__globals__", None)
        if declaration.place.file not in files and getattr(declaration.function, "__module__", None) not in names:
            continue
        if scope is not None and scope.get("__file__") in files and id(scope) not in scopes:
            continue  # of a module of this file that is not there any more
        same = latest.setdefault(_sameness(declaration), [])
        if same and not _is_of_same_run(same[-1], declaration):
            same.clear()
        same.append(declaration)
    for declaration in [one for same in latest.values() for one in same]:
        registry.add(declaration)
    for mistake in default_registry().mistakes:
        if mistake.place.file in files:
            registry.add_mistake(mistake)
    return registry


def _sameness(declaration: Declaration) -> Any:
    """What is equal for declarations that one line made in two runs of its module."""
    values = [getattr(declaration, field.name) for field in dataclasses.fields(declaration) if field.name != "function"]
    words = [getattr(value, "__qualname__", None) or repr(value) for value in values]
    return (type(declaration), declaration.place, getattr(declaration.function, "__code__", None), *words)


def _is_of_same_run(one: Declaration, other: Declaration) -> bool:
    """Whether two declarations that are equal come from one run of their module, as in a loop."""
    code = getattr(one.function, "__code__", None)
    return code is None or code is getattr(other.function, "__code__", None)


def _merged(*registries: Registry) -> Registry:
    merged = Registry()
    for registry in registries:
        for declaration in registry.declarations:
            merged.add(declaration)
        for mistake in registry.mistakes:
            merged.add_mistake(mistake)
    return merged


def _folders_of_callers() -> list[Path]:
    """The folder of the file that asks for an injector."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OURS):
        frame = frame.f_back
    folder = Path(frame.f_code.co_filename).parent
    return [folder.absolute()] if folder.is_dir() and not frame.f_code.co_filename.startswith("<") else []


def _running_files() -> set[str | None]:
    """The files of functions that are running now: a test that holds its own handlers is not to be run again."""
    files: set[str | None] = set()
    frame = sys._getframe(1)
    while frame is not None:
        files.add(frame.f_code.co_filename)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return files
