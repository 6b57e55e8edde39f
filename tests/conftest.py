"""What all tests share: the real server, started once for a session; and that no test's output shows a secret."""

import os
import re

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


# What secrets look like in this suite: servers' random tokens, headers, keys, and those that tests make up, as they
# are and as they stand in the data of a Secret.
SECRETS = re.compile(r"\b[0-9a-f]{32}\b|Bearer [^\s*.]|PRIVATE KEY|nobody-may-see|bm9ib2R5LW1heS1zZW|m9ib2R5LW1heS1zZW")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Fail a test whose logs or output, which a user would see too, have a secret in them."""
    report = yield
    told = [title for title, text in report.sections if SECRETS.search(text)]
    if told and report.passed:
        report.outcome, report.longrepr = "failed", f"a secret is in: {', '.join(told)}"
    return report
