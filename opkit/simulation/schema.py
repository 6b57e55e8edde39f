"""
A custom resource's schema at work: pruning and defaults, which are Kubernetes' own; validation is in
`validation`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opkit.cluster.body import Raw, clone
from opkit.simulation.refusals import Cause
from opkit.simulation.validation import Validator

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_OBJECT_FIELDS = ("apiVersion", "kind", "metadata")


class Schema:
    """The schema of one version of a custom resource, prepared once."""

    def __init__(self, source: Raw) -> None:
        self.source = clone(source)
        self._validator = Validator(self.source)

    def check(self) -> None:
        """Raise `jsonschema.SchemaError` if this is not a schema at all."""
        self._validator.check()

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
        """All that is wrong with a body, in the order of the fields."""
        return self._validator.causes(body)


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
