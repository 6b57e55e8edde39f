"""
The settings: a tree of dataclasses, changed by startup handlers, frozen from then on.

All times are seconds.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import os
from typing import Any

from opkit.retry import Retry


class ReconcileStrategy(enum.StrEnum):
    """Which updates of a primary object are worth a run, before the author's own filters."""

    BY_GENERATION = "by-generation"
    """Those that change `metadata.generation`: the spec, not labels, annotations or status."""

    BY_RESOURCE_VERSION = "by-resource-version"
    """Every real change, except the operator's own writes."""


class WatchStrategy(enum.StrEnum):
    """Who applies label selectors when several controllers look at one resource."""

    PER_CONTROLLER = "per-controller"
    """The server: one watch per resource, namespace and selector."""

    SHARED = "shared"
    """opkit: one watch per resource and namespace."""


class ConflictStrategy(enum.StrEnum):
    """What becomes of a request whose object is being run already."""

    WAIT = "wait"
    """It is kept, merged with others of its object, and run right after."""

    DISCARD = "discard"
    """It is dropped and counted; a later event, a relist or the resync brings the change back."""

    REQUEUE_AFTER_DELAY = "requeue-after-delay"
    """It is put back for `parallel.requeue_delay` seconds; its attempt is kept."""


class OnLeave(enum.StrEnum):
    """What becomes of our finalizers on an object that no selector matches any more."""

    DETACH = "detach"
    """They are removed without being run."""

    FINALIZE = "finalize"
    """They are run, and removed when they succeeded."""

    KEEP = "keep"
    """They stay, and the object is watched on: for its deletion they run."""


class QueueStrategy(enum.StrEnum):
    """The queue that comes with opkit; an object that implements the queue protocol may stand in its place."""

    IN_MEMORY = "in-memory"


class LeaderElectionMode(enum.StrEnum):
    """How replicas agree on who works."""

    NONE = "none"
    SINGLE = "single"
    SCOPED = "scoped"
    CUSTOM = "custom"


@dataclasses.dataclass
class _Group:
    """A branch of the tree. Once frozen it can't be changed any more."""

    def __post_init__(self) -> None:
        self.__dict__["_frozen"] = False

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__dict__.get("_frozen"):
            raise AttributeError(
                f"settings are frozen once the operator has started; set {name!r} in a startup handler"
            )
        if "_frozen" in self.__dict__ and name not in self.__dataclass_fields__:
            names = ", ".join(sorted(self.__dataclass_fields__))
            raise AttributeError(f"there is no setting {name!r} here; there are: {names}")
        default = getattr(type(self), name, None)
        if isinstance(default, enum.Enum) and isinstance(value, str) and not isinstance(value, enum.Enum):
            value = _word(name, value, type(default))
        super().__setattr__(name, value)

    def freeze(self) -> None:
        """Refuse every later change, here and in the branches below."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, _Group):
                value.freeze()
        self.__dict__["_frozen"] = True


def _word(name: str, value: str, kind: type[enum.Enum]) -> enum.Enum:
    """The value that a word stands for. Raises `ValueError` with all that there are."""
    try:
        return kind(value)
    except ValueError:
        words = ", ".join(str(one.value) for one in kind)
        raise ValueError(f"the setting {name!r} is one of {words}, not {value!r}") from None


@dataclasses.dataclass
class ReconcileSettings(_Group):
    strategy: ReconcileStrategy = ReconcileStrategy.BY_GENERATION
    """For controllers that name none of their own."""

    resync: float | None = 36_000.0
    """Seconds after its last run at which an object is reconciled anyway, +-10 %; `None` turns it off."""

    timeout: float | None = None
    """Seconds for one run of a handler; `None` lets it take as long as it takes."""


@dataclasses.dataclass
class WatchSettings(_Group):
    strategy: WatchStrategy = WatchStrategy.PER_CONTROLLER

    keep_managed_fields: bool = False
    """Keep `metadata.managedFields` in memory and show it to handlers. Often half of an object's size."""

    chunk_size: int = 500
    """Objects per page of a list."""

    cached_first_list: bool = True
    """Begin with what the server has at hand, as other frameworks do; its changes since then follow at once. Off, the
    server reads everything from its database first, which takes it several times as long."""

    reconnect_backoff: float = 1.0
    """Seconds before a failed stream is started again the first time; doubled up to 32, with jitter."""

    server_timeout: float = 300.0
    """Seconds after which the server is asked to end a watch cleanly, so that no connection grows old."""

    inactivity_timeout: float = 90.0
    """Seconds without an event or bookmark (servers send one a minute) after which a watch counts as dead."""


