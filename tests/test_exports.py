"""The public face: what `opkit` exports, and that importing it costs little."""

import inspect
import subprocess
import sys

import pytest

import opkit


def test_exports_equal_all():
    """Every public name of the package is in `__all__`, and nothing else is."""
    names = {name for name, value in vars(opkit).items() if not name.startswith("_") and not inspect.ismodule(value)}
    own = {name for name in names if name not in ("annotations", "TYPE_CHECKING", "Any")}
    assert own | {"filter", "Operator"} == set(opkit.__all__)


def test_all_is_sorted():
    """Classes first, then functions, each in alphabetical order."""
    assert opkit.__all__ == sorted(opkit.__all__)


def test_names_say_where_they_are():
    """Completion shows the names that are loaded on demand too."""
    assert set(opkit.__all__) <= set(dir(opkit))


def test_unknown_name():
    """A name that does not exist is an AttributeError, as in any module."""
    with pytest.raises(AttributeError, match="module 'opkit' has no attribute 'reconcil'"):
        _ = opkit.reconcil


@pytest.mark.parametrize("module", ["opkit", "opkit.plan.compiler", "opkit.plan.printing"])
def test_importing_is_light(module):
    """Importing opkit, and compiling a plan, loads no event loop, no client, no server and no test tool."""
    heavy = ["asyncio", "aiohttp", "kopf", "click", "pytest", "yaml", "kubernetes", "pykube", "jsonschema"]
    script = f"import sys, {module}; print(*sorted(set({heavy!r}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == ""
