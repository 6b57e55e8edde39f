"""What a real server says to who lacks a right, and what opkit makes of it: the versions of Kubernetes differ."""

import asyncio

import kopf
import pytest

from opkit.cluster.kopf_cluster import KopfCluster
from opkit.cluster.protocol import WatchScope
from opkit.cluster.resource import Resource
from opkit.errors import ApiError, Forbidden

pytestmark = pytest.mark.kube

MAPS = Resource("", "v1", "configmaps", kind="ConfigMap")
SECRETS = Resource("", "v1", "secrets", kind="Secret")
DEPLOYMENTS = Resource("apps", "v1", "deployments", kind="Deployment")
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"


@pytest.fixture
def refused(kube, api, namespace):
    """What is said to a service account that may patch config maps, and nothing else."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.post(accounts, {"metadata": {"name": "op"}}).ok(201)
    token = api.post(f"{accounts}/op/token", {"spec": {}}).ok(201)["status"]["token"]
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}
    api.post(f"{RBAC}/{namespace}/roles", {"metadata": {"name": "op"}, "rules": [rule]}).ok(201)
    binding = {
        "metadata": {"name": "op"}, "subjects": [{"kind": "ServiceAccount", "name": "op", "namespace": namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "op"},
    }  # fmt: skip
    api.post(f"{RBAC}/{namespace}/rolebindings", binding).ok(201)

    def refused(ask):
        async def main():
            info = kopf.ConnectionInfo(server=kube.url, ca_path=kube.certificate, token=token)
            cluster = KopfCluster(logins=[lambda **_: info])
            await cluster.open()
            try:
                for _ in range(100):  # the server needs a moment to see the new role
                    try:
                        await cluster.patch(MAPS, "none", namespace, {})
                    except ApiError as error:
                        if error.status == 404:
                            break
                    await asyncio.sleep(0.05)
                with pytest.raises(Forbidden) as caught:
                    await ask(cluster)
                return str(caught.value)
            finally:
                await cluster.close()

        return asyncio.run(main())

    return refused


def test_an_apply_that_lacks_create(refused, namespace):
    """An older server does not say what is missing."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}}
    told = refused(lambda cluster: cluster.apply(MAPS, "shop", namespace, body, manager="me"))
    assert "apply needs both patch and create (create is missing)" in told
    assert told.endswith(
        f'Role in the namespace {namespace}: {{apiGroups: [""], resources: [configmaps], verbs: [patch, create]}}'
    )


def test_an_apply_that_lacks_patch(refused, namespace):
    """Both are named, whichever the server asks for first."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shop"}}
    told = refused(lambda cluster: cluster.apply(SECRETS, "shop", namespace, body, manager="me"))
    assert "(patch is missing)" in told and "resources: [secrets], verbs: [patch, create]" in told


def test_a_patch_of_the_status(refused, namespace):
    """Its resource is another one."""
    told = refused(lambda cluster: cluster.patch(DEPLOYMENTS, "a", namespace, {"status": {}}, subresource="status"))
    assert "{apiGroups: [apps], resources: [deployments/status], verbs: [patch]}" in told


def test_a_watch_of_all_namespaces(refused):
    """It takes a ClusterRole."""
    told = refused(lambda cluster: anext(cluster.watch(WatchScope(SECRETS), since="1")))
    assert told.endswith('ClusterRole: {apiGroups: [""], resources: [secrets], verbs: [list, watch]}')
