"""
Selectors: Kubernetes' label and field selectors, parsed, compared and matched.

Takes the text that `kubectl -l` and `--field-selector` take, or a dict; gives values that are equal when they
mean the same, print in one canonical form, and can be dict keys. Never asks a server: whether a server
supports a field is its own affair.

    labels     environment in (production,qa), tier!=frontend, !canary, partition, weight>5
    fields     metadata.name=web, status.phase!=Running
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_TOKEN = re.compile(r"\s*(?:(==|!=|[=!<>(),])|([^\s=!<>(),]+))")
_INTEGER = re.compile(r"[+-]?\d+")

_EXPRESSION_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def is_label_key(text: str) -> bool:
    """Whether this can be the key of a label or an annotation: `name` or `domain/name`."""
    domain, slash, name = text.rpartition("/")
    if slash and not _DOMAIN.fullmatch(domain):
        return False
    return bool(_NAME.fullmatch(name))


def is_label_value(text: str) -> bool:
    """Whether this can be the value of a label; the empty text can."""
    return not text or bool(_NAME.fullmatch(text))


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class Requirement:
    """
    One condition on one label.

    `op` is one of `in`, `notin`, `exists`, `!`, `>`, `<`; equality is `in` with one value, inequality `notin`
    with one. As on a server, `notin` also holds where the label is absent.
    """

    key: str
    op: str
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, key: str, op: str, values: Iterable[str] = ()) -> Requirement:
        """Check and normalise. Raises `ValueError` with one sentence."""
        values = tuple(sorted(set(values)))
        if not is_label_key(key):
            raise ValueError(
                f"{key!r} is not a label key: it must be a name or domain/name, as in app or example.com/app"
            )
        if op in ("in", "notin") and not values:
            raise ValueError(f"{op!r} needs at least one value for the label {key!r}")
        if op in (">", "<") and not all(_INTEGER.fullmatch(value) for value in values):
            raise ValueError(f"{op!r} compares the label {key!r} with an integer, not with {values[0]!r}")
        for value in values:
            if not is_label_value(value):
                raise ValueError(f"{value!r} is not a label value: at most 63 letters, digits, '-', '_' or '.'")
        return cls(key, op, values)

    def matches(self, labels: Mapping[str, Any]) -> bool:
        value = labels.get(self.key)
        if self.op == "in":
            return value in self.values
        if self.op == "notin":
            return value is None or value not in self.values
        if self.op == "exists":
            return value is not None
        if self.op == "!":
            return value is None
        if value is None or not _INTEGER.fullmatch(str(value)):
            return False
        bound = int(self.values[0])
        return int(value) > bound if self.op == ">" else int(value) < bound

    def __str__(self) -> str:
        if self.op == "exists":
            return self.key
        if self.op == "!":
            return f"!{self.key}"
        if self.op in (">", "<"):
            return f"{self.key}{self.op}{self.values[0]}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.op == 'in' else '!='}{self.values[0]}"
        return f"{self.key} {self.op} ({','.join(self.values)})"


@dataclasses.dataclass(frozen=True, slots=True)
class LabelSelector:
    """All of these must hold; without any, every object matches. Equal when they mean the same."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, source: str | Mapping[str, Any] | None) -> LabelSelector:
        """
        Read a selector in kubectl's syntax, a dict of labels, or one of `matchLabels`/`matchExpressions`.

        Raises `ValueError` with one sentence that says what is wrong.
        """
        if source is None:
            return cls()
        found = _parse_text(source) if isinstance(source, str) else _parse_mapping(source)
        return cls(tuple(sorted(set(found))))

    def matches(self, labels: Mapping[str, Any] | None) -> bool:
        """Whether an object with these labels (none at all: `None`) is selected."""
        labels = labels or {}
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


def parse_labels(text: str | Mapping[str, Any] | None) -> LabelSelector:
    """The same as `LabelSelector.parse`."""
    return LabelSelector.parse(text)


def _parse_mapping(source: Mapping[str, Any]) -> Iterator[Requirement]:
    structured = bool(source) and set(source) <= {"matchLabels", "matchExpressions"}
    labels = source.get("matchLabels") or {} if structured else source
    for key, value in labels.items():
        if not isinstance(value, str):
            raise ValueError(f"the value of the label {key!r} must be a text, not {value!r}")
        yield Requirement.of(key, "in", [value])
    for expression in (source.get("matchExpressions") or ()) if structured else ():
        op = _EXPRESSION_OPERATORS.get(expression.get("operator"))
        if op is None:
            raise ValueError(f"{expression.get('operator')!r} is not one of {', '.join(_EXPRESSION_OPERATORS)}")
        yield Requirement.of(str(expression.get("key")), op, expression.get("values") or ())


