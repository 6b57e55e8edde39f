"""Scopes, permissions and connections."""

import kopf
import pytest
import yaml

import opkit
from opkit.cluster import kopf_client
from opkit.testing import FakeEventInjector

WEBAPPS = ("example.com", "v1", "webapps")


def test_cluster_scoped_objects_of_a_namespaced_operator_are_watched_once(registry):
    """Nodes have one watch and no namespace; webapps have one for each namespace, however the patterns overlap."""
    seen = []

    @opkit.reconcile("v1", "nodes", registry=registry)
    async def node(name, namespace, event):
        seen.append((name, namespace))
        event("Seen", "it was seen")

    @opkit.reconcile(*WEBAPPS, registry=registry)
    async def webapp(name, namespace):
        seen.append((name, namespace))

    with FakeEventInjector(registry, namespaces={"n1", "n*", "n2"}) as op:
        op.add("namespaces", "n1")
        op.add("namespaces", "n2")
        op.add("nodes", "worker")
        op.add("webapps", "a", "n1")
        op.add("webapps", "b", "n2")
        op.add("webapps", "c", "other")
        op.settle()
        assert sorted(seen, key=str) == [("a", "n1"), ("b", "n2"), ("worker", None)]
        assert [event["metadata"]["namespace"] for event in op.list("events")] == ["default"]


def test_a_short_403_is_overcome(registry, event_injector):
    """Authorizers that are not ready yet: opkit's own write is tried again, and no handler is bothered."""

    @opkit.reconcile(*WEBAPPS, registry=registry)
    async def reconcile():
        return None

    @opkit.finalizer(*WEBAPPS, registry=registry)
    async def cleanup():
        return None

    op = event_injector(registry)
    op.fail("patch", "webapps").times(2, status=403)
    web = op.add("webapps", "shop")
    op.settle()
    assert op.get(web)["metadata"]["finalizers"] == ["example.com/cleanup"]
    assert [call.outcome for call in op.calls()] == ["success"]


def login(monkeypatch, tmp_path, cluster):
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c"}}], "clusters": [{"name": "c", "cluster": cluster}],
    }  # fmt: skip
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    return kopf_client._log_in_by_kubeconfig(settings=kopf.OperatorSettings())


def test_the_proxy_of_the_kubeconfig_wins_and_the_environment_is_not_asked(monkeypatch, tmp_path):
    """Variables of the pod are for its own business, unless the settings say so."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    found = login(monkeypatch, tmp_path, {"server": "https://api:6443", "proxy-url": "http://127.0.0.1:3128"})
    assert (found.proxy_url, found.trust_env) == ("http://127.0.0.1:3128", False)
    found = login(monkeypatch, tmp_path, {"server": "https://api:6443"})
    assert (found.proxy_url, found.trust_env) == (None, False)


@pytest.mark.parametrize("host", ["fd00::1", "10.0.0.1"], ids=["ipv6", "ipv4"])
def test_inside_a_pod_the_service_is_named_and_no_address_is_put_together(monkeypatch, tmp_path, host):
    """So that an IPv6 address without brackets can't make a URL that is none."""
    token = tmp_path / "token"
    token.write_text("t")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    module = kopf_client.piggybacking
    monkeypatch.setattr(module.os.path, "exists", lambda path: str(path).endswith("/token"))
    monkeypatch.setattr(module, "open", lambda path, **options: open(token, **options), raising=False)  # noqa: SIM115  the module closes it
    found = module.login_with_service_account(settings=kopf.OperatorSettings())
    assert (found.server, found.token) == ("https://kubernetes.default.svc", "t")


def test_an_impersonation_is_refused_rather_than_ignored(monkeypatch, tmp_path):
    """A user that is to act as a lesser one must not act as itself."""
    config = {
        "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443"}}],
        "users": [{"name": "u", "user": {"token": "t", "as": "someone-lesser"}}],
    }  # fmt: skip
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with pytest.raises(opkit.OpkitError, match="wants its user to act as another one"):
        kopf_client._log_in_by_kubeconfig(settings=kopf.OperatorSettings())
