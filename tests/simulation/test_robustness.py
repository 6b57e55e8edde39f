"""Whatever is sent, the store either does it or raises an ApiError that is the client's fault."""

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opkit.errors import ApiError
from opkit.simulation.deletion import DeleteOptions
from opkit.simulation.writes import Options

from .conftest import DEFINITION, Clock, make_store

JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "x/y", "é"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "a", "spec"]), inner, max_size=2)
    ),
    max_leaves=4,
)
POD = {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1}], "env": [{"name": "e"}]}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
WORKLOAD = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
BODIES = {
    ("", "pods"): {"spec": POD, "status": {"phase": "Running"}},
    ("", "services"): {"spec": {"ports": [{"port": 1}]}},
    ("", "configmaps"): {"data": {"a": "b"}, "binaryData": {"a": "YQ=="}},
    ("", "secrets"): {"data": {"a": "YQ=="}, "stringData": {"a": "b"}, "type": "Opaque"},
    ("", "namespaces"): {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
    ("", "events"): {"involvedObject": {"namespace": "default"}, "message": "m", "eventTime": None},
    ("apps", "deployments"): {"spec": WORKLOAD},
    ("apps", "statefulsets"): {"spec": WORKLOAD},
    ("batch", "jobs"): {"spec": {"template": TEMPLATE}},
    ("batch", "cronjobs"): {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}},
    ("coordination.k8s.io", "leases"): {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 1}},
    ("rbac.authorization.k8s.io", "rolebindings"): {"roleRef": {"name": "a"}, "subjects": [{"name": "a"}]},
    ("example.com", "shops"): {"spec": {"a": [{"b": 1}]}, "status": {}},
    ("apiextensions.k8s.io", "customresourcedefinitions"): {"spec": copy.deepcopy(DEFINITION["spec"])},
    ("authorization.k8s.io", "selfsubjectaccessreviews"): {"spec": {"resourceAttributes": {"verb": "get"}}},
}
META = {
    "labels": {"a": "b"},
    "annotations": {"a": "b"},
    "finalizers": ["example.com/x"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}],
    "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
    "generateName": "a-",
}


def places(value, path=()):
    """All paths in a body."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def spoil(body, path, junk):
    """The body with something else at one place."""
    if not path:
        return junk
    body = copy.deepcopy(body)
    holder = body
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = junk
    return body


@st.composite
def requests(draw):
    key = draw(st.sampled_from(sorted(BODIES)))
    name = "tests.example.org" if key[1] == "customresourcedefinitions" else "a"
    body = {"metadata": {"name": name, **META}, **BODIES[key]}
    spoiled = spoil(body, draw(st.sampled_from(list(places(body)))), draw(JUNK))
    return key, body, spoiled


def attempt(action):
    """Do it; refusals are fine as long as they are told as the client's fault."""
    try:
        action()
    except ApiError as error:
        assert 400 <= error.status < 500, error
        assert error.message and error.reason


@pytest.fixture(scope="module")
def prepared():
    return make_store(Clock(), collect_garbage=True)


@given(requests(), st.sampled_from(["merge", "json", "strategic"]), JUNK)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_request_breaks_the_store(prepared, request_, patch_type, junk):
    """Create, patch, apply, replace and delete with something odd anywhere."""
    (group, plural), body, spoiled = request_
    store = prepared
    endpoint = store.endpoint(group, "v1", plural)
    typed = {"apiVersion": endpoint.api_version, "kind": endpoint.kind.kind}
    namespace = "default" if endpoint.kind.namespaced else None
    name = body["metadata"]["name"]
    odd = {**typed, **spoiled} if isinstance(spoiled, dict) else spoiled

    attempt(lambda: store.create(endpoint, copy.deepcopy(odd), namespace))
    attempt(lambda: store.create(endpoint, {**typed, **copy.deepcopy(body)}, namespace))
    for subresource in ("", *sorted(endpoint.version.subresources - {"scale"})):
        options = Options(manager="m", subresource=subresource, force=True)
        attempt(
            lambda options=options: store.patch(endpoint, name, namespace, copy.deepcopy(spoiled), "merge", options)
        )
        attempt(
            lambda options=options: store.patch(endpoint, name, namespace, copy.deepcopy(junk), patch_type, options)
        )
        attempt(
            lambda options=options: store.patch(endpoint, name, namespace, copy.deepcopy(spoiled), patch_type, options)
        )
        attempt(lambda options=options: store.apply(endpoint, name, namespace, copy.deepcopy(odd), options))
        attempt(lambda options=options: store.replace(endpoint, name, namespace, copy.deepcopy(odd), options))
    attempt(lambda: DeleteOptions.parse(junk))
    attempt(lambda: store.delete(endpoint, name, namespace))
    attempt(lambda: store.patch(endpoint, name, namespace, {"metadata": {"finalizers": None}}))
