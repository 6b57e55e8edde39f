"""How authors name resources: kopf's grammar, and which names may mean one resource."""

import pytest

from opkit.cluster.resource import Resource, ResourceSelector

WEBAPPS = Resource("example.com", "v1", "webapps", kind="WebApp", singular="webapp", shortcuts=frozenset({"wa"}))
PODS = Resource("", "v1", "pods", kind="Pod", singular="pod", shortcuts=frozenset({"po"}))
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", kind="PodMetrics")


@pytest.mark.parametrize(
    "words, group, version, name",
    [
        (("example.com", "v1", "webapps"), "example.com", "v1", "webapps"),
        (("example.com/v1", "webapps"), "example.com", "v1", "webapps"),
        (("example.com", "webapps"), "example.com", None, "webapps"),
        (("v1", "configmaps"), "", "v1", "configmaps"),
        (("", "v1", "configmaps"), "", "v1", "configmaps"),
        (("webapps.v1.example.com",), "example.com", "v1", "webapps"),
        (("webapps.example.com",), "example.com", None, "webapps"),
        (("webapps",), None, None, "webapps"),
        (("WebApp",), None, None, "WebApp"),
    ],
    ids=str,
)
def test_words_of_a_decorator(words, group, version, name):
    """The positional arguments name a resource as in kopf's decorators."""
    assert ResourceSelector.parse(*words) == ResourceSelector(name, group, version)


@pytest.mark.parametrize(
    "words", [(), ("",), (1,), (None, "v1", "pods"), ("", "pods"), ("a", "", "b"), ("a/v1",), tuple("abcd")], ids=str
)
def test_nonsense_is_one_sentence(words):
    """Anything else is a TypeError in one line."""
    with pytest.raises(TypeError) as caught:
        ResourceSelector.parse(*words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["webapps", "webapp", "WebApp", "wa"])
def test_any_of_its_names_matches(name):
    """Plural, singular, kind and short name mean the same resource."""
    assert ResourceSelector(name).select([PODS, WEBAPPS]) == [WEBAPPS]


def test_core_group_hides_namesakes():
    """A bare name means the core resource, as in kubectl; the other one needs its group."""
    assert ResourceSelector("pods").select([POD_METRICS, PODS]) == [PODS]
    assert ResourceSelector("pods", group="metrics.k8s.io").select([POD_METRICS, PODS]) == [POD_METRICS]


@pytest.mark.parametrize("resource", [WEBAPPS, PODS])
def test_a_resources_own_words_name_it(resource):
    """What a resource unpacks to can be given where a resource is named."""
    assert ResourceSelector.parse(*resource).select([WEBAPPS, PODS, POD_METRICS]) == [resource]


@pytest.mark.parametrize(
    "one, other, expected",
    [
        (("webapps",), ("example.com", "v1", "webapps"), True),
        (("example.com", "webapps"), ("example.com/v1", "webapps"), True),
        (("example.com/v1", "webapps"), ("example.com/v2", "webapps"), False),
        (("v1", "pods"), ("metrics.k8s.io", "v1beta1", "pods"), False),
        (("webapps",), ("webapp",), False),
    ],
    ids=str,
)
def test_words_that_may_mean_one_resource(one, other, expected):
    """As far as words alone can tell, without a server."""
    first, second = ResourceSelector.parse(*one), ResourceSelector.parse(*other)
    assert first.may_equal(second) is expected and second.may_equal(first) is expected
