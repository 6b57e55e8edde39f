"""
Suspects: attributes of a module that running it can't have made, so that a test must have set them.

Takes a module that somebody else has imported and perhaps patched, and its source. A module that was watched from its
first line on needs no such guesses.
"""

from __future__ import annotations

import ast
import sys
import types
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import NonCallableMock

from opkit.cli.modules import file_of

_TESTS = ("test_*.py", "*_test.py", "conftest.py", "tests/*.py", "test/*.py")

_NOTHING: Any = object()


def suspects(module: ModuleType) -> dict[str, Any]:
    """What was put into a module from outside, as far as can be told."""
    file = file_of(module)
    try:
        tree = ast.parse(Path(file).read_bytes()) if file is not None else ast.Module([], [])
    except (OSError, SyntaxError, ValueError):
        return {}
    rebound = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    said = {name: statement for statement in tree.body for name in _names(statement)}
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("__")
        and (
            is_mock(value)
            or _is_of_test(value)
            or (name in said and name not in rebound and _is_another(value, name, said[name], module))
        )
    }


def is_mock(value: Any) -> bool:
    """Whether something is a mock, or a function that stands for one (as of `autospec` and of spies)."""
    return isinstance(value, NonCallableMock) or isinstance(vars_of(value).get("mock"), NonCallableMock)


def vars_of(value: Any) -> dict[str, Any]:
    """What stands in an object itself; asked of the object it could be anything."""
    try:
        return dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        return {}


def _is_of_test(value: Any) -> bool:
    """Whether a function, a class, or the class of an object stands in a file of tests."""
    if isinstance(value, ModuleType):
        return False
    named = value if isinstance(value, (type, types.FunctionType)) else type(value)
    file = file_of(sys.modules.get(str(getattr(named, "__module__", None))))
    return file is not None and any(map(Path(file).match, _TESTS))


def _is_another(value: Any, name: str, said: ast.stmt, module: ModuleType) -> bool:
    """Whether a value is not what a statement makes of its name."""
    if isinstance(said, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        expected = type if isinstance(said, ast.ClassDef) else types.FunctionType
        return not said.decorator_list and not (
            isinstance(value, expected) and (value.__module__, value.__qualname__) == (module.__name__, name)
        )
    if isinstance(said, ast.Import):
        return not isinstance(value, ModuleType)
    if isinstance(said, (ast.Assign, ast.AnnAssign)) and said.value is not None:
        literal = _literal(said.value)
        return literal is not _NOTHING and (type(value) is not type(literal) or _differs(value, literal))
    return False


def _differs(value: Any, literal: Any) -> bool:
    """What can be changed in place may be the module's own, whatever it holds by now."""
    return not isinstance(literal, (list, dict, set)) and bool(value != literal)


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _NOTHING


def _names(statement: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module binds, where it is a simple one."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, ast.Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    return [target.id for target in targets if isinstance(target, ast.Name)]
