"""opkit with one async handler that does nothing."""

from __future__ import annotations

from typing import Any

import opkit
from benchmarks.peers.observing import observe


@opkit.reconcile("example.com", "v1", "widgets")
async def reconcile(name: Any, **_: Any) -> None:
    observe(name)
