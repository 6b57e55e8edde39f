"""Annotations that ask for a client, as classes and as text, with and without the library at hand."""

import typing
from typing import Annotated, Any, Optional

import kubernetes.client
import pykube
import pytest

from opkit.declaration.signature import Role, read_signature


def annotated(annotation, **names):
    """A handler with one parameter, `api`, of this annotation, in a module with these names."""
    namespace = dict(names)
    exec("def f(logger, api): ...", namespace)
    namespace["f"].__annotations__["api"] = annotation
    return namespace["f"]


@pytest.mark.parametrize(
    "annotation, names, library",
    [
        pytest.param(kubernetes.client.ApiClient, {}, "kubernetes", id="kubernetes-class"),
        pytest.param(pykube.HTTPClient, {}, "pykube", id="pykube-class"),
        pytest.param("kubernetes.client.ApiClient", {"kubernetes": kubernetes}, "kubernetes", id="dotted-text"),
        pytest.param("k8s.ApiClient", {"k8s": kubernetes.client}, "kubernetes", id="text-with-alias"),
        pytest.param("Client", {"Client": pykube.HTTPClient}, "pykube", id="renamed-import"),
        pytest.param("kubernetes.client.ApiClient", {}, "kubernetes", id="for-type-checkers-only-dotted"),
        pytest.param("ApiClient", {}, "kubernetes", id="for-type-checkers-only-bare"),
        pytest.param("pykube.HTTPClient", {}, "pykube", id="for-type-checkers-only-pykube"),
        pytest.param("HTTPClient | None", {}, "pykube", id="text-of-a-union"),
        pytest.param(Optional[pykube.HTTPClient], {}, "pykube", id="optional"),  # noqa: UP045 - what authors write
        pytest.param(pykube.HTTPClient | None, {}, "pykube", id="union"),
        pytest.param(Annotated[pykube.HTTPClient, "x"], {}, "pykube", id="annotated"),
        pytest.param(typing.ForwardRef("pykube.HTTPClient"), {}, "pykube", id="forward-reference"),
    ],
)
def test_annotation_asks_for_a_client(annotation, names, library):
    """However it is written, the annotation gives the parameter that library's client, whatever its name."""
    signature = read_signature(annotated(annotation, **names), Role.RECONCILE)
    assert (signature.clients, signature.object_argument, signature.problems) == (
        (("api", library),),
        None,
        (),
    )


@pytest.mark.parametrize(
    "annotation, names",
    [
        pytest.param(dict[str, Any], {}, id="generic-alias"),
        pytest.param(dict, {}, id="class"),
        pytest.param("Body", {}, id="unknown-text"),
        pytest.param("Any", {"Any": Any}, id="any"),
        pytest.param("not an expression", {}, id="nonsense"),
        pytest.param("ApiClient", {"ApiClient": dict}, id="another-class-of-that-name"),
    ],
)
def test_other_annotations_mean_nothing(annotation, names):
    """Any other annotation leaves the parameter to receive the object."""
    signature = read_signature(annotated(annotation, **names), Role.RECONCILE)
    assert (signature.clients, signature.object_argument, signature.problems) == ((), "api", ())


@pytest.mark.parametrize(
    "annotation, message",
    [
        pytest.param(kubernetes.client.CoreV1Api, "kubernetes.client.ApiClient", id="kubernetes"),
        pytest.param("kubernetes.client.CoreV1Api", "kubernetes.client.ApiClient", id="kubernetes-text"),
        pytest.param(pykube.Pod, "pykube.HTTPClient", id="pykube"),
    ],
)
def test_other_parts_of_a_library_are_a_problem(annotation, message):
    """Nothing but the client can be injected: the problem names it."""
    (problem,) = read_signature(annotated(annotation), Role.RECONCILE).problems
    assert f"the client that can be asked for is {message}" in problem


@pytest.mark.parametrize("role", [Role.ACTIVITY, Role.SECONDARY])
def test_no_clients_without_a_run(role):
    """What is called without a run of a handler can't be given a client."""
    (problem,) = read_signature(annotated("ApiClient"), role).problems
    assert "asks for a client of kubernetes" in problem
