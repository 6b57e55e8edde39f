"""Loading: files, folders and modules become a registry, or one line that says whose fault it is."""

import sys

import pytest

from opkit.cli.loading import LoadError, load

HANDLERS = "import opkit\n@opkit.reconcile('{0}')\ndef {0}(body): ...\n"
APPLES, PEARS = HANDLERS.format("apples"), HANDLERS.format("pears")


def loaded(paths, modules=()):
    """The names of the functions that were declared."""
    return [declaration.function.__name__ for declaration in load(paths, modules).declarations]


def failure(paths, modules=()):
    with pytest.raises(LoadError) as caught:
        load(paths, modules)
    return caught.value


def test_file(write):
    """A file is loaded as a module of its name."""
    write(handlers=APPLES)
    assert loaded(["handlers.py"]) == ["apples"]
    assert sys.modules["handlers"].apples.__module__ == "handlers"


def test_neighbours_can_be_imported(write):
    """The folder of the file is where it imports from, as for a script."""
    write(app__handlers="from lib.names import NAME\n" + APPLES, app__lib__names="NAME = 1")
    assert loaded(["app/handlers.py"]) == ["apples"]


def test_equal_basenames(write):
    """Two files of one name both load, as modules of different names."""
    write(a__handlers=APPLES, b__handlers=PEARS)
    assert loaded(["a/handlers.py", "b/handlers.py"]) == ["apples", "pears"]
    assert sys.modules["handlers_2"].pears


@pytest.mark.parametrize("name", ["operator", "queue", "json"])
def test_name_of_the_standard_library(write, name):
    """A file that is named like a standard module does not take its place."""
    standard = __import__(name)
    write(**{name: APPLES})
    assert loaded([f"{name}.py"]) == ["apples"]
    assert sys.modules[name] is standard


def test_folder_with_handlers(write):
    """Of a folder, `handlers.py` is loaded and nothing else."""
    write(app__handlers=APPLES, app__other=PEARS)
    assert loaded(["app"]) == ["apples"]


def test_folder_without_handlers(write):
    """Without it, all Python files but tests."""
    write(app__a=APPLES, app__b=PEARS, app__test_a="1/0", app__conftest="1/0", app__setup="1/0")
    assert loaded(["app"]) == ["apples", "pears"]


def test_package(write):
    """A package is imported as one, with its relative imports."""
    write({"app/__init__.py": "from . import fruit"}, app__fruit=APPLES)
    assert loaded(["app"]) == ["apples"]


def test_files_that_import_each_other_run_once(write):
    """A handler file that another one imports is not run twice."""
    write(a="import b\n" + APPLES, b=PEARS)
    assert sorted(loaded(["a.py", "b.py"])) == ["apples", "pears"]


def test_module_from_the_current_folder(write):
    """`-m` finds modules in the current folder."""
    write(pkg__handlers=APPLES)
    assert loaded([], ["pkg.handlers"]) == ["apples"]


@pytest.mark.parametrize(
    "files, path",
    [
        pytest.param({"handlers.py": APPLES}, "handlers.py", id="file"),
        pytest.param({"handlers.py": "import fruit", "fruit.py": APPLES}, "handlers.py", id="imported"),
        pytest.param(
            {"handlers.py": "from lib import x", "lib/__init__.py": "", "lib/x.py": APPLES},
            "handlers.py",
            id="inner",
        ),
        pytest.param({"handlers/__init__.py": "from . import x", "handlers/x.py": APPLES}, "handlers", id="package"),
    ],
)
def test_loading_again_finds_the_same(write, files, path):
    """A second load in one process declares everything anew, under the same names."""
    write(files)
    assert [loaded([path]) for _ in range(3)] == [["apples"]] * 3
    assert "handlers" in sys.modules and "handlers_2" not in sys.modules


def test_path_is_extended_once(folder, write):
    """Loading again does not make `sys.path` grow."""
    before = list(sys.path)
    write(a=APPLES, b=PEARS)
    load(["a.py", "b.py"])
    assert sys.path == [str(folder), *before]


@pytest.mark.parametrize("path", ["nofile.py", "nofolder/", "a/b/c.py"])
def test_no_such_file(folder, path):
    """A path that does not exist is the caller's mistake."""
    error = failure([path])
    assert error.is_usage and str(error) == f"no such file or folder: {path.rstrip('/')}"


