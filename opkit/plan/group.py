"""
A group: all declarations that concern one resource, and the plan that they make.

Takes declarations whose resource is known, gives a `ResourcePlan`; what is wrong goes to the problems.
"""

from __future__ import annotations

from collections.abc import Iterable

from opkit.cluster.resource import ResourceSelector
from opkit.declaration.declarations import (
    Declaration,
    DeleteDeclaration,
    FilterDeclaration,
    FinalizerDeclaration,
    PollDeclaration,
    ReconcileDeclaration,
    SecondaryDeclaration,
)
from opkit.declaration.signature import Role
from opkit.filter.expressions import FilterKind, function_name
from opkit.plan import options
from opkit.plan.functions import compile_filter, compile_filters, compile_handler, declared_filter
from opkit.plan.plan import Controller, Finalizer, Handler, Poll, ResourcePlan, Secondary
from opkit.plan.problems import Problems


class Group:
    """The declarations of one resource."""

    def __init__(self, resource: ResourceSelector, problems: Problems) -> None:
        self.resource = resource
        self.problems = problems
        self.reconciles: list[ReconcileDeclaration] = []
        self.deletes: list[DeleteDeclaration] = []
        self.filters: list[FilterDeclaration] = []
        self.finalizers: list[FinalizerDeclaration] = []
        self.secondaries: list[tuple[ResourceSelector, SecondaryDeclaration]] = []
        self.polls: list[PollDeclaration] = []

    def take(self, declaration: Declaration, resource: ResourceSelector) -> None:
        """Take a declaration, which names that resource: this group's own, or one secondary to it."""
        match declaration:
            case ReconcileDeclaration():
                self.reconciles.append(declaration)
            case DeleteDeclaration():
                self.deletes.append(declaration)
            case FilterDeclaration():
                self.filters.append(declaration)
            case FinalizerDeclaration():
                self.finalizers.append(declaration)
            case SecondaryDeclaration():
                self.secondaries.append((resource, declaration))
            case PollDeclaration():
                self.polls.append(declaration)

    def plan(self, *, one_controller: bool = False) -> ResourcePlan:
        """Compile the group. `one_controller` refuses a second one, as a queue of the author's own does."""
        names = [self._name(declaration) for declaration in self.reconciles]
        filters = [one for one in self.filters if self._knows(one, f"filter.{one.kind}", names)]
        for one in self.filters:
            declared_filter(one, self.problems)
        deletes = self._delete_handlers(names)
        controllers = tuple(
            self._controller(
                declaration,
                name,
                [one for one in filters if one.controller in (None, name)],
                deletes.get(name),
            )
            for declaration, name in zip(self.reconciles, names, strict=True)
        )
        self._find_duplicates(controllers)
        if one_controller:
            self._find_second_controller()
        return ResourcePlan(
            resource=self.resource,
            controllers=controllers,
            finalizers=self._finalizers(),
            secondaries=tuple(self._secondary(resource, one) for resource, one in self.secondaries),
            polls=tuple(self._poll(one) for one in self.polls),
        )

    def _name(self, declaration: ReconcileDeclaration) -> str:
        default = function_name(declaration.function)
        if declaration.controller is None:
            return default
        return self.problems.attempt(declaration.place, options.text, declaration.controller, "controller") or default

    def _knows(self, declaration: FilterDeclaration | DeleteDeclaration, what: str, names: list[str]) -> bool:
        """Whether the controller that is named exists. Without any, another problem is told elsewhere."""
        if declaration.controller is None or not names or declaration.controller in names:
            return True
        self.problems.add(
            declaration.place,
            f"@opkit.{what}: {self.resource} has no controller {declaration.controller!r};"
            f" there are: {', '.join(dict.fromkeys(names))}",
        )
        return False

    def _delete_handlers(self, names: list[str]) -> dict[str, Handler]:
        """The delete handler of each controller that has one."""
        found: dict[str, DeleteDeclaration] = {}
        handlers: dict[str, Handler] = {}
        for declaration in self.deletes:
            handler = compile_handler(declaration, Role.DELETE, self.problems)
            if not names or not self._knows(declaration, "delete", names):
                continue
            if declaration.controller is None and len(names) > 1:
                self.problems.add(
                    declaration.place,
                    f"the delete handler {handler.name} must say whose it is, since {self.resource} has"
                    f" several controllers: controller= one of {', '.join(dict.fromkeys(names))}",
                )
                continue
            name = names[0] if declaration.controller is None else declaration.controller
            if name in found:
                self.problems.add(
                    declaration.place,
                    f"the controller {name!r} of {self.resource} has a delete handler already"
                    f" ({found[name].place}); call both from one function",
                )
            found[name], handlers[name] = declaration, handler
        return handlers

    def _controller(
        self,
        declaration: ReconcileDeclaration,
        name: str,
        filters: Iterable[FilterDeclaration],
        delete: Handler | None,
    ) -> Controller:
        place, attempt = declaration.place, self.problems.attempt
        if declaration.label_selector and declaration.field_selector:
            self.problems.add(
                place,
                "label_selector and field_selector don't go together; use two controllers, or one of the two"
                " and a generic filter",
            )
        return Controller(
            name=name,
            resource=self.resource,
            reconcile=compile_handler(declaration, Role.RECONCILE, self.problems),
            delete=delete,
            filters=compile_filters(declaration, filters, self.problems),
            when=compile_filter(declaration.when, FilterKind.GENERIC, "when", place, self.problems),
            default_filters=attempt(place, options.flag, declaration.default_filters, "default_filters") is not False,
            label_selector=attempt(place, options.label_selector, declaration.label_selector),
            field_selector=attempt(place, options.field_selector, declaration.field_selector),
            owns=attempt(place, options.resources, declaration.owns, "owns") or (),
            strategy=attempt(place, options.strategy, declaration.strategy),
            retry=attempt(place, options.retry, declaration.retry),
            timeout=attempt(place, options.duration, declaration.timeout, "timeout", off="None turns it off"),
            timeout_set=declaration.timeout_set,
            resync=attempt(place, options.duration, declaration.resync, "resync", off="None turns it off"),
            resync_set=declaration.resync_set,
        )

    def _find_duplicates(self, controllers: tuple[Controller, ...]) -> None:
        """Two controllers of one name, or one handler twice over the same objects."""
        for index, (controller, declaration) in enumerate(zip(controllers, self.reconciles, strict=True)):
            for earlier, first in zip(controllers[:index], self.reconciles, strict=False):
                if declaration.function == first.function and _selectors(controller) == _selectors(earlier):
                    self.problems.add(
                        declaration.place,
                        f"{controller.reconcile.name}() is registered for {self.resource} with the same"
                        f" selectors already ({first.place})",
                    )
                    break
                if controller.name == earlier.name:
                    self.problems.add(
                        declaration.place,
                        f"{self.resource} has a controller {controller.name!r} already ({first.place});"
                        " name this one by controller=",
                    )
                    break

    def _find_second_controller(self) -> None:
        for declaration in self.reconciles[1:]:
            self.problems.add(
                declaration.place,
                f"a second controller for {self.resource} (beside {self.reconciles[0].place}) needs a queue"
                " of its own, but settings.queue.strategy is one object; use opkit.QueueStrategy.IN_MEMORY",
            )

    def _finalizers(self) -> tuple[Finalizer, ...]:
        found: dict[str, FinalizerDeclaration] = {}
        finalizers = []
        for declaration in self.finalizers:
            place, attempt = declaration.place, self.problems.attempt
            handler = compile_handler(declaration, Role.FINALIZER, self.problems)
            when = compile_filter(declaration.when, FilterKind.GENERIC, "when", place, self.problems)
            order = attempt(place, options.order, declaration.order) or 0
            group = self.resource.group
            name = attempt(place, options.finalizer_name, declaration.name, declaration.function, group)
            if name is not None and name in found:
                self.problems.add(
                    place,
                    f"{self.resource} has a finalizer {name!r} already ({found[name].place}); name this one",
                )
            elif name is not None:
                found[name] = declaration
                finalizers.append(Finalizer(name=name, handler=handler, when=when, order=order))
        return tuple(sorted(finalizers, key=lambda finalizer: finalizer.order))

    def _secondary(self, resource: ResourceSelector, declaration: SecondaryDeclaration) -> Secondary:
        return Secondary(
            resource=resource,
            of=self.resource,
            mapper=compile_handler(declaration, Role.SECONDARY, self.problems),
            filters=compile_filters(declaration, (), self.problems),
        )

    def _poll(self, declaration: PollDeclaration) -> Poll:
        place, attempt = declaration.place, self.problems.attempt
        each = attempt(place, options.flag, declaration.each, "each") is True
        if declaration.interval is None:
            self.problems.add(place, "@opkit.poll needs interval=, in seconds")
        interval = attempt(place, options.duration, declaration.interval, "interval", off="it can't be turned off")
        role = Role.POLL_EACH if each else Role.POLL
        return Poll(
            of=self.resource,
            interval=interval or 0.0,
            each=each,
            handler=compile_handler(declaration, role, self.problems),
        )


def _selectors(controller: Controller) -> tuple[str | None, str | None]:
    return controller.label_selector, controller.field_selector
