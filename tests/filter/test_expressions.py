"""Filters as values: calling, composing, printing, and telling which part decided."""

import asyncio
import functools

import pytest

import opkit
from opkit.filter.expressions import Filter, FilterKind, FunctionFilter

KINDS = [FilterKind.ADD, FilterKind.UPDATE, FilterKind.DELETE, FilterKind.GENERIC]


def constant(kind: str, name: str, value: object) -> Filter:
    """A filter of that name which always says the same."""

    def function(*args):
        return value

    function.__name__ = name
    return FunctionFilter(FilterKind(kind), function)


def yes(name="yes", kind="generic"):
    return constant(kind, name, True)


def no(name="no", kind="generic"):
    return constant(kind, name, False)


def broken(name="broken", error=None):
    def function(*args):
        raise error or ValueError("boom")

    function.__name__ = name
    return FunctionFilter(FilterKind.GENERIC, function)


@pytest.mark.parametrize(
    "value, accepted",
    [
        (True, True),
        (False, False),
        (1, True),
        (0, False),
        ("x", True),
        ("", False),
        (None, False),
        ([0], True),
    ],
    ids=repr,
)
def test_truth_means_accept(value, accepted):
    """Whatever is true accepts, whatever is not refuses, and the answer is a bool."""
    assert constant("generic", "f", value).accepts({}) is accepted


def test_update_filter_gets_new_then_old():
    """An update filter is called with the new body first."""
    seen = []
    opkit.filter.update(lambda new, old: seen.append((new, old))).accepts("new", "old")
    assert seen == [("new", "old")]


@pytest.mark.parametrize(
    "function, expected",
    [
        pytest.param(lambda body: [body], [1], id="body-only"),
        pytest.param(lambda body, unknown: [body, unknown], [1, 2], id="both"),
        pytest.param(lambda *args: list(args), [1, 2], id="varargs"),
        pytest.param(lambda body, unknown=None: [body, unknown], [1, 2], id="optional-second"),
        pytest.param(lambda body, *, strict=False: [body, strict], [1, False], id="keyword-only-is-not-passed"),
    ],
)
def test_delete_filter_gets_what_its_signature_takes(function, expected):
    """A delete filter is told of an unknown final state only if it has a parameter for it."""
    seen = []
    recording = functools.wraps(function)(lambda *args: seen.append(function(*args)))
    FunctionFilter(FilterKind.DELETE, recording).accepts(1, 2)
    assert seen == [expected]


def test_generic_part_of_an_update_sees_the_new_body():
    """In an expression of updates, a generic filter is called with the new body alone."""
    seen = []
    part = opkit.filter.generic(lambda body: seen.append(body) or True)
    (opkit.filter.update(lambda new, old: True) & part).accepts("new", "old")
    assert seen == ["new"]


def test_errors_come_through_accepts():
    """`accepts` is the raw call: what a function raises is raised."""
    with pytest.raises(ValueError, match="boom"):
        (yes() & broken()).accepts({})


def test_coroutine_result_is_an_error_and_not_truth():
    """A function that quietly returns a coroutine does not accept everything."""

    async def answer():
        return False

    with pytest.raises(TypeError, match="sneaky returned a coroutine"):
        sneaky = FunctionFilter(FilterKind.GENERIC, lambda body: answer())
        sneaky.name = "sneaky"
        sneaky.accepts({})


@pytest.mark.parametrize("operator", ["&", "|"])
@pytest.mark.parametrize("kind", KINDS)
def test_generic_composes_with_any_kind_and_takes_it(kind, operator):
    """A generic filter composes with any kind, from either side, into that kind."""
    one, other = constant(kind, "one", True), yes("other")
    results = [one & other, other & one] if operator == "&" else [one | other, other | one]
    assert {result.kind for result in results} == {kind}


@pytest.mark.parametrize("left", KINDS[:3])
@pytest.mark.parametrize("right", KINDS[:3])
def test_two_specific_kinds_do_not_compose(left, right):
    """Two different specific kinds look at different events: composing them is a TypeError."""
    one, other = constant(left, "one", True), constant(right, "other", True)
    if left == right:
        assert (one | other).kind == left
        return
    with pytest.raises(TypeError, match=r"the \w+ filter `one` and the \w+ filter `other` don't compose"):
        _ = one & other
    with pytest.raises(TypeError, match="don't compose"):
        _ = one | other


def test_composing_with_a_plain_function_says_what_to_do():
    """A plain function in an expression is a TypeError that tells how to make a filter of it."""
    with pytest.raises(TypeError, match=r"opkit\.filter\.update\(function\)"):
        _ = opkit.filter.update(lambda new, old: True) & (lambda new, old: True)


