"""
Testing: unmodified handlers in virtual time, against a faithful store.

    injector      the fake event injector: the one thing that a test needs
    plugin        pytest's fixtures and options
    kube          a real etcd and kube-apiserver, from envtest's binaries

and what the injector is made of: `virtual` (the loop), `process` (an operator in it), `recorder` (what was seen),
`references` (how tests name objects), `definitions` (the CRDs that handlers need), `sources` (where handlers come
from), `failures` (what went wrong unnoticed).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opkit.testing.injector import FakeEventInjector
    from opkit.testing.kube import KubeServer

__all__ = ["FakeEventInjector", "KubeServer"]


def __getattr__(name: str) -> Any:
    # The pytest plugin is imported by every test session of its environment: it must not load all of this.
    if name == "FakeEventInjector":
        from opkit.testing.injector import FakeEventInjector

        return FakeEventInjector
    if name == "KubeServer":
        from opkit.testing.kube import KubeServer

        return KubeServer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
