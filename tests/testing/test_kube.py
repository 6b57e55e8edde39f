"""The real server as a fixture: it starts, answers, restarts, and leaves nothing behind."""

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from opkit.testing.kube import KubeServer, KubeServerError

pytestmark = pytest.mark.kube


def kubectl(server, *args):
    command = ["kubectl", "--kubeconfig", server.kubeconfig, *args]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_kubeconfig_is_private_and_works(kube):
    """The kubeconfig is readable by its owner only, and kubectl accepts it."""
    assert stat.S_IMODE(kube.kubeconfig.stat().st_mode) == 0o600
    assert "kube-system" in kubectl(kube, "get", "namespaces")


def test_restart_keeps_the_objects(kube_assets):
    """Restarting the API server alone keeps its address and its objects; compaction does no harm to them."""
    with KubeServer() as server:
        kubectl(server, "create", "namespace", "kept")
        url = server.url
        server.compact()
        server.compact()
        server.restart()
        assert server.url == url
        assert "kept" in kubectl(server, "get", "namespaces")
        directory = server.directory
    assert not directory.exists()


def test_missing_binaries_are_named(tmp_path):
    """A folder without the programs is an error that names what is missing."""
    with pytest.raises(KubeServerError, match="etcd"):
        KubeServer(tmp_path)


def test_server_that_ends_at_once_is_reported(tmp_path):
    """A program that does not come up is an error with the end of its log, and nothing is left running."""
    shutil.copy("/bin/false", tmp_path / "etcd")
    shutil.copy("/bin/false", tmp_path / "kube-apiserver")
    server = KubeServer(tmp_path)
    with pytest.raises(KubeServerError, match="ended at once"):
        server.start()
    assert not server.kubeconfig.exists()
    assert server.directory == Path()
