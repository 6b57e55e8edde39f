"""
The plan for people and for programs: as text, and as plain data.

Takes a plan, gives what `opkit check` prints. What comes from the settings is said to, since a startup
handler may still change it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from opkit.plan.plan import Controller, Filters, Finalizer, Handler, Plan, Poll, ResourcePlan, Secondary
from opkit.retry import Retry
from opkit.settings import WatchStrategy

_FROM_SETTINGS = "from settings"


def short_path(file: str) -> str:
    """A file's path as a person would type it: relative, where it lies below the current folder."""
    here = os.path.join(os.getcwd(), "")
    return file[len(here) :] if file.startswith(here) else file


def as_text(plan: Plan) -> str:
    """The plan as a readable tree."""
    lines: list[str] = []
    for resource in plan.resources:
        lines += [f"resource {resource.resource}", *_indented(_resource_lines(resource)), ""]
    lines += _activity_lines(plan)
    lines.append(_summary(plan))
    return "\n".join(lines)


def _resource_lines(resource: ResourcePlan) -> Iterator[str]:
    for controller in resource.controllers:
        yield f"controller {controller.name}"
        yield from _indented(_controller_lines(controller))
    if resource.finalizers:
        yield "finalizers, in this order"
        yield from _indented(_finalizer_lines(resource.finalizers))
    for secondary in resource.secondaries:
        yield f"secondary {secondary.resource}: {_handler(secondary.mapper)}"
        yield from _indented(_filter_lines(secondary.filters))
    for poll in resource.polls:
        each = ", each object" if poll.each else ""
        yield f"poll every {_time(poll.interval)}{each}: {_handler(poll.handler)}"


def _controller_lines(controller: Controller) -> Iterator[str]:
    yield _row("reconcile", _handler(controller.reconcile))
    if controller.delete:
        # People take it for a finalizer: it hears nothing of what happens while the operator is down.
        yield _row("delete", f"{_handler(controller.delete)}, after the fact and without guarantee")
    if controller.label_selector:
        yield _row("labels", controller.label_selector)
    if controller.field_selector:
        yield _row("fields", controller.field_selector)
    if controller.default_filters:
        yield _row("defaults", str(controller.strategy or f"strategy {_FROM_SETTINGS}"))
    else:
        alone = controller.filters.update is None and controller.filters.generic is None
        yield _row("defaults", f"off: {'every update is accepted' if alone else 'only the filters below'}")
    yield from _filter_lines(controller.filters)
    if controller.when is not None:
        yield _row("when", str(controller.when))
    if controller.owns:
        yield _row("owns", ", ".join(str(one) for one in controller.owns))
    yield _row("retry", _retry(controller.retry))
    yield _row("resync", _resync(controller))
    yield _row("timeout", _timeout(controller))


def _filter_lines(filters: Filters) -> Iterator[str]:
    for kind in ("generic", "add", "update", "delete"):
        found = getattr(filters, kind)
        if found is not None:
            yield _row("filter", f"{kind}: {found}")


def _finalizer_lines(finalizers: tuple[Finalizer, ...]) -> Iterator[str]:
    for number, finalizer in enumerate(finalizers, 1):
        when = f" when {finalizer.when}" if finalizer.when is not None else ""
        yield f"{number}. {finalizer.name}: {_handler(finalizer.handler)}{when}"


def _activity_lines(plan: Plan) -> list[str]:
    named = [
        *(("startup", handler) for handler in plan.startup),
        *(("shutdown", handler) for handler in plan.shutdown),
        *(("login", handler) for handler in plan.logins),
        *((f"probe {name}", handler) for name, handler in plan.probes),
    ]
    lines = [f"{what}: {_handler(handler)}" for what, handler in named]
    return [*lines, ""] if lines else []


def _summary(plan: Plan) -> str:
    controllers = sum(len(resource.controllers) for resource in plan.resources)
    finalizers = sum(len(resource.finalizers) for resource in plan.resources)
    each, shared = len(watches(plan)), len(watches(plan, WatchStrategy.SHARED))
    counts = [
        _count(len(plan.resources), "resource"),
        _count(controllers, "controller"),
        _count(finalizers, "finalizer"),
        f"{_count(each, 'watch', 'watches')} per namespace or cluster",
    ]
    return ", ".join(counts) + (f" ({shared} under {WatchStrategy.SHARED.name})" if shared != each else "")


