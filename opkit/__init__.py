"""
opkit: Kubernetes operators as plain, decorated Python functions, reconciled level-triggered.

The way of an object through the house, one line per room:

    declaration    decorators note what an author wrote
    filter         event filters as values, and the default ones
    plan           declarations compiled to a plan, or every problem at once     <- what `opkit check` prints
    operator       connects the rooms below, owns the order of start and stop
    flow.stream        a watch as events, restarted whatever ends it
    flow.store         the last body of each UID: events become additions, updates, deletions
    flow.sieve         selectors and filters: a request, or a refusal with its reason
    flow.queue         one waiting request per object, due times, merging
    flow.coordinator   a slot and the object's lock together; puts requests back by their outcome
    flow.reconcile     finalizers, arguments, the call of the author's function
    flow.results       what came of the call: an outcome, patches, the write guard
    cluster        what all of them see of an API server
    simulation     the same, in memory and without time
    apiserver      the simulation behind HTTP
    testing        the fake event injector and pytest's fixtures
    cli            `opkit run`, `check`, `apiserver`, `version`

Where to start reading: `plan.plan` for what an operator is, then the flow from `stream` down to `results`.
Importing this package loads no event loop, no API client and no server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opkit import filter
from opkit.cluster.body import Body
from opkit.declaration.decorators import (
    delete,
    finalizer,
    login,
    poll,
    probe,
    reconcile,
    secondary,
    shutdown,
    startup,
)
from opkit.declaration.registry import Registry
from opkit.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    CredentialsError,
    Forbidden,
    Invalid,
    NotFound,
    OpkitError,
    PermanentError,
    Problem,
    RegistrationError,
    TemporaryError,
    TooManyRequests,
    Unreachable,
)
from opkit.plan.plan import Plan
from opkit.results import Result, failure, success
from opkit.retry import Retry
from opkit.settings import (
    ConflictStrategy,
    LeaderElectionMode,
    QueueStrategy,
    ReconcileStrategy,
    Settings,
    WatchStrategy,
)
from opkit.triggers import DeleteReason, Trigger

if TYPE_CHECKING:
    from opkit.operator import Operator

__all__ = [
    "AlreadyExists",
    "ApiError",
    "Body",
    "Conflict",
    "ConflictStrategy",
    "CredentialsError",
    "DeleteReason",
    "Forbidden",
    "Invalid",
    "LeaderElectionMode",
    "NotFound",
    "Operator",
    "OpkitError",
    "PermanentError",
    "Plan",
    "Problem",
    "QueueStrategy",
    "ReconcileStrategy",
    "RegistrationError",
    "Registry",
    "Result",
    "Retry",
    "Settings",
    "TemporaryError",
    "TooManyRequests",
    "Trigger",
    "Unreachable",
    "WatchStrategy",
    "delete",
    "failure",
    "filter",
    "finalizer",
    "login",
    "poll",
    "probe",
    "reconcile",
    "secondary",
    "shutdown",
    "startup",
    "success",
]


def __getattr__(name: str) -> Any:
    # The operator brings the event loop and kopf's client, which a handler module has no use for.
    if name == "Operator":
        from opkit.operator import Operator

        return Operator
    raise AttributeError(f"module 'opkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
