"""`opkit run`: an operator from handler files, until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import click

from opkit import health
from opkit.cli.children import children_hear_their_own_signals
from opkit.cli.connecting import chosen_cluster
from opkit.cli.failure import Failure, told_plainly
from opkit.cli.idle import IdleWatch
from opkit.cli.loading import load
from opkit.cli.logs import LogFormat, configure
from opkit.cli.signals import Signals, leave_behind
from opkit.cli.summary import Summary
from opkit.clock import Clock, LoopClock
from opkit.errors import ApiError, CredentialsError
from opkit.operator import Operator
from opkit.settings import ReconcileStrategy, Settings
from opkit.watchdog import Watchdog

logger = logging.getLogger("opkit.run")

# Seconds for tasks that are cancelled at the very end.
_LAST_WORDS = 1.0

Door = Callable[[Operator, str, Clock], contextlib.AbstractAsyncContextManager[int]]
"""Serves something of an operator at an address, and gives the port."""

_STRATEGIES = [strategy.value for strategy in ReconcileStrategy]

_FORMATS = [log_format.value for log_format in LogFormat]


def _logging_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of logging, with kopf's names and meanings."""

    @click.option("-v", "--verbose", is_flag=True, help="Log at debug level.")
    @click.option("-d", "--debug", is_flag=True, help="Also log what libraries say, and show tracebacks.")
    @click.option("-q", "--quiet", is_flag=True, help="Log only warnings and errors.")
    @click.option("--log-format", type=click.Choice(_FORMATS), default="full", show_default=True)
    @click.option("--log-prefix/--no-log-prefix", default=None, help="Put [namespace/name] before messages.")
    @click.option("--log-refkey", help="Key of the object's reference in JSON logs.  [default: object]")
    @functools.wraps(function)
    def wrapper(
        verbose: bool, debug: bool, quiet: bool, log_format: str, log_prefix: bool | None, log_refkey: str | None,
        **options: Any,
    ) -> Any:  # fmt: skip
        configure(
            verbose=verbose, debug=debug, quiet=quiet, log_format=LogFormat(log_format),
            prefix=log_prefix, reference_key=log_refkey,
        )  # fmt: skip
        with told_plainly(debug=debug):
            return function(**options)

    return wrapper


@click.command()
@click.argument("paths", nargs=-1)
@click.option("-m", "--module", "modules", multiple=True, help="A module with handlers. May be repeated.")
@click.option("-n", "--namespace", "namespaces", multiple=True, help="A namespace, or a pattern. May be repeated.")
@click.option("-A", "--all-namespaces", "clusterwide", is_flag=True, help="Serve all namespaces.")
@click.option("--kubeconfig", metavar="FILE", help="The kubeconfig to connect by, instead of KUBECONFIG.")
@click.option("--context", metavar="NAME", help="The context of the kubeconfig, instead of its current one.")
@click.option("--embedded", is_flag=True, help="Start an API server in this process, and connect to that.")
@click.option("--apply", "applied", multiple=True, help="Manifests for the embedded server, a file or a folder.")
@click.option("--data", type=click.Path(dir_okay=False), help="A file that keeps the embedded server's state.")
@click.option("--until-idle", is_flag=True, help="End with a summary once everything is reconciled.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Limits --until-idle.")
@click.option("--strategy", type=click.Choice(_STRATEGIES), help="Which updates are worth a run.")
@click.option("--parallel", type=click.IntRange(min=1), help="Runs at once, for each resource.")
@click.option("-L", "--liveness", "liveness", metavar="URL", help="Serve the health, as http://0.0.0.0:8080/healthz.")
@click.option("--trigger", "trigger", metavar="ADDRESS", help="Take triggers over HTTP, as on 127.0.0.1:8090.")
@click.option("--trigger-token", metavar="FILE", help="A file with the bearer token for --trigger.")
@click.option("--standalone", is_flag=True, hidden=True, help="As in kopf; opkit is always standalone so far.")
@_logging_options
def run(
    paths: tuple[str, ...],
    modules: tuple[str, ...],
    namespaces: tuple[str, ...],
    clusterwide: bool,
    kubeconfig: str | None,
    context: str | None,
    embedded: bool,
    applied: tuple[str, ...],
    data: str | None,
    until_idle: bool,
    timeout: float | None,
    strategy: str | None,
    parallel: int | None,
    liveness: str | None,
    trigger: str | None,
    trigger_token: str | None,
    standalone: bool,
) -> int:
    """
    Run an operator from the handlers in PATHS until it gets a signal.

    The first SIGINT or SIGTERM lets running handlers finish, the second ends everything at once.
    """
    if not paths and not modules:
        raise click.UsageError("name a file with handlers, as in `opkit run handlers.py`, or a module by -m")
    if namespaces and clusterwide:
        raise click.UsageError("either --namespace or --all-namespaces can be used, not both")
    if applied and not embedded:
        raise click.UsageError("--apply is for the embedded server: add --embedded, or use `kubectl apply -f`")
    if data and not embedded:
        raise click.UsageError("--data is for the embedded server: add --embedded")
    if timeout is not None and not until_idle:
        raise click.UsageError("--timeout limits --until-idle, which is not given")
    if embedded and (kubeconfig or context):
        raise click.UsageError("--kubeconfig and --context name another cluster than --embedded: give one of them")
    doors: list[tuple[Door, str, str]] = []
    if liveness is not None:
        doors.append((health.served, liveness, "the health"))
    if trigger is not None:
        doors.append((functools.partial(_taking_triggers, token=_read_token(trigger_token)), trigger, "triggers"))
    settings = Settings()
    if strategy is not None:
        settings.reconcile.strategy = ReconcileStrategy(strategy)
    if parallel is not None:
        settings.parallel.limit = parallel
    summary = Summary() if until_idle else None
    operator = Operator(
        registry=load(paths, modules), settings=settings, namespaces=namespaces, clusterwide=clusterwide,
        onlooker=summary, kubeconfig=kubeconfig, context=context,
    )  # fmt: skip
    idle = IdleWatch(operator, summary, timeout) if summary is not None else None
    collect_rarely()
    with contextlib.ExitStack() as stack:
        stack.enter_context(chosen_cluster(kubeconfig, context))
        stack.enter_context(children_hear_their_own_signals())
        runner = stack.enter_context(asyncio.Runner(loop_factory=_loop_factory()))
        server = _embedded(applied, data) if embedded else None
        signals = Signals(operator)
        status = 1
        try:
            status = runner.run(_run(operator, idle, signals, server=server, doors=doors))
        finally:
            signals.bound_the_end(status)
        unstoppable = runner.run(_cancel_tasks())
        if stuck := [f"{what} still runs in a thread" for what in operator.stuck()] + unstoppable:
            # They would be waited for for ever: threads by the interpreter, tasks by the runner.
            leave_behind(stuck, status)
    return status


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's loop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def collect_rarely() -> None:
    """
    Set the garbage collector's thresholds to what suits an operator.

    Most of what it allocates are the bodies of objects, which live long and form no cycles. The usual thresholds would
    look through all of them again and again: a third of the time of a large first list.
    """
    gc.set_threshold(50_000, 20, 50)


