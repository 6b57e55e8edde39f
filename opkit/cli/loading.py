"""
Loading handlers: from files, folders and modules into a registry.

Takes what stands on the command line, gives a registry of all that was declared. Never serves anything, and
never lets an author's error through as it is: it becomes one line that names the author's own line.
"""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path

from opkit.cli.modules import LIBRARIES, OURS, ModuleSet, file_of
from opkit.declaration.registry import Registry
from opkit.errors import OpkitError, Problem
from opkit.plan.printing import short_path

_NOT_HANDLERS = ("test_*.py", "*_test.py", "conftest.py", "setup.py")

# What the last load for a command ran. The next one in this process runs it again, and would find nothing otherwise.
_last: ModuleSet | None = None


class LoadError(OpkitError):
    """
    Handlers can't be loaded.

    `problem` says where and what; `is_usage` whether the caller named something that does not exist.
    The author's own error, if there is one, is the cause (`__cause__`).
    """

    def __init__(self, problem: Problem, *, is_usage: bool = False) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.is_usage = is_usage


def load(paths: Iterable[str | os.PathLike[str]], modules: Iterable[str] = ()) -> Registry:
    """
    Load files, folders and modules, in this order, into a new registry.

    The folder of each file is put on `sys.path`, as Python does for a script; for modules, the current one
    is. Of a folder, `handlers.py` is loaded; without one, its package; without that, all its Python files but
    tests. Raises `LoadError` for the first that fails, and when nothing at all is declared.
    """
    global _last
    files, modules = files_of(paths), list(modules)
    forget_last()
    _last = ModuleSet()
    registry, _ = run([*files, *modules], _last)
    if not registry.declarations and not registry.mistakes:
        raise nothing_in([*files, *modules])
    return registry


def forget_last() -> None:
    """Forget the modules of the last `load`: what comes next finds neither them nor their folders."""
    global _last
    if _last is not None:
        _last.drop()
        _last = None


def nothing_in(sources: Iterable[Path | str]) -> LoadError:
    """The error for sources that declare nothing."""
    named = ", ".join(short_path(str(source)) if isinstance(source, Path) else source for source in sources)
    return LoadError(Problem("", 0, f"no handlers in {named}: nothing is decorated with @opkit.reconcile(...)"))


def files_of(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The Python files that paths stand for. Raises `LoadError` where there are none."""
    return [file for path in paths for file in _files(Path(path))]


def run(sources: Sequence[Path | str], modules: ModuleSet, folders: Sequence[Path] = ()) -> tuple[Registry, list[str]]:
    """
    Run files, and modules by their names, in this order; gives what was declared, and the names of what was run.

    Modules are looked for in these folders, then in the current one and wherever else Python looks. Raises `LoadError`
    for the first that fails; nothing of what was run is left then.
    """
    names: list[str] = []
    try:
        with modules.loading(), Registry().as_default() as registry:
            before = set(sys.modules)
            for source in sources:
                if isinstance(source, Path):
                    names.append(_load_file(source, before, names, modules))
                else:
                    _load_module(source, modules, folders)
                    names.append(source)
            modules.note_declaring(declaration.place.file for declaration in registry.declarations)
    except BaseException:
        modules.drop()
        raise
    return registry, names


def _files(path: Path) -> Iterator[Path]:
    """The files that a path stands for."""
    path = path.absolute()
    if not path.exists():
        raise LoadError(Problem("", 0, f"no such file or folder: {short_path(str(path))}"), is_usage=True)
    if not path.is_dir():
        yield path
        return
    for single in ("handlers.py", "__init__.py"):
        if (path / single).is_file():
            yield path / single
            return
    found = [file for file in sorted(path.glob("*.py")) if not any(map(file.match, _NOT_HANDLERS))]
    if not found:
        message = f"no Python files with handlers in the folder {short_path(str(path))}"
        raise LoadError(Problem("", 0, message), is_usage=True)
    yield from found


def _load_file(file: Path, before: set[str], names: Sequence[str], modules: ModuleSet) -> str:
    is_package = file.name == "__init__.py"
    stem = file.parent.name if is_package else file.stem
    if stem not in before and file_of(sys.modules.get(stem)) == str(file):
        return stem  # another one of the handler files has imported it
    with modules.beside(file.parent.parent if is_package else file.parent):
        name = _free_name(stem, names)
        loader = SourceFileLoader(name, str(file))
        spec = importlib.util.spec_from_file_location(
            name, file, loader=loader, submodule_search_locations=[str(file.parent)] if is_package else None
        )
        assert spec is not None  # only without a loader it could be
        module = importlib.util.module_from_spec(spec)
        # As after an import: the handlers' globals are found in here, and tests can patch them by this name.
        sys.modules[name] = module
        try:
            loader.exec_module(module)
        except (Exception, SystemExit) as error:
            sys.modules.pop(name, None)
            raise failure(error, str(file)) from error
    return name


def _load_module(name: str, modules: ModuleSet, folders: Sequence[Path]) -> None:
    if not name or name.startswith("."):
        raise LoadError(Problem("", 0, f"a module is named in full, as in package.module, not {name!r}"), is_usage=True)
    top = name.partition(".")[0]
    having = (folder for folder in folders if (folder / top).is_dir() or (folder / f"{top}.py").is_file())
    with modules.beside(next(having, Path.cwd()), package=top):
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:
            if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
                message = f"no such module: {name} (looked for {error.name})"
                raise LoadError(Problem("", 0, message), is_usage=True) from error
            raise failure(error, name) from error


def _free_name(stem: str, names: Sequence[str]) -> str:
    """The file's own name as a module, or one with a number where a library has it, or another one of the files."""
    name, number = stem, 1
    while name in names or name in sys.modules or name in sys.stdlib_module_names:
        number += 1
        name = f"{stem}_{number}"
    return name


def failure(error: BaseException, loaded: str) -> LoadError:
    """An author's error as a problem at the author's line."""
    if isinstance(error, SyntaxError) and error.filename:
        place = (short_path(error.filename), error.lineno or 0)
        return LoadError(Problem(*place, _said(f"{type(error).__name__}: {error.msg}", error.text)))
    if isinstance(error, OSError) and error.filename == loaded and not _author_frames(error):
        return LoadError(Problem(short_path(loaded), 0, f"can't be read: {error.strerror}"))
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SystemExit):
        what = f"calls sys.exit({'' if error.code is None else repr(error.code)}) while it is imported"
    frames = _author_frames(error)
    if not frames:
        return LoadError(Problem("", 0, f"{short_path(loaded)} can't be imported: {what}"))
    file, line = frames[-1]
    return LoadError(Problem(short_path(file), line, _said(what, linecache.getline(file, line))))


def _said(what: str, line: str | None) -> str:
    """The message on one line, with the author's line behind it."""
    what = " ".join(what.split())
    return f"{what}, in `{line.strip()}`" if line and line.strip() else what


def _author_frames(error: BaseException) -> list[tuple[str, int]]:
    """The lines in an author's own files that led to an error, the innermost last."""
    frames = [(one.filename, one.lineno or 0) for one in traceback.extract_tb(error.__traceback__)]
    frames = [(file, line) for file, line in frames if not file.startswith(("<", OURS))]
    # Handlers may be an installed package: then its lines lie among those of libraries, and all count.
    return [(file, line) for file, line in frames if not file.startswith(LIBRARIES)] or frames
