"""Strategic merge patches in the detail that kubectl uses."""

import pytest

from opkit.errors import ApiError
from opkit.simulation.strategic import apply_strategic_patch

CONTAINERS = [
    {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}]},
    {"name": "b", "image": "b:1"},
]


def containers(patch):
    document = {"spec": {"containers": [dict(item) for item in CONTAINERS]}}
    return apply_strategic_patch(document, {"spec": patch}, "Pod")["spec"].get("containers")


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({"containers": [{"name": "b", "image": "b:2"}]}, [("a", "a:1"), ("b", "b:2")], id="merge-by-key"),
        pytest.param(
            {"containers": [{"name": "c", "image": "c:1"}]},
            [("a", "a:1"), ("b", "b:1"), ("c", "c:1")],
            id="add",
        ),
        pytest.param({"containers": [{"name": "a", "$patch": "delete"}]}, [("b", "b:1")], id="delete"),
        pytest.param({"containers": [{"$patch": "replace"}, {"name": "z", "image": "z"}]}, [("z", "z")], id="replace"),
        pytest.param(
            {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                "containers": [{"name": "a", "image": "a:2"}],
            },
            [("b", "b:1"), ("a", "a:2")],
            id="order",
        ),
        pytest.param(
            {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]},
            [("b", "b:1"), ("a", "a:1")],
            id="order-alone",
        ),
    ],
)
def test_lists_with_keys(patch, expected):
    """Items are found by their key; directives delete, replace and order them."""
    assert [(item["name"], item["image"]) for item in containers(patch)] == expected


def test_nested_lists_with_keys():
    """Lists inside of items are merged as well."""
    merged = containers({"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]})
    assert [item["name"] for item in merged[0]["env"]] == ["X", "Y"]


def test_null_removes_a_list():
    """As in a merge patch."""
    assert containers({"containers": None}) is None


def test_sets_of_texts():
    """Finalizers are a set: added to, and removed from by a directive."""
    document = {"metadata": {"finalizers": ["a/b", "c/d"]}}
    added = apply_strategic_patch(document, {"metadata": {"finalizers": ["e/f", "a/b"]}}, "Pod")
    assert added["metadata"]["finalizers"] == ["a/b", "c/d", "e/f"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b", "c/d", "e/f"]}}
    assert apply_strategic_patch(added, patch, "Pod") == {"metadata": {}}


def test_retained_keys():
    """All other keys go."""
    document = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert apply_strategic_patch(document, patch, "Deployment") == {"spec": {"strategy": {"type": "Recreate"}}}


def test_ports_are_told_apart_by_what_their_kind_says():
    """A Service's by port, a container's by containerPort; a NetworkPolicy's are replaced."""
    service = {"spec": {"ports": [{"port": 1, "name": "a"}]}}
    merged = apply_strategic_patch(service, {"spec": {"ports": [{"port": 1, "name": "b"}, {"port": 2}]}}, "Service")
    assert merged["spec"]["ports"] == [{"port": 1, "name": "b"}, {"port": 2}]
    policy = {"spec": {"ports": [{"port": 1}]}}
    assert apply_strategic_patch(policy, {"spec": {"ports": [{"port": 2}]}}, "NetworkPolicy")["spec"]["ports"] == [
        {"port": 2}
    ]


@pytest.mark.parametrize(
    "patch", [[], "text", {"spec": {"containers": [{"image": "x"}]}}, {"spec": {"containers": ["x"]}}]
)
def test_nonsense_is_400(patch):
    """What can't be merged is refused."""
    with pytest.raises(ApiError) as caught:
        apply_strategic_patch({"spec": {"containers": []}}, patch, "Pod")
    assert caught.value.status == 400
