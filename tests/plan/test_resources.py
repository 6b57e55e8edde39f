"""Which names mean the same resource."""

import itertools

import pytest

from opkit.plan.resources import distinct, named


def names(*words):
    """What is left of these names, printed, in every order in which they may come."""
    orders = itertools.permutations(words)
    return {tuple(sorted(str(one) for one in distinct(named(word) for word in order))) for order in orders}


@pytest.mark.parametrize(
    "words, expected",
    [
        pytest.param(["webapps", ("example.com", "v1", "webapps")], ["webapps.v1.example.com"], id="bare-joins"),
        pytest.param(
            [("example.com", "webapps"), "webapps", ("example.com/v1", "webapps")],
            ["webapps.v1.example.com"],
            id="all-that-is-said",
        ),
        pytest.param(
            [("example.com/v1", "webapps"), ("example.com/v2", "webapps")],
            ["webapps.v1.example.com", "webapps.v2.example.com"],
            id="versions-are-two",
        ),
        pytest.param(
            [("a.com", "v1", "webapps"), ("b.com", "v1", "webapps"), "webapps"],
            ["webapps.v1.a.com", "webapps.v1.b.com"],
            id="ambiguous-adds-none",
        ),
        pytest.param(["apples", "pears"], ["apples", "pears"], id="other-names"),
        pytest.param(
            ["pods", ("metrics.k8s.io", "v1beta1", "pods")],
            ["pods", "pods.v1beta1.metrics.k8s.io"],
            id="bare-core-name-is-core",
        ),
        pytest.param(["Pod", ("v1", "Pod")], ["Pod.v1"], id="core-with-version"),
    ],
)
def test_distinct_resources_whatever_the_order(words, expected):
    """Names that mean one resource become one, in whatever order they come."""
    assert names(*words) == {tuple(expected)}


def test_keeps_the_order_of_first_mention():
    """Resources stay in the order in which the author named them."""
    words = ["zebras", ("example.com", "v1", "apes"), "bears", ("example.com", "v1", "zebras")]
    assert [one.name for one in distinct(named(word) for word in words)] == ["zebras", "apes", "bears"]
