"""
Event filters: which events of an object are worth a reconciliation.

    add(body)   update(new, old)   delete(body) or delete(body, final_state_unknown)   generic(body)

Positional, synchronous; true means accept. Each of the four is a decorator of two uses. Bare, it turns a
function into a filter value, to be composed with `&`, `|`, `~` and given to a controller:

    @opkit.filter.update
    def image_changed(new, old):
        return new.spec.get("image") != old.spec.get("image")

    @opkit.reconcile("webapps", on_update=image_changed & ~opkit.filter.generic(is_paused))

With a resource, it declares a filter for all controllers of that resource, or only the named one, and returns
the function unchanged:

    @opkit.filter.generic("example.com", "v1", "webapps", controller="dns")
    def is_public(body):
        return body.spec.get("public", False)

Rooms: `expressions` (the values), `defaults` (the filters that opkit brings).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from opkit.cluster.body import Body
from opkit.filter.expressions import Filter, FilterDecision, FilterKind, FunctionFilter

if TYPE_CHECKING:
    from opkit.declaration.registry import Registry

F = TypeVar("F", bound="Callable[..., Any] | Filter")

__all__ = ["Filter", "FilterDecision", "FilterKind", "add", "delete", "generic", "update"]


@overload
def add(function: Callable[[Body], object], /) -> Filter: ...
@overload
def add(*resource: str, controller: str | None = None, registry: Registry | None = None) -> Callable[[F], F]: ...
def add(*args: Any, **options: Any) -> Any:
    """Filter additions, also those of the first list: `(body) -> bool`."""
    return _filter(FilterKind.ADD, args, options)


@overload
def update(function: Callable[[Body, Body], object], /) -> Filter: ...
@overload
def update(*resource: str, controller: str | None = None, registry: Registry | None = None) -> Callable[[F], F]: ...
def update(*args: Any, **options: Any) -> Any:
    """Filter updates that the default filters let through: `(new, old) -> bool`."""
    return _filter(FilterKind.UPDATE, args, options)


@overload
def delete(function: Callable[[Body], object] | Callable[[Body, bool], object], /) -> Filter: ...
@overload
def delete(*resource: str, controller: str | None = None, registry: Registry | None = None) -> Callable[[F], F]: ...
def delete(*args: Any, **options: Any) -> Any:
    """
    Filter deletions: `(body) -> bool` or `(body, final_state_unknown) -> bool`.

    The second argument is true when the object went away while nobody was watching.
    """
    return _filter(FilterKind.DELETE, args, options)


@overload
def generic(function: Callable[[Body], object], /) -> Filter: ...
@overload
def generic(*resource: str, controller: str | None = None, registry: Registry | None = None) -> Callable[[F], F]: ...
def generic(*args: Any, **options: Any) -> Any:
    """Filter events of any kind: `(body) -> bool`, of an update with the new body. Composes with any kind."""
    return _filter(FilterKind.GENERIC, args, options)


def _filter(kind: FilterKind, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if len(args) == 1 and not options and callable(args[0]):
        return args[0] if isinstance(args[0], Filter) else FunctionFilter(kind, args[0])
    # Declarations hold filters: the import would go round in a circle at the top of this module.
    from opkit.declaration.decorators import event_filter

    return event_filter(kind)(*args, **options)
