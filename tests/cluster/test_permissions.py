"""What a refusal says: the verb, the resource and the rule that is missing."""

import asyncio

import pytest

from opkit.cluster.permissions import explained
from opkit.cluster.resource import Resource
from opkit.errors import ApiError, Forbidden

from .scripted import ScriptedServer, status_answer

APPLY = "application/apply-patch+yaml"
USER = 'User "system:serviceaccount:shop:op" cannot'
SHOP = "/apis/example.com/v1/namespaces/shop/webapps/a"


def said(message, method="patch", path=SHOP, **request):
    return str(explained(Forbidden(message), method, path, **request))


@pytest.mark.parametrize(
    "message",
    [
        'webapps.example.com "a" is forbidden: ',
        f'webapps.example.com "a" is forbidden: {USER} create resource "webapps" in API group "example.com" in the '
        'namespace "shop"',
        "",
    ],
    ids=["older", "newer", "nothing"],
)
def test_an_apply_without_create_names_both_verbs(message):
    """Whatever the server says of it: older ones say nothing at all."""
    told = said(message, media_type=APPLY)
    assert "apply needs both patch and create (create is missing)" in told
    assert told.endswith(
        "add to a Role in the namespace shop: {apiGroups: [example.com], resources: [webapps], verbs: [patch, create]}"
    )
    assert "\n" not in told and "forbidden:;" not in told


def test_an_apply_without_patch_names_both_verbs():
    """So that the next refusal is not the other half of this one."""
    told = said(f'{USER} patch resource "webapps" in API group "example.com" in the namespace "shop"', media_type=APPLY)
    assert "(patch is missing)" in told and "verbs: [patch, create]" in told


def rule(verbs, resource, group='""', where="a Role in the namespace n"):
    return f"add to {where}: {{apiGroups: [{group}], resources: [{resource}], verbs: [{verbs}]}}"


@pytest.mark.parametrize(
    "method, path, params, expected",
    [
        ("get", "/api/v1/namespaces/n/pods/a", {}, rule("get", "pods")),
        ("get", "/api/v1/namespaces/n/pods", {}, rule("list", "pods")),
        ("get", "/api/v1/pods", {}, rule("list", "pods", where="a ClusterRole")),
        ("get", "/api/v1/pods", {"watch": "true"}, rule("list, watch", "pods", where="a ClusterRole")),
        ("post", "/api/v1/namespaces/n/pods", {}, rule("create", "pods")),
        ("put", "/api/v1/namespaces/n/pods/a", {}, rule("update", "pods")),
        ("patch", "/api/v1/namespaces/n/pods/a/status", {}, rule("patch", "pods/status")),
        ("delete", "/api/v1/namespaces/n/pods/a", {}, rule("delete", "pods")),
        ("delete", "/api/v1/namespaces/n/pods", {}, rule("deletecollection", "pods")),
        ("get", "/api/v1/namespaces/n", {}, rule("get", "namespaces")),
        ("get", "/api/v1/namespaces", {}, rule("list", "namespaces", where="a ClusterRole")),
        ("patch", "/api/v1/namespaces/n/status", {}, rule("patch", "namespaces/status")),
        ("put", "/api/v1/namespaces/n/finalize", {}, rule("update", "namespaces/finalize")),
        ("patch", "/apis/g.io/v1/things/a", {}, rule("patch", "things", "g.io", "a ClusterRole")),
    ],
)
def test_each_request_has_its_rule(method, path, params, expected):
    """By its path alone, where the server says nothing; and in one line."""
    assert said('things "a" is forbidden: ', method, path, params=params).endswith(f"is forbidden; {expected}")


def test_the_status_needs_patch_alone():
    """Also if it is applied: it can't be made."""
    told = said('webapps "a" is forbidden: ', path=f"{SHOP}/status", media_type=APPLY)
    assert "resources: [webapps/status], verbs: [patch]" in told and "create" not in told


def test_what_the_server_says_is_believed_before_the_path():
    """It may want another right than the request's own."""
    told = said(f'x is forbidden: {USER} list resource "pods/log" in API group "" at the cluster scope')
    assert told.endswith(rule("list", "pods/log", where="a ClusterRole"))


def test_a_path_that_is_no_resource():
    """Its rule is of another kind."""
    told = said(f'forbidden: {USER} get path "/metrics"', "get", "/metrics")
    assert told.endswith("add to a ClusterRole: {nonResourceURLs: [/metrics], verbs: [get]}")


def test_an_owner_whose_deletion_is_blocked():
    """What is refused is a reference to it; the server does not say to whom."""
    owner = {"apiVersion": "example.com/v1", "kind": "WebApp", "name": "a", "uid": "u", "blockOwnerDeletion": True}
    message = (
        'services "a" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you '
        "can't set finalizers on: , <nil>"
    )
    told = said(message, "post", "/api/v1/namespaces/n/services", payload={"metadata": {"ownerReferences": [owner]}})
    assert "{apiGroups: [example.com], resources: [PLURAL/finalizers], verbs: [update]}" in told and "WebApp" in told
    for odd in (None, [], {}, {"metadata": None}, {"metadata": {"ownerReferences": [1]}}):
        assert "[PLURAL/finalizers]" in said(message, payload=odd)


@pytest.mark.parametrize(
    "message",
    [
        "unable to create new content in namespace gone because it is being terminated",
        'pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1',
        'admission webhook "w.example.com" denied the request: no',
        'pods "a" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true',
    ],
    ids=["terminating", "quota", "webhook", "security"],
)
def test_what_is_no_matter_of_rights_is_left_as_it_is(message):
    """No rule would help."""
    error = Forbidden(message)
    assert explained(error, "post", "/api/v1/namespaces/n/pods", media_type=APPLY) is error


@pytest.mark.parametrize(
    "error", [ApiError("x", status=500), ApiError("x", status=401), Forbidden("", reason="NotLeading")]
)
def test_other_errors_are_left_as_they_are(error):
    """Also a refusal of opkit's own."""
    assert explained(error, "get", "/api/v1/pods") is error


def test_a_refusal_keeps_its_details():
    """For whoever reads them."""
    error = explained(Forbidden("", details={"name": "a"}), "get", "/api/v1/pods")
    assert isinstance(error, Forbidden) and error.details == {"name": "a"} and error.status == 403


def test_the_client_explains_what_is_refused():
    """What a handler gets, and the log."""

    async def main():
        async with asyncio.timeout(20), ScriptedServer() as server:
            message = 'configmaps "shop" is forbidden: '
            server.on("PATCH", "/api/v1/namespaces/n/configmaps/shop", status_answer(403, "Forbidden", message))
            cluster = await server.cluster()
            with pytest.raises(Forbidden) as caught:
                await cluster.apply(Resource("", "v1", "configmaps", kind="ConfigMap"), "shop", "n", {}, manager="me")
            return str(caught.value), len(server.asked)

    told, times = asyncio.run(main())
    assert told == (
        '403 Forbidden: configmaps "shop" is forbidden; apply needs both patch and create (create is missing): add to '
        'a Role in the namespace n: {apiGroups: [""], resources: [configmaps], verbs: [patch, create]}'
    )
    assert times == 1
