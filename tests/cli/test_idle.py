"""`opkit run --until-idle`: it ends, with 0 when all is done and with 1 and the reason when that will not be."""

import os
import subprocess
import sys

import pytest

from opkit.testing.embedded import EmbeddedCluster
from tests.cli.test_run import DEFINITION

HANDLER = """
import asyncio, itertools, logging, sys
import opkit
calls = itertools.count(1)

@opkit.reconcile("v1", "configmaps", label_selector="x"{options})
async def go(cm):
    {body}
"""

MISSING = "import opkit\n@opkit.reconcile('example.com', 'v1', 'widgets')\nasync def go(widget): ...\n"

MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default, labels: {x: '1'}}\n"


@pytest.fixture
def run(tmp_path):
    """Run handlers until idle."""

    def run(source, *arguments, embedded=True, manifest=MANIFEST, timeout=40, **environment):
        (tmp_path / "handlers.py").write_text(source)
        (tmp_path / "manifest.yaml").write_text(manifest)
        if embedded:
            arguments = ["--embedded", "--apply", "manifest.yaml", *arguments]
        command = [sys.executable, "-m", "opkit", "run", "handlers.py", "--until-idle", *arguments]
        kept = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        return subprocess.run(
            command, cwd=tmp_path, env={**kept, **environment}, capture_output=True, text=True, timeout=timeout
        )

    return run


@pytest.mark.parametrize(
    ("options", "body"),
    [
        pytest.param("", "raise opkit.TemporaryError('not yet', delay=2)", id="temporary"),
        pytest.param("", "return opkit.failure('not yet', requeue_after=0.2)", id="failure"),
        pytest.param(", retry=opkit.Retry(initial=0.1, factor=1)", "raise ValueError('not yet')", id="retry"),
        pytest.param(
            ", retry=opkit.Retry(initial=0.05, factor=1)",
            "await asyncio.sleep(0.5)\n    raise ValueError('not yet')",
            id="always-running",
        ),
        pytest.param("", "raise opkit.PermanentError('not yet')", id="permanent"),
        pytest.param("", "raise opkit.TemporaryError('not yet', delay=600)", id="much-later"),
    ],
)
def test_what_keeps_failing_ends_it(run, options, body):
    """Three failed attempts in a row are enough, whatever the delays are; the summary names the object and why."""
    result = run(HANDLER.format(options=options, body=body))
    assert result.returncode == 1
    assert "Failed: default/a fails: " in result.stdout and "not yet" in result.stdout


def test_what_succeeds_in_the_end_is_a_success(run):
    """Two failures are no reason to give up."""
    body = "if next(calls) < 3:\n        raise opkit.TemporaryError('not yet', delay=0.5)"
    result = run(HANDLER.format(options="", body=body))
    assert result.returncode == 0 and "Failed" not in result.stdout


def test_repetition_is_no_reason_to_wait(run):
    """What is asked for again by a success is not waited for."""
    assert run(HANDLER.format(options="", body="return opkit.success(requeue_after=1)")).returncode == 0


def test_missing_definition_is_named(run):
    """Handlers for what is not served do nothing: that is no success."""
    result = run(MISSING)
    assert result.returncode == 1
    assert "Failed: widgets.v1.example.com is not served: apply its CustomResourceDefinition" in result.stdout


def test_definition_that_was_just_applied_is_waited_for(run):
    """It counts as served, though it takes a moment until it is."""
    assert run(MISSING, manifest=DEFINITION).returncode == 0


def test_timeout_names_what_was_due(run):
    """After `--timeout` it ends, and says what it waited for."""
    result = run(HANDLER.format(options="", body="raise opkit.TemporaryError('not yet', delay=4.9)"), "--timeout", "8")
    assert result.returncode == 1 and "Failed: not idle within 8 s: go of default/a is due in" in result.stdout


def test_what_can_not_be_listed_ends_it(run):
    """A stream that is refused for all its life is named."""
    with EmbeddedCluster() as cluster:
        cluster.call(lambda: cluster.faults.fail("list", "configmaps").times(1000, status=403))
        source = HANDLER.format(options="", body="pass")
        result = run(source, embedded=False, KUBECONFIG=str(cluster.kubeconfig))
    assert result.returncode == 1 and "Failed: configmaps" in result.stdout and "can't be listed" in result.stdout


def test_timeout_is_for_until_idle(tmp_path):
    """Alone it would say nothing."""
    command = [sys.executable, "-m", "opkit", "run", "handlers.py", "--timeout", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and "--until-idle" in done.stderr
