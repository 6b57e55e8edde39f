"""Patterns of namespaces."""

import pytest

from opkit.simulation.topology import matches


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        pytest.param("default", "default", True, id="name"),
        pytest.param("default", "default2", False, id="other-name"),
        pytest.param("team-*", "team-a", True, id="glob"),
        pytest.param("team-*, other", "other", True, id="one-of-several"),
        pytest.param("team-*,!team-b", "team-b", False, id="excluded"),
        pytest.param("!kube-*", "kube-system", False, id="only-exclusion-excludes"),
        pytest.param("!kube-*", "default", True, id="only-exclusion-includes-the-rest"),
        pytest.param("*,!kube-*,kube-public", "kube-public", True, id="last-one-decides"),
        pytest.param("", "default", False, id="empty"),
    ],
)
def test_patterns(pattern, name, expected):
    """Globs with commas between them; the last that fits decides; a leading exclusion includes the rest."""
    assert matches(name, pattern) is expected
