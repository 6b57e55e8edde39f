"""
What authors' type checkers see of opkit. Checked by mypy, never run.

An expected error carries a `type: ignore` with its code: mypy reports it when the error is gone.
"""

from __future__ import annotations

from typing import assert_type

import opkit
from opkit import Body


@opkit.reconcile(
    "example.com",
    "v1",
    "webapps",
    controller="web",
    label_selector={"app": "shop"},
    on_update=lambda new, old: new.spec != old.spec,
    on_delete=lambda body, final_state_unknown: final_state_unknown,
    generic=lambda body: bool(body.labels),
    owns=["configmaps", ("apps", "v1", "deployments")],
    retry=opkit.Retry(attempts=3),
    strategy=opkit.ReconcileStrategy.BY_GENERATION,
    timeout=1.5,
    resync=None,
)
async def web(webapp: Body, attempt: int) -> opkit.Result:
    return opkit.success(requeue_after=60)


async def call_it() -> None:
    # A decorated function keeps its type: a test can call it.
    assert_type(await web(Body(), 1), opkit.Result)
    await web("no body", 1)  # type: ignore[arg-type]


@opkit.filter.update
def image_changed(new: Body, old: Body) -> bool:
    return new.spec.get("image") != old.spec.get("image")


@opkit.filter.generic
def is_paused(body: dict[str, object]) -> bool:
    return bool(body.get("paused"))


@opkit.filter.generic("webapps", controller="web")
def is_public(body: Body) -> bool:
    return True


# Bare, a decorator gives a filter; with a resource, the function as it was.
assert_type(image_changed, opkit.filter.Filter)
assert_type(image_changed & ~is_paused, opkit.filter.Filter)
assert_type(is_public(Body()), bool)


@opkit.finalizer("webapps", name="example.com/dns", when=is_paused, order=1)
def drop_dns(name: str) -> None: ...


@opkit.delete("webapps")
def gone(body: Body, reason: opkit.DeleteReason) -> None: ...


@opkit.secondary("secrets", of=("example.com", "v1", "webapps"))
def of_secret(secret: Body) -> list[str]:
    return [secret.labels["webapp"]]


@opkit.poll(of="webapps", interval=30)
async def bills() -> dict[str, int]:
    return {}


@opkit.startup()
def start(settings: opkit.Settings) -> None:
    settings.parallel.limit = 4
    settings.reconcile.strategy = "always"  # type: ignore[assignment]


assert_type(drop_dns("shop"), None)
assert_type(of_secret(Body()), list[str])
assert_type(opkit.Registry().compile(), opkit.Plan)
assert_type(opkit.failure("no quota", requeue_after=5), opkit.Result)

# Mistakes that an editor shows before `opkit check` does.
opkit.reconcile("webapps", labels={"a": "b"})  # type: ignore[call-arg]
opkit.reconcile("webapps", retry=3)  # type: ignore[arg-type]
opkit.reconcile("webapps", timeout="5")  # type: ignore[arg-type]
opkit.finalizer("webapps", order="first")  # type: ignore[arg-type]
opkit.filter.update(lambda new: True)  # type: ignore[arg-type, misc]
