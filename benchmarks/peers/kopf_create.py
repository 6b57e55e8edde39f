"""kopf with one async handler of creations and updates that does nothing: what kopf has for a reconciliation."""

from __future__ import annotations

from typing import Any

import kopf

from benchmarks.peers.observing import observe

# Without this kopf loads a client library, if one is installed, just to read the kubeconfig.
kopf.on.login()(kopf.login_with_kubeconfig)


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False  # Kubernetes Events would be requests that opkit does not make either


@kopf.on.create("example.com", "v1", "widgets")
@kopf.on.update("example.com", "v1", "widgets")
async def handle(name: Any, **_: Any) -> None:
    observe(name)
