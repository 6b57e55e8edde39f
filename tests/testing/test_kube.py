"""The real server as a fixture: it starts, answers, restarts, and leaves nothing behind."""

import shutil
import socket
import stat
import subprocess
import sys
import time
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


FOREVER = """
import sys
from opkit.testing.kube import KubeServer
server = KubeServer()
server.start()
print(server.port, flush=True)
sys.stdin.read()
"""


def test_server_ends_with_a_process_that_is_killed(kube_assets):
    """Even a test run that is killed leaves no server running."""
    command = [sys.executable, "-c", FOREVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline())
        process.kill()
    for _ in range(200):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)):
                return
        time.sleep(0.1)
    raise AssertionError("the server is still there")


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