def watches(
    plan: Plan, strategy: WatchStrategy = WatchStrategy.PER_CONTROLLER
) -> list[tuple[str, str | None, str | None]]:
    """The watches that the plan needs in each namespace, as (resource, label selector, field selector)."""
    found: dict[tuple[str, str | None, str | None], None] = {}
    for resource in plan.resources:
        shared = strategy is WatchStrategy.SHARED and len(resource.controllers) > 1
        for controller in resource.controllers:
            labels = None if shared else controller.label_selector
            found[str(resource.resource), labels, controller.field_selector] = None
            found.update({(str(owned), None, None): None for owned in controller.owns})
        found.update({(str(one.resource), None, None): None for one in resource.secondaries})
    return list(found)


def as_dict(plan: Plan) -> dict[str, Any]:
    """The plan as plain data, ready for JSON. A controller's option that is null comes from the settings."""
    return {
        "resources": [
            {
                "resource": str(resource.resource),
                "controllers": [_controller_dict(one) for one in resource.controllers],
                "finalizers": [_finalizer_dict(one) for one in resource.finalizers],
                "secondaries": [_secondary_dict(one) for one in resource.secondaries],
                "polls": [_poll_dict(one) for one in resource.polls],
            }
            for resource in plan.resources
        ],
        "startup": [_handler_dict(one) for one in plan.startup],
        "shutdown": [_handler_dict(one) for one in plan.shutdown],
        "logins": [_handler_dict(one) for one in plan.logins],
        "probes": [{"id": name, **_handler_dict(one)} for name, one in plan.probes],
        "watches": [
            {"resource": resource, "label_selector": labels, "field_selector": fields}
            for resource, labels, fields in watches(plan)
        ],
    }


def _controller_dict(controller: Controller) -> dict[str, Any]:
    retry = controller.retry
    return {
        "name": controller.name,
        "reconcile": _handler_dict(controller.reconcile),
        "delete": _handler_dict(controller.delete) if controller.delete else None,
        "label_selector": controller.label_selector,
        "field_selector": controller.field_selector,
        "default_filters": controller.default_filters,
        "filters": _filters_dict(controller.filters),
        "when": str(controller.when) if controller.when is not None else None,
        "owns": [str(one) for one in controller.owns],
        "strategy": str(controller.strategy) if controller.strategy else None,
        "retry": {name: getattr(retry, name) for name in Retry.__dataclass_fields__} if retry else None,
        # In these two null has two meanings, which the word tells apart.
        "timeout": (controller.timeout or "off") if controller.timeout_set else None,
        "resync": (controller.resync or "off") if controller.resync_set else None,
    }


def _filters_dict(filters: Filters) -> dict[str, str]:
    kinds = ((kind, getattr(filters, kind)) for kind in ("generic", "add", "update", "delete"))
    return {kind: str(found) for kind, found in kinds if found is not None}


def _finalizer_dict(finalizer: Finalizer) -> dict[str, Any]:
    when = str(finalizer.when) if finalizer.when is not None else None
    return {
        "name": finalizer.name,
        "when": when,
        "order": finalizer.order,
        **_handler_dict(finalizer.handler),
    }


def _secondary_dict(secondary: Secondary) -> dict[str, Any]:
    return {
        "resource": str(secondary.resource),
        "mapper": _handler_dict(secondary.mapper),
        "filters": _filters_dict(secondary.filters),
    }


def _poll_dict(poll: Poll) -> dict[str, Any]:
    return {"interval": poll.interval, "each": poll.each, **_handler_dict(poll.handler)}


def _handler_dict(handler: Handler) -> dict[str, Any]:
    return {
        "handler": handler.name,
        "file": short_path(handler.file),
        "line": handler.line,
        "async": handler.is_async,
        "object": handler.object_argument,
    }


def _handler(handler: Handler) -> str:
    receives = f", {handler.object_argument} is the object" if handler.object_argument is not None else ""
    return f"{handler.name} ({short_path(handler.file)}:{handler.line}){receives}"


def _row(what: str, value: str) -> str:
    return f"{what:<10} {value}"


def _retry(retry: Retry | None) -> str:
    if retry is None:
        return _FROM_SETTINGS
    end = f", {_count(retry.attempts, 'attempt')} at most" if retry.attempts is not None else ""
    delays = f"{_time(retry.initial)}, then times {retry.factor:g} up to {_time(retry.maximum)}"
    return f"after {delays}{end}"


def _resync(controller: Controller) -> str:
    if not controller.resync_set:
        return _FROM_SETTINGS
    return f"every {_time(controller.resync)}" if controller.resync is not None else "off"


def _timeout(controller: Controller) -> str:
    if not controller.timeout_set:
        return _FROM_SETTINGS
    return _time(controller.timeout) if controller.timeout is not None else "off"


def _time(seconds: float) -> str:
    return f"{seconds:g} s"


def _count(number: int, what: str, several: str | None = None) -> str:
    return f"{number} {what if number == 1 else several or what + 's'}"


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
