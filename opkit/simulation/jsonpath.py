"""
The part of JSONPath that printer columns and scale paths use.

    .spec.replicas    .metadata.labels['app']    .spec.items[0].name    .spec.items[*].name
    .status.conditions[?(@.type=="Ready")].status
"""

from __future__ import annotations

import json
import re
from typing import Any

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]]+)
      | \[(?P<index>-?\d+)\]
      | \[(?P<all>\*)\]
      | \[['"](?P<quoted>[^'"]*)['"]\]
      | \[\?\(@\.(?P<key>[\w.-]+)\s*==\s*['"](?P<value>[^'"]*)['"]\)\]
    """,
    re.VERBOSE,
)


def find(document: Any, path: str) -> list[Any]:
    """All values at a path, but for nulls. A path that can't be read finds nothing."""
    values, position = [document], 0
    path = path.replace("\\.", "\0")
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return []
        position = step.end()
        values = [below for value in values for below in _take(value, step)]
    return [value for value in values if value is not None]


def _take(value: Any, step: re.Match[str]) -> list[Any]:
    name = step["name"] or step["quoted"]
    if name is not None:
        name = name.replace("\0", ".")
        return [value[name]] if isinstance(value, dict) and name in value else []
    if step["all"]:
        return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if not isinstance(value, list):
        return []
    if step["index"]:
        index = int(step["index"])
        return [value[index]] if -len(value) <= index < len(value) else []
    return [item for item in value if isinstance(item, dict) and str(item.get(step["key"])) == step["value"]]


def show(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def names(path: str) -> list[str]:
    """The names of a path that has nothing but names."""
    return [part.replace("\0", ".") for part in path.replace("\\.", "\0").lstrip(".").split(".")]
