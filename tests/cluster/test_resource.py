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


@pytest.mark.parametrize(
    "words, said",
    [
        (("example.com", "webapps", "v1"), '("example.com", "v1", "webapps")'),
        (("webapps", "v1"), '("v1", "webapps")'),
        (("v1", "apps", "deployments"), '("apps", "v1", "deployments")'),
        (("v1", "webapps", "example.com"), '("example.com", "v1", "webapps")'),
        (("webapps", "example.com/v1"), '("example.com/v1", "webapps")'),
        (("", "configmaps", "v1"), '("v1", "configmaps")'),
    ],
    ids=str,
)
def test_swapped_words_are_told_in_their_order(words, said):
    """A version in another one's place is seen; the words are shown as they should be."""
    with pytest.raises(TypeError) as caught:
        ResourceSelector.parse(*words)
    assert "swapped" in str(caught.value) and said in str(caught.value)


@pytest.mark.parametrize(
    "words, said",
    [
        (("Example.com", "v1", "webapps"), "API group"),
        (("example.com", "V1", "webapps"), "API version"),
        (("example com", "v1", "webapps"), "API group"),
        (("example_com", "v1", "webapps"), "API group"),
        (("Example.com/v1", "webapps"), "API group"),
        (("example.com", "v1", "web apps"), "name of a resource"),
        (("example.com", "v1", "web_apps"), "name of a resource"),
        (("example.com", "v1", " webapps"), "name of a resource"),
        (("example.com", "v1", "webapps.example.com"), "name of a resource"),
        (("example.com", "v1", "webapps/status"), "subresource"),
        (("v1", "pods/log"), "subresource"),
        (("pods/status",), "subresource"),
        (("*",), "names no resource"),
        (("example.com", "v1", "*"), "names no resource"),
        (("*", "v1", "webapps"), "names no resource"),
        (("v1",), "is a version"),
        (("v1", "v1"), "is a version"),
        (("x" * 64,), "name of a resource"),
    ],
    ids=str,
)
def test_what_no_server_can_have_is_refused(words, said):
    """Each is told in one line that says what is expected."""
    with pytest.raises(TypeError) as caught:
        ResourceSelector.parse(*words)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        ("deployments",),
        ("webApp",),
        ("x-k8s.io", "v1alpha1", "my-things"),
        ("pods.v1.",),
        ("example.com", "stable", "a1"),
    ],
    ids=str,
)
def test_unusual_names_are_taken(words):
    """What some server may have is left to the server."""
    assert ResourceSelector.parse(*words).name == words[-1].partition(".")[0]
