"""Two targets for one suite: the embedded server, and a real one."""

import contextlib

import pytest

from opkit.testing.embedded import EmbeddedCluster

from . import definitions
from .client import GROUP, Api, eventually, unique


@contextlib.contextmanager
def prepared(server):
    """A client of the server, with the suite's own resources established."""
    api = Api(server.url, server.token, getattr(server, "certificate", None))
    try:
        for body in definitions.ALL:
            api.post(definitions.CRDS, body).ok(201)
        for body in definitions.ALL:
            names, version = body["spec"]["names"], body["spec"]["versions"][0]["name"]
            eventually(lambda path=f"/apis/{GROUP}/{version}/{names['plural']}": api.get(path).status == 200)
        yield api
    finally:
        api.close()


@pytest.fixture(scope="session")
def embedded():
    with EmbeddedCluster() as server, prepared(server) as api:
        yield api


@pytest.fixture(scope="session")
def real(kube):
    with prepared(kube) as api:
        yield api


@pytest.fixture(
    scope="session",
    params=[pytest.param("embedded"), pytest.param("real", id="kube", marks=pytest.mark.kube)],
)
def api(request):
    """The target: whatever a test says has to be true of both."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def namespace(api):
    """A namespace of the test's own."""
    name = unique("test")
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok(201)
    return name


class Collection:
    """One resource in one namespace: paths and bodies."""

    def __init__(self, api, plural, kind, namespace, version="v1", group=GROUP):
        self.api = api
        self.kind = kind
        self.api_version = f"{group}/{version}" if group else version
        root = f"/apis/{self.api_version}" if group else f"/api/{version}"
        self.everywhere = f"{root}/{plural}"
        self.path = f"{root}/namespaces/{namespace}/{plural}" if namespace else self.everywhere

    def body(self, name, spec=None, **fields):
        metadata = {"name": name, **fields.pop("metadata", {})}
        made = {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **fields}
        return made if spec is None else {**made, "spec": spec}

    def at(self, name, subresource=None):
        return f"{self.path}/{name}" + (f"/{subresource}" if subresource else "")

    def create(self, name, spec=None, **fields):
        return self.api.post(self.path, self.body(name, spec, **fields)).ok(201)

    def get(self, name):
        return self.api.get(self.at(name)).ok(200)

    def patch(self, name, patch, **kwargs):
        return self.api.patch(self.at(name), patch, **kwargs).ok(200)

    def names(self, **query):
        return [item["metadata"]["name"] for item in self.api.get(self.path, **query).ok(200)["items"]]

    def version(self):
        """The version of the list now."""
        return self.api.get(self.path).ok(200)["metadata"]["resourceVersion"]

    def watch(self, **query):
        return self.api.watch(self.path, **query)


@pytest.fixture
def widgets(api, namespace):
    return Collection(api, "widgets", "Widget", namespace)


@pytest.fixture
def gadgets(api, namespace):
    """Without a status subresource."""
    return Collection(api, "gadgets", "Gadget", namespace)


@pytest.fixture
def stricts(api, namespace):
    """With a schema that prunes, validates and has defaults."""
    return Collection(api, "stricts", "Strict", namespace)


@pytest.fixture
def planets(api):
    """Cluster-scoped."""
    return Collection(api, "planets", "Planet", None)


@pytest.fixture
def configmaps(api, namespace):
    return Collection(api, "configmaps", "ConfigMap", namespace, group="")
