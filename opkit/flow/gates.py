"""
Gates: first runs wait until their secondary objects are known.

Takes what streams have come to; opens the gates of the namespaces whose secondary objects are all listed. A list that
fails or gets no answer holds nothing up for long, and nothing at all in other namespaces. A gate that was opened stays
open. Never starts a run itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from opkit.cluster.protocol import WatchScope
from opkit.flow.runtime import Runtime
from opkit.flow.served import Served
from opkit.flow.slots import Slot

# Seconds for a list to come to an end, or to fail. After that the first runs go on without it.
_PATIENCE = 30.0

_Part = tuple[Slot, str | None]
"""The objects of a resource, in a namespace or everywhere."""


class Gates:
    """The gates of all primary resources."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._sources: dict[Slot, set[Slot]] = {}
        self._expected: dict[tuple[Slot, WatchScope], asyncio.TimerHandle] = {}
        self._settled: set[_Part] = set()
        self._opened: set[_Part] = set()
        self._served: Mapping[Slot, Served] = {}
        self._namespaces: frozenset[str | None] = frozenset()

    def add_source(self, primary: Slot, source: Slot) -> None:
        """The first runs of a primary resource are to see the objects of this secondary one."""
        self._sources.setdefault(primary, set()).add(source)

    def expect(self, slot: Slot, scope: WatchScope) -> None:
        """A stream begins. One that goes on with what is known already is nothing to wait for."""
        if (slot, scope.namespace) not in self._settled:
            due = self._runtime.clock.now() + _PATIENCE
            self._expected[slot, scope] = self._runtime.clock.call_at(due, self.settle, slot, scope)

    def settle(self, slot: Slot, scope: WatchScope) -> None:
        """A stream has listed everything, or has failed, or takes too long."""
        timer = self._expected.pop((slot, scope), None)
        if timer is not None:
            timer.cancel()
            if not any(place[0] == slot and place[1].namespace == scope.namespace for place in self._expected):
                self._settled.add((slot, scope.namespace))
            self._adjust()

    def forget(self, slot: Slot, scope: WatchScope) -> None:
        """A stream has ended, and what it showed is gone."""
        timer = self._expected.pop((slot, scope), None)
        if timer is not None:
            timer.cancel()
        self._settled.discard((slot, scope.namespace))
        self._opened.discard((slot, scope.namespace))

    def set(
        self,
        served: Mapping[Slot, Served],
        places: Iterable[tuple[Slot, WatchScope]],
        namespaces: frozenset[str | None],
    ) -> None:
        """What is served from now on, and where."""
        wanted = set(places)
        for place in [place for place in self._expected if place not in wanted]:
            self._expected.pop(place).cancel()
        self._served, self._namespaces = served, namespaces
        self._adjust()

    def _adjust(self) -> None:
        """Open what misses nothing. Versions of one kind share their gates, as they share the coordinator."""
        closed: dict[int, set[str | None]] = {}
        for primary, served in self._served.items():
            gates = closed.setdefault(id(served.coordinator), set())
            for namespace in self._namespaces if served.resource.namespaced else (None,):
                if (primary, namespace) not in self._opened:
                    if self._is_missing(primary, namespace):
                        gates.add(namespace)
                    else:
                        self._opened.add((primary, namespace))
        for served in self._served.values():
            served.coordinator.set_gates(frozenset(closed[id(served.coordinator)]))

    def _is_missing(self, primary: Slot, namespace: str | None) -> bool:
        """Whether something is on its way that the objects of this namespace are to see. Of `None`: anything."""
        return any(
            slot in self._sources.get(primary, ())
            and (None in (namespace, scope.namespace) or scope.namespace == namespace)
            for slot, scope in self._expected
        )

    def close(self) -> None:
        """Nothing is waited for any more."""
        for timer in self._expected.values():
            timer.cancel()
        self._expected.clear()