def _parse_text(text: str) -> list[Requirement]:
    tokens = _Tokens(text)
    found: list[Requirement] = []
    if tokens.peek() is None:
        return found
    while True:
        found.append(_parse_requirement(tokens))
        separator = tokens.take()
        if separator is None:
            return found
        if separator != ",":
            raise tokens.error(f"expected ',' before {separator!r}")


def _parse_requirement(tokens: _Tokens) -> Requirement:
    if tokens.peek() == "!":
        tokens.take()
        return Requirement.of(tokens.word("a label key after '!'"), "!")
    key = tokens.word("a label key")
    op = tokens.peek()
    if op is None or op == ",":
        return Requirement.of(key, "exists")
    tokens.take()
    if op in ("in", "notin"):
        return Requirement.of(key, op, _parse_values(tokens))
    if op in ("=", "==", "!="):
        return Requirement.of(key, "notin" if op == "!=" else "in", [tokens.optional_word()])
    if op in (">", "<"):
        return Requirement.of(key, op, [tokens.word(f"an integer after {op!r}")])
    raise tokens.error(f"expected an operator after {key!r}, not {op!r}")


def _parse_values(tokens: _Tokens) -> list[str]:
    if tokens.take() != "(":
        raise tokens.error("expected '(' after 'in' or 'notin'")
    values = [tokens.optional_word()]
    while (token := tokens.take()) == ",":
        values.append(tokens.optional_word())
    if token != ")":
        raise tokens.error("the list of values has no closing ')'")
    return values


class _Tokens:
    """The words and signs of a selector, one after another."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [sign or word for sign, word in _TOKEN.findall(text)]
        self._position = 0

    def peek(self) -> str | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def take(self) -> str | None:
        token = self.peek()
        self._position += 1
        return token

    def word(self, what: str) -> str:
        token = self.take()
        if token is None or not _is_word(token):
            raise self.error(f"expected {what}" + (f", not {token!r}" if token else " at the end"))
        return token

    def optional_word(self) -> str:
        """A value, which may be the empty text."""
        token = self.peek()
        return (self.take() or "") if token is not None and _is_word(token) else ""

    def error(self, problem: str) -> ValueError:
        return ValueError(f"unable to parse the label selector {self._text[:200]!r}: {problem}")


def _is_word(token: str) -> bool:
    return token[0] not in "=!<>(),"


FieldTerm = tuple[str, str, str]
"""A path such as `metadata.name`, `=` or `!=`, and the value."""


@dataclasses.dataclass(frozen=True, slots=True)
class FieldSelector:
    """All of these must hold; without any, every object matches. Equal when they mean the same."""

    terms: tuple[FieldTerm, ...] = ()

    @classmethod
    def parse(cls, source: str | Mapping[str, Any] | None) -> FieldSelector:
        """
        Read a selector in kubectl's syntax, or a dict of paths to values.

        Raises `ValueError` with one sentence that says what is wrong.
        """
        if source is None:
            return cls()
        if isinstance(source, str):
            found = [_parse_term(term, source) for term in _split_terms(source) if term.strip()]
        else:
            found = [(path, "=", str(value)) for path, value in source.items()]
        return cls(tuple(sorted(set(found))))

    def matches(self, body: Mapping[str, Any]) -> bool:
        """Whether this object is selected. An absent field reads as the empty text."""
        return all((_field(body, path) == value) is (op == "=") for path, op, value in self.terms)

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __str__(self) -> str:
        return ",".join(f"{path}{op}{_escape(value)}" for path, op, value in self.terms)


def parse_fields(text: str | Mapping[str, Any] | None) -> tuple[FieldTerm, ...]:
    """The terms of `FieldSelector.parse`: (path, `=` or `!=`, value)."""
    return FieldSelector.parse(text).terms


def _split_terms(text: str) -> list[str]:
    """Split at commas that no backslash precedes."""
    return re.findall(r"(?:\\.|[^,\\]|\\\Z)+", text, re.DOTALL)


def _parse_term(term: str, text: str) -> FieldTerm:
    match = re.fullmatch(r"\s*([^=!\\\s]+)\s*(==|!=|=)((?:\\[\\,=]|[^\\=])*)", term, re.DOTALL)
    if not match:
        raise ValueError(
            f"unable to parse the field selector {text[:200]!r}:"
            f" {term.strip()[:100]!r} is not PATH=VALUE or PATH!=VALUE"
        )
    path, op, value = match.groups()
    return (path, "!=" if op == "!=" else "=", re.sub(r"\\(.)", r"\1", value.strip()))


def _escape(value: str) -> str:
    return re.sub(r"([\\,=])", r"\\\1", value)


def _field(body: Mapping[str, Any], path: str) -> str:
    value: Any = body
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
