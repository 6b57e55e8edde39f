"""
Filters as values: one function each, or an expression of them.

Takes the author's functions, gives values that compose with `&`, `|` and `~`, print as the expression they
are, and tell which part of them decided. Never logs and never registers: that is for others.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any


class FilterKind(enum.StrEnum):
    """What a filter looks at, and so what it is called with."""

    ADD = "add"
    """`(body)`"""

    UPDATE = "update"
    """`(new, old)`"""

    DELETE = "delete"
    """`(body)` or `(body, final_state_unknown)`"""

    GENERIC = "generic"
    """`(body)`: any event; of an update the new body."""


@dataclasses.dataclass(frozen=True, slots=True)
class FilterDecision:
    """
    What a filter said, and the part of it that settled the matter.

    `by` is the smallest part of the expression that explains the verdict: of `a & b` the one that refused, of
    `a | b` the one that accepted, the whole where it took all parts. With an `error`, `by` is the function
    that raised it, and the event is accepted: a spare reconciliation is cheap, a lost one is not.
    """

    accepted: bool
    by: Filter
    error: BaseException | None = None


class Filter(abc.ABC):
    """
    A filter of one kind. Made by the decorators in `opkit.filter`, composed by `&`, `|` and `~`.

    Calling it is the same as `accepts`, so that an author's test can call what was decorated.
    """

    __slots__ = ("kind",)

    def __init__(self, kind: FilterKind) -> None:
        self.kind = kind

    @abc.abstractmethod
    def accepts(self, *args: Any) -> bool:
        """
        Whether the filter accepts, called with the arguments of its kind.

        Parts are asked from left to right until the matter is settled. What a part raises comes through.
        """

    @abc.abstractmethod
    def parts(self) -> Iterator[FunctionFilter]:
        """The functions in it, from left to right."""

    @abc.abstractmethod
    def _decide(self, args: tuple[Any, ...]) -> FilterDecision: ...

    def decide(self, *args: Any) -> FilterDecision:
        """Ask the filter as `accepts` does, tell which part decided, and raise nothing."""
        try:
            return self._decide(args)
        except _PartRaised as raised:
            return FilterDecision(True, raised.part, raised.error)

    def __call__(self, *args: Any) -> bool:
        return self.accepts(*args)

    def __and__(self, other: object) -> Filter:
        return AllOf(_common_kind(self, other, "&"), (*_operands(self, AllOf), *_operands(other, AllOf)))

    def __or__(self, other: object) -> Filter:
        return AnyOf(_common_kind(self, other, "|"), (*_operands(self, AnyOf), *_operands(other, AnyOf)))

    def __invert__(self) -> Filter:
        return self.part if isinstance(self, Not) else Not(self)

    def __bool__(self) -> bool:
        # `a and b` would quietly be `b`: the one mistake in composing that nobody would notice.
        raise TypeError("filters compose with `&`, `|` and `~`; `and`, `or`, `not` and `if` don't work on them")

    def __repr__(self) -> str:
        return f"<{self.kind} filter: {self}>"


class FunctionFilter(Filter):
    """A filter that is one function."""

    __slots__ = ("_takes", "function", "name")

    def __init__(self, kind: FilterKind, function: Callable[..., Any]) -> None:
        super().__init__(kind)
        self.function = function
        self.name = function_name(function)
        self._takes = _positional_arguments(kind, function)

    def accepts(self, *args: Any) -> bool:
        # A part gets the arguments of the whole expression, of which a generic one wants the first only.
        result = self.function(*args[: self._takes])
        if result is True or result is False:
            return result
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError(f"the filter {self.name} returned a coroutine; filters are synchronous")
        return bool(result)

    def parts(self) -> Iterator[FunctionFilter]:
        yield self

    def _decide(self, args: tuple[Any, ...]) -> FilterDecision:
        try:
            return FilterDecision(self.accepts(*args), self)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # Nothing is awaited in here: even a CancelledError or SystemExit is the function's own doing.
            raise _PartRaised(self, error) from error

    def __str__(self) -> str:
        return self.name


class _Composed(Filter):
    """Several filters that are one."""

    __slots__ = ("operands",)

    def __init__(self, kind: FilterKind, operands: tuple[Filter, ...]) -> None:
        super().__init__(kind)
        self.operands = operands

    def parts(self) -> Iterator[FunctionFilter]:
        for operand in self.operands:
            yield from operand.parts()


class AllOf(_Composed):
    """`a & b & ...`"""

    __slots__ = ()

    def accepts(self, *args: Any) -> bool:
        return all(operand.accepts(*args) for operand in self.operands)

    def _decide(self, args: tuple[Any, ...]) -> FilterDecision:
        for operand in self.operands:
            decision = operand._decide(args)
            if not decision.accepted:
                return decision
        return FilterDecision(True, self)

    def __str__(self) -> str:
        return " & ".join(f"({part})" if isinstance(part, AnyOf) else str(part) for part in self.operands)


class AnyOf(_Composed):
    """`a | b | ...`"""

    __slots__ = ()

    def accepts(self, *args: Any) -> bool:
        return any(operand.accepts(*args) for operand in self.operands)

    def _decide(self, args: tuple[Any, ...]) -> FilterDecision:
        for operand in self.operands:
            decision = operand._decide(args)
            if decision.accepted:
                return decision
        return FilterDecision(False, self)

    def __str__(self) -> str:
        return " | ".join(str(part) for part in self.operands)


class Not(Filter):
    """`~a`"""

    __slots__ = ("part",)

    def __init__(self, part: Filter) -> None:
        super().__init__(part.kind)
        self.part = part

    def accepts(self, *args: Any) -> bool:
        return not self.part.accepts(*args)

    def parts(self) -> Iterator[FunctionFilter]:
        yield from self.part.parts()

    def _decide(self, args: tuple[Any, ...]) -> FilterDecision:
        decision = self.part._decide(args)
        return FilterDecision(not decision.accepted, ~decision.by)

    def __str__(self) -> str:
        return f"~({self.part})" if isinstance(self.part, (AllOf, AnyOf)) else f"~{self.part}"


class _PartRaised(Exception):
    """Carries a function's error up through the expression around it."""

    def __init__(self, part: FunctionFilter, error: BaseException) -> None:
        super().__init__()
        self.part = part
        self.error = error


