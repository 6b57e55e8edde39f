"""
Assembly: connects the rooms, and owns the order of start and stop.

Start: startup handlers, then frozen settings, then the credentials, then streams.
Stop: streams (nothing new comes in), queues, running handlers with their grace, removals of finalizers under way,
Events, shutdown handlers, and last the connection that all of them may need.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

from opkit.clock import Clock
from opkit.cluster.protocol import Cluster
from opkit.flow.activities import StartupError, call_probes, shut_down, start_up
from opkit.flow.events import EventPoster
from opkit.flow.invocation import Invoker, Memo
from opkit.flow.onlooker import Onlooker
from opkit.flow.runtime import Runtime
from opkit.flow.watches import Watches
from opkit.flow.writes import Writes
from opkit.plan.plan import Plan
from opkit.settings import Settings

logger = logging.getLogger("opkit.operator")

# Seconds for what is still to be posted when everything else has ended.
_LAST_EVENTS = 2.0

Connect = Callable[[Settings], contextlib.AbstractAsyncContextManager[Cluster]]
"""Opens the connection to a cluster once the settings are final."""


class Assembly:
    """A running operator: all rooms, connected. To be made in the loop that it runs in."""

    def __init__(
        self,
        plan: Plan,
        *,
        settings: Settings,
        connect: Connect,
        namespaces: frozenset[str],
        clusterwide: bool,
        clock: Clock,
        random: random.Random,
        onlooker: Onlooker,
        clients: Callable[[str], Any] | None = None,
    ) -> None:
        self.plan = plan
        self.settings = settings
        self.clock = clock
        self._connect = connect
        self._namespaces = namespaces
        self._clusterwide = clusterwide
        self._random = random
        self._onlooker = onlooker
        self._clients = clients
        self._memo = Memo()
        self._arguments = {"settings": settings, "memo": self._memo, "logger": logging.getLogger("opkit.activities")}
        self._stopping = asyncio.Event()
        self.watches: Watches | None = None
        self.runtime: Runtime | None = None

    async def run(self) -> None:
        """
        Run until `stop` is called, and then stop in order.

        Raises `StartupError`, `CredentialsError`, and `ApiError` with status 401 if the credentials are refused.
        """
        await start_up(self.plan.startup, self._arguments, self.clock)
        try:
            self.settings.check()
        except ValueError as error:
            raise StartupError(f"the settings can't be served: {error}") from error
        self.settings.freeze()
        async with self._connect(self.settings) as cluster:
            try:
                await self._serve(cluster)
            finally:
                await shut_down(self.plan.shutdown, self._arguments)

    async def probe(self) -> dict[str, Any]:
        """Call the probes; what they give, by their names."""
        return await call_probes(self.plan.probes, self._arguments)

    async def _serve(self, cluster: Cluster) -> None:
        async with self._rooms(cluster) as watches:
            serving = asyncio.create_task(watches.run(), name="watches")
            stopping = asyncio.create_task(self._stopping.wait(), name="stop signal")
            try:
                await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (serving, stopping):
                    task.cancel()
                await asyncio.wait({serving, stopping})
            if not serving.cancelled() and (error := serving.exception()) is not None:
                raise error

    @contextlib.asynccontextmanager
    async def _rooms(self, cluster: Cluster) -> AsyncIterator[Watches]:
        """The rooms, for as long as they are lived in."""
        settings = self.settings
        writes = Writes(cluster, lambda resource: self.watches.get(resource) if self.watches else None, self._onlooker)
        self.runtime = runtime = Runtime(
            clock=self.clock,
            random=self._random,
            settings=settings,
            writes=writes,
            invoker=Invoker(settings.parallel.threads or settings.parallel.limit, self._clients, self._onlooker.gate),
            events=EventPoster(cluster, self.clock, settings.name, lambda: writes.fenced),
            memo=self._memo,
            loop=asyncio.get_running_loop(),
            onlooker=self._onlooker,
        )
        self.watches = watches = Watches(self.plan, runtime, namespaces=self._namespaces, clusterwide=self._clusterwide)
        try:
            yield watches
        finally:
            await self._close(watches, runtime)

    async def _close(self, watches: Watches, runtime: Runtime) -> None:
        await watches.close()
        for served in watches:
            served.coordinator.close()
        runtime.invoker.stop_runs()
        await self._drain(watches)
        for served in watches:
            await served.finalizers.settle()
        await runtime.events.flush(_LAST_EVENTS)
        runtime.invoker.close()

    async def _drain(self, watches: Watches) -> None:
        """Give running handlers their grace, all at the same time, and name those that did not make use of it."""
        grace = self.settings.shutdown.grace
        kinds = {id(served.coordinator): served for served in watches}  # versions of one kind share theirs
        unfinished = await asyncio.gather(*(served.coordinator.drain(grace) for served in kinds.values()))
        for served, left in zip(kinds.values(), unfinished, strict=True):
            for lane, uid in left:
                logger.warning("%s on %s did not end within %g s and was cancelled.", lane, served.name_of(uid), grace)

    def stop(self) -> None:
        """Begin to stop. To be called in the loop's thread; more than once does no harm."""
        self._stopping.set()

    def lose_lead(self) -> None:
        """
        Another process leads: nothing is accepted, run or written any more. Watches and stores go on.

        Writes are refused first, so that nothing that is being cancelled can still slip one through.
        """
        if self.runtime is not None and self.watches is not None:
            self.runtime.writes.fenced = True
            self.runtime.invoker.stop_runs()
            for served in self.watches:
                served.coordinator.suspend()

    def gain_lead(self) -> None:
        """This process leads: every known object is reconciled."""
        if self.runtime is not None and self.watches is not None:
            self.runtime.writes.fenced = False
            for served in self.watches:
                served.coordinator.resume()
                served.reconcile_all()

    def stuck(self) -> list[str]:
        """Handlers whose threads still run: nothing can end them but the end of the process."""
        return list(self.runtime.invoker.in_threads.values()) if self.runtime is not None else []
