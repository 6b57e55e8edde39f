"""
YAML as kubectl reads it: what JSON could say, with the words and numbers of YAML 1.1, and no dates.

Takes a text, gives plain values. Follows the parser that kubectl uses where others differ: `=`, `22:22` and dates are
texts, `yes` and `y` are booleans, `017` and `0o17` are octal, a number without a fraction is whole, keys are texts.
Refuses what would be lost or guessed: keys that are there twice, and tags that it does not know.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_INTEGER = re.compile(r"(?P<sign>[-+]?)(?:0(?P<base>[xXbBoO]?)(?P<digits>[0-9a-fA-F]+)|(?P<plain>0|[1-9][0-9]*))")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASES = {"x": 16, "b": 2, "o": 8, "": 8}

# A number with more digits is no longer exact anywhere; with many more, reading it would take for ever.
_LONGEST = 400

# What a server keeps as a whole number.
_WHOLE = range(-(2**63), 2**63)

# Aliases may stand for so many values in all, so that a few lines can't fill the memory.
_MOST_FROM_ALIASES = 100_000


class _Error(yaml.MarkedYAMLError):
    """What is wrong, at a line of the text."""


class _Merge:
    """The key `<<`."""


_MERGE = _Merge()


def load_all(text: str | bytes) -> list[Any]:
    """All documents of a file, YAML or JSON, in which aliases may be used. Raises `yaml.YAMLError`, `ValueError`."""
    if (found := _as_json(text)) is not None:
        return found
    return list(_Reader(text, aliases=True).documents())


def load(text: str | bytes) -> Any:
    """The only document of what somebody sends, without aliases. Raises `yaml.YAMLError`, `ValueError`."""
    documents = list(_Reader(text, aliases=False).documents())
    if len(documents) > 1:
        raise yaml.YAMLError("expected a single document")
    return documents[0] if documents else None


def _as_json(text: str | bytes) -> list[Any] | None:
    """The documents of a JSON text, one after another; None if it is none."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None  # YAML may be in another encoding
    if not text.lstrip().startswith("{"):
        return None
    decoder = json.JSONDecoder(parse_float=_of_float, parse_constant=_no_number)
    documents, position = [], 0
    try:
        while rest := text[position:].lstrip():
            document, length = decoder.raw_decode(rest)
            documents.append(document)
            position = len(text) - len(rest) + length
    except ValueError:
        return None  # YAML in braces
    return documents


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


class _Reader:
    """Makes values of a parser's events."""

    def __init__(self, text: str | bytes, *, aliases: bool) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=_Loader)
        self._aliases = aliases
        self._anchors: dict[str, Any] = {}
        self._open: set[str] = set()
        self._from_aliases = 0

    def documents(self) -> Iterator[Any]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors.clear()
                yield self._value(next(self._events))

    def _value(self, event: Any) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.anchor is not None:
            self._open.add(event.anchor)
        value = self._made(event)
        if event.anchor is not None:
            self._open.discard(event.anchor)
            self._anchors[event.anchor] = value
        return value

    def _made(self, event: Any) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event, self._aliases)
        if isinstance(event, yaml.SequenceStartEvent):
            _expect_tag(event, "seq")
            return list(self._items())
        _expect_tag(event, "map")
        return self._mapping()

    def _items(self) -> Iterator[Any]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._value(event)

    def _mapping(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        own: set[str] = set()
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if _is_merge(event):
                for mapping in reversed(_mappings(self._value(next(self._events)), event)):
                    found.update(mapping)  # later ones win, merged or not, as in kubectl
                continue
            key = _key(self._value(event), event)
            if key in own:
                raise _error(event, f"the key {key!r} is there twice")
            own.add(key)
            found[key] = self._value(next(self._events))
        return found

    def _alias(self, event: Any) -> Any:
        if not self._aliases:
            raise _error(event, "aliases are not supported")
        if event.anchor in self._open:
            raise _error(event, f"the value of the anchor {event.anchor!r} contains itself")
        if event.anchor not in self._anchors:
            raise _error(event, f"there is no anchor {event.anchor!r}")
        return self._copied(self._anchors[event.anchor], event)

    def _copied(self, value: Any, event: Any) -> Any:
        self._from_aliases += 1
        if self._from_aliases > _MOST_FROM_ALIASES:
            raise _error(event, "aliases stand for too much")
        if isinstance(value, dict):
            return {key: self._copied(item, event) for key, item in value.items()}
        if isinstance(value, list):
            return [self._copied(item, event) for item in value]
        return value


def _is_merge(event: Any) -> bool:
    if not isinstance(event, yaml.ScalarEvent) or event.value != "<<":
        return False
    return event.tag == f"{_TAG}merge" or (event.tag is None and event.implicit[0])


def _mappings(value: Any, event: Any) -> list[Mapping[str, Any]]:
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in found):
        raise _error(event, "`<<` takes a mapping, or a list of mappings")
    return found


def _key(value: Any, event: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, (list, dict)):
        raise _error(event, f"{'null' if value is None else 'a list or mapping'} can't be a key")
    return value if isinstance(value, str) else str(value)


def _scalar(event: Any, binary: bool) -> Any:
    text: str = event.value
    if event.tag is None:
        # Of a plain scalar only: quotes, blocks and a lone `!` make texts.
        return _checked(_plain(text), event) if event.implicit[0] else text
    tag = event.tag.removeprefix(_TAG) if event.tag.startswith(_TAG) else None
    if event.tag == "!" or tag in ("str", "timestamp"):
        return text
    if tag == "binary" and binary:
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "replace")
        except binascii.Error:
            raise _error(event, "the value of !!binary is not base64") from None
    fits: Callable[[Any], bool] | None = _TAGGED.get(tag or "")
    if fits is None:
        raise _error(event, f"the tag {event.tag.replace(_TAG, '!!')} is unknown")
    value = _plain(text)
    if not fits(value) or (tag == "int" and _integer(text.replace("_", "")) is None):
        raise _error(event, f"{text!r} is no {tag}")
    return _checked(value, event)


_TAGGED: dict[str, Callable[[Any], bool]] = {
    "bool": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "int": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}


def _plain(text: str) -> Any:
    """What a plain scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or len(text) > _LONGEST:
        return text
    digits = text.replace("_", "")
    if text[0] != "." and (number := _integer(digits)) is not None:
        return number if number in _WHOLE else float(number)
    if _FLOAT.fullmatch(digits) and math.isfinite(fraction := float(digits)):
        return _whole_if_it_is(fraction)
    return text


def _integer(text: str) -> int | None:
    """A number in the notations of C and Go."""
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    sign = -1 if found["sign"] == "-" else 1
    if found["plain"] is not None:
        return sign * int(found["plain"])
    try:
        return sign * int(found["digits"], _BASES[found["base"].lower()])
    except ValueError:
        return None  # `08` and `0b2`


def _of_float(text: str) -> int | float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is out of range")
    return _whole_if_it_is(number)


def _whole_if_it_is(number: float) -> int | float:
    """JSON has one kind of number: `1.0` is the same as `1`."""
    return int(number) if number.is_integer() and int(number) in _WHOLE else number


def _checked(value: Any, event: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise _error(event, f"{event.value} is no number of JSON")
    return value


def _expect_tag(event: Any, kind: str) -> None:
    if event.tag not in (None, "!", f"{_TAG}{kind}"):
        raise _error(event, f"the tag {event.tag.replace(_TAG, '!!')} is unknown")


def _error(event: Any, problem: str) -> _Error:
    return _Error(problem=problem, problem_mark=event.start_mark)
