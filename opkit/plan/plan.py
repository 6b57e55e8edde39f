"""
The plan: what the declarations amount to.

Made by the compiler, served by the flow, printed by `opkit check`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from opkit.cluster.resource import ResourceSelector
from opkit.filter.expressions import Filter
from opkit.retry import Retry
from opkit.settings import ReconcileStrategy


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """
    A function of the author, and what it wants to be given.

    `arguments` are the names that the runtime knows and the signature asks for; `object_argument` is the one
    parameter that receives the object under a name of the author's choice; `clients` maps parameters to the
    client library that their annotation asks for (`"kubernetes"` or `"pykube"`).
    """

    function: Callable[..., Any]
    name: str
    file: str
    line: int
    is_async: bool
    arguments: frozenset[str] = frozenset()
    object_argument: str | None = None
    clients: tuple[tuple[str, str], ...] = ()
    takes_all: bool = False
    """The signature ends in `**kwargs`: everything that the runtime knows is passed."""
    reads_rest: bool = True
    """Whether the function looks at what the `**kwargs` collected. Where it does not, nothing is made for it."""
    is_global: bool = False
    """The function is its module's global of that name, so it is looked up there when it is called."""

    def wants_all(self, function: Callable[..., Any]) -> bool:
        """Whether all that the runtime knows is passed to the function that `resolve` gave."""
        # What stands in for the function, such as a mock, is not the one that was read.
        return self.takes_all and (self.reads_rest or function is not self.function)

    def resolve(self) -> Callable[..., Any]:
        """
        The function to call now.

        Looked up in its module each time, so that a test that patches the module patches the operator.
        """
        if self.is_global:
            found: Callable[..., Any] = self.function.__globals__.get(self.function.__name__, self.function)
            return found
        return self.function


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Finalizer:
    """A cleanup that must succeed before an object may go."""

    name: str
    handler: Handler
    when: Filter | None = None
    order: int = 0


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Filters:
    """The author's filters of one controller, each composed to a single one; `None` accepts."""

    add: Filter | None = None
    update: Filter | None = None
    delete: Filter | None = None
    generic: Filter | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Controller:
    """One reconcile handler with all that belongs to it. `None` in an option means: from the settings."""

    name: str
    resource: ResourceSelector
    reconcile: Handler
    delete: Handler | None = None
    filters: Filters = Filters()
    when: Filter | None = None
    """A condition on the object, asked before every run."""
    default_filters: bool = True
    label_selector: str | None = None
    field_selector: str | None = None
    owns: tuple[ResourceSelector, ...] = ()
    strategy: ReconcileStrategy | None = None
    retry: Retry | None = None
    timeout: float | None = None
    timeout_set: bool = False
    """Whether `timeout` was given by the author: then `None` turns it off."""
    resync: float | None = None
    resync_set: bool = False
    """Whether `resync` was given by the author: then `None` turns it off."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Secondary:
    """Secondary objects, and the function that maps one of them to the primary objects it concerns."""

    resource: ResourceSelector
    of: ResourceSelector
    mapper: Handler
    filters: Filters = Filters()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Poll:
    """A function that fetches outside state every `interval` seconds, for all primary objects or for each."""

    of: ResourceSelector
    interval: float
    each: bool
    handler: Handler


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ResourcePlan:
    """
    One resource as the author names it, with its controllers.

    `finalizers` are in the order in which they run. Where the author names one resource in several ways,
    `resource` holds the most that all of them say.
    """

    resource: ResourceSelector
    controllers: tuple[Controller, ...]
    finalizers: tuple[Finalizer, ...] = ()
    secondaries: tuple[Secondary, ...] = ()
    polls: tuple[Poll, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """All that an operator does."""

    resources: tuple[ResourcePlan, ...] = ()
    startup: tuple[Handler, ...] = ()
    shutdown: tuple[Handler, ...] = ()
    logins: tuple[Handler, ...] = ()
    probes: tuple[tuple[str, Handler], ...] = ()

    def named_resources(self) -> Iterator[ResourceSelector]:
        """All resources that are watched, as the author names them: primary and secondary ones."""
        for plan in self.resources:
            yield plan.resource
            for controller in plan.controllers:
                yield from controller.owns
            yield from (secondary.resource for secondary in plan.secondaries)

    def handlers(self) -> Iterator[Handler]:
        """All functions that may ask for a client of another library: those for objects, and polls."""
        for plan in self.resources:
            for controller in plan.controllers:
                yield controller.reconcile
                if controller.delete is not None:
                    yield controller.delete
            yield from (finalizer.handler for finalizer in plan.finalizers)
            yield from (poll.handler for poll in plan.polls)

    def __str__(self) -> str:
        from opkit.plan.printing import as_text

        return as_text(self)

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain data, ready for JSON."""
        from opkit.plan.printing import as_dict

        return as_dict(self)
