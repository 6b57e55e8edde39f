"""`opkit apiserver`: it serves, keeps its state, and ends on a signal."""

import signal
import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner

from opkit.cli.apiserver import apiserver

RUN = "from opkit.cli.apiserver import apiserver; apiserver()"
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\ndata: {a: b}\n"


@pytest.fixture
def start(tmp_path):
    """Start it in a process of its own; gives the process once it listens. All are ended."""
    running = []

    def run(*args):
        command = [sys.executable, "-c", RUN, "--kubeconfig", str(tmp_path / "kc"), *map(str, args)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert "listens on http://127.0.0.1:" in process.stdout.readline()
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


def kubectl(tmp_path, *args):
    command = ["kubectl", "--kubeconfig", str(tmp_path / "kc"), *args]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_on_a_signal(start, number):
    """The first signal ends it, with status 0."""
    process = start()
    process.send_signal(number)
    assert process.wait(10) == 0


def test_applied_objects_and_changes_survive_a_restart(start, tmp_path):
    """What --apply names is there from the start; --data keeps everything between runs."""
    (tmp_path / "map.yaml").write_text(CONFIG_MAP)
    process = start("--data", tmp_path / "state", "--apply", tmp_path / "map.yaml")
    assert kubectl(tmp_path, "get", "configmap", "first", "-o", "jsonpath={.data.a}") == "b"
    kubectl(tmp_path, "create", "namespace", "second")
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    start("--data", tmp_path / "state")
    assert "second" in kubectl(tmp_path, "get", "namespaces")
    assert kubectl(tmp_path, "get", "configmap", "first", "-o", "jsonpath={.data.a}") == "b"


def test_kubeconfig_names_the_server(start, tmp_path):
    """The kubeconfig is complete, and private."""
    start()
    config = yaml.safe_load((tmp_path / "kc").read_text())
    assert config["clusters"][0]["cluster"]["server"].startswith("http://127.0.0.1:")
    assert (tmp_path / "kc").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("name", "text", "option"),
    [
        pytest.param("bad.yaml", "a: [", "--apply", id="manifest"),
        pytest.param("state", "nonsense", "--data", id="state"),
    ],
)
def test_bad_files_are_one_clear_line(tmp_path, name, text, option):
    """What can't be used is named, with status 1 and without a traceback."""
    path = tmp_path / name
    path.write_text(text)
    result = CliRunner().invoke(apiserver, [option, str(path)])
    assert result.exit_code == 1 and name in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_options_are_checked():
    """A port is a number, what is applied exists: status 2."""
    for args in (["--port", "99999"], ["--apply", "/does/not/exist"]):
        assert CliRunner().invoke(apiserver, args).exit_code == 2
