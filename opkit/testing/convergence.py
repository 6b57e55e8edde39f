"""
Convergence: whether an operator comes to the same state when it is killed in the middle.

Takes what was done to an injector from outside (`History`), plays it again into new ones with a kill after each of its
steps, and compares what the stores hold in the end (`check`). Faults are not played again: the kill is what goes wrong.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from opkit.cluster.body import Raw, clone, metadata
from opkit.cluster.merging import differing_paths
from opkit.errors import NotFound
from opkit.simulation import topology
from opkit.simulation.store import Store
from opkit.simulation.watchers import Selection
from opkit.testing.references import Handle, endpoint_of

if TYPE_CHECKING:
    from opkit.testing.injector import FakeEventInjector

M = TypeVar("M", bound=Callable[..., Any])
R = TypeVar("R")

# Steps that only let time pass: a kill right after one differs in nothing from one before the next.
_TIME = frozenset({"drain", "advance", "settle"})

# What says nothing about where an operator has brought its objects: logs, locks, and what serves them.
_NO_STATE = frozenset({"events", "leases", "customresourcedefinitions"})

# What a server stamps, differently each time.
_STAMPS = ("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields")

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One call of a method of the injector, which can be made again on another one."""

    method: str
    args: tuple[Any, ...]
    options: Mapping[str, Any]

    def play(self, injector: FakeEventInjector) -> None:
        """Do the same there. Somebody who wants to change what is not there (any more) gets nothing done."""
        try:
            getattr(injector, self.method)(*copy.deepcopy(self.args), **copy.deepcopy(dict(self.options)))
        except NotFound:
            pass  # the comparison in the end tells whether that matters

    def __str__(self) -> str:
        words = [*map(str, self.args), *(f"{name}={value}" for name, value in self.options.items())]
        return f"{self.method}({', '.join(words)})"


class History:
    """What was done to an injector, in order. Only the outermost call counts."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._depth = 0

    def call(self, method: str, function: Callable[..., R], args: tuple[Any, ...], options: Mapping[str, Any]) -> R:
        """Call the function, and remember it as a step if it did not fail and was not called by another one."""
        step = None if self._depth else Step(method, _copied(tuple(map(_by_name, args))), _copied(dict(options)))
        self._depth += 1
        try:
            result = function()
        finally:
            self._depth -= 1
        if step is not None:
            self.steps.append(step)
        return result


def remembered(method: M) -> M:
    """A method of the injector that belongs to the outside history."""

    @functools.wraps(method)
    def call(self: FakeEventInjector, *args: Any, **options: Any) -> Any:
        return self.history.call(method.__name__, lambda: method(self, *args, **options), args, options)

    return cast(M, call)


def _copied(value: Any) -> Any:
    """A copy in depth: what a test gives may be changed by it afterwards."""
    if isinstance(value, (dict, list)):
        return clone(value) if type(value) in (dict, list) else copy.deepcopy(value)
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    return value


def _by_name(value: Any) -> Any:
    """A handle means one very object; played again, it is another one of its name."""
    return (value.resource, value.name, value.namespace) if isinstance(value, Handle) else value


def check(
    history: History, expected: Store, fresh: Callable[[], FakeEventInjector], ignore: Collection[str] = ()
) -> None:
    """
    Play the history again for each of its steps, with a kill right after it; once before the operator has noticed the
    step, once when it has begun to act on it. Raises `AssertionError` for the first final state that is another.
    """
    wanted = state(expected, ignore)
    for position, step in enumerate(history.steps):
        if step.method in _TIME:
            continue
        for begun in (False, True):
            with fresh() as injector:
                _play(injector, history.steps, position, begun)
                found = state(injector.store, ignore)
            if found != wanted:
                moment = "begun to act on it" if begun else "noticed it"
                raise AssertionError(
                    f"killed after step {position + 1}, {step}, {'once' if begun else 'before'} it had {moment}, the "
                    "operator ends in another state:\n  "
                    + "\n  ".join(_differences(wanted, found))
                    + f"\n{injector.timeline()}"
                )


def _play(injector: FakeEventInjector, steps: list[Step], killed_after: int, begun: bool) -> None:
    for position, step in enumerate(steps):
        step.play(injector)
        if position == killed_after:
            if begun:
                injector.drain()
            injector.restart(kill=True)
    injector.settle()


def state(store: Store, ignore: Collection[str] = ()) -> dict[str, Raw]:
    """
    All that a store holds, by kind and name, without what differs each time: stamps, UIDs and times.

    `ignore` are dotted paths that are left out of every object.
    """
    bodies: dict[str, Raw] = {}
    for resource in topology.resources(store):
        if resource.plural in _NO_STATE:
            continue
        endpoint = endpoint_of(store, resource)
        for record in store.list(endpoint, Selection(None)).records:
            raw = endpoint.decode(record)
            meta = metadata(raw)
            where = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]
            bodies[f"{resource} {where}"] = raw
    names = {metadata(raw)["uid"]: where for where, raw in bodies.items()}
    return {where: _normalised(raw, names, ignore) for where, raw in sorted(bodies.items())}


def _normalised(raw: Raw, names: Mapping[str, str], ignore: Collection[str]) -> Raw:
    marked = "deletionTimestamp" in metadata(raw)
    meta = {key: value for key, value in metadata(raw).items() if key not in _STAMPS}
    body: Raw = _without_times({**raw, "metadata": {**meta, "is being deleted": marked}}, names)
    for path in ignore:
        *way, last = path.split(".")
        place: Any = body
        for key in way:
            place = place.get(key) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place.pop(last, None)
    return body


def _without_times(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_times(item, names) for item in value]
    if isinstance(value, str):
        return names.get(value) or ("a time" if _TIMESTAMP.fullmatch(value) else value)
    return value


def _differences(wanted: Mapping[str, Raw], found: Mapping[str, Raw]) -> Iterator[str]:
    for where in sorted(wanted.keys() | found.keys()):
        if where not in found:
            yield f"{where} is missing"
        elif where not in wanted:
            yield f"{where} should not be there"
        else:
            for path in differing_paths(wanted[where], found[where]):
                yield f"{where}: {path} is {_at(found[where], path)!r} instead of {_at(wanted[where], path)!r}"


def _at(body: Any, path: str) -> Any:
    """What stands at a dotted path, as far as its keys have no dots themselves."""
    for key in path.split("."):
        body = body.get(key) if isinstance(body, dict) else None
    return body
