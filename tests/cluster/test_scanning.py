"""Scanning: what the documents of a group say, and what is none."""

import asyncio

import pytest

from opkit.cluster import scanning
from opkit.cluster.scanning import scan_group, scan_groups
from opkit.errors import ApiError, NotFound

GROUP = {"versions": [{"version": "v2"}, {"version": "v1"}], "preferredVersion": {"version": "v2"}}
WEBS = {"resources": [{"name": "webs", "kind": "Web"}]}
SERVER = {"/apis/e.io": GROUP, "/apis/e.io/v2": WEBS, "/apis/e.io/v1": WEBS, "/apis": {"groups": [{"name": "e.io"}]}}

NONSENSE = [
    pytest.param({}, id="empty"),
    pytest.param([], id="a-list"),
    pytest.param(None, id="null"),
    pytest.param("<html>", id="text"),
    pytest.param({"kind": "Status", "code": 200, "status": "Success"}, id="a-status"),
    pytest.param({"resources": {}, "versions": "v1", "groups": 7}, id="no-lists"),
    pytest.param(ApiError("down", status=503), id="down"),
]


@pytest.fixture
def scan():
    """Scan a group, or the groups, of a server with some answers replaced."""

    def run(group=None, **answers):
        async def get(path):
            answer = {**SERVER, **answers}.get(path, NotFound(path))
            if isinstance(answer, Exception):
                raise answer
            return await answer() if callable(answer) else answer

        return asyncio.run(scan_groups(get) if group is None else scan_group(get, group))

    return run


def test_all_versions_of_a_group_are_found(scan):
    """The preferred one is known."""
    assert [(one.version, one.preferred) for one in scan("e.io")] == [("v2", True), ("v1", False)]
    assert not scan("e.io").failed


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_for_a_version_is_no_empty_version(scan, nonsense):
    """It could not be discovered, and the other versions could."""
    found = scan("e.io", **{"/apis/e.io/v2": nonsense})
    assert [one.version for one in found] == ["v1"] and found.failed == {"v2"}


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_for_a_group_is_an_error(scan, nonsense):
    """So that nothing of it counts as gone."""
    with pytest.raises(ApiError):
        scan("e.io", **{"/apis/e.io": nonsense})
    with pytest.raises(ApiError):
        scan("", **{"/api/v1": nonsense})
    with pytest.raises(ApiError):
        scan(**{"/apis": nonsense})


def test_what_is_not_there_is_empty(scan):
    """A group that is gone, a version that is gone, and lists that are null."""
    assert scan("other.io") == [] and scan("e.io", **{"/apis/e.io": {"versions": None}}) == []
    found = scan("e.io", **{"/apis/e.io/v2": NotFound("gone"), "/apis/e.io/v1": {"resources": None}})
    assert found == [] and not found.failed


def test_a_version_that_hangs_harms_only_itself(scan, monkeypatch):
    """It is given up after a while."""
    monkeypatch.setattr(scanning, "_PATIENCE", 0.05)
    found = scan("e.io", **{"/apis/e.io/v2": asyncio.Event().wait})
    assert [one.version for one in found] == ["v1"] and found.failed == {"v2"}


@pytest.mark.parametrize("status", [0, 401, 429])
def test_what_is_not_about_the_group_is_told(scan, status):
    """No answer, wrong credentials, too many requests."""
    with pytest.raises(ApiError):
        scan("e.io", **{"/apis/e.io/v2": ApiError.of(status)})
