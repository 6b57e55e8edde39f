"""kopf with one async handler of raw events that does nothing."""

from __future__ import annotations

from typing import Any

import kopf

from benchmarks.peers.observing import observe

# Without this kopf loads a client library, if one is installed, just to read the kubeconfig.
kopf.on.login()(kopf.login_with_kubeconfig)


@kopf.on.event("example.com", "v1", "widgets")
async def see(name: Any, **_: Any) -> None:
    observe(name)