@dataclasses.dataclass
class ParallelSettings(_Group):
    limit: int = dataclasses.field(default_factory=lambda: (os.cpu_count() or 1) * 2)
    """Runs at once, for each resource."""

    conflict: ConflictStrategy = ConflictStrategy.WAIT

    requeue_delay: float = 5.0
    """Seconds that `ConflictStrategy.REQUEUE_AFTER_DELAY` waits."""

    threads: int | None = None
    """Threads for handlers written with a plain `def`; `None` makes as many as runs are allowed."""


@dataclasses.dataclass
class FinalizerSettings(_Group):
    auto_attach: bool = True
    """Attach declared finalizers before the reconcile handler is called."""

    auto_detach: bool = True
    """Remove a finalizer from the object right after its handler succeeded."""

    on_leave: OnLeave = OnLeave.DETACH
    """What becomes of our finalizers on an object that leaves the last selector. The words may be given as text."""


@dataclasses.dataclass
class LeaderElectionSettings(_Group):
    mode: LeaderElectionMode = LeaderElectionMode.NONE
    lease_name: str | None = None
    lease_namespace: str | None = None
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


@dataclasses.dataclass
class QueueSettings(_Group):
    strategy: QueueStrategy | Any = QueueStrategy.IN_MEMORY


@dataclasses.dataclass
class ShutdownSettings(_Group):
    grace: float = 25.0
    """Seconds that running handlers get after the first signal, before they are cancelled."""


@dataclasses.dataclass
class Settings(_Group):
    """All that can be set. See each group."""

    reconcile: ReconcileSettings = dataclasses.field(default_factory=ReconcileSettings)
    watch: WatchSettings = dataclasses.field(default_factory=WatchSettings)
    parallel: ParallelSettings = dataclasses.field(default_factory=ParallelSettings)
    retry: Retry = dataclasses.field(default_factory=Retry)
    finalizers: FinalizerSettings = dataclasses.field(default_factory=FinalizerSettings)
    leader_election: LeaderElectionSettings = dataclasses.field(default_factory=LeaderElectionSettings)
    queue: QueueSettings = dataclasses.field(default_factory=QueueSettings)
    shutdown: ShutdownSettings = dataclasses.field(default_factory=ShutdownSettings)

    name: str = "opkit"
    """The operator's name: field manager of its writes and source of its Events."""

    def check(self) -> None:
        """Raise `ValueError`, in one line, for values that no operator can work with."""
        if self.parallel.limit < 1 or (self.parallel.threads is not None and self.parallel.threads < 1):
            raise ValueError("parallel.limit and parallel.threads are whole numbers from 1 on")
        times = {
            "reconcile.resync": self.reconcile.resync,
            "reconcile.timeout": self.reconcile.timeout,
            "parallel.requeue_delay": self.parallel.requeue_delay,
            "shutdown.grace": self.shutdown.grace,
        }
        for name, value in times.items():
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is seconds, finite and not negative, not {value!r}")
        if self.leader_election.mode is not LeaderElectionMode.NONE:
            raise ValueError(
                f"leader_election.mode {self.leader_election.mode} is not supported yet: run one replica, with the "
                "deployment strategy Recreate"
            )

    @property
    def kopf(self) -> Any:
        """kopf's own settings object, for what opkit does not name. Imports kopf when first asked for."""
        existing = self.__dict__.get("_kopf")
        if existing is None:
            import kopf

            existing = self.__dict__["_kopf"] = kopf.OperatorSettings()
        return existing
