"""
YAML that means JSON: no dates, no aliases, keys are texts.

Aliases are refused, since a few lines with them can stand for more than any memory holds.
"""

from __future__ import annotations

from typing import Any

import yaml

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """Reads what JSON could say."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not supported")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        mapping = super().construct_mapping(node, deep=True)
        return {_key(key): value for key, value in mapping.items()}


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "" if key is None else str(key)


def _construct_map(loader: _Loader, node: Any) -> Any:
    return loader.construct_mapping(node)


_Loader.add_constructor("tag:yaml.org,2002:map", _construct_map)


def load_all(text: str | bytes) -> list[Any]:
    """All documents of a text. Raises `yaml.YAMLError`."""
    return list(yaml.load_all(text, Loader=_Loader))


def load(text: str | bytes) -> Any:
    """The only document of a text. Raises `yaml.YAMLError`."""
    return yaml.load(text, Loader=_Loader)
