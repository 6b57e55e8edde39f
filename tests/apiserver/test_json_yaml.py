"""YAML as kubectl reads it. The right values were taken from `kubectl annotate --local -o json`."""

import pytest
import yaml

from opkit.apiserver import json_yaml


def read(text):
    (document,) = json_yaml.load_all(text)
    return document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("=", "="),
        ("22:22", "22:22"),
        ("190:20:30.15", "190:20:30.15"),
        ("2001-01-01", "2001-01-01"),
        ("2001-12-14 21:59:43.10 -5", "2001-12-14 21:59:43.10 -5"),
        ("!!timestamp 2001-01-01", "2001-01-01"),
        ("y", True),
        ("N", False),
        ("Yes", True),
        ("off", False),
        ("yEs", "yEs"),
        ("tRue", "tRue"),
        ("'y'", "y"),
        ("~", None),
        ("", None),
        ("nUll", "nUll"),
        ("017", 15),
        ("0o17", 15),
        ("-017", -15),
        ("08", 8),
        ("0x1F", 31),
        ("-0b11", -3),
        ("0b2", "0b2"),
        ("1e3", 1000),
        ("1.5e3", 1500),
        ("1.0", 1),
        ("1.10", 1.1),
        (".5", 0.5),
        ("5.", 5),
        ("1_000", 1000),
        ("_1", "_1"),
        ("1e400", "1e400"),
        ("1e", "1e"),
        ("1.2.3", "1.2.3"),
        ("1,000", "1,000"),
        ("-9223372036854775808", -9223372036854775808),
        ("9223372036854775808", 9223372036854775808.0),
        ("<<", "<<"),
        ("! 12", "12"),
        ("!!str 1", "1"),
        ("!!int '1'", 1),
        ("!!float 1", 1),
        ("!!bool yes", True),
        ("!!binary aGk=", "hi"),
        ("\ta", "a"),
    ],
)
def test_scalars_mean_what_they_mean_to_kubectl(text, value):
    """Words, numbers and dates are read as kubectl reads them, type and all."""
    found = read(f"spec:\n  v: {text}\n")["spec"]["v"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("key", "text"), [("1", "1"), ("1.5", "1.5"), ("1e3", "1000"), ("true", "true"), ("y", "true"), ("2001-01-01",) * 2]
)
def test_keys_are_texts(key, text):
    """A key that is no text becomes one."""
    assert read(f"{key}: a\n") == {text: "a"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("b: &x {a: 1, c: 3}\nv: {<<: *x, a: 2}\n", {"a": 2, "c": 3}, id="merge"),
        pytest.param("b: &x {a: 1}\nd: &y {a: 2, e: 1}\nv: {<<: [*x, *y], z: 1}\n", {"a": 1, "e": 1, "z": 1}, id="two"),
        pytest.param("b: &x [1]\nv: [*x, *x]\n", [[1], [1]], id="aliases"),
        pytest.param("b: &x 1\nc: &x 2\nv: *x\n", 2, id="anchor-again"),
        pytest.param("v: {a, b}\n", {"a": None, "b": None}, id="no-values"),
        pytest.param("\ufeffv: 1\r\n", 1, id="mark-and-carriage-returns"),
        pytest.param('{\n\t"v": 1.0\n}', 1, id="json-with-tabs"),
    ],
)
def test_structures(text, value):
    """Anchors, merges and what other editors leave in a file are read as by kubectl."""
    assert read(text)["v"] == value


def test_what_aliases_stand_for_is_not_shared():
    """Whoever changes one place changes no other one."""
    found = read("a: &x {k: 1}\nb: *x\n")
    found["a"]["k"] = 2
    assert found["b"] == {"k": 1}


def test_documents():
    """Empty ones are none; JSON objects may follow one another."""
    assert [one for one in json_yaml.load_all("---\n---\na: 1\n---\n# c\n---\nb: 2\n") if one] == [{"a": 1}, {"b": 2}]
    assert json_yaml.load_all('{"a": 1}\n{"b": 2}') == [{"a": 1}, {"b": 2}]
    assert [one for one in json_yaml.load_all("---\n") if one] == []


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        ("a: 1\nb: 2\na: 3\n", "'a' is there twice", 3),
        ("a:\n  1: x\n  '1': y\n", "'1' is there twice", 3),
        ("a: 1\nb: !Ref foo\n", "!Ref is unknown", 2),
        ("a: !!python/name:os.system x\n", "is unknown", 1),
        ("a: !!set {b}\n", "!!set is unknown", 1),
        ("a: .inf\n", "no number", 1),
        ("a: !!int x\n", "'x' is no int", 1),
        ("a: !!int 1.5\n", "is no int", 1),
        ("~: a\n", "null can't be a key", 1),
        ("[a]: b\n", "can't be a key", 1),
        ("a: *nope\n", "no anchor 'nope'", 1),
        ("a: &x [*x]\n", "contains itself", 1),
        ("a: {<<: 1}\n", "takes a mapping", 1),
        ("a: !!binary '@@'\n", "not base64", 1),
        ("a: 1\n\tb: 2\n", "", 2),
    ],
)
def test_what_is_refused_names_its_line(text, problem, line):
    """What kubectl refuses is refused, and besides what would be lost or guessed, each at its line."""
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        json_yaml.load_all(text)
    assert problem in str(caught.value) and caught.value.problem_mark.line + 1 == line


def test_a_few_lines_can_not_fill_the_memory():
    """Aliases of aliases of aliases are refused in time."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(yaml.YAMLError, match="too much"):
        json_yaml.load_all("\n".join(lines))


def test_what_is_sent_has_no_aliases():
    """A request body is refused that has one, as before it could be looked at."""
    with pytest.raises(yaml.YAMLError, match="aliases"):
        json_yaml.load("a: &x 1\nb: *x\n")
