"""
Server-side apply: what a manager wants of an object is merged into it, with what others own protected.

Takes decoded bodies that are the caller's own; merges them, and has the result stored by the ordinary create
or update, which keep all other rules.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from opkit.cluster.body import Raw, clone
from opkit.simulation import fieldsets, managers, metadata, refusals, writes
from opkit.simulation.fieldsets import Fields, Path, Rules
from opkit.simulation.kinds import Endpoint
from opkit.simulation.managers import APPLY, Entry
from opkit.simulation.records import Record
from opkit.simulation.writes import Options

if TYPE_CHECKING:
    from opkit.simulation.store import Store


@dataclasses.dataclass(frozen=True, slots=True)
class Applied:
    """The object after an apply, and who owns what in it."""

    body: Raw
    entries: list[Entry]


def apply(
    endpoint: Endpoint, live: Raw, config: Raw, *, manager: str, subresource: str, force: bool, time: str
) -> Applied:
    """
    Merge `config` into `live`.

    Raises 409 with a cause per field where others own fields with another value, unless `force` takes them.
    """
    rules = managers.rules_of(endpoint)
    entries = managers.read(live["metadata"])
    wanted = fieldsets.values(config, rules)
    mine = Entry(manager, APPLY, endpoint.api_version, subresource, frozenset(wanted), time)
    others = [entry for entry in entries if entry.owner != mine.owner]
    before = next((entry for entry in entries if entry.owner == mine.owner), None)

    contested = _contested(wanted, fieldsets.values(live, rules))
    if not force:
        _refuse_conflicts(others, contested)
    others = [dataclasses.replace(entry, fields=entry.fields - contested) for entry in others]

    body: Raw = _merged(clone(live), config, rules)
    if before is not None:
        dropped = before.fields - mine.fields - frozenset().union(*(entry.fields for entry in others))
        _remove(body, dropped)
        if before.fields == mine.fields and before.api_version == mine.api_version:
            mine = dataclasses.replace(mine, time=before.time)
    return Applied(body, [*others, mine])


def write(
    store: Store, endpoint: Endpoint, name: str, namespace: str | None, body: Raw, options: Options
) -> tuple[Record, bool]:
    """Apply a client's body to an object of the store, as one step. Tells whether it was created."""
    writes.check_type(endpoint, body)
    meta = metadata.clean(endpoint.kind, body)
    record = store.find(endpoint, name, namespace)
    _check_target(endpoint, name, meta, record, options)
    result = apply(
        endpoint,
        endpoint.decode(record) if record is not None else {"metadata": {}},
        _config(endpoint, body, meta, options),
        manager=options.manager,
        subresource=options.subresource,
        force=options.force,
        time=store.timestamp(),
    )
    applied = {**result.body, "apiVersion": endpoint.api_version, "kind": endpoint.kind.kind}
    applied["metadata"].setdefault("name", name)
    if record is None or "resourceVersion" not in meta:
        applied["metadata"].pop("resourceVersion", None)
    if record is None:
        return writes.create(store, endpoint, applied, namespace, options, result.entries), True
    entries = result.entries
    return writes.update(store, endpoint, record, applied, options, is_patch=True, entries=entries), False


def _check_target(endpoint: Endpoint, name: str, meta: Raw, record: Record | None, options: Options) -> None:
    if "managedFields" in meta:
        raise refusals.bad_request("metadata.managedFields must be nil")
    if meta.get("name", name) != name:
        raise refusals.bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        )
    if record is not None and meta.get("uid", record.uid) != record.uid:
        raise refusals.conflict(endpoint.kind, name, "Precondition failed: the UID is another one")
    if record is None and "uid" in meta:
        raise refusals.conflict(
            endpoint.kind, name,
            f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found",
        )  # fmt: skip
    if record is None and options.subresource:
        raise refusals.not_found(endpoint.kind, name)


def _config(endpoint: Endpoint, body: Raw, meta: Raw, options: Options) -> Raw:
    """What of a body counts here: the status at the status subresource, all else at the object."""
    if options.subresource:
        return {"metadata": {}, **{key: value for key, value in body.items() if key == options.subresource}}
    dropped = ("metadata", "status") if endpoint.version.has_status else ("metadata",)
    return {"metadata": meta, **{key: value for key, value in body.items() if key not in dropped}}


def _contested(wanted: dict[Path, Any], live: dict[Path, Any]) -> Fields:
    """The fields whose value would change."""
    return frozenset(path for path, value in wanted.items() if path in live and live[path] != value)


def _refuse_conflicts(others: list[Entry], contested: Fields) -> None:
    causes = [
        refusals.Cause(
            "FieldManagerConflict",
            fieldsets.show(path),
            f'conflict with "{entry.manager}"' + (f" using {entry.api_version}" if entry.operation != APPLY else ""),
        )
        for entry in others
        for path in sorted(entry.fields & contested)
    ]
    if causes:
        raise refusals.apply_conflict(causes)


def _merged(live: Any, config: Any, rules: Rules) -> Any:
    if isinstance(live, dict) and isinstance(config, dict) and not rules.is_atomic:
        for key, value in config.items():
            live[key] = _merged(live.get(key), value, rules.field(key))
        return live
    if isinstance(live, list) and isinstance(config, list):
        if rules.keys:
            return _merged_items(live, config, rules)
        if rules.is_set:
            return [*live, *(item for item in config if item not in live)]
    return config


def _merged_items(live: list[Any], config: list[Any], rules: Rules) -> list[Any]:
    positions = {fieldsets.item_step(item, rules.keys): i for i, item in enumerate(live) if isinstance(item, dict)}
    for item in config:
        position = positions.get(fieldsets.item_step(item, rules.keys)) if isinstance(item, dict) else None
        if position is None:
            live.append(item)
        else:
            live[position] = _merged(live[position], item, rules.item())
    return live


def _remove(body: Raw, fields: Fields) -> None:
    """Remove fields in place, the deeper ones first, and what becomes empty by that."""
    for path in sorted(fields, key=lambda path: (-len(path), _is_key(path), path[-1] == ".", path)):
        _remove_path(body, path)


def _is_key(path: Path) -> bool:
    """Whether this is a field by which its item is found: it has to go last."""
    is_below_item = len(path) > 1 and path[-2].startswith("k:")
    return is_below_item and path[-1][2:] in json.loads(path[-2][2:])


def _remove_path(node: Any, path: Path) -> bool:
    """Remove what a path names below a node; tells whether the node is empty after that."""
    step, rest = path[0], path[1:]
    if step == ".":
        return False
    place = _place(node, step)
    if place is None:
        return False
    # An item goes with its mark, or with its last field, unless others have put more into it.
    is_due = not rest or rest == (".",) or _remove_path(node[place], rest)
    if is_due and not (rest and _is_needed(node[place], step)):
        del node[place]
    return not node


def _place(node: Any, step: str) -> Any:
    """Where in a dict or a list the value is that a step names."""
    if step.startswith("f:"):
        return step[2:] if isinstance(node, dict) and step[2:] in node else None
    if not isinstance(node, list):
        return None
    value = json.loads(step[2:])
    for index, item in enumerate(node):
        if item == value if step.startswith("v:") else isinstance(item, dict) and value.items() <= item.items():
            return index
    return None


def _is_needed(value: Any, step: str) -> bool:
    """Whether an item of a list with keys has more than its keys left."""
    return step.startswith("k:") and bool(set(value) - set(json.loads(step[2:])))
