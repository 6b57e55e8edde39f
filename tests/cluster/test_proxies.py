"""Proxies: what can be used of those that are named, and which of the environment's are meant."""

import asyncio

import kopf
import pytest
import yaml

from opkit.cluster import kopf_client, kubeconfig
from opkit.cluster.kopf_cluster import KopfCluster
from opkit.cluster.proxies import checked_proxy, proxy_of_environment
from opkit.cluster.resource import Resource
from opkit.errors import CredentialsError

from .scripted import ScriptedServer, json_answer


@pytest.mark.parametrize("url", ["http://p", "https://p:3128", "http://user:secret@p:1/", "http://[::1]:1"])
def test_a_proxy_that_can_be_used(url):
    """HTTP, with or without TLS."""
    assert checked_proxy(url, "it") == url


@pytest.mark.parametrize(
    "url, expected",
    [
        ("socks5://u:secret@p:1", "kind socks5, which is not supported"),
        ("socks5h://p", "kind socks5h, which is not supported"),
        ("SOCKS4://p", "kind socks4, which is not supported"),
        ("ftp://p", "an unknown kind"),
        ("p:3128", "an unknown kind"),
        ("p", "an unknown kind"),
        ("http:p", "an unknown kind"),
        ("http://", "names no host"),
        ("http://:1", "names no host"),
        ("http://p:secret", "no address of a proxy"),
        ("http://p:99999", "no address of a proxy"),
        ("http://[::1", "no address of a proxy"),
        ("http://a b:1", "no address of a proxy"),
        ("http://p:1\n", "no address of a proxy"),
    ],
)
def test_a_proxy_that_can_not_be_used_is_refused(url, expected):
    """In one line that says where it is written; a password is not shown."""
    with pytest.raises(CredentialsError, match=expected) as caught:
        checked_proxy(url, "it")
    assert str(caught.value).startswith("it ") and "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1080", "localhost:3128"])
def test_the_proxy_of_a_kubeconfig_is_checked_before_anything_is_sent(tmp_path, url):
    """The line names file and field."""
    cluster = {"server": "https://one", "proxy-url": url}
    config = {"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c"}}],
              "clusters": [{"name": "c", "cluster": cluster}]}  # fmt: skip
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    with pytest.raises(CredentialsError, match="config: proxy-url names a proxy of"):
        kubeconfig.load(path=tmp_path / "config")


def test_the_proxy_of_a_login_handler_is_checked():
    """It would be spoken HTTP to for ever."""

    async def main():
        info = kopf.ConnectionInfo(server="https://one", proxy_url="socks5://p")
        with pytest.raises(CredentialsError, match="socks5, which is not supported"):
            await KopfCluster(logins=[lambda **_: info]).open()

    asyncio.run(main())


@pytest.mark.parametrize(
    "server, environment, expected",
    [
        ("https://api:6443", {}, None),
        ("https://api:6443", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://api:6443", {"https_proxy": "http://p:1"}, "http://p:1"),
        ("https://api:6443", {"https_proxy": "http://low:1", "HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://api:6443", {"HTTPS_PROXY": "p:1"}, "http://p:1"),
        ("https://api:6443", {"HTTPS_PROXY": ""}, None),
        ("https://api:6443", {"HTTP_PROXY": "http://p:1", "ALL_PROXY": "http://p:1"}, None),
        ("http://api", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("https://localhost:1", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://127.0.0.2:1", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://[::1]:1", {"HTTPS_PROXY": "http://p:1"}, None),
    ],
)
def test_the_environments_proxy(server, environment, expected):
    """As Go reads it: by the server's scheme; never for this machine."""
    assert proxy_of_environment(server, environment) == expected


@pytest.mark.parametrize(
    "left_out, is_meant",
    [
        ("*", True),
        ("api.example.com", True), ("example.com", True), (".example.com", True), ("*.example.com", True),
        ("other.com, EXAMPLE.com", True), ("api.example.com:6443", True), ("api.example.com:443", False),
        ("ple.com", False), (".api.example.com", False), ("", False), (" , ", False), ("10.0.0.0/8", False),
    ],
)  # fmt: skip
def test_who_is_reached_without_the_proxy_by_name(left_out, is_meant):
    """A name means what is below it too; with a port only that one."""
    environment = {"HTTPS_PROXY": "http://p:1", "NO_PROXY": left_out}
    assert (proxy_of_environment("https://api.example.com:6443", environment) is None) == is_meant


@pytest.mark.parametrize(
    "server, left_out, is_meant",
    [
        ("https://10.1.2.3:6443", "10.0.0.0/8", True), ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True), ("https://10.1.2.3:6443", "10.1.2.3:1", False),
        ("https://10.1.2.3:6443", "11.0.0.0/8", False), ("https://10.1.2.3:6443", "10.1.2.3/33", False),
        ("https://[fd00::1]:6443", "fd00::/8", True), ("https://[fd00::1]:6443", "fd00::1", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True), ("https://[fd00::1]:6443", "10.0.0.0/8", False),
        ("https://api", "443:443", False),
    ],
)  # fmt: skip
def test_who_is_reached_without_the_proxy_by_address(server, left_out, is_meant):
    """Addresses and networks."""
    environment = {"HTTPS_PROXY": "http://p:1", "no_proxy": left_out}
    assert (proxy_of_environment(server, environment) is None) == is_meant


def test_a_proxy_of_the_environment_that_can_not_be_used_is_refused():
    """The line names the variable."""
    with pytest.raises(CredentialsError, match="the variable HTTPS_PROXY names a proxy of the kind socks5"):
        proxy_of_environment("https://api", {"HTTPS_PROXY": "socks5://p"})


@pytest.mark.parametrize("is_trusted", [True, False])
def test_the_environment_is_asked_if_the_settings_trust_it(monkeypatch, is_trusted):
    """`settings.kopf.networking.trust_env`; what a kubeconfig names wins."""
    monkeypatch.setenv("HTTPS_PROXY", "http://p:1")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
    settings = kopf.OperatorSettings()
    settings.networking.trust_env = is_trusted

    def proxy(**given):
        return kopf_client._connection_info(kubeconfig.Credentials(**given), settings).proxy_url

    assert proxy(server="https://api") == ("http://p:1" if is_trusted else None)
    assert proxy(server="https://10.0.0.1") is None
    assert proxy(server="https://api", proxy_url="http://own:1") == "http://own:1"


def test_requests_go_by_the_proxy():
    """It is asked for the whole address."""

    async def main():
        async with asyncio.timeout(20), ScriptedServer() as proxy:
            proxy.on("GET", "/api/v1/namespaces/n/pods/a", json_answer({"kind": "Pod"}))
            info = kopf.ConnectionInfo(server="http://api.invalid:1", proxy_url=proxy.url)
            cluster = await proxy.cluster([lambda **_: info])
            await cluster.get(Resource("", "v1", "pods", kind="Pod"), "a", "n")
            return proxy.asked[0].headers["Host"]

    assert asyncio.run(main()) == "api.invalid:1"