def test_folder_without_python(folder):
    """A folder without Python files has no handlers."""
    (folder / "docs").mkdir()
    error = failure(["docs"])
    assert error.is_usage and "no Python files with handlers in the folder docs" in str(error)


@pytest.mark.parametrize("name", ["nosuch", "nosuch.handlers", "pkg.nosuch", ".", ".x", ""])
def test_no_such_module(write, name):
    """A module that does not exist is the caller's mistake."""
    write({"pkg/__init__.py": ""})
    assert failure([], [name]).is_usage


def test_nothing_is_loaded_when_a_path_is_missing(write):
    """Paths are looked at before anything is run."""
    write(handlers="import sys; sys.ran = True\n" + APPLES)
    failure(["handlers.py", "nofile.py"])
    assert not hasattr(sys, "ran")


@pytest.mark.parametrize("source", ["", "x = 1\n"], ids=["empty", "no-declarations"])
def test_no_handlers(write, source):
    """A file that declares nothing is an error which names it."""
    write(handlers=source)
    error = failure(["handlers.py"])
    assert not error.is_usage and "no handlers in handlers.py" in str(error)


@pytest.mark.parametrize(
    "source, message",
    [
        pytest.param("x = 1\ndef (:\n", "handlers.py:2: SyntaxError: invalid syntax, in `def (:`", id="syntax"),
        pytest.param("if 1:\nx\n", "handlers.py:2: IndentationError: expected an indented block", id="indentation"),
        pytest.param("\nx = 1 / 0\n", "handlers.py:2: ZeroDivisionError: division by zero, in `x = 1 / 0`", id="any"),
        pytest.param("import nosuch\n", "handlers.py:1: ModuleNotFoundError: No module named 'nosuch'", id="inner"),
        pytest.param("import json\njson.loads('{')\n", "handlers.py:2: JSONDecodeError:", id="within-a-library"),
        pytest.param("import sys\nsys.exit(0)\n", "handlers.py:2: calls sys.exit(0) while it is imported", id="exit"),
        pytest.param("raise SystemExit\n", "handlers.py:1: calls sys.exit() while it is imported", id="bare-exit"),
        pytest.param("raise ValueError('a\\nb')\n", "handlers.py:1: ValueError: a b, in", id="many-lines"),
        pytest.param("assert False\n", "handlers.py:1: AssertionError, in `assert False`", id="no-message"),
        pytest.param("x = '\0'\n", "null bytes", id="null-byte"),
        pytest.param(
            "import opkit\nopkit.Retry(initial=-1)\n",
            "handlers.py:2: ValueError: Retry(initial=-1)",
            id="ours",
        ),
    ],
)
def test_import_that_fails(write, source, message):
    """Whatever happens in an author's module becomes one line with the author's own line in it."""
    write(handlers=source)
    error = failure(["handlers.py"])
    assert message in str(error) and "\n" not in str(error) and not error.is_usage
    assert "handlers" not in sys.modules


def test_import_that_fails_further_in(write):
    """The innermost line of the author's is named, also when it is in another file."""
    write(handlers="import lib.x\n" + APPLES, lib__x="import nosuch\n")
    assert str(failure(["handlers.py"])).startswith("lib/x.py:1: ModuleNotFoundError: No module named 'nosuch'")


def test_module_that_fails(write):
    """A module given by name fails as a file does."""
    write(handlers="1/0\n")
    error = failure([], ["handlers"])
    assert str(error).startswith("handlers.py:1: ZeroDivisionError") and not error.is_usage


def test_missing_dependency_of_a_module(write):
    """A module whose own import is missing is not itself missing."""
    write({"pkg/__init__.py": "import nosuch"})
    error = failure([], ["pkg"])
    assert not error.is_usage and "No module named 'nosuch'" in str(error)


def test_cause_is_kept(write):
    """The author's own error is the cause, for those who want the traceback."""
    write(handlers="1/0\n")
    assert isinstance(failure(["handlers.py"]).__cause__, ZeroDivisionError)


def test_interruption_is_not_caught(write):
    """Ctrl-C while a module is imported interrupts."""
    write(handlers="raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load(["handlers.py"])


def test_file_with_another_ending(folder):
    """Whatever a file is called, it is Python."""
    (folder / "handlers").write_text(APPLES)
    assert loaded(["handlers"]) == ["apples"]
