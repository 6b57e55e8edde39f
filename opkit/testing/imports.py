"""
Imports: which of the loaded modules belong to an operator, as its modules import them.

Takes modules, reads their import statements, gives modules out of `sys.modules`. Never imports anything.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from types import ModuleType

from opkit.cli.modules import file_of, is_own, lies_in

# With one of these a module imports others by names that stand nowhere: all that is loaded of its package counts then.
_DYNAMIC = frozenset({"import_module", "__import__", "iter_modules", "walk_packages"})


def reached(roots: Iterable[str], declaring: Collection[str]) -> dict[str, ModuleType]:
    """
    The modules by these names, their packages, and what they import of their own: from the same package or folder, or
    from one of the files that declare something.
    """
    found: dict[str, ModuleType] = {}
    for root in roots:
        module = sys.modules[root]
        top, folders = root.partition(".")[0], _folders(root, module)
        waiting = [root]
        while waiting:
            name = waiting.pop()
            module = sys.modules[name]
            if name in found or not (
                name == root
                or name.partition(".")[0] == top
                or _belongs(module, folders)
                or file_of(module) in declaring
            ):
                continue
            found[name] = module
            waiting += _imports(name, module)
    return found


def _belongs(module: ModuleType, folders: Collection[Path]) -> bool:
    return is_own(module) and lies_in(module, folders)


def _folders(name: str, module: ModuleType) -> list[Path]:
    """The folder that holds a module, or the whole package that it is part of."""
    file = file_of(module)
    if file is None:
        return []
    levels = name.count(".") + (1 if hasattr(module, "__path__") else 0)
    parents = Path(file).absolute().parents
    return [parents[levels]] if levels < len(parents) else []


def _imports(name: str, module: ModuleType) -> Iterator[str]:
    """The names of modules that are loaded, and that this one imports, or stands in."""
    yield from _prefixes(name.rpartition(".")[0])
    file = file_of(module)
    if file is None:
        return
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    package = name if hasattr(module, "__path__") else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _prefixes(alias.name)
        elif isinstance(node, ast.ImportFrom):
            yield from _from(node, package)
        elif package and _said_by(node) in _DYNAMIC:
            yield from [one for one in _loaded() if one.startswith(f"{package}.")]


def _from(node: ast.ImportFrom, package: str) -> Iterator[str]:
    base = node.module or ""
    if node.level:
        parts = package.split(".")
        parts = parts[: len(parts) - node.level + 1]
        base = ".".join([*parts, *([base] if base else [])])
    yield from _prefixes(base)
    for alias in node.names:
        if alias.name == "*":  # what a package lists in `__all__` may be modules
            yield from [one for one in _loaded() if one.rpartition(".")[0] == base]
        else:
            yield from _prefixes(f"{base}.{alias.name}")


def _prefixes(name: str) -> Iterator[str]:
    """A module and the packages that it is in, as far as they are loaded."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        one = ".".join(parts[:count])
        if isinstance(sys.modules.get(one), ModuleType):
            yield one


def _loaded() -> list[str]:
    return [name for name, module in list(sys.modules.items()) if isinstance(module, ModuleType)]


def _said_by(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""
