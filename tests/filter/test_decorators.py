"""The four decorators of `opkit.filter`, bare and with a resource."""

import pytest

import opkit
from opkit.filter.expressions import FilterKind

DECORATORS = [opkit.filter.add, opkit.filter.update, opkit.filter.delete, opkit.filter.generic]


@pytest.mark.parametrize("decorator", DECORATORS, ids=lambda one: one.__name__)
def test_bare_makes_a_filter_of_its_kind(decorator):
    """Without arguments, the function becomes a filter value that prints by its name."""

    @decorator
    def is_new(*args):
        return True

    assert isinstance(is_new, opkit.filter.Filter)
    assert (is_new.kind, str(is_new)) == (FilterKind(decorator.__name__), "is_new")


def test_bare_makes_a_filter_that_can_be_called():
    """A test of the author's can call what was decorated."""

    @opkit.filter.update
    def changed(new, old):
        return new != old

    assert changed(1, 2) is True and changed(1, 1) is False


def test_bare_leaves_a_filter_as_it_is():
    """Decorating twice does no harm."""
    once = opkit.filter.generic(lambda body: True)
    assert opkit.filter.update(once) is once


@pytest.mark.parametrize("decorator", DECORATORS, ids=lambda one: one.__name__)
def test_with_a_resource_declares_and_returns_the_function(decorator):
    """With a resource, the function is declared and stays a plain function."""
    registry = opkit.Registry()

    def function(*args):
        return True

    assert decorator("webapps", controller="x", registry=registry)(function) is function
    (declaration,) = registry.declarations
    assert (declaration.kind, declaration.resource, declaration.controller, declaration.function) == (
        FilterKind(decorator.__name__),
        ("webapps",),
        "x",
        function,
    )


def test_declaration_knows_its_line():
    """The place of a declared filter is the line of its decorator."""
    registry = opkit.Registry()
    opkit.filter.add("webapps", registry=registry)(lambda body: True)
    (declaration,) = registry.declarations
    assert declaration.place.file == __file__


def test_parentheses_without_a_resource_are_a_problem():
    """`@opkit.filter.update()` would declare nothing: it is told at compile time."""
    registry = opkit.Registry()
    opkit.filter.update(registry=registry)(lambda new, old: True)
    with pytest.raises(opkit.RegistrationError, match="name the resource"):
        registry.compile()
