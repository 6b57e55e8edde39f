"""
Observing: the body of every peer's handler.

`BENCHMARK_REPORT` tells what is reported to whoever started the peer, one line each:

    count:N   a line when N calls have been made
    name:X    a line for each call for an object of that name
    each      a line for each call
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any


def _report(name: str) -> None:
    print("seen", name, time.monotonic(), flush=True)


def _counting(target: int) -> Callable[[Any], None]:
    calls = 0

    def observe(name: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == target:
            _report(name)

    return observe


def _looking_for(wanted: str) -> Callable[[Any], None]:
    def observe(name: Any) -> None:
        if name == wanted:
            _report(name)

    return observe


def _made(report: str) -> Callable[[Any], None]:
    kind, _, detail = report.partition(":")
    if kind == "count":
        return _counting(int(detail))
    return _looking_for(detail) if kind == "name" else _report


observe = _made(os.environ.get("BENCHMARK_REPORT", "each"))
