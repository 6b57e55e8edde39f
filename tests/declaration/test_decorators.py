"""Decorators: they keep what they were given, return the function, and raise for nothing."""

import inspect

import pytest

import opkit
from opkit.declaration.declarations import (
    ActivityDeclaration,
    DeleteDeclaration,
    FinalizerDeclaration,
    PollDeclaration,
    ReconcileDeclaration,
    SecondaryDeclaration,
)
from opkit.declaration.registry import default_registry

FORMS = [
    pytest.param(opkit.reconcile, ("webapps",), ReconcileDeclaration, id="reconcile"),
    pytest.param(opkit.delete, ("webapps",), DeleteDeclaration, id="delete"),
    pytest.param(opkit.finalizer, ("webapps",), FinalizerDeclaration, id="finalizer"),
    pytest.param(opkit.secondary, ("webapps",), SecondaryDeclaration, id="secondary"),
    pytest.param(opkit.poll, (), PollDeclaration, id="poll"),
    pytest.param(opkit.startup, (), ActivityDeclaration, id="startup"),
    pytest.param(opkit.shutdown, (), ActivityDeclaration, id="shutdown"),
    pytest.param(opkit.login, (), ActivityDeclaration, id="login"),
    pytest.param(opkit.probe, (), ActivityDeclaration, id="probe"),
]


def handler(body):
    """Stands for an author's function."""


def problems(registry):
    return [problem.message for problem in _error(registry).problems]


def _error(registry):
    with pytest.raises(opkit.RegistrationError) as caught:
        registry.compile()
    return caught.value


@pytest.mark.parametrize("decorator, words, form", FORMS)
def test_returns_the_function_unchanged(decorator, words, form):
    """A decorated function is still that very function, and one declaration was made."""
    registry = opkit.Registry()
    assert decorator(*words, registry=registry)(handler) is handler
    (declaration,) = registry.declarations
    assert type(declaration) is form and declaration.function is handler


@pytest.mark.parametrize("decorator, words, form", FORMS)
def test_uses_the_process_wide_registry(decorator, words, form):
    """Without `registry=`, the declaration goes to the process-wide registry."""
    with opkit.Registry().as_default() as registry:
        decorator(*words)(handler)
        assert default_registry() is registry
    assert len(registry.declarations) == 1
    assert default_registry() is not registry


@pytest.mark.parametrize("decorator, words, form", FORMS)
def test_without_a_call_is_a_problem(decorator, words, form):
    """`@opkit.reconcile` without parentheses leaves the function usable, and is told at compile time."""
    with opkit.Registry().as_default() as registry:
        assert decorator(handler) is handler
    (problem,) = problems(registry)
    assert f"@opkit.{decorator.__name__} is called first" in problem


def test_place_is_the_decorators_line():
    """The place of a declaration is the line of its decorator, also in a stack of them."""
    registry = opkit.Registry()
    finalizer = "@opkit.finalizer(\n    'a',\n    registry=r,\n)\n"
    source = f"\n\n@opkit.reconcile('a', registry=r)\n{finalizer}def f(body): ...\n"
    exec(compile(source, "some/handlers.py", "exec"), {"opkit": opkit, "r": registry})
    places = {type(one).__name__: str(one.place) for one in registry.declarations}
    assert places == {
        "ReconcileDeclaration": "some/handlers.py:3",
        "FinalizerDeclaration": "some/handlers.py:4",
    }


@pytest.mark.parametrize(
    "options, message",
    [
        pytest.param({"label_selectors": "a=b"}, "do you mean 'label_selector'?", id="misspelled"),
        pytest.param({"labels": {}}, "may be label_selector=", id="known-from-kopf"),
        pytest.param({"xyz": 1}, "there are: controller, label_selector", id="unheard-of"),
    ],
)
def test_unknown_option_is_a_problem(options, message):
    """An option that does not exist is told at compile time, with what is probably meant."""
    registry = opkit.Registry()
    opkit.reconcile("webapps", registry=registry, **options)(handler)
    (problem,) = problems(registry)
    assert f"@opkit.reconcile has no option {next(iter(options))!r}" in problem and message in problem


def test_unknown_option_leaves_the_declaration_in_place():
    """What else is declared for the resource is not told to lack a handler."""
    registry = opkit.Registry()
    opkit.reconcile("example.com", "v1", "webapps", registry=registry, nope=1)(handler)
    opkit.finalizer("webapps", registry=registry)(handler)
    assert len(problems(registry)) == 1


def test_words_where_none_belong_are_a_problem():
    """Activities belong to no resource."""
    registry = opkit.Registry()
    opkit.startup("webapps", registry=registry)(handler)
    assert any("takes options by name only" in problem for problem in problems(registry))


def test_a_wrong_registry_is_a_problem_of_the_default_one():
    """Even a wrong `registry=` does not raise in the middle of an import."""
    with opkit.Registry().as_default() as registry:
        opkit.reconcile("webapps", registry="mine")(handler)
    assert problems(registry) == ["registry= is an opkit.Registry(), not 'mine'"]


@pytest.mark.parametrize("given", [42, None, "f", [], classmethod(handler)], ids=lambda given: type(given).__name__)
def test_decorating_no_function_is_a_problem(given):
    """What is not callable is told at compile time."""
    registry = opkit.Registry()
    assert opkit.reconcile("webapps", registry=registry)(given) is given
    assert any("is not a function" in problem for problem in problems(registry))


@pytest.mark.parametrize(
    "resync, values",
    [
        pytest.param({}, (None, False), id="not-given"),
        pytest.param({"resync": None}, (None, True), id="turned-off"),
        pytest.param({"resync": 5}, (5, True), id="given"),
    ],
)
def test_resync_none_is_not_the_default(resync, values):
    """`resync=None` turns it off; leaving it out takes it from the settings."""
    registry = opkit.Registry()
    opkit.reconcile("webapps", registry=registry, **resync)(handler)
    (declaration,) = registry.declarations
    assert (declaration.resync, declaration.resync_set) == values


@pytest.mark.parametrize("decorator, words, form", FORMS)
def test_signature_is_kept_for_editors(decorator, words, form):
    """`help()` and editors show the decorator's own name, options and text."""
    assert "registry" in inspect.signature(decorator).parameters
    assert decorator.__doc__.strip().startswith("The function")
