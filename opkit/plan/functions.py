"""The author's functions in a plan: handlers with what they want to be passed, filters composed to one."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import Any

from opkit.declaration.declarations import (
    Declaration,
    FilterDeclaration,
    Place,
    PollDeclaration,
    ResourceDeclaration,
)
from opkit.declaration.signature import ObjectWords, Role, filter_problems, read_signature, source_of
from opkit.filter.expressions import Filter, FilterKind, function_name
from opkit.plan import options, resources
from opkit.plan.plan import Filters, Handler
from opkit.plan.problems import Problems
from opkit.plan.words import natural, words_for

# The option of a decorator for each kind of filter.
_OPTIONS = {
    FilterKind.ADD: "on_add",
    FilterKind.UPDATE: "on_update",
    FilterKind.DELETE: "on_delete",
    FilterKind.GENERIC: "generic",
}


def compile_handler(declaration: Declaration, role: Role, problems: Problems) -> Handler:
    """Read what a handler wants. With problems, the result only stands in for it."""
    function, place = declaration.function, declaration.place
    signature = read_signature(function, role, _object_words(declaration))
    for problem in signature.problems:
        problems.add(place, problem)
    file, line = source_of(function) or (place.file, place.line)
    return Handler(
        function=function,
        name=function_name(function),
        file=file,
        line=line,
        is_async=signature.is_async,
        arguments=signature.arguments,
        object_argument=signature.object_argument,
        clients=signature.clients,
        takes_all=signature.takes_all,
        reads_rest=signature.reads_rest,
        is_global=_is_global(function),
    )


def _object_words(declaration: Declaration) -> ObjectWords | None:
    """The words for the object that a handler is called with; None without a resource that can be read."""
    try:
        if isinstance(declaration, ResourceDeclaration):
            selector = resources.named(declaration.resource)
        elif isinstance(declaration, PollDeclaration):
            selector = options.resource(declaration.of, "of")
        else:
            return None
    except (TypeError, ValueError):
        return None  # which is told elsewhere: names can't be judged by a resource that nobody knows
    return ObjectWords(str(selector), words_for(selector), natural(selector))


def compile_filter(value: Any, kind: FilterKind, what: str, place: Place, problems: Problems) -> Filter | None:
    """Check a filter and each function in it."""
    found = problems.attempt(place, options.event_filter, value, kind, what)
    if found is not None:
        for part in found.parts():
            for problem in filter_problems(part):
                problems.add(place, problem)
    return found


def compile_filters(declaration: Any, declared: Iterable[FilterDeclaration], problems: Problems) -> Filters:
    """All filters of a declaration: those of its resource in their order, then those in its options."""
    declared = list(declared)
    composed: dict[str, Filter | None] = {}
    for kind, option in _OPTIONS.items():
        found = [declared_filter(one, problems) for one in declared if one.kind is kind]
        found.append(compile_filter(getattr(declaration, option), kind, option, declaration.place, problems))
        present = [one for one in found if one is not None]
        composed[kind.value] = functools.reduce(operator.and_, present) if present else None
    return Filters(**composed)


def declared_filter(declaration: FilterDeclaration, problems: Problems) -> Filter | None:
    """The filter that stands under a decorator with a resource."""
    what = f"@opkit.filter.{declaration.kind}"
    return compile_filter(declaration.function, declaration.kind, what, declaration.place, problems)


def _is_global(function: Any) -> bool:
    """Whether a module's global of the function's name is this very function."""
    namespace = getattr(function, "__globals__", {})
    return namespace.get(getattr(function, "__name__", None)) is function
