"""Ways to load handlers in a test: each is a small project of its own, tested by a pytest of its own."""

import os
import subprocess
import sys
import textwrap

import pytest

HANDLERS = """
import opkit
CACHE = {}
class MyError(Exception): ...
def create_dns(host): raise AssertionError("the real one was called")
@opkit.reconcile("x.io", "v1", "webs")
def go(spec, uid, patch):
    if "host" in spec:
        create_dns(spec["host"])
    if "fail" in spec:
        raise MyError("no")
    patch.status["cached"] = len(CACHE)
    CACHE[uid] = 1
"""

PACKAGE = {
    "myop/__init__.py": "",
    "myop/util.py": "def hello(): return 'hi'\n",
    "myop/main.py": "from .controllers import a, b\n",
    "myop/controllers/__init__.py": "",
    "myop/controllers/a.py": """
        import opkit
        from ..util import hello
        @opkit.reconcile("v1", "configmaps")
        def a(patch): patch.meta["annotations"] = {"said": hello()}
    """,
    "myop/controllers/b.py": """
        import opkit
        from myop.util import hello
        @opkit.reconcile("v1", "secrets")
        def b(secret): hello()
    """,
}

NEIGHBOURS = {
    f"{which}/{name}.py": text
    for which in "ab"
    for name, text in {
        "helper": f"X = {which!r}\n",
        "children": f"import helper\ndef name(): return helper.X + {which!r}\n",
        "handlers": """
            import opkit, children
            @opkit.reconcile("x.io", "v1", "webs")
            def go(patch):
                import helper
                patch.status["who"] = children.name() + helper.X
        """,
    }.items()
}


@pytest.fixture
def passes(tmp_path):
    """Run the tests of a project with these files; `cwd` is below it."""

    def run(files, tests, cwd=".", name="test_it.py"):
        for path, text in {**files, name: tests}.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(textwrap.dedent(text))
        (tmp_path / cwd).mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", "import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))", "-q", "-p",
             "no:cacheprovider", str(tmp_path / name)],
            cwd=tmp_path / cwd, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True,
            timeout=90,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]

    return run


def test_the_module_of_the_test_is_the_one_that_runs(passes):
    """Patches that were made before the injector hit, and classes are the same."""
    passes(
        {"handlers.py": HANDLERS},
        """
        import pytest
        import handlers

        @pytest.fixture
        def dns(mocker):
            return mocker.patch("handlers.create_dns")

        def test_patched_first(dns, event_injector):
            op = event_injector("handlers.py")
            op.add("webs", "x", spec={"host": "a"})
            op.drain()
            dns.assert_called_once_with("a")

        def test_monkeypatched_first(monkeypatch, event_injector):
            called = []
            monkeypatch.setattr(handlers, "create_dns", called.append)
            op = event_injector(handlers.__file__)
            op.add("webs", "x", spec={"host": "a"})
            op.drain()
            assert called == ["a"]

        def test_classes(event_injector):
            op = event_injector(handlers.__file__)
            op.add("webs", "x", spec={"fail": True})
            op.drain()
            assert isinstance(op.calls("go")[-1].error, handlers.MyError)
            import sys
            assert sys.modules["handlers"] is handlers
        """,
    )


def test_what_only_the_injector_loads_is_loaded_anew(passes):
    """Each injector has module globals of its own."""
    passes(
        {"handlers.py": HANDLERS},
        """
        import pytest
        @pytest.mark.parametrize("time", [1, 2])
        def test_fresh(event_injector, time, mocker):
            op = event_injector("handlers.py")
            mocker.patch("handlers.create_dns")
            web = op.add("webs", "x", spec={"host": "a"})
            op.drain()
            assert op.get(web).status == {"cached": 0}
        """,
    )


def test_a_path_is_relative_to_the_test(passes):
    """Wherever pytest was started; a file in the current folder is the second choice."""
    other = HANDLERS.replace("len(CACHE)", "'other'")
    passes(
        {"sub/handlers.py": HANDLERS, "elsewhere/handlers.py": other, "elsewhere/only_here.py": other},
        """
        def test_beside(event_injector):
            op = event_injector("handlers.py")
            web = op.add("webs", "x", spec={})
            op.drain()
            assert op.get(web).status == {"cached": 0}

        def test_current_folder(event_injector):
            op = event_injector("only_here.py")
            web = op.add("webs", "x", spec={})
            op.drain()
            assert op.get(web).status == {"cached": "other"}
        """,
        cwd="elsewhere",
        name="sub/test_it.py",
    )


