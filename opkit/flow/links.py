"""
Links: which secondary resources concern which controllers, and by what relation.

Takes the plan and the resources that are served; gives links that can be connected. Never watches anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from opkit.cluster.body import Raw, metadata
from opkit.cluster.resource import Resource, ResourceSelector
from opkit.flow.pipeline import Pipeline
from opkit.flow.runtime import Runtime
from opkit.flow.secondary import Dependents, Key, Relate, named, owners
from opkit.flow.sieve import Sieve
from opkit.flow.tools import object_arguments
from opkit.plan.plan import Filters, Plan, Secondary
from opkit.settings import ReconcileStrategy

if TYPE_CHECKING:
    from opkit.flow.served import Served


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A secondary resource that concerns one controller."""

    pipeline: Pipeline
    primary: Resource
    secondary: Resource
    mapper: Secondary | None = None
    """How it does; without one, by owner reference."""

    @property
    def what(self) -> object:
        """What tells it from other links of the same two resources."""
        return self.mapper

    def connect(self, served: Served, runtime: Runtime) -> None:
        """Let the changes of the secondary resource lead to runs."""
        filters = self.mapper.filters if self.mapper is not None else Filters()
        dependents = Dependents(
            resource=self.secondary,
            store=served.watch_everything(),
            pipeline=self.pipeline,
            relate=self._relation(runtime),
            sieve=Sieve(
                controller=self.pipeline.identity,
                filters=filters,
                strategy=ReconcileStrategy.BY_RESOURCE_VERSION,
                default_filters=False,
                now=runtime.clock.now,
            ),
        )
        self.pipeline.tools.attach(dependents)
        served.add_dependents(dependents)

    def _relation(self, runtime: Runtime) -> Relate:
        if self.mapper is None:
            return owners(self.primary)
        handler, namespaced = self.mapper.mapper, self.primary.namespaced

        def relate(raw: Raw) -> Iterator[Key]:
            arguments = {
                **object_arguments(raw, self.secondary),
                "logger": self.pipeline.logger, "memo": runtime.memo, "settings": runtime.settings,
            }  # fmt: skip
            wanted = arguments if handler.takes_all else {name: arguments[name] for name in handler.arguments}
            if handler.object_argument is not None:
                wanted = {**wanted, handler.object_argument: arguments["body"]}
            yield from named(handler.resolve()(**wanted), metadata(raw).get("namespace"), namespaced=namespaced)

        return relate


def links_of(
    plan: Plan, primary: Resource, pipelines: Iterable[Pipeline], served: Iterable[Resource]
) -> Iterator[Link]:
    """All links of a primary resource to resources that are served."""
    served = list(served)

    def concrete(selector: ResourceSelector) -> list[Resource]:
        return selector.select(served)

    mappers = [one for each in plan.resources if each.resource.select([primary]) for one in each.secondaries]
    for pipeline in pipelines:
        for owned in pipeline.controller.owns:
            yield from (Link(pipeline, primary, resource) for resource in concrete(owned))
        for mapper in mappers:
            yield from (Link(pipeline, primary, resource, mapper) for resource in concrete(mapper.resource))
