"""
The decorators: what authors write above their functions.

Each notes what it was given and where it stands, and returns the function unchanged. None raises for what an
author wrote: the compiler tells all problems together.
"""

from __future__ import annotations

import datetime
import difflib
import enum
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, ParamSpec, TypeVar

from opkit.cluster.body import Body
from opkit.declaration.declarations import (
    Activity,
    ActivityDeclaration,
    Declaration,
    DeleteDeclaration,
    FilterDeclaration,
    FinalizerDeclaration,
    Mistake,
    Place,
    PollDeclaration,
    ReconcileDeclaration,
    SecondaryDeclaration,
)
from opkit.declaration.registry import Registry, default_registry
from opkit.filter.expressions import Filter, FilterKind
from opkit.retry import Retry
from opkit.settings import ReconcileStrategy

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

Seconds = float | datetime.timedelta
ResourceName = str | tuple[str, ...]
"""A resource in an option: `"deployments"`, or the words of a decorator: `("apps", "v1", "deployments")`."""

BodyFilter = Filter | Callable[[Body], object]
UpdateFilter = Filter | Callable[[Body, Body], object]
DeleteFilter = Filter | Callable[[Body], object] | Callable[[Body, bool], object]


class FromSettings(enum.Enum):
    """The default of options for which `None` means something else."""

    FROM_SETTINGS = "from settings"


FROM_SETTINGS: Final = FromSettings.FROM_SETTINGS

# What people who come from kopf try first, and what they find instead.
_KNOWN_ELSEWHERE = {
    "labels": "label_selector=",
    "annotations": "generic= with a filter",
    "field": "on_update= with a filter that compares the field",
    "retries": "retry=opkit.Retry(attempts=...)",
    "backoff": "retry=opkit.Retry(initial=...)",
    "errors": "opkit.PermanentError where trying again is no use",
    "id": "controller=",
    "optional": "@opkit.delete, or @opkit.finalizer for what must succeed",
    "group": "positional words, as in ('example.com', 'v1', 'webapps')",
    "version": "positional words, as in ('example.com', 'v1', 'webapps')",
    "plural": "positional words, as in ('example.com', 'v1', 'webapps')",
    "kind": "positional words, as in ('example.com', 'v1', 'WebApp')",
}


