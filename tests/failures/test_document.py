"""The tables of the documents name tests that are there."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["failure-modes.md", "coverage.md"]


def rows(document):
    """The cells of each row of a table, headings left out."""
    for line in (ROOT / "docs" / document).read_text().splitlines():
        if line.startswith("| ") and not line.startswith(("| what happens", "| statement")):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("| "))] + [""]


def named(document):
    found = re.findall(r"`([\w./]+\.py)::(\w+)`", (ROOT / "docs" / document).read_text())
    return sorted(set(found))


@functools.cache
def functions_of(path):
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {function.name for function in functions if function.name.startswith("test_")}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_named_test_is_there(document):
    """A test that was renamed or removed is renamed or replaced here too."""
    missing = []
    for file, name in named(document):
        path = ROOT / file if file.startswith("samples/") else ROOT / "tests" / file
        if not path.exists() or name not in functions_of(path):
            missing.append(f"{file}::{name}")
    assert named(document) and missing == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_row_names_a_test_or_says_why_not(document):
    """What has no test is open, or departed from on purpose: said in words."""
    assert [row[0] for row in rows(document) if "::" not in row[2] and "*Open*" not in row[1]] == []


def test_all_areas_are_there():
    """Each area keeps its anchor, and has rows."""
    text = (ROOT / "docs" / "failure-modes.md").read_text()
    assert re.findall(r"^## ([A-I])\. ", text, re.MULTILINE) == list("ABCDEFGHI")
    assert len(list(rows("failure-modes.md"))) >= 98
