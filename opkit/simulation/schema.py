"""
A custom resource's schema at work: pruning, defaults, validation.

Pruning and defaults are Kubernetes' own, so they are done here; validation is jsonschema's, with the wording of a
real server. Also tells server-side apply which lists are merged, and by what.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import jsonschema.validators

from opkit.cluster.body import Raw, clone
from opkit.simulation.refusals import Cause, required, show

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_OBJECT_FIELDS = ("apiVersion", "kind", "metadata")


def _is_integer(checker: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_Validator: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]  # untyped in its stubs
    jsonschema.Draft4Validator,
    type_checker=jsonschema.Draft4Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


class Schema:
    """The schema of one version of a custom resource, prepared once."""

    def __init__(self, source: Raw) -> None:
        self.source = clone(source)
        self._validator = _Validator(_to_json_schema(self.source, is_root=True))

    def check(self) -> None:
        """Raise `jsonschema.SchemaError` if this is not a schema at all."""
        _Validator.check_schema(self._validator.schema)

    def complete(self, body: Raw) -> Raw:
        """A copy in which unknown fields are pruned and defaults are filled in. Keeps metadata as it is."""
        pruned: Raw = {}
        properties = self.source.get("properties") or {}
        for key, value in body.items():
            if key in _OBJECT_FIELDS:
                pruned[key] = value
            elif key in properties:
                if value is not None or properties[key].get("nullable"):
                    pruned[key] = _prune(value, properties[key])
            elif self.source.get(_PRESERVE):
                pruned[key] = value
        _fill(pruned, self.source)
        return pruned

    def causes(self, body: Raw) -> Iterator[Cause]:
        """All that is wrong with a body, the causes in the order of their fields."""
        errors = sorted(
            self._validator.iter_errors(body), key=lambda error: [str(part) for part in error.path]
        )
        for error in errors:
            yield from _explain(error)


def _prune(value: Any, schema: Raw) -> Any:
    if isinstance(value, dict):
        return _prune_object(value, schema)
    if isinstance(value, list):
        items = schema.get("items")
        return [_prune(item, items) for item in value] if isinstance(items, dict) else value
    return value


def _prune_object(value: Raw, schema: Raw) -> Raw:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    keeps_unknown = bool(schema.get(_PRESERVE)) or additional is True
    embedded = _OBJECT_FIELDS if schema.get(_EMBEDDED) else ()
    pruned: Raw = {}
    for key, item in value.items():
        known = properties.get(key)
        if known is None and isinstance(additional, dict):
            known = additional
        if known is not None:
            # A null is kept only where it is declared; elsewhere the key counts as left out.
            if item is not None or known.get("nullable"):
                pruned[key] = _prune(item, known)
        elif keeps_unknown or key in embedded:
            pruned[key] = item
    return pruned


def _fill(value: Any, schema: Raw) -> None:
    """Fill in defaults, in place."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for key, known in properties.items():
            if key not in value and "default" in known:
                value[key] = clone(known["default"])
            if key in value:
                _fill(value[key], known)
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            for key, item in value.items():
                if key not in properties:
                    _fill(item, additional)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            _fill(item, schema["items"])


_COPIED = frozenset(
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "multipleOf", "minProperties", "maxProperties", "required", "enum"]
)


def _to_json_schema(schema: Raw, is_root: bool = False) -> Raw:
    """The same in the words of JSON Schema (draft 4, whose exclusive bounds are booleans, too)."""
    made: Raw = {key: value for key, value in schema.items() if key in _COPIED}
    if schema.get(_INT_OR_STRING):
        made["type"] = ["integer", "string"]
    elif "type" in schema:
        made["type"] = schema["type"]
    if schema.get("nullable"):
        made["type"] = (
            [made["type"], "null"] if isinstance(made.get("type"), str) else made.get("type", ["null"])
        )
        if "enum" in made:
            made["enum"] = [*made["enum"], None]
    properties = schema.get("properties")
    if isinstance(properties, dict):
        hidden = _OBJECT_FIELDS if is_root else ()
        made["properties"] = {
            key: _to_json_schema(value) for key, value in properties.items() if key not in hidden
        }
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
        yield Cause(
            "FieldValueNotSupported", field, f"Unsupported value: {show(value)}: supported values: {values}"
        )
    else:
        yield _in_body(field, _shown(rule, value), _rule_text(rule, bound, error))


def _in_body(field: str, shown: str, problem: str) -> Cause:
    name = field or "<root>"
    return Cause("FieldValueInvalid", name, f"Invalid value: {shown}: {name} in body {problem}")


def _shown(rule: str, value: Any) -> str:
    return (
        str(len(value)) if rule in ("minItems", "maxItems", "minProperties", "maxProperties") else show(value)
    )


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


def _path(parts: Any) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")
