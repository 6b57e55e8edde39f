"""
The compiler: from declarations to a plan, or every problem at once.

Takes a registry, gives a `Plan`, raises `RegistrationError`. A declaration with a problem still counts for
the others, so that one mistake is told once. Never calls a handler, never touches the network.
"""

from __future__ import annotations

from opkit.cluster.resource import ResourceSelector
from opkit.declaration.declarations import (
    Activity,
    ActivityDeclaration,
    Declaration,
    DeleteDeclaration,
    FilterDeclaration,
    FinalizerDeclaration,
    PollDeclaration,
    ReconcileDeclaration,
    ResourceDeclaration,
    SecondaryDeclaration,
)
from opkit.declaration.registry import Registry
from opkit.declaration.signature import Role
from opkit.errors import Problem, RegistrationError
from opkit.plan import options, resources
from opkit.plan.functions import compile_handler
from opkit.plan.group import Group
from opkit.plan.plan import Handler, Plan
from opkit.plan.problems import Problems
from opkit.settings import QueueStrategy, Settings

# Stands for a resource that can't be read, in what else is told about a declaration.
_UNREADABLE = ResourceSelector("unreadable", group="unreadable")

# What is of no use without a reconcile handler of its resource.
_NOUNS: dict[type[Declaration], str] = {
    DeleteDeclaration: "delete handler",
    FilterDeclaration: "filter",
    FinalizerDeclaration: "finalizer",
    SecondaryDeclaration: "mapper of secondary objects",
    PollDeclaration: "poll",
}


def compile_plan(registry: Registry, settings: Settings | None = None) -> Plan:
    """
    Compile all declarations of a registry.

    `settings` decide what a plan may hold: a queue of the author's own serves one controller per resource.
    Raises `RegistrationError` with every problem.
    """
    compiler = _Compiler(registry.declarations)
    for mistake in registry.mistakes:
        compiler.problems.add(mistake.place, mistake.message)
    plan = compiler.plan(one_controller=not _is_ours((settings or Settings()).queue.strategy))
    if compiler.problems:
        raise RegistrationError(compiler.problems)
    if not plan.resources:
        raise RegistrationError([_nothing_to_reconcile(registry.declarations)])
    return plan


def _is_ours(queue: object) -> bool:
    """Whether it is a queue of opkit's, of which every controller gets one."""
    return isinstance(queue, str) and queue in tuple(QueueStrategy)


def _nothing_to_reconcile(declarations: tuple[Declaration, ...]) -> Problem:
    message = "no handlers: nothing is decorated with @opkit.reconcile(...)"
    place = declarations[0].place if declarations else None
    return Problem(place.file, place.line, message) if place else Problem("", 0, message)


class _Compiler:
    """One compilation: sorts the declarations by what they concern, and has each part compiled."""

    def __init__(self, declarations: tuple[Declaration, ...]) -> None:
        self.problems = Problems()
        self._declarations = declarations
        self._named: dict[int, ResourceSelector] = {}
        self._groups: list[Group] = []
        self._strays: list[Group] = []

    def plan(self, *, one_controller: bool) -> Plan:
        self._name_resources()
        self._make_groups()
        for declaration in self._declarations:
            if not isinstance(declaration, (ReconcileDeclaration, ActivityDeclaration)):
                self._place(declaration, self._primary(declaration))
        for strays in self._strays:
            strays.plan()
        return Plan(
            resources=tuple(group.plan(one_controller=one_controller) for group in self._groups),
            startup=self._activities(Activity.STARTUP),
            shutdown=self._activities(Activity.SHUTDOWN),
            logins=self._activities(Activity.LOGIN),
            probes=self._probes(),
        )

    def _name_resources(self) -> None:
        for declaration in self._declarations:
            if isinstance(declaration, ResourceDeclaration):
                named = self.problems.attempt(declaration.place, resources.named, declaration.resource)
                if named is not None:
                    self._named[id(declaration)] = named

    def _make_groups(self) -> None:
        """One group for each resource with a reconcile handler."""
        reconciles = [one for one in self._declarations if isinstance(one, ReconcileDeclaration)]
        found = resources.distinct(self._named[id(one)] for one in reconciles if id(one) in self._named)
        self._groups = [Group(resource, self.problems) for resource in found]
        for declaration in reconciles:
            self._place(declaration, self._named.get(id(declaration)))

    def _place(self, declaration: Declaration, resource: ResourceSelector | None) -> None:
        """Put a declaration into the group of the resource that it serves."""
        group = self._group(resource, declaration) if resource is not None else None
        if group is None:
            # What else is wrong with it is told all the same: by a group of which no plan is made.
            group = Group(resource or _UNREADABLE, self.problems)
            self._strays.append(group)
        group.take(declaration, self._named.get(id(declaration), _UNREADABLE))

    def _group(self, resource: ResourceSelector, declaration: Declaration) -> Group | None:
        """The group of a resource; without exactly one, a problem."""
        found = [group for group in self._groups if group.resource.may_equal(resource)]
        if len(found) == 1:
            return found[0]
        if found:
            choice = " or ".join(str(group.resource) for group in found)
            message = f"{resource} may be {choice}: name the group and the version"
        else:
            message = f"a {_NOUNS[type(declaration)]} for {resource}, which has no reconcile handler"
            served = ", ".join(str(group.resource) for group in self._groups)
            message += f" (there are handlers for {served}; name the resource in the same words)" if served else ""
        self.problems.add(declaration.place, message)
        return None

    def _primary(self, declaration: Declaration) -> ResourceSelector | None:
        """The resource whose reconcile handler a declaration serves."""
        if isinstance(declaration, (SecondaryDeclaration, PollDeclaration)):
            return self.problems.attempt(declaration.place, options.resource, declaration.of, "of")
        return self._named.get(id(declaration))

    def _activities(self, activity: Activity) -> tuple[Handler, ...]:
        return tuple(
            compile_handler(declaration, Role.ACTIVITY, self.problems)
            for declaration in self._declarations
            if isinstance(declaration, ActivityDeclaration) and declaration.activity is activity
        )

    def _probes(self) -> tuple[tuple[str, Handler], ...]:
        found: dict[str, Handler] = {}
        for declaration in self._declarations:
            if isinstance(declaration, ActivityDeclaration) and declaration.activity is Activity.PROBE:
                handler = compile_handler(declaration, Role.ACTIVITY, self.problems)
                name = handler.name if declaration.id is None else declaration.id
                self.problems.attempt(declaration.place, options.text, name, "id")
                if name in found:
                    self.problems.add(declaration.place, f"there is a probe {name!r} already; name this one by id=")
                found[name] = handler
        return tuple(found.items())
