"""
Idle: when `opkit run --until-idle` has done what there was to do, or will never have.

Takes a running operator and the summary of its calls; stops the operator, and gives what went wrong, each in one line.
Nothing wrong means that everything is listed and reconciled.
"""

from __future__ import annotations

from collections.abc import Collection

import click

from opkit.cli.summary import Summary
from opkit.clock import LoopClock
from opkit.operator import Operator, Pending
from opkit.triggers import Trigger

# Retries that are due within this time are waited for; what fails for longer has failed.
_WAIT_FOR_RETRIES = 5.0

# So many failed attempts in a row: it keeps failing, however soon the next one comes.
_ATTEMPTS = 3

# Nothing may be due for this long before it is called idle: events of the last writes are still on their way.
_QUIET = 0.3
_LOOK = 0.05

# Seconds for a definition that was just applied to be established and discovered.
_PATIENCE = 5.0

# Seconds for a server that does not say what it serves.
_DISCOVERY = 30.0

# A stream that has failed so often and never listed will not.
_REFUSALS = 3

_NOT_DUE = frozenset({Trigger.RESYNC, Trigger.REQUEUE})

# So many of what is still due are named.
_NAMED = 5


class IdleWatch:
    """Watches one operator until it is idle, hopeless or out of time."""

    def __init__(self, operator: Operator, summary: Summary, timeout: float | None) -> None:
        self._operator = operator
        self._summary = summary
        self._timeout = timeout
        self._failing: set[str] = set()
        self._incomplete_since: float | None = None
        self.problems: list[str] = []
        """What went wrong beside single calls, each one line."""

    async def run(self) -> None:
        """Stop the operator when there is nothing to wait for."""
        clock = LoopClock()
        began, quiet_since = clock.now(), None
        while quiet_since is None or clock.now() - quiet_since < _QUIET:
            await clock.sleep(_LOOK)
            now = clock.now()
            waiting = self._waiting_for(now)
            if self._timeout is not None and now - began >= self._timeout:
                self.problems.append(f"not idle within {self._timeout:g} s: {_few(waiting) or 'events still come in'}")
                break
            if waiting:
                quiet_since = None
            elif quiet_since is None:
                quiet_since = now
        self._conclude()
        self._operator.stop()

    def report(self) -> int:
        """Print what happened; the exit status."""
        click.echo(str(self._summary))
        for problem in self.problems:
            click.echo(f"Failed: {problem}")
        return 1 if self._summary.failed or self.problems else 0

    def _waiting_for(self, now: float) -> list[str]:
        """What is still to be waited for, each in a few words."""
        unserved = self._operator.unserved()
        if unserved is None:
            return self._still(now, "the operator has not connected yet", self._operator.is_connected, _DISCOVERY)
        if unserved:
            return self._still(now, f"{', '.join(unserved)} is not served", True, _PATIENCE) or self._due()
        if waiting := [f"{one} is not listed" for one in self._unlisted(hopeless=False)]:
            return waiting
        self._incomplete_since = None
        return self._due()

    def _still(self, now: float, what: str, counts: bool, patience: float) -> list[str]:
        if self._incomplete_since is None or not counts:
            self._incomplete_since = now
        return [what] if now - self._incomplete_since < patience else []

    def _unlisted(self, *, hopeless: bool) -> list[str]:
        """Streams that have listed nothing: those that may yet, or those that will not."""
        streams = [stream for stream in self._operator.statistics().streams if not stream.listed]
        return [str(stream.scope) for stream in streams if (stream.failures >= _REFUSALS) is hopeless]

    def _due(self) -> list[str]:
        pending = self._operator.pending()
        self._failing = self._keep_failing(pending)
        return [_shown(one) for one in pending if one.key not in self._failing and _counts(one)]

    def _keep_failing(self, pending: Collection[Pending]) -> set[str]:
        """The objects whose last attempts failed. One that runs now is what it was before."""
        running = {one.key for one in pending if one.running}
        by_attempt = {one.key for one in pending if one.attempt > _ATTEMPTS}
        return by_attempt | self._summary.keep_failing(_ATTEMPTS) | (self._failing & running)

    def _conclude(self) -> None:
        for resource in self._operator.unserved() or ():
            self.problems.append(f"{resource} is not served: apply its CustomResourceDefinition")
        if self._operator.unserved() is None and not self.problems:
            self.problems.append("the API server does not say what it serves")
        for scope in self._unlisted(hopeless=True):
            self.problems.append(f"{scope} can't be listed: see the log for the server's answer")
        for name, why in self._operator.statistics().failing.items():
            self.problems.append(f"{name} fails: {why}" if why else f"{name} fails")


def _counts(one: Pending) -> bool:
    """Whether it is worth waiting for: what runs, and what is due soon for more than a repetition."""
    return one.running or (not one.triggers <= _NOT_DUE and one.due_in <= _WAIT_FOR_RETRIES)


def _shown(one: Pending) -> str:
    return f"{one.lane} of {one.name} {'runs' if one.running else f'is due in {one.due_in:.1f} s'}"


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