@pytest.mark.parametrize(
    "misuse",
    [
        pytest.param(lambda: yes() and no(), id="and"),
        pytest.param(lambda: yes() or no(), id="or"),
        pytest.param(lambda: not yes(), id="not"),
    ],
)
def test_boolean_words_are_refused(misuse):
    """`a and b` would quietly be `b`: it is a TypeError instead."""
    with pytest.raises(TypeError, match="filters compose with `&`"):
        misuse()


@pytest.mark.parametrize(
    "expression, text",
    [
        pytest.param(lambda a, b, c: a & b & c, "a & b & c", id="and"),
        pytest.param(lambda a, b, c: a & (b & c), "a & b & c", id="and-is-associative"),
        pytest.param(lambda a, b, c: a | b | c, "a | b | c", id="or"),
        pytest.param(lambda a, b, c: a & (b | c), "a & (b | c)", id="or-within-and"),
        pytest.param(lambda a, b, c: a & b | c, "a & b | c", id="and-within-or"),
        pytest.param(lambda a, b, c: ~a & ~b, "~a & ~b", id="not"),
        pytest.param(lambda a, b, c: ~(a & b) | c, "~(a & b) | c", id="not-of-and"),
        pytest.param(lambda a, b, c: ~(a | b), "~(a | b)", id="not-of-or"),
        pytest.param(lambda a, b, c: ~~a, "a", id="double-not"),
    ],
)
def test_prints_as_the_expression_it_is(expression, text):
    """A filter prints as it would be written, with no more parentheses than it needs."""
    assert str(expression(yes("a"), yes("b"), yes("c"))) == text


def test_printed_names():
    """Functions print by name, lambdas by their place, partials by what is inside, objects by their class."""

    class Threshold:
        def __call__(self, body):
            return True

    def named(body, extra):
        return True

    assert str(opkit.filter.generic(functools.partial(named, extra=1))) == "named"
    assert str(opkit.filter.generic(Threshold())) == "Threshold"
    assert str(opkit.filter.generic(len)) == "len"
    assert str(opkit.filter.generic(lambda body: True)).startswith("<lambda test_expressions.py:")


@pytest.mark.parametrize(
    "expression, accepted, by",
    [
        pytest.param(yes("a"), True, "a", id="one-accepts"),
        pytest.param(no("a"), False, "a", id="one-refuses"),
        pytest.param(yes("a") & no("b") & no("c"), False, "b", id="and-first-refusal"),
        pytest.param(yes("a") & yes("b"), True, "a & b", id="and-all"),
        pytest.param(no("a") | yes("b") | yes("c"), True, "b", id="or-first-acceptance"),
        pytest.param(no("a") | no("b"), False, "a | b", id="or-none"),
        pytest.param(~yes("a"), False, "~a", id="not"),
        pytest.param(~(yes("a") & no("b")), True, "~b", id="not-of-and-by-one"),
        pytest.param(~(yes("a") & yes("b")), False, "~(a & b)", id="not-of-and-by-all"),
        pytest.param(~(yes("a") | no("b")), False, "~a", id="not-of-or"),
        pytest.param(yes("a") & (no("b") | no("c")), False, "b | c", id="nested"),
        pytest.param(yes("a") & ~(no("b") | yes("c")), False, "~c", id="deeply-nested"),
    ],
)
def test_decision_names_the_part_that_decided(expression, accepted, by):
    """`decide` agrees with `accepts`, and names the smallest part that explains it."""
    decision = expression.decide({})
    assert (decision.accepted, str(decision.by), decision.error) == (accepted, by, None)
    assert expression.accepts({}) is accepted


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(broken("f"), id="alone"),
        pytest.param(~broken("f"), id="negated"),
        pytest.param(yes() & broken("f") & no(), id="in-and"),
        pytest.param(no() | broken("f"), id="in-or"),
    ],
)
def test_a_part_that_raises_accepts_the_event(expression):
    """A raising function accepts, also under a negation, and is named together with its error."""
    decision = expression.decide({})
    assert (decision.accepted, str(decision.by), str(decision.error)) == (True, "f", "boom")


def test_a_part_that_is_not_asked_can_not_raise():
    """Parts are asked from left to right until the matter is settled."""
    assert not (no() & broken()).decide({}).accepted
    assert (yes() | broken()).decide({}).error is None


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), GeneratorExit()], ids=repr)
def test_nothing_a_filter_raises_gets_out_of_a_decision(error):
    """Even what would end a task or a process is only the function's own error."""
    assert broken(error=error).decide({}).error is error


def test_keyboard_interrupt_gets_out():
    """The one exception: it comes from a person, not from the filter."""
    with pytest.raises(KeyboardInterrupt):
        broken(error=KeyboardInterrupt()).decide({})


def test_parts_are_the_functions_from_left_to_right():
    """All functions of an expression can be looked at."""
    expression = yes("a") & ~(yes("b") | yes("c")) & yes("d")
    assert [part.name for part in expression.parts()] == ["a", "b", "c", "d"]
