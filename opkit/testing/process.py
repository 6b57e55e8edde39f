"""
A process: one operator in virtual time, from its start to its end or its death.

Takes the plan's registry and a store that outlives it; gives an operator that is made of the same rooms as in
production. Only clock, randomness and cluster are exchanged.
"""

from __future__ import annotations

import asyncio
import copy
import datetime
import random
from collections.abc import Mapping
from typing import Any

from opkit.clock import LoopClock
from opkit.declaration.registry import Registry
from opkit.errors import ApiError
from opkit.operator import Operator
from opkit.settings import Settings
from opkit.simulation.cluster import SimulatedCluster
from opkit.simulation.faults import FaultPlan
from opkit.simulation.store import Store
from opkit.testing.recorder import Recorder
from opkit.testing.virtual import VirtualLoop

# Virtual seconds within which a stopping operator has to be gone, beyond the grace of its handlers.
_STOPPING = 60.0


class VirtualClock(LoopClock):
    """The loop's time, with a time of day that moves along with it."""

    def __init__(self, loop: VirtualLoop, start: datetime.datetime) -> None:
        super().__init__(loop)
        self._start = start

    def wall(self) -> datetime.datetime:
        return self._start + datetime.timedelta(seconds=self.now())


class Process:
    """One operator at work."""

    def __init__(
        self, *, loop: VirtualLoop, store: Store, faults: FaultPlan, registry: Registry, settings: Settings,
        recorder: Recorder, seed: int, start: datetime.datetime, namespaces: tuple[str, ...] = (),
        clients: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._loop = loop
        self._recorder = recorder
        self.cluster = _Connection(store, faults=faults, bookmark_interval=None)
        self.operator = Operator(
            registry=registry,
            settings=copy.deepcopy(settings),
            namespaces=namespaces,
            cluster=self.cluster,
            clock=VirtualClock(loop, start),
            random_source=random.Random(seed),
            onlooker=recorder,
            clients=clients,
        )
        self._before = asyncio.all_tasks(loop)
        self._task = loop.create_task(self.operator.run(), name="operator")

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    def error(self) -> BaseException | None:
        """What ended the operator, if nobody asked it to end."""
        return self._task.exception() if self._task.done() and not self._task.cancelled() else None

    def stop(self) -> None:
        """Let it stop in order, as by a first signal."""
        self.operator.stop()
        deadline = self._loop.time() + self.operator.settings.shutdown.grace + _STOPPING
        self._loop.run_now()
        while not self._task.done() and (timer := self._loop.next_timer()) is not None and timer <= deadline:
            self._loop.run_until(timer)

    def kill(self) -> None:
        """End it as by `kill -9`: nothing that it was about to do has any effect any more."""
        self.cluster.cut()
        self._recorder.gates.clear()
        for _ in range(100):
            tasks = [task for task in asyncio.all_tasks(self._loop) if task not in self._before]
            if not tasks:
                return
            # By name, since the order of a set is another one in each process, and histories are to be repeatable.
            for task in sorted(tasks, key=asyncio.Task.get_name):
                task.cancel()
            self._loop.run_now()

    def leftovers(self) -> list[str]:
        """Tasks that the operator, or a handler, has started and not ended."""
        return [task.get_name() for task in asyncio.all_tasks(self._loop) if task not in self._before]


class _Connection(SimulatedCluster):
    """The way of one process to the cluster, which can be cut."""

    is_cut = False

    def cut(self) -> None:
        self.is_cut = True

    async def _request(self, *args: Any, **options: Any) -> Any:
        self._check()
        return await super()._request(*args, **options)

    def _check(self) -> None:
        if self.is_cut:
            raise ApiError.of(0, message="this process is dead")
