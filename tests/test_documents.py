"""What the documents show is true when it is run as it stands."""

import inspect
import re
from pathlib import Path

import pytest

import opkit
from opkit.testing import FakeEventInjector

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path):
    """The Python blocks of a document, with the line that each stands at."""
    text = path.read_text()
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        line = text[: match.start()].count("\n") + 2
        yield pytest.param(match.group(1), id=f"{path.name}:{line}")


BLOCKS = [block for path in DOCUMENTS for block in blocks(path)]
TESTS = [block for block in BLOCKS if re.search(r"^def test_", block.values[0], re.MULTILINE)]
DECLARATIONS = [block for block in BLOCKS if "@opkit." in block.values[0]]


@pytest.mark.parametrize("source", TESTS)
def test_shown_tests_pass(source, event_injector, mocker, monkeypatch):
    """A test that a document shows passes when it is copied."""
    monkeypatch.chdir(ROOT)
    namespace = {"FakeEventInjector": FakeEventInjector}
    exec(compile(source, "<document>", "exec"), namespace)
    fixtures = {"event_injector": event_injector, "mocker": mocker}
    (test,) = [value for name, value in namespace.items() if name.startswith("test_")]
    test(**{name: fixtures[name] for name in inspect.signature(test).parameters})


@pytest.mark.parametrize("source", DECLARATIONS)
def test_shown_handlers_compile(source):
    """Handlers that a document shows have no problem that `opkit check` would find."""
    with opkit.Registry().as_default() as registry:
        exec(compile(source, "<document>", "exec"), {"opkit": opkit})
        if any("of=" in line for line in source.splitlines()) and "@opkit.reconcile" not in source:
            opkit.reconcile("example.com", "v1", "webapps")(lambda webapp: None)
        if "@opkit.filter" in source or "@opkit.reconcile" in source:
            registry.compile()


def test_the_readmes_example_works(event_injector):
    """The first thing that the README shows makes what it says."""
    source = next(iter(blocks(ROOT / "README.md"))).values[0]
    with opkit.Registry().as_default() as registry:
        exec(compile(source, "<readme>", "exec"), {})
    op = event_injector(registry)
    site = op.add("websites", "home", spec={"title": "Hello"})
    op.drain()
    assert op.get("configmaps", "home")["data"] == {"index.html": "<h1>Hello</h1>"}
    assert op.get(site).status == {"observedGeneration": 1}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    """Each relative link of a document names something that is there."""
    links = re.findall(r"\]\(([^)#:]+)\)", path.read_text())
    missing = [link for link in links if not (path.parent / link).exists()]
    assert missing == []
