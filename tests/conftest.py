"""What all tests share: the real server, started once for a session."""

import os

import pytest

from opkit.testing.kube import KubeServer, assets_from_environment


@pytest.fixture(scope="session")
def kube_assets():
    """The folder with the real server's binaries. Without it the test is skipped; in CI (`CI` is set) it fails."""
    if assets_from_environment() is None:
        message = "KUBEBUILDER_ASSETS does not name a folder with etcd and kube-apiserver"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return assets_from_environment()


@pytest.fixture(scope="session")
def kube(kube_assets):
    """A real kube-apiserver, shared by all tests of a session."""
    with KubeServer() as server:
        yield server
