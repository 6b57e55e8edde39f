"""Which cluster a command means: `--kubeconfig` and `--context`."""

import os
import subprocess
import sys

import pytest
import yaml

from opkit.testing.embedded import EmbeddedCluster

HANDLERS = "import opkit\n@opkit.reconcile('v1', 'namespaces')\nasync def go(namespace): ...\n"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "handlers.py").write_text(HANDLERS)

    def run(*arguments, **environment):
        kept = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        return subprocess.run(
            [sys.executable, "-m", "opkit", "run", "handlers.py", *arguments], cwd=tmp_path, capture_output=True,
            env={**kept, "HOME": str(tmp_path / "nobody"), **environment}, text=True, timeout=60,
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster() as cluster:
        yield cluster


def with_contexts(cluster, path):
    """A kubeconfig whose current context leads nowhere; the other one is called `right`."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    (context,) = config["contexts"]
    config["clusters"].append({"name": "nowhere", "cluster": {"server": "http://127.0.0.1:9"}})
    wrong = {"name": "wrong", "context": {"cluster": "nowhere", "user": context["context"]["user"]}}
    config.update({"contexts": [{**context, "name": "right"}, wrong], "current-context": "wrong"})
    path.write_text(yaml.safe_dump(config))


def test_kubeconfig_is_taken_instead_of_the_environments(run, cluster):
    """The file that is named on the command line wins."""
    result = run("--kubeconfig", str(cluster.kubeconfig), "--until-idle", KUBECONFIG="/nowhere")
    assert result.returncode == 0 and "kube-system" in result.stdout


def test_context_is_taken_instead_of_the_current_one(run, cluster, tmp_path):
    """Of a file named here or by the environment."""
    with_contexts(cluster, tmp_path / "config")
    result = run("--kubeconfig", "config", "--context", "right", "--until-idle")
    assert result.returncode == 0 and "kube-system" in result.stdout
    assert run("--context", "right", "--until-idle", KUBECONFIG="config").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kubeconfig", "nofile"], "no such file: nofile"),
        (["--kubeconfig", "config", "--context", "nope"], "no context named 'nope'"),
        (["--context", "right"], "does not exist"),
        (["--kubeconfig", ""], "--kubeconfig is empty"),
        (["--kubeconfig", "handlers.py"], "not YAML"),
        (["--kubeconfig", "config", "--embedded"], "give one of them"),
    ],
    ids=str,
)
def test_what_is_missing_is_told_in_one_line(run, cluster, tmp_path, arguments, said):
    """A mistake of the caller's has status 2."""
    with_contexts(cluster, tmp_path / "config")
    result = run(*arguments)
    assert result.returncode == 2 and said in result.stderr and result.stderr.count("\n") == 1


def test_version_as_an_option(run, opkit_command):
    """`--version` says what `version` says."""
    assert opkit_command("--version").stdout == opkit_command("version").stdout