async def _run(
    operator: Operator,
    idle: IdleWatch | None,
    signals: Signals,
    *,
    server: contextlib.AbstractAsyncContextManager[None] | None,
    doors: Sequence[tuple[Door, str, str]],
) -> int:
    loop = asyncio.get_running_loop()
    signals.attach(loop)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(Watchdog(loop, patience=signals.patience, give_up=signals.give_up))
        if server is not None:
            await stack.enter_async_context(server)
        for door, address, what in doors:
            await stack.enter_async_context(_opened(door, operator, address, what))
        waiting = asyncio.create_task(idle.run(), name="until idle") if idle else None
        try:
            await operator.run()
        except ApiError as error:
            raise CredentialsError(
                f"the API server refuses the credentials ({error}); check the kubeconfig in "
                f"{os.environ.get('KUBECONFIG') or '~/.kube/config'}"
            ) from error
        finally:
            if waiting is not None:
                waiting.cancel()
    return idle.report() if idle is not None else 0


async def _cancel_tasks() -> list[str]:
    """Cancel what handlers have started and forgotten; the names of tasks that don't let themselves be cancelled."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    pending = (await asyncio.wait(tasks, timeout=_LAST_WORDS))[1] if tasks else set()
    return [f"the task {task.get_name()} refuses to be cancelled" for task in pending]


@contextlib.asynccontextmanager
async def _opened(door: Door, operator: Operator, address: str, what: str) -> AsyncIterator[None]:
    """Open a door of the operator to the outside; what is wrong with its address is the user's to know."""
    try:
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(door(operator, address, LoopClock()))
            except ValueError as error:
                raise click.UsageError(str(error)) from error
            except OSError as error:
                raise Failure(f"{what} can't be served at {address}: {error.strerror or error}") from error
            yield
    finally:
        logger.debug("No longer serving %s at %s.", what, address)


def _taking_triggers(
    operator: Operator, address: str, clock: Clock, token: str
) -> contextlib.AbstractAsyncContextManager[int]:
    from opkit import trigger_server

    return trigger_server.served(operator, address, token, clock)


def _read_token(file: str | None) -> str:
    if file is None:
        raise click.UsageError("--trigger needs --trigger-token FILE: a file with the token that callers have to send")
    try:
        with open(file, encoding="utf-8") as opened:
            token = opened.read().strip()
    except OSError as error:
        raise click.UsageError(f"the token for triggers can't be read from {file}: {error.strerror}") from error
    if not token:
        raise click.UsageError(f"the file {file} holds no token for triggers")
    return token


@contextlib.asynccontextmanager
async def _embedded(applied: tuple[str, ...], data: str | None) -> AsyncIterator[None]:
    """An API server in this process, which the operator connects to over HTTP as to any other."""
    # Loaded here: an operator on a real cluster needs no server.
    from opkit.cli.embedded import embedded_server

    async with embedded_server(applied, data) as kubeconfig:
        before = os.environ.get("KUBECONFIG")
        os.environ["KUBECONFIG"] = str(kubeconfig)
        click.echo(f"The embedded API server is up. To look into it: export KUBECONFIG={kubeconfig}", err=True)
        try:
            yield
        finally:
            if before is None:
                del os.environ["KUBECONFIG"]
            else:
                os.environ["KUBECONFIG"] = before
