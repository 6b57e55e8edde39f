"""
The options of decorators, one function each: what an author gave in, the checked value out.

All raise `TypeError` or `ValueError` with one sentence that says what is expected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from opkit.cluster.resource import ResourceSelector
from opkit.cluster.selector import FieldSelector, LabelSelector
from opkit.filter.expressions import Filter, FilterKind, FunctionFilter, function_name
from opkit.plan.resources import named
from opkit.results import seconds
from opkit.retry import Retry
from opkit.settings import ReconcileStrategy

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*")
_FINALIZER = re.compile(r"(?=.{1,63}\Z)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def text(value: Any, what: str) -> str:
    """A name of the author's choice."""
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"{what} is a text that is not empty, not {value!r}")
    return value


def flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{what} is True or False, not {value!r}")
    return value


def order(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"order is a whole number, not {value!r}")
    return value


def duration(value: Any, what: str, *, off: str) -> float | None:
    """Seconds, more than zero; `off` says how the author turns the option off."""
    found = seconds(value, what)
    if found is not None and found <= 0:
        raise ValueError(f"{what} must be more than zero seconds, not {value!r}; {off}")
    return found


def strategy(value: Any) -> ReconcileStrategy | None:
    if value is None:
        return None
    try:
        return ReconcileStrategy(value)
    except ValueError:
        names = " or ".join(f"opkit.ReconcileStrategy.{one.name}" for one in ReconcileStrategy)
        raise ValueError(f"strategy is {names}, not {value!r}") from None


def retry(value: Any) -> Retry | None:
    if value is not None and not isinstance(value, Retry):
        raise TypeError(f"retry is an opkit.Retry(...), not {value!r}")
    return value


def label_selector(value: Any) -> str | None:
    """A selector in its canonical form; None when it selects everything."""
    _check_selector(value, "label_selector")
    try:
        return str(LabelSelector.parse(value)) or None
    except ValueError as error:
        raise ValueError(f"label_selector={value!r}: {error}") from None


def field_selector(value: Any) -> str | None:
    """A selector in its canonical form; None when it selects everything."""
    _check_selector(value, "field_selector")
    try:
        return str(FieldSelector.parse(value)) or None
    except ValueError as error:
        raise ValueError(f"field_selector={value!r}: {error}") from None


def _check_selector(value: Any, what: str) -> None:
    if value is not None and not isinstance(value, (str, Mapping)):
        raise TypeError(f"{what} is a text in Kubernetes' syntax or a dict, not {value!r}")


def resource(value: Any, what: str) -> ResourceSelector:
    """A resource in an option: a bare name, or the words of a decorator as a tuple."""
    if not isinstance(value, (str, tuple, list)):
        raise TypeError(f'{what} is a resource, as in "webapps" or ("example.com", "v1", "webapps"), not {value!r}')
    try:
        return named(value)
    except TypeError as error:
        raise TypeError(f"{what}={value!r}: {error}") from None


def resources(value: Any, what: str) -> tuple[ResourceSelector, ...]:
    """Several resources in an option; a single text is one."""
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, Iterable):
        raise TypeError(f'{what} is a list of resources, as in ["pods", ("apps", "v1", "deployments")], not {value!r}')
    found = tuple(resource(item, f"a resource in {what}") for item in value)
    return tuple(dict.fromkeys(found))


def event_filter(value: Any, kind: FilterKind, what: str) -> Filter | None:
    """A filter of this kind: a filter value, or a function that becomes one."""
    if value is None:
        return None
    if isinstance(value, Filter):
        if value.kind not in (kind, FilterKind.GENERIC):
            raise TypeError(f"{what} wants a filter of kind {kind} or generic; `{value}` is one of kind {value.kind}")
        return value
    if not callable(value):
        raise TypeError(f"{what} is a filter or a function, not {value!r}")
    return FunctionFilter(kind, value)


def finalizer_name(value: Any, function: Any, group: str | None) -> str:
    """The finalizer's name: the author's, or one made of the resource's group and the function's name."""
    if value is None:
        if not group:
            where = "of the core group" if group == "" else "whose group is not named here"
            raise ValueError(f'a finalizer for a resource {where} needs a name, as in name="example.com/cleanup"')
        value = f"{group}/{function_name(function).replace('_', '-').strip('-')}"
    domain, slash, name = value.partition("/") if isinstance(value, str) else ("", "", "")
    if not slash or not _DOMAIN.fullmatch(domain) or not _FINALIZER.fullmatch(name):
        raise ValueError(
            f"{value!r} is not a finalizer's name: it is domain/name, as in example.com/cleanup,"
            " with at most 63 letters, digits, '-', '_' or '.' after the slash"
        )
    return str(value)