def _forgiving(decorator: Callable[P, R]) -> Callable[P, R]:
    """Make a wrong call of a decorator a problem among others, rather than an error amid an import."""
    parameters = inspect.signature(decorator).parameters
    options = [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
    takes_words = len(options) < len(parameters)

    @functools.wraps(decorator)
    def call(*args: Any, **kwargs: Any) -> Any:
        registry = _registry(kwargs.get("registry"))
        if len(args) == 1 and not kwargs and callable(args[0]):
            example = "('example.com', 'v1', 'webapps')" if takes_words else "()"
            _mistake(registry, f"@opkit.{decorator.__name__} is called first: @opkit.{decorator.__name__}{example}")
            return args[0]
        if args and not takes_words:
            _mistake(registry, f"@opkit.{decorator.__name__} takes options by name only, not {args[0]!r}")
            args = ()
        for name in [name for name in kwargs if name not in options]:
            _mistake(registry, _unknown_option(decorator.__name__, name, options))
            del kwargs[name]
        return decorator(*args, **{**kwargs, "registry": registry})

    return call


@_forgiving
def reconcile(
    *resource: str,
    controller: str | None = None,
    label_selector: str | Mapping[str, str] | None = None,
    field_selector: str | Mapping[str, str] | None = None,
    on_add: BodyFilter | None = None,
    on_update: UpdateFilter | None = None,
    on_delete: DeleteFilter | None = None,
    generic: BodyFilter | None = None,
    when: BodyFilter | None = None,
    default_filters: bool = True,
    strategy: ReconcileStrategy | None = None,
    owns: Iterable[ResourceName] = (),
    retry: Retry | None = None,
    timeout: Seconds | FromSettings | None = FROM_SETTINGS,
    resync: Seconds | FromSettings | None = FROM_SETTINGS,
    registry: Registry | None = None,
) -> Callable[[F], F]:
    """
    The function makes the world as the object wants it: the reconcile handler of one controller.

    `controller` is its name, unique per resource (default: the function's name). The selectors, of which only
    one may be given, narrow the objects; the filters narrow the events, beside those declared for the
    resource; `default_filters=False` leaves the author's filters alone in charge of updates. `when` is a condition on
    the object that is asked before every run, whatever the reason for it: while it is false nothing runs but
    finalizers, and a change that makes it true is a reason to run. `owns` names resources whose owner reference leads
    back to this one: their events reconcile the owner. `timeout` is in seconds for one run, `resync` in seconds after
    the last run at which the object is reconciled anyway (`None` turns either off). What is not given comes from the
    settings.
    """
    return _declaring(
        ReconcileDeclaration,
        registry,
        resource=resource,
        controller=controller,
        label_selector=label_selector,
        field_selector=field_selector,
        on_add=on_add,
        on_update=on_update,
        on_delete=on_delete,
        generic=generic,
        when=when,
        default_filters=default_filters,
        strategy=strategy,
        owns=owns,
        retry=retry,
        timeout=None if timeout is FROM_SETTINGS else timeout,
        timeout_set=timeout is not FROM_SETTINGS,
        resync=None if resync is FROM_SETTINGS else resync,
        resync_set=resync is not FROM_SETTINGS,
    )


@_forgiving
def delete(*resource: str, controller: str | None = None, registry: Registry | None = None) -> Callable[[F], F]:
    """
    The function is told, after the fact and without guarantee, that an object is gone.

    What must happen before an object may go is a finalizer's work. With several controllers of the resource,
    `controller` says whose delete handler this is.
    """
    return _declaring(DeleteDeclaration, registry, resource=resource, controller=controller)


@_forgiving
def finalizer(
    *resource: str,
    name: str | None = None,
    when: BodyFilter | None = None,
    order: int = 0,
    registry: Registry | None = None,
) -> Callable[[F], F]:
    """
    The function is the cleanup that must succeed before an object may go.

    `name` is what stands in the object's list (default: `<group>/<function-name>`; required in the core
    group); `when` says which objects need it; finalizers run by `order`, then in the order in which they are
    declared.
    """
    return _declaring(FinalizerDeclaration, registry, resource=resource, name=name, when=when, order=order)


@_forgiving
def secondary(
    *resource: str,
    of: ResourceName | None = None,
    on_add: BodyFilter | None = None,
    on_update: UpdateFilter | None = None,
    on_delete: DeleteFilter | None = None,
    generic: BodyFilter | None = None,
    registry: Registry | None = None,
) -> Callable[[F], F]:
    """
    The function maps a secondary object to the primary objects, of the resource `of`, which it concerns.

    It returns a name (in the secondary's namespace), a pair (namespace, name), or an iterable of those. The
    filters narrow which events of secondary objects are mapped; there are no default ones.
    """
    return _declaring(
        SecondaryDeclaration,
        registry,
        resource=resource,
        of=of,
        on_add=on_add,
        on_update=on_update,
        on_delete=on_delete,
        generic=generic,
    )


@_forgiving
def poll(
    *,
    of: ResourceName | None = None,
    interval: Seconds | None = None,
    each: bool = False,
    registry: Registry | None = None,
) -> Callable[[F], F]:
    """
    The function fetches outside state, every `interval` seconds, for primary objects of the resource `of`.

    It returns a mapping of primaries (a name, or a pair of namespace and name) to values; those whose value
    changed are reconciled. With `each` it is called for each object, and returns that object's value.
    """
    return _declaring(PollDeclaration, registry, of=of, interval=interval, each=each)


@_forgiving
def startup(*, registry: Registry | None = None) -> Callable[[F], F]:
    """The function runs once, before the first event. It may change the `settings`; they freeze after it."""
    return _declaring(ActivityDeclaration, registry, activity=Activity.STARTUP)


@_forgiving
def shutdown(*, registry: Registry | None = None) -> Callable[[F], F]:
    """The function runs once, after the last event."""
    return _declaring(ActivityDeclaration, registry, activity=Activity.SHUTDOWN)


@_forgiving
def login(*, registry: Registry | None = None) -> Callable[[F], F]:
    """The function returns credentials, as in kopf. With one, the built-in ways to log in are not tried."""
    return _declaring(ActivityDeclaration, registry, activity=Activity.LOGIN)


@_forgiving
def probe(*, id: str | None = None, registry: Registry | None = None) -> Callable[[F], F]:
    """The function's result is shown by the liveness endpoint, under `id` (default: the function's name)."""
    return _declaring(ActivityDeclaration, registry, activity=Activity.PROBE, id=id)


def event_filter(kind: FilterKind) -> Callable[..., Callable[[F], F]]:
    """The declaring side of `opkit.filter.add`, `.update`, `.delete` and `.generic`."""

    def declare(*resource: str, controller: str | None = None, registry: Registry | None = None) -> Callable[[F], F]:
        return _declaring(FilterDeclaration, registry, resource=resource, kind=kind, controller=controller)

    declare.__name__ = f"filter.{kind}"
    return _forgiving(declare)


def _declaring(form: type[Declaration], registry: Registry | None, **values: Any) -> Callable[[F], F]:
    place = Place.of_caller()

    def decorate(function: F) -> F:
        _registry(registry).add(form(function=function, place=place, **values))
        return function

    return decorate


def _registry(given: Any) -> Registry:
    if given is None or isinstance(given, Registry):
        return default_registry() if given is None else given
    _mistake(default_registry(), f"registry= is an opkit.Registry(), not {given!r}")
    return default_registry()


def _mistake(registry: Registry, message: str) -> None:
    registry.add_mistake(Mistake(message=message, place=Place.of_caller()))


def _unknown_option(decorator: str, name: str, options: list[str]) -> str:
    message = f"@opkit.{decorator} has no option {name!r}"
    close = difflib.get_close_matches(name, options, n=1)
    if name in _KNOWN_ELSEWHERE:
        return f"{message}; what you look for may be {_KNOWN_ELSEWHERE[name]}"
    if close:
        return f"{message}; do you mean {close[0]!r}?"
    return f"{message}; there are: {', '.join(options)}"
