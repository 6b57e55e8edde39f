"""
Links: which secondary resources concern which controllers, and by what relation.

Takes the plan and the resources that are served; gives links that can be connected. Never watches anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from opkit.cluster.body import Raw, metadata
from opkit.cluster.resource import ResourceSelector
from opkit.flow.pipeline import Pipeline
from opkit.flow.runtime import Runtime
from opkit.flow.secondary import Dependents, Key, Relate, named, owners
from opkit.flow.sieve import Sieve
from opkit.flow.tools import object_arguments
from opkit.plan.plan import Filters, Secondary
from opkit.settings import ReconcileStrategy

if TYPE_CHECKING:
    from opkit.flow.served import Served


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A secondary resource that concerns one controller. Both may be served in another version later on."""

    pipeline: Pipeline
    primary: Served
    secondary: Served
    mapper: Secondary | None = None
    """How it does; without one, by owner reference."""

    def connect(self, runtime: Runtime) -> None:
        """Let the changes of the secondary resource lead to runs."""
        filters = self.mapper.filters if self.mapper is not None else Filters()
        dependents = Dependents(
            resource=self.secondary.resource,
            store=self.secondary.watch_everything(),
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
        self.secondary.add_dependents(dependents)

    def _relation(self, runtime: Runtime) -> Relate:
        if self.mapper is None:
            return lambda raw: owners(self.primary.resource)(raw)
        handler = self.mapper.mapper

        def relate(raw: Raw) -> Iterator[Key]:
            arguments = {
                **object_arguments(raw, self.secondary.resource),
                "logger": self.pipeline.logger, "memo": runtime.memo, "settings": runtime.settings,
            }  # fmt: skip
            wanted = arguments if handler.takes_all else {name: arguments[name] for name in handler.arguments}
            if handler.object_argument is not None:
                wanted = {**wanted, handler.object_argument: arguments["body"]}
            namespaced = self.primary.resource.namespaced
            yield from named(handler.resolve()(**wanted), metadata(raw).get("namespace"), namespaced=namespaced)

        return relate


def links_of(primary: Served, served: Callable[[ResourceSelector], Served | None]) -> Iterator[Link]:
    """All links of a primary resource to those that are served, as `served` tells."""
    mappers = [one for plan in primary.plans for one in plan.secondaries]
    for pipeline in primary.pipelines:
        for owned in pipeline.controller.owns:
            if (secondary := served(owned)) is not None:
                yield Link(pipeline, primary, secondary)
        for mapper in mappers:
            if (secondary := served(mapper.resource)) is not None:
                yield Link(pipeline, primary, secondary, mapper)
