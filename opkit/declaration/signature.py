"""
Signatures: what a function asks for by the names of its parameters.

Takes a function and the role in which it was declared, gives what it wants to be passed and what is wrong
with it. Never calls it, and never imports a client library: those are recognised by name.
"""

from __future__ import annotations

import dataclasses
import difflib
import dis
import enum
import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

from opkit.declaration.annotations import client_library
from opkit.filter.expressions import FilterKind, FunctionFilter, function_name

_META = frozenset({"meta", "name", "namespace", "uid", "labels", "annotations"})
_OBJECT = _META | {"body", "spec", "status", "resource"}
_OPERATOR = frozenset({"logger", "memo", "settings"})
_RUN = frozenset({"patch", "attempt", "retry", "trigger", "requeue", "secondary", "cluster", "event", "stopping"})

_EDGE_TRIGGERED = frozenset({"old", "new", "diff", "type"})

# What people who come from kopf or other frameworks try, and what they find instead.
_KNOWN_ELSEWHERE = {
    "param": "a handler has no parameters of its own: use functools.partial, or a parameter with a default",
    "started": "'attempt' counts the attempts, and the status is the place for times",
    "runtime": "'attempt' counts the attempts, and timeout= limits how long one takes",
    "dryrun": "there are no admission handlers, which alone have dry runs",
    "operation": "handlers are not told what happened, and there are no admission handlers",
    "warnings": "there are no admission handlers",
    "userinfo": "there are no admission handlers",
    "sslpeer": "there are no admission handlers",
    "headers": "there are no admission handlers",
    "stopped": "do you mean 'stopping'?",
    "indexes": "there are no indices: 'cluster' reads other objects",
    "indices": "there are no indices: 'cluster' reads other objects",
    "index": "there are no indices: 'cluster' reads other objects",
    "finalizers": "they are in 'meta'",
    "generation": "it is in 'meta'",
    "group": "it is in 'resource'",
    "version": "it is in 'resource'",
    "plural": "it is in 'resource'",
    "kind": "it is in 'resource'",
    "client": "do you mean 'cluster'?",
    "api": "do you mean 'cluster'?",
    "log": "do you mean 'logger'?",
    "obj": "do you mean 'body'?",
    "object": "do you mean 'body'?",
    "raw": "do you mean 'body'?",
    "metadata": "do you mean 'meta'?",
}

# How alike a name must be to a known one to be taken for a slip.
_ALIKE = 0.7


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectWords:
    """The words that mean an object of a declaration's resource; `shown` are those to tell a person."""

    resource: str
    words: frozenset[str]
    shown: str

    def __contains__(self, name: str) -> bool:
        return name.lower().replace("_", "") in self.words


class Role(enum.Enum):
    """In what role a function was declared; the value is what problems call it."""

    RECONCILE = "reconcile handler"
    FINALIZER = "finalizer"
    DELETE = "delete handler"
    SECONDARY = "mapper of secondary objects"
    POLL = "poll"
    POLL_EACH = "poll of each object"
    ACTIVITY = "function that is called for the operator"

    @property
    def known(self) -> frozenset[str]:
        """The names of arguments that are passed in this role."""
        return _KNOWN[self]

    @property
    def has_object(self) -> bool:
        """Whether there is an object that a parameter of another name could receive."""
        return self not in (Role.POLL, Role.ACTIVITY)

    @property
    def has_clients(self) -> bool:
        """Whether a client of another library can be asked for: not before there is a connection, nor per event."""
        return self not in (Role.SECONDARY, Role.ACTIVITY)


