"""
Testing: unmodified handlers in virtual time, against a faithful store.

    injector      the fake event injector: the one thing that a test needs
    plugin        pytest's fixtures and options
    queues        the tests that every queue has to pass
    embedded      an embedded API server in a thread
    kube          a real etcd and kube-apiserver, from envtest's binaries

and what the injector is made of: `virtual` (the loop), `process` (an operator in it), `recorder` (what was seen),
`references` (how tests name objects), `definitions` (the CRDs that handlers need), `sources` (where handlers come
from), `failures` (what went wrong unnoticed).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opkit.testing.injector import FakeEventInjector
    from opkit.testing.kube import KubeServer
    from opkit.testing.queues import QueueConformance

__all__ = ["FakeEventInjector", "KubeServer", "QueueConformance"]

_MODULES = {"FakeEventInjector": "injector", "KubeServer": "kube", "QueueConformance": "queues"}


def __getattr__(name: str) -> Any:
    # The pytest plugin is imported by every test session of its environment: it must not load all of this.
    if name in _MODULES:
        return getattr(importlib.import_module(f"opkit.testing.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
