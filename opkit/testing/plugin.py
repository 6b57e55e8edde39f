"""
The pytest plugin: fixtures and options. Imports nothing optional, and costs nothing where it is not used.

    event_injector      makes fake event injectors: `op = event_injector("handlers.py")`
    embedded_cluster    an embedded API server for the test, over HTTP
    kube_cluster        a real kube-apiserver for the session (needs KUBEBUILDER_ASSETS)

    --opkit-seed N              run every injector with this seed
    --opkit-interleavings N     run every test of `event_injector` with the seeds 0 to N-1
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from opkit.testing.embedded import EmbeddedCluster
    from opkit.testing.injector import FakeEventInjector
    from opkit.testing.kube import KubeServer

# Moments of a timeline that are shown when a test fails.
_LAST = 100

_SEED = "_opkit_seed"
_INJECTORS = pytest.StashKey[list[Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("opkit")
    group.addoption("--opkit-seed", type=int, default=None, help="seed of every event injector")
    group.addoption(
        "--opkit-interleavings", type=int, default=None, metavar="N",
        help="run each test of event_injector with N seeds, so in N interleavings",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "opkit_interleavings(n): run this test of event_injector with the seeds 0 to n-1"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "event_injector" not in metafunc.fixturenames:
        return
    seeds = _seeds(metafunc)
    if seeds is not None:
        metafunc.fixturenames.append(_SEED)
        metafunc.parametrize(_SEED, seeds, ids=[f"seed={seed}" for seed in seeds])


def _seeds(metafunc: pytest.Metafunc) -> list[int] | None:
    seed = metafunc.config.getoption("--opkit-seed")
    if seed is not None:
        return [seed]
    count = metafunc.config.getoption("--opkit-interleavings")
    marker = metafunc.definition.get_closest_marker("opkit_interleavings")
    if count is None and marker is not None:
        count = marker.args[0]
    return list(range(count)) if count is not None else None


@pytest.fixture
def event_injector(request: pytest.FixtureRequest) -> Iterator[Callable[..., FakeEventInjector]]:
    """Makes fake event injectors, and ends them with the test. Prints their timelines when it fails."""
    from opkit.testing.injector import FakeEventInjector
    from opkit.testing.sources import Code

    callspec = getattr(request.node, "callspec", None)
    seed = callspec.params.get(_SEED, 0) if callspec is not None else 0
    injectors: list[FakeEventInjector] = []
    request.node.stash[_INJECTORS] = injectors

    def make(handlers: Any, *args: Any, **options: Any) -> FakeEventInjector:
        options.setdefault("seed", seed)
        injector = FakeEventInjector(Code.of(handlers, beside=[request.path.parent]), *args, **options)
        injectors.append(injector)
        return injector

    yield make
    errors: list[BaseException] = []
    for injector in reversed(injectors):
        try:
            injector.close()
        except BaseException as error:
            errors.append(error)
    if errors:
        raise errors[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    for injector in item.stash.get(_INJECTORS, []) if report.failed else ():
        report.sections.append((f"opkit timeline (repeat with --opkit-seed={injector.seed})", injector.timeline(_LAST)))
    return report


@pytest.fixture
def embedded_cluster() -> Iterator[EmbeddedCluster]:
    """An embedded API server on loopback, in a thread of its own: `.url`, `.token`, `.kubeconfig`, `.store`."""
    from opkit.testing.embedded import EmbeddedCluster

    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kube_cluster() -> Iterator[KubeServer]:
    """A real kube-apiserver with etcd, shared by the session: `.url`, `.token`, `.kubeconfig`."""
    from opkit.testing.kube import KubeServer, assets_from_environment

    assets = assets_from_environment()
    if assets is None:
        pytest.skip("set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd, as envtest's users have it")
    with KubeServer(assets) as server:
        yield server
