"""The part of JSONPath that columns and scales use."""

import pytest

from opkit.simulation import jsonpath

DOCUMENT = {
    "spec": {"replicas": 3, "off": None, "a.b": 1, "items": [{"name": "x", "v": 1}, {"name": "y", "v": 2}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(".spec.replicas", [3], id="field"),
        pytest.param(".spec.absent.deep", [], id="absent"),
        pytest.param(".spec.off", [], id="null"),
        pytest.param(".spec['a.b']", [1], id="quoted"),
        pytest.param(".spec.a\\.b", [1], id="escaped"),
        pytest.param(".spec.items[1].name", ["y"], id="index"),
        pytest.param(".spec.items[-1].name", ["y"], id="index-from-the-end"),
        pytest.param(".spec.items[9].name", [], id="no-such-index"),
        pytest.param(".spec.items[*].v", [1, 2], id="all"),
        pytest.param('.status.conditions[?(@.type=="Ready")].status', ["True"], id="filter"),
        pytest.param(".spec.items[?bad].v", [], id="unknown-syntax"),
        pytest.param(".spec.replicas.deeper", [], id="below-a-number"),
    ],
)
def test_paths(path, expected):
    """A path finds what is there; a path that can't be read finds nothing."""
    assert jsonpath.find(DOCUMENT, path) == expected
