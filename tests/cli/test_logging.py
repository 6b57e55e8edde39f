"""Logs that an author configures: opkit's lines go where the author sends them, and none is lost or doubled."""

import ast
import logging
import logging.config
import os
import subprocess
import sys
from pathlib import Path

import pytest

import opkit
from opkit.cli import logs

CONFIG = """{"version": 1, "handlers": {"c": {"class": "logging.StreamHandler"}},
             "root": {"handlers": ["c"], "level": "%s"}}"""
FILE = "[loggers]\nkeys=root\n[handlers]\nkeys=c\n[formatters]\nkeys=\n[logger_root]\nlevel=INFO\nhandlers=c\n"
FILE += "[handler_c]\nclass=StreamHandler\nargs=()\n"

HANDLERS = """
import logging, logging.config
import opkit
{at_import}

@opkit.startup()
def start(settings):
    {at_start}

@opkit.reconcile("v1", "configmaps", label_selector="x", retry=opkit.Retry(attempts=1))
def go(name, logger):
    {in_handler}
    logger.info("WORDS")
    raise ValueError("boom")
"""

MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default, labels: {x: '1'}}\n"


@pytest.fixture
def said(tmp_path):
    """What such an operator says."""

    def run(at_import="", at_start="pass", in_handler="pass"):
        source = HANDLERS.format(at_import=at_import, at_start=at_start, in_handler=in_handler)
        (tmp_path / "handlers.py").write_text(source)
        (tmp_path / "cm.yaml").write_text(MANIFEST)
        (tmp_path / "logging.ini").write_text(FILE)
        (tmp_path / "later.py").write_text(f"import logging.config\nlogging.config.dictConfig({CONFIG % 'INFO'})\n")
        command = [sys.executable, "-m", "opkit", "run", "handlers.py", "--embedded", "--apply", "cm.yaml"]
        environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        done = subprocess.run(
            [*command, "--until-idle"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
        )
        return done.stderr

    return run


@pytest.mark.parametrize(
    "where",
    [
        pytest.param({}, id="nowhere"),
        pytest.param({"at_import": f"logging.config.dictConfig({CONFIG % 'INFO'})"}, id="at-import"),
        pytest.param({"at_start": f"logging.config.dictConfig({CONFIG % 'INFO'})"}, id="at-start"),
        pytest.param({"in_handler": "import later"}, id="imported-later"),
        pytest.param({"at_import": "logging.config.fileConfig('logging.ini')"}, id="file"),
        pytest.param({"at_start": "logging.config.fileConfig('logging.ini')"}, id="file-at-start"),
        pytest.param({"at_import": "logging.basicConfig(force=True, level='INFO')"}, id="basic"),
    ],
)
def test_each_line_is_told_once(said, where):
    """Whenever logging is configured, the failure and the handler's own line are there, once."""
    text = said(**where)
    assert text.count("WORDS") == 1 and text.count("go failed (attempt 1): ValueError: boom") == 1


def test_level_of_the_author_holds(said):
    """Who wants only warnings gets those."""
    text = said(at_import=f"logging.config.dictConfig({CONFIG % 'WARNING'})")
    assert "WORDS" not in text and "boom" in text


def test_opkit_may_be_silenced_on_purpose(said):
    """A level that is set for opkit's loggers holds."""
    text = said(at_start="logging.getLogger('opkit').setLevel(logging.CRITICAL)")
    assert "WORDS" not in text and "boom" not in text


def test_every_logger_of_opkit_is_kept():
    """All names under which opkit logs are known where they are kept, so that none is missing when it is made later."""
    names = set()
    for path in Path(opkit.__file__).parent.rglob("*.py"):
        module = ".".join(["opkit", *path.relative_to(Path(opkit.__file__).parent).with_suffix("").parts])
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "getLogger" and node.args:
                name = node.args[0]
                names.add(name.value if isinstance(name, ast.Constant) else module if name.id == "__name__" else None)
    assert {name for name in names if name and name.startswith("opkit")} <= set(logs._OURS)


def test_what_is_off_on_purpose_stays_off():
    """Nothing switches on the logger that would tell of single requests."""
    import opkit.cluster.kopf_client  # noqa: F401

    logs.keep_switched_on()
    logging.config.dictConfig({"version": 1, "incremental": True})
    assert logging.getLogger("opkit.cluster.requests").disabled