_KNOWN = {
    Role.RECONCILE: _OBJECT | _OPERATOR | _RUN,
    Role.FINALIZER: _OBJECT | _OPERATOR | _RUN,
    Role.DELETE: _OBJECT | _OPERATOR | _RUN | {"reason"},
    Role.SECONDARY: _OBJECT | _OPERATOR,
    Role.POLL: _OPERATOR | {"cluster", "stopping"},
    Role.POLL_EACH: _OBJECT | _OPERATOR | {"cluster", "stopping"},
    Role.ACTIVITY: _OPERATOR,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """What a function wants. With `problems`, each one sentence, the rest says as much as could be told."""

    is_async: bool = False
    arguments: frozenset[str] = frozenset()
    object_argument: str | None = None
    clients: tuple[tuple[str, str], ...] = ()
    takes_all: bool = False
    reads_rest: bool = True
    """Whether the function looks at what its `**kwargs` collected."""
    problems: tuple[str, ...] = ()


def read_signature(function: Any, role: Role, words: ObjectWords | None = None) -> Signature:
    """
    Read what a handler asks for, and find what is wrong with it.

    A parameter of an unknown name receives the object if the name is one of the `words` for it; without them,
    whatever its name is.
    """
    if not callable(function):
        return Signature(problems=(f"{function!r} is not a function",))
    name = function_name(function)
    form = _form(function)
    problems = [f"{name}() is {form}; a {role.value} is a plain or an async function"] if form else []
    if role is Role.SECONDARY and is_async(function):
        problems.append(f"{name}() is async; a {role.value} is called for each event and must be synchronous")
    parameters = _parameters(function)
    if parameters is None:
        return Signature(problems=(*problems, f"the parameters of {name}() can't be read; wrap it in a def"))
    reading = _Reading(function, role, words)
    for parameter in parameters:
        reading.take(parameter)
    problems += reading.finish()
    return Signature(
        is_async=is_async(function),
        arguments=frozenset(reading.arguments),
        object_argument=reading.others[0] if reading.others and role.has_object else None,
        clients=tuple(reading.clients),
        takes_all=reading.takes_all,
        reads_rest=reading.reads_rest,
        problems=tuple(problems),
    )


def filter_problems(part: FunctionFilter) -> list[str]:
    """What is wrong with a function that is to be a filter: each one sentence."""
    function, name = part.function, part.name
    call = {FilterKind.UPDATE: "(new, old)", FilterKind.DELETE: "(body) or (body, final_state_unknown)"}.get(
        part.kind, "(body)"
    )
    if is_async(function) or _form(function):
        what = "async" if is_async(function) else _form(function)
        return [f"the filter {name} is {what}; filters are synchronous functions"]
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []  # a builtin without a readable signature: calling it will tell
    counts = {FilterKind.UPDATE: (2,), FilterKind.DELETE: (1, 2)}.get(part.kind, (1,))
    if any(_binds(signature, count) for count in counts):
        return []
    return [f"the {part.kind} filter {name}{_shown(signature)} is called as {call}"]


def is_async(function: Any) -> bool:
    """Whether calling the function gives a coroutine."""
    plain = _plain(function)
    return inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(type(plain).__call__)


def _plain(function: Any) -> Any:
    """The function inside partials, static methods and bound methods."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, staticmethod) or inspect.ismethod(function):
            function = function.__func__
        else:
            return function


def source_of(function: Any) -> tuple[str, int] | None:
    """The file and the first line of a function, decorators included; None where there is no source."""
    plain = inspect.unwrap(_plain(function))
    code = getattr(plain, "__code__", None) or getattr(type(plain).__call__, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else None


def _form(function: Any) -> str | None:
    """What it is instead of a function, if its call would not run its body."""
    plain = _plain(function)
    if inspect.isclass(plain):
        return "a class"
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        return "a generator"
    return None


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    options: dict[str, Any] = {}
    if sys.version_info >= (3, 14):
        import annotationlib

        # Names that are only imported for type checkers must not keep a handler from being read.
        options["annotation_format"] = annotationlib.Format.FORWARDREF
    try:
        return list(inspect.signature(function, **options).parameters.values())
    except (TypeError, ValueError):
        return None


class _Reading:
    """The reading of one signature, a parameter at a time."""

    def __init__(self, function: Any, role: Role, words: ObjectWords | None) -> None:
        self.function = function
        self.words = words
        self.name = function_name(function)
        self.role = role
        self.arguments: list[str] = []
        self.clients: list[tuple[str, str]] = []
        self.others: list[str] = []
        self.takes_all = self.reads_rest = False
        self.problems: list[str] = []

    def take(self, parameter: inspect.Parameter) -> None:
        if parameter.kind is parameter.VAR_KEYWORD:
            self.takes_all = True
            self.reads_rest = _mentions(self.function, parameter.name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            pass  # handlers are called by name: nothing will be in it
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            self._problem(f"has the positional-only parameter {parameter.name!r}; arguments are passed by name")
        elif not self._take_client(parameter):
            self._take_name(parameter)

    def _take_client(self, parameter: inspect.Parameter) -> bool:
        if parameter.annotation is parameter.empty:
            return False
        library, problem = client_library(parameter.annotation, _plain(self.function))
        if problem:
            self._problem(f"has the parameter {parameter.name!r} annotated with {problem}")
        elif library and not self.role.has_clients:
            self._problem(f"asks for a client of {library}, which a {self.role.value} can't be given")
        elif library:
            self.clients.append((parameter.name, library))
        return bool(library or problem)

    def _take_name(self, parameter: inspect.Parameter) -> None:
        name, optional = parameter.name, parameter.default is not parameter.empty
        if name in self.role.known:
            self.arguments.append(name)
        elif name in _EDGE_TRIGGERED and self.role is not Role.ACTIVITY:
            self._problem(
                f"asks for {name!r}, but reconciliation is level-triggered: it is called with the object as"
                " it is now, whatever happened, and must not need what has changed; to run on certain changes"
                " only, use @opkit.filter.update"
            )
        elif optional:
            pass  # the author's own: left to its default
        elif name == "reason" and self.role.has_object:
            self._problem("asks for 'reason', which only delete handlers have")
        elif name in ("self", "cls") and self.role.has_object:
            self._problem(
                f"takes {name!r}: decorate a function, a static method or the method of an instance,"
                " as in opkit.reconcile(...)(instance.method)"
            )
        elif self.words is not None and self.role.has_object and name not in self.words:
            self._problem(
                f"asks for {name!r}, which is unknown here and no word for {self.words.resource};"
                f" {self._advice(name, self.words)}"
            )
        else:
            self.others.append(name)

    def _advice(self, name: str, words: ObjectWords) -> str:
        """What an author may have meant."""
        if name in _KNOWN_ELSEWHERE:
            return _KNOWN_ELSEWHERE[name]
        plain = name.lower().replace("_", "")
        by_plain = {known.replace("_", ""): known for known in sorted({*self.role.known, *words.words})}
        if close := difflib.get_close_matches(plain, by_plain, n=1, cutoff=_ALIKE):
            return f"do you mean {by_plain[close[0]]!r}?"
        return f"the object is called 'body' or {words.shown!r}; {self._known()}"

    def finish(self) -> list[str]:
        if self.others and not self.role.has_object:
            self._problem(f"asks for {_listed(self.others)}, unknown here; {self._known()}")
        elif len(self.others) > 1:
            self._problem(
                f"asks for {_listed(self.others)}, but only one parameter may receive the object under a name"
                f" of its own; {self._known()}"
            )
        return self.problems

    def _known(self) -> str:
        return f"the names known here are {' '.join(sorted(self.role.known))}"

    def _problem(self, text: str) -> None:
        self.problems.append(f"{self.name}() {text}")


def _listed(names: list[str]) -> str:
    return " and ".join(repr(name) for name in names)


# With one of these a function may look at a variable without naming it.
_ANY_VARIABLE = frozenset({"dir", "eval", "exec", "locals", "vars", "currentframe", "stack", "_getframe"})


def _mentions(function: Any, variable: str) -> bool:
    """
    Whether a function's own code mentions one of its variables. Where that can't be told, it does.

    The `**_` that most handlers end in is never looked at: what it would be given need not be made.
    """
    if not isinstance(function, types.FunctionType) or hasattr(function, "__wrapped__"):
        return True  # something else is called first, and may look
    code = function.__code__
    if variable in code.co_cellvars or not _ANY_VARIABLE.isdisjoint(code.co_names):
        return True
    return any(_names(instruction, variable) for instruction in dis.get_instructions(code))


def _names(instruction: dis.Instruction, variable: str) -> bool:
    """Some instructions deal with two variables at once, and have a pair of names."""
    named = instruction.argval
    return "FAST" in instruction.opname and (named == variable or (isinstance(named, tuple) and variable in named))


def _binds(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _shown(signature: inspect.Signature) -> str:
    return f"({', '.join(signature.parameters)})"
