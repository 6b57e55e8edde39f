"""What the tests of the command line share: a folder to work in, and a process as it was before."""

import sys

import click.testing
import pytest

from opkit.cli import loading, main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder; what is imported from it is forgotten at the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    loading.forget_last()
    before = dict(sys.modules)
    yield tmp_path
    loading.forget_last()
    for name in set(sys.modules) - set(before):
        del sys.modules[name]
    sys.modules.update(before)


@pytest.fixture
def write(folder):
    """Write Python files below the current folder: `a__b="..."` is `a/b.py`; or by path, in a dict."""

    def write(paths=(), **names):
        by_name = {f"{name.replace('__', '/')}.py": text for name, text in names.items()}
        for name, text in {**dict(paths), **by_name}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


@pytest.fixture
def opkit_command(folder):
    """Run `opkit` with these arguments."""
    return lambda *args: click.testing.CliRunner().invoke(main, args, prog_name="opkit")
