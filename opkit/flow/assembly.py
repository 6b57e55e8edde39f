"""
Assembly: connects the rooms, and owns the order of start and stop.

Start: startup handlers, then frozen settings, then the credentials, then streams.
Stop: streams (nothing new comes in), queues, running handlers with their grace, removals of finalizers under way,
Events, shutdown handlers, and last the connection that all of them may need. Whatever of the author's is under way when
the stop is asked for, a startup handler or a login too, gets the same grace (semantics: 13.9).
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
from opkit.cluster.resource import Resource
from opkit.flow.activities import StartupError, call_probes, shut_down, start_up
from opkit.flow.events import EventPoster
from opkit.flow.invocation import Invoker, Memo
from opkit.flow.lead import Lead
from opkit.flow.onlooker import Onlooker
from opkit.flow.runtime import Runtime
from opkit.flow.stopping import Stop, Stopped
from opkit.flow.threads import Threads
from opkit.flow.watches import Watches
from opkit.flow.writes import Watched, Writes
from opkit.plan.plan import Plan
from opkit.settings import Settings

logger = logging.getLogger("opkit.operator")

# Seconds for what is still to be posted when everything else has ended.
_LAST_EVENTS = 2.0

# Seconds that removals of finalizers get at least: a cleanup that is done need not be done again then.
_LAST_REMOVALS = 10.0

# Seconds that shutdown handlers get even if running handlers have used up the grace.
_LAST_TURN = 3.0

# Threads for plain functions of the author that are not called for objects.
_ACTIVITIES = 16

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
        self._stop = Stop(clock, lambda: settings.shutdown.grace)
        self._lead = Lead()
        self._threads = Threads(_ACTIVITIES, "opkit-activity")
        self.watches: Watches | None = None
        self.runtime: Runtime | None = None

    async def run(self) -> None:
        """
        Run until `stop` is called, and then stop in order.

        Raises `StartupError`, `CredentialsError`, and `ApiError` with status 401 if the credentials are refused.
        """
        try:
            await self._run()
        except Stopped:
            pass  # told where it was cut off
        finally:
            self._threads.close()

    async def _run(self) -> None:
        stop = self._stop
        await stop.bound(start_up(self.plan.startup, self._arguments, self._threads, stop), "A startup handler")
        if stop.is_asked:
            return
        try:
            self.settings.check()
        except ValueError as error:
            raise StartupError(f"the settings can't be served: {error}") from error
        self.settings.freeze()
        async with contextlib.AsyncExitStack() as connection:
            cluster = await stop.bound(connection.enter_async_context(self._connect(self.settings)), "The login")
            try:
                await self._serve(cluster)
            finally:
                shutting_down = shut_down(self.plan.shutdown, self._arguments, self._threads)
                with contextlib.suppress(Stopped):
                    await stop.bound(shutting_down, "A shutdown handler", at_least=_LAST_TURN)

    async def probe(self) -> dict[str, Any]:
        """Call the probes; what they give, by their names."""
        return await call_probes(self.plan.probes, self._arguments, self._threads)

    async def _serve(self, cluster: Cluster) -> None:
        async with self._rooms(cluster) as watches:
            serving = asyncio.create_task(watches.run(), name="watches")
            stopping = asyncio.create_task(self._stop.wait(), name="stop signal")
            try:
                await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._stop.ask()
                for task in (serving, stopping):
                    task.cancel()
                await asyncio.wait({serving, stopping})
            if not serving.cancelled() and (error := serving.exception()) is not None:
                raise error

    @contextlib.asynccontextmanager
    async def _rooms(self, cluster: Cluster) -> AsyncIterator[Watches]:
        """The rooms, for as long as they are lived in."""
        settings, lead = self.settings, self._lead
        handlers = Threads(settings.parallel.threads or settings.parallel.limit, "opkit-handler")
        writes = Writes(cluster, self._watched, self._onlooker, lead)
        self.runtime = runtime = Runtime(
            clock=self.clock,
            random=self._random,
            settings=settings,
            writes=writes,
            invoker=Invoker(handlers, self._clients, self._onlooker.gate),
            threads=self._threads,
            lead=lead,
            events=EventPoster(cluster, self.clock, settings.name, lead),
            memo=self._memo,
            loop=asyncio.get_running_loop(),
            onlooker=self._onlooker,
        )
        self.watches = watches = Watches(self.plan, runtime, namespaces=self._namespaces, clusterwide=self._clusterwide)
        try:
            yield watches
        finally:
            await self._close(watches, runtime)

    def _watched(self, resource: Resource) -> Watched | None:
        return self.watches.get(resource) if self.watches is not None else None

    async def _close(self, watches: Watches, runtime: Runtime) -> None:
        await watches.close()
        for served in watches:
            served.coordinator.close()
        runtime.invoker.stop_runs()
        await self._drain(watches)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(self._stop.remaining, _LAST_REMOVALS)):
                for served in watches:
                    await served.finalizers.settle()
        await runtime.events.flush(_LAST_EVENTS)
        runtime.invoker.threads.close()

    async def _drain(self, watches: Watches) -> None:
        """Give running handlers their grace, all at the same time, and name those that did not make use of it."""
        grace, remaining = self.settings.shutdown.grace, self._stop.remaining
        kinds = {id(served.coordinator): served for served in watches}  # versions of one kind share theirs
        unfinished, _ = await asyncio.gather(
            asyncio.gather(*(served.coordinator.drain(remaining) for served in kinds.values())),
            self._threads.wait(remaining),
        )
        for served, left in zip(kinds.values(), unfinished, strict=True):
            for lane, uid in left:
                logger.warning("%s on %s did not end within %g s and was cancelled.", lane, served.name_of(uid), grace)

    def stop(self) -> None:
        """Begin to stop. To be called in the loop's thread; more than once does no harm."""
        self._stop.ask()

    def lose_lead(self) -> None:
        """
        Another process leads: nothing is accepted, run, polled or written any more. Watches and stores go on.

        Writes are refused first, so that nothing that is being cancelled can still slip one through.
        """
        self._lead.lose()
        if self.runtime is not None and self.watches is not None:
            self.runtime.invoker.stop_runs()
            for served in self.watches:
                served.suspend()

    def gain_lead(self) -> None:
        """This process leads: every known object is reconciled."""
        self._lead.gain()
        for served in self.watches or ():
            served.resume()

    def stuck(self) -> list[str]:
        """What still runs in threads: nothing can end it but the end of the process."""
        handlers = self.runtime.invoker.threads.working() if self.runtime is not None else []
        return handlers + self._threads.working()
