"""The samples: each compiles, and its manifests are of the resources that it serves."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from opkit.cli.loading import load

SAMPLES = Path(__file__).parents[2] / "samples"
FOLDERS = sorted(path for path in SAMPLES.iterdir() if (path / "handlers.py").exists())


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def sample(request, folder):
    """The folder of one sample; what is imported from it is forgotten afterwards."""
    return request.param


def documents(sample):
    """All manifests of a sample."""
    files = sorted((sample / "manifests").glob("*.yaml"))
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def test_sample_compiles(sample, opkit_command):
    """`opkit check` has nothing to say about a sample."""
    result = opkit_command("check", str(sample))
    assert (result.exit_code, result.stderr) == (0, "")


def test_sample_has_an_object_of_each_resource(sample):
    """Each resource of the plan has a definition, unless it is built in, and an example."""
    crds = {
        one["spec"]["names"]["plural"]: one for one in documents(sample) if "spec" in one and "names" in one["spec"]
    }
    kinds = {one["kind"] for one in documents(sample)}
    for resource in load([sample]).compile().resources:
        name, group, version = resource.resource.name, resource.resource.group, resource.resource.version
        if not group:
            assert "ConfigMap" in kinds
            continue
        definition = crds[name]["spec"]
        assert (definition["group"], definition["versions"][0]["name"]) == (group, version)
        assert definition["names"]["kind"] in kinds


def test_sample_explains_itself(sample):
    """Each sample has a README with the command that runs it."""
    assert f"samples/{sample.name}/handlers.py" in (sample / "README.md").read_text()


def test_sample_runs_on_an_embedded_server(sample):
    """Each sample reconciles its own manifests over HTTP, and has nothing to complain of."""
    command = [sys.executable, "-m", "opkit", "run", str(sample / "handlers.py"), "--embedded", "--until-idle"]
    result = subprocess.run(
        [*command, "--apply", str(sample / "manifests")], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "success" in result.stdout
    assert "failure" not in result.stdout
