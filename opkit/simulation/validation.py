"""
Validation by a custom resource's schema: jsonschema's work, in the wording of a real server.

Takes the schema of a definition; gives causes. Neither changes the body nor keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import jsonschema
import jsonschema.validators

from opkit.cluster.body import Raw
from opkit.simulation.refusals import Cause, required, show

_HIDDEN = ("apiVersion", "kind", "metadata")


class Validator:
    """A schema, prepared once."""

    def __init__(self, source: Raw) -> None:
        self._validator = _Library(_to_json_schema(source, is_root=True))

    def check(self) -> None:
        """Raise `jsonschema.SchemaError` if this is not a schema at all."""
        _Library.check_schema(self._validator.schema)

    def causes(self, body: Raw) -> Iterator[Cause]:
        """All that is wrong with a body, in the order of the fields."""
        errors = sorted(self._validator.iter_errors(body), key=lambda error: [str(part) for part in error.path])
        for error in errors:
            yield from _explain(error)


def _is_integer(checker: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
}


def _is_plain(value: Any, schema: Any) -> bool:
    """Whether a schema asks for nothing but a type, and the value has it: most fields need no more."""
    if len(schema) != 1 or not isinstance(schema.get("type"), str):
        return not schema
    expected = schema["type"]
    return isinstance(value, _PYTHON_TYPES.get(expected, ())) and (expected == "boolean" or not isinstance(value, bool))


def _properties(validator: Any, properties: Raw, instance: Any, schema: Any) -> Iterator[Any]:
    """The keyword `properties`, but without asking the library about what is plainly right."""
    if isinstance(instance, dict):
        for name, below in properties.items():
            if name in instance and not _is_plain(instance[name], below):
                yield from validator.descend(instance[name], below, path=name, schema_path=name)


def _items(validator: Any, items: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, list):
        for index, item in enumerate(instance):
            if not _is_plain(item, items):
                yield from validator.descend(item, items, path=index)


def _additional(validator: Any, below: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, dict) and isinstance(below, dict):
        known = schema.get("properties") or {}
        for name, item in instance.items():
            if name not in known and not _is_plain(item, below):
                yield from validator.descend(item, below, path=name)


_Library: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]  # untyped in its stubs
    jsonschema.Draft4Validator,
    validators={"properties": _properties, "items": _items, "additionalProperties": _additional},
    type_checker=jsonschema.Draft4Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)

_COPIED = frozenset(
    {
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "required",
        "uniqueItems",
    }
)


def _to_json_schema(schema: Raw, is_root: bool = False) -> Raw:
    """The same in the words of JSON Schema (draft 4, whose exclusive bounds are booleans, too)."""
    made: Raw = {key: value for key, value in schema.items() if key in _COPIED}
    if schema.get("x-kubernetes-int-or-string"):
        made["type"] = ["integer", "string"]
    elif "type" in schema:
        made["type"] = schema["type"]
    if schema.get("nullable"):
        made["type"] = [made["type"], "null"] if isinstance(made.get("type"), str) else made.get("type", ["null"])
        if "enum" in made:
            made["enum"] = [*made["enum"], None]
    properties = schema.get("properties")
    if isinstance(properties, dict):
        hidden = _HIDDEN if is_root else ()
        made["properties"] = {key: _to_json_schema(value) for key, value in properties.items() if key not in hidden}
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), dict):
            made[key] = _to_json_schema(schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            made[key] = [_to_json_schema(part) for part in schema[key]]
    if not made.get("required"):
        made.pop("required", None)
    return made


_TYPE_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


def _explain(error: Any) -> Iterator[Cause]:
    field = _path(error.absolute_path)
    rule, bound, value = error.validator, error.validator_value, error.instance
    if rule == "required":
        missing = [name for name in bound if name not in value]
        for name in missing[:1] if error.message.startswith(repr(missing[0])) else missing:
            yield required(f"{field}.{name}" if field else name)
    elif rule == "type":
        word = show(_TYPE_NAMES.get(type(value), "null"))
        expected = bound if isinstance(bound, str) else bound[0]
        yield _in_body(field, word, f"must be of type {expected}: {word}")
    elif rule == "enum":
        values = ", ".join(show(item) for item in bound if item is not None)
        yield Cause("FieldValueNotSupported", field, f"Unsupported value: {show(value)}: supported values: {values}")
    else:
        yield _in_body(field, _shown(rule, value), _rule_text(rule, bound, error))


def _in_body(field: str, shown: str, problem: str) -> Cause:
    name = field or "<root>"
    return Cause("FieldValueInvalid", name, f"Invalid value: {shown}: {name} in body {problem}")


def _shown(rule: str, value: Any) -> str:
    return str(len(value)) if rule in ("minItems", "maxItems", "minProperties", "maxProperties") else show(value)


def _rule_text(rule: str, bound: Any, error: Any) -> str:
    texts = {
        "minimum": f"should be greater than or equal to {bound}",
        "maximum": f"should be less than or equal to {bound}",
        "minLength": f"should be at least {bound} chars long",
        "maxLength": f"should be at most {bound} chars long",
        "pattern": f"should match '{bound}'",
        "minItems": f"should have at least {bound} items",
        "maxItems": f"should have at most {bound} items",
        "multipleOf": f"should be a multiple of {bound}",
        "uniqueItems": "shouldn't contain duplicates",
    }
    return texts.get(rule) or f"is not valid: {error.message[:200]}"


def _path(parts: Iterable[Any]) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")
