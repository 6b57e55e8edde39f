"""
A real etcd and kube-apiserver for tests, from the binaries that envtest users have.

Takes the folder that `KUBEBUILDER_ASSETS` names; gives a server on free loopback ports with a token of an
administrator and a kubeconfig. Never leaves a process or a file behind, whatever happens in between: both are
stopped at the end of the `with` block, or else at the interpreter's exit. There is no scheduler, no kubelet
and no controller in it, so Pods stay pending and nothing collects garbage.

    with KubeServer() as server:
        subprocess.run(["kubectl", "--kubeconfig", server.kubeconfig, "get", "namespaces"])
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import http.client
import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import yaml

from opkit.errors import OpkitError

# An elliptic-curve private key (P-256, RFC 5915) around its 32 secret bytes; the public half follows.
_KEY_PREFIX, _KEY_SUFFIX = bytes.fromhex("30310201010420"), bytes.fromhex("a00a06082a8648ce3d030107")

_POLL = 0.05
_ATTEMPTS = 3


class KubeServerError(OpkitError):
    """The server could not be started: binaries are missing, or it ended; the text has the end of its log."""


def assets_from_environment() -> Path | None:
    """The folder with the binaries that `KUBEBUILDER_ASSETS` names, if it does."""
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    return Path(folder) if folder else None


class KubeServer:
    """
    One etcd and one kube-apiserver.

    `url`, `token`, `certificate` (a file: the authority to trust) and `kubeconfig` (a file with mode 0600)
    are valid after `start()`. All methods block; all but `stop()` raise `KubeServerError`.
    """

    def __init__(self, assets: str | os.PathLike[str] | None = None, *, timeout: float = 60.0) -> None:
        folder = Path(assets) if assets is not None else assets_from_environment()
        if folder is None:
            raise KubeServerError("set KUBEBUILDER_ASSETS to the folder that holds etcd and kube-apiserver")
        for binary in ("etcd", "kube-apiserver"):
            if not os.access(folder / binary, os.X_OK):
                raise KubeServerError(f"there is no program {binary} in {folder}, which KUBEBUILDER_ASSETS names")
        self._assets = folder
        self._timeout = timeout
        self._etcd: _Process | None = None
        self._apiserver: _Process | None = None
        self.directory = Path()
        self.port = self._etcd_port = 0
        self.token = secrets.token_hex(16)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def certificate(self) -> Path:
        return self.directory / "apiserver.crt"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def __enter__(self) -> KubeServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start both with an empty state, and wait until the API server says that it is ready."""
        self.directory = Path(tempfile.mkdtemp(prefix="opkit-kube-"))
        atexit.register(self.stop)
        try:
            self._write_credentials()
            self._start_etcd()
            self.start_apiserver()
            self._write_kubeconfig()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop both and remove their files. May be called again."""
        atexit.unregister(self.stop)
        self.stop_apiserver()
        if self._etcd is not None:
            self._etcd.stop()
            self._etcd = None
        if self.directory != Path():
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = Path()

    def stop_apiserver(self, *, kill: bool = False) -> None:
        """
        Stop the API server alone; its objects stay in etcd, its port is kept for `start_apiserver`.

        It finishes what it has begun, unless it is killed.
        """
        if self._apiserver is not None:
            self._apiserver.stop(kill=kill)
            self._apiserver = None

    def start_apiserver(self) -> None:
        """Start the API server (again, on the same port) and wait until it is ready."""
        for attempt in range(1, _ATTEMPTS + 1):
            self.port = self.port or _free_port()
            self._apiserver = _Process(self._apiserver_command(), self.directory / "apiserver.log")
            try:
                self._wait(self._apiserver, self._is_ready)
                return
            except KubeServerError:
                # Someone else may have taken the port since it was found free.
                self.stop_apiserver()
                if attempt == _ATTEMPTS or self.kubeconfig.exists():
                    raise
                self.port = 0

    def restart(self) -> None:
        """Stop and start the API server: streams are cut, and versions from before are too old to watch."""
        self.stop_apiserver()
        self.start_apiserver()

    def compact(self) -> None:
        """
        Let etcd forget its history: continuation tokens end; after a `restart()` older versions are gone.
        """
        answer = self._ask_etcd("/v3/kv/range", {"key": base64.b64encode(b"\0").decode()})
        revision = answer["header"]["revision"]
        with contextlib.suppress(KubeServerError):  # compacted at this very revision before
            self._ask_etcd("/v3/kv/compaction", {"revision": revision, "physical": True})

    def _start_etcd(self) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            self._etcd_port, peer_port = _free_port(), _free_port()
            self._etcd = _Process(self._etcd_command(peer_port), self.directory / "etcd.log")
            try:
                self._wait(self._etcd, self._is_etcd_healthy)
                return
            except KubeServerError:
                self._etcd.stop()
                shutil.rmtree(self.directory / "etcd", ignore_errors=True)
                if attempt == _ATTEMPTS:
                    raise

    def _etcd_command(self, peer_port: int) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{peer_port}"
        return [
            str(self._assets / "etcd"),
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # the state lives no longer than the test
        ]

    def _apiserver_command(self) -> list[str]:
        key = self.directory / "service-accounts.key"
        return [
            str(self._assets / "kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.directory}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",  # no controller makes the accounts that it asks for
            "--allow-privileged=true",
        ]

    def _write_credentials(self) -> None:
        key = base64.b64encode(_KEY_PREFIX + secrets.token_bytes(32) + _KEY_SUFFIX).decode()
        pem = f"-----BEGIN EC PRIVATE KEY-----\n{key[:64]}\n{key[64:]}\n-----END EC PRIVATE KEY-----\n"
        _write_private(self.directory / "service-accounts.key", pem)
        _write_private(self.directory / "tokens.csv", f'{self.token},admin,admin,"system:masters"\n')

    def _write_kubeconfig(self) -> None:
        cluster = {"server": self.url, "certificate-authority": str(self.certificate)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "kube",
            "contexts": [{"name": "kube", "context": {"cluster": "kube", "user": "admin", "namespace": "default"}}],
            "clusters": [{"name": "kube", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
        }
        _write_private(self.kubeconfig, yaml.safe_dump(config))

    def _wait(self, process: _Process, is_ready: Any) -> None:
        deadline = time.monotonic() + self._timeout
        while not is_ready():
            if process.has_ended:
                raise KubeServerError(f"{process.name} ended at once; the end of its log: {process.log_tail()}")
            if time.monotonic() > deadline:
                raise KubeServerError(f"{process.name} was not ready in {self._timeout:g} s: {process.log_tail()}")
            time.sleep(_POLL)  # a process that starts tells nobody when it is ready

    def _is_ready(self) -> bool:
        if not self.certificate.exists():
            return False
        try:
            context = ssl.create_default_context(cafile=self.certificate)
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=5, context=context)
            with contextlib.closing(connection):
                connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {self.token}"})
                return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False  # not yet; whether the process has ended is asked by the caller

    def _is_etcd_healthy(self) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self._etcd_port, timeout=5)
            with contextlib.closing(connection):
                connection.request("GET", "/health")
                return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    def _ask_etcd(self, path: str, body: dict[str, Any]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._etcd_port, timeout=30)
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps(body))
            response = connection.getresponse()
            text = response.read()
            if response.status != 200:
                raise KubeServerError(f"etcd answers {response.status}: {text.decode(errors='replace')}")
            return json.loads(text)


# Stands between us and a program: when our end of the pipe closes, for whatever reason, the program is ended; at once,
# and without being asked, if that is what the pipe says.
_KEEPER = """
import subprocess, sys, threading
program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
def end():
    program.kill() if sys.stdin.buffer.read() == b"kill" else program.terminate()
    try:
        program.wait(10)
    except subprocess.TimeoutExpired:
        program.kill()
threading.Thread(target=end, daemon=True).start()
sys.exit(program.wait())
"""


class _Process:
    """A program that runs beside us, its output in a file. It ends when we do, even if we are killed."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.name = Path(command[0]).name
        self._log_path = log
        self._log: IO[bytes] = open(log, "ab")  # noqa: SIM115  (it stays open as long as the process)
        self._popen = subprocess.Popen(
            [sys.executable, "-c", _KEEPER, *command],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,  # an interrupt at the terminal is ours to deal with
        )

    @property
    def has_ended(self) -> bool:
        return self._popen.poll() is not None

    def stop(self, *, kill: bool = False) -> None:
        """Ask it to end, and after 10 seconds end it; or end it at once."""
        assert self._popen.stdin is not None
        if kill:
            self._popen.stdin.write(b"kill")
        self._popen.stdin.close()
        self._popen.wait()
        self._log.close()

    def log_tail(self) -> str:
        return self._log_path.read_text(errors="replace")[-2000:]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