def function_name(function: Any) -> str:
    """What people call a function: its name; for a partial the name inside, for an object its class."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None) or type(function).__name__
    code = getattr(function, "__code__", None)
    if name == "<lambda>" and code is not None:
        return f"<lambda {os.path.basename(code.co_filename)}:{code.co_firstlineno}>"
    return str(name)


def _common_kind(left: Filter, right: object, operator: str) -> FilterKind:
    if not isinstance(right, Filter):
        raise TypeError(
            f"`{left} {operator} ...` wants another filter, not {right!r};"
            f" make one of a function by opkit.filter.{left.kind}(function)"
        )
    if left.kind == right.kind or right.kind is FilterKind.GENERIC:
        return left.kind
    if left.kind is FilterKind.GENERIC:
        return right.kind
    raise TypeError(
        f"the {left.kind} filter `{left}` and the {right.kind} filter `{right}` don't compose:"
        " they look at different events (a generic filter composes with any kind)"
    )


def _operands(part: object, form: type[AllOf] | type[AnyOf]) -> tuple[Filter, ...]:
    """The operands that a part brings in: `(a & b) & c` is `a & b & c`."""
    if isinstance(part, form):
        return part.operands
    assert isinstance(part, Filter)
    return (part,)


def _positional_arguments(kind: FilterKind, function: Callable[..., Any]) -> int:
    """How many of the arguments of its kind the function is called with."""
    if kind is FilterKind.UPDATE:
        return 2
    if kind is not FilterKind.DELETE:
        return 1
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1  # a builtin without a signature takes what every filter of the kind takes
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return 2
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return 2 if len(positional) >= 2 else 1