@pytest.mark.parametrize("imported", [True, False], ids=["imported", "by-name-only"])
def test_packages(passes, imported):
    """A module and what it imports of its own package, by its object or its name, with mocks that hit."""
    by_module = """
        import sys
        import myop.main
        import myop.controllers.a as a

        def test_object(event_injector):
            said(event_injector(myop.main))
            assert sys.modules["myop.controllers.a"] is a

        def test_mock(event_injector, mocker):
            mocker.patch("myop.controllers.a.hello", return_value="patched")
            said(event_injector(myop.main), "patched")

        def test_mock_of_the_other_place(event_injector, mocker):
            mocker.patch.object(a, "hello", return_value="patched")
            said(event_injector("myop.main"), "patched")

        def test_submodule(event_injector):
            said(event_injector(a))
    """
    passes(
        {**PACKAGE, "pytest.ini": "[pytest]\npythonpath = .\n"},
        """
        def said(op, what="hi"):
            cm = op.add("configmaps", "a")
            op.drain()
            assert op.get(cm).meta.annotations["said"] == what

        def test_name(event_injector):
            op = event_injector("myop.main")
            said(op)
            op.add("secrets", "s")
            op.drain()
            assert len(op.calls("b")) == 1
        """
        + (textwrap.indent(textwrap.dedent(by_module), " " * 8) if imported else ""),
    )


def test_neighbours_of_equal_names_are_kept_apart(passes):
    """In any order, also when they are imported late; what the test imported itself stays."""
    passes(
        NEIGHBOURS,
        """
        import sys
        from pathlib import Path
        import pytest
        sys.path.insert(0, str(Path(__file__).parent / "a"))
        import helper

        @pytest.mark.parametrize("which", ["a", "b", "a", "b", "b", "a"])
        def test_it(event_injector, which):
            op = event_injector(Path(__file__).parent / which / "handlers.py")
            web = op.add("webs", "x")
            op.drain()
            assert op.get(web).status["who"] == which * 3

        def test_both_at_once(event_injector):
            for which in ("a", "b"):
                op = event_injector(f"{which}/handlers.py")
                web = op.add("webs", "x")
                op.drain()
                assert op.get(web).status["who"] == which * 3

        def test_the_tests_own_import_stays():
            assert sys.modules["helper"] is helper and helper.X == "a"
        """,
    )


@pytest.mark.parametrize("imported", [True, False], ids=["imported", "loaded"])
def test_a_restart_loads_the_handlers_anew(passes, imported):
    """Their globals are gone, patches hold, the module is the same one, and at the end it is as it was."""
    passes(
        {"handlers.py": HANDLERS},
        ("import handlers\n" if imported else "")
        + textwrap.dedent("""
        import sys
        import pytest

        @pytest.mark.parametrize("kill", [True, False])
        def test_restart(event_injector, mocker, kill):
            op = event_injector("handlers.py")
            sys.modules["handlers"].CACHE.clear()  # the test's own import is one module for all of its tests
            dns = mocker.patch("handlers.create_dns")
            module, first = sys.modules["handlers"], sys.modules["handlers"].CACHE
            for name in ("a", "b"):
                op.add("webs", name, spec={"host": name})
                op.drain()
            assert [op.get("webs", name).status["cached"] for name in "ab"] == [0, 1]
            op.restart(kill=kill)
            op.drain()
            assert sys.modules["handlers"] is module and module.CACHE is not first
            assert sorted(op.get("webs", name).status["cached"] for name in "ab") == [0, 1]
            assert dns.call_count == 4
            mocker.stopall()
            assert module.create_dns.__name__ == "create_dns"

        def test_converges(event_injector):
            op = event_injector("handlers.py")
            sys.modules["handlers"].CACHE.clear()
            op.add("webs", "a", spec={})
            op.settle()
            op.check_converges()
        """),
    )


def test_a_restart_loads_packages_and_neighbours_anew(passes):
    """What was loaded with the handlers is their code, too."""
    passes(
        {
            "handlers.py": """
            import opkit, client
            @opkit.reconcile("x.io", "v1", "webs")
            def go(patch): patch.status["calls"] = client.call()
            """,
            "client.py": """
            calls = 0
            def call():
                global calls
                calls += 1
                return calls
            """,
        },
        """
        def test_neighbour(event_injector):
            op = event_injector("handlers.py")
            web = op.add("webs", "a")
            op.drain()
            op.restart(kill=True)
            op.drain()
            assert op.get(web).status["calls"] == 1
        """,
    )
