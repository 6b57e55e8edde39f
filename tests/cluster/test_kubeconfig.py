"""Kubeconfig files: merged, resolved and read as kubectl does."""

import asyncio
import base64
import datetime
import json
import os
import stat
import sys
from types import SimpleNamespace

import pytest
import yaml

import opkit
from opkit.cluster import credential_plugin, kubeconfig
from opkit.errors import CredentialsError


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes files and names them in KUBECONFIG, in their order."""

    def write(**files):
        paths = []
        for name, content in files.items():
            path = tmp_path / name / "config"
            path.parent.mkdir()
            if content is not None:
                path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
            paths.append(str(path))
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(paths))
        return tmp_path

    return write


# Self-signed, and its key thrown away.
AUTHORITY = """-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUBippaWFvfov4akuXNLPsSB7D1MUwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjEyMDEwMjM5MTlaGA8yMTI2MTEwNzAyMzkx
OVowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABBh4
4X6eBgEgK4rRW7n3R8nq63YLBt5vyu7zQcMhe4se0C61VRbknhB3CjnT8+uw/5jd
TjUG5nz/k2Pc6HVXsayjUzBRMB0GA1UdDgQWBBTOkw3px+21PiEGF4hYK2q25nWw
7DAfBgNVHSMEGDAWgBTOkw3px+21PiEGF4hYK2q25nWw7DAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCIQDGnGVMPsZcl6prg7woYm4ttt+dtIIT/Fc6
mw1mz0vMYwIgV1/RU/RJsX18v3PC0X34L2bQgUGLlK2Ig27EeCp66TY=
-----END CERTIFICATE-----
"""
IN_BASE64 = base64.b64encode(AUTHORITY.encode()).decode()


def config(user=None, cluster=None, context="c"):
    return {
        "current-context": context,
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "ns"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://one", **(cluster or {})}}],
        "users": [{"name": "u", "user": user if user is not None else {"token": "secret-token"}}],
    }


def test_files_are_merged_and_the_first_value_of_a_name_wins(write):
    """The context of one file may name the cluster of another; a missing file is skipped, a null is empty."""
    second = config(cluster={"server": "https://two"})
    write(a={"current-context": "c", "clusters": None}, missing=None, b=config(), c=second)
    found = kubeconfig.load()
    assert (found.server, found.token, found.namespace) == ("https://one", "secret-token", "ns")


def test_relative_paths_start_at_their_own_file(write):
    """Each file's certificates lie beside that file."""
    folder = write(
        a={"current-context": "c"},
        b=config({"client-certificate": "me.crt", "client-key": "keys/me.key"}, {"certificate-authority": "ca.crt"}),
    )
    (folder / "b" / "keys").mkdir()
    for name in ("ca.crt", "me.crt", "keys/me.key"):
        (folder / "b" / name).write_text(AUTHORITY)
    found = kubeconfig.load()
    assert found.ca_path == str(folder / "b" / "ca.crt")
    assert found.certificate_path == str(folder / "b" / "me.crt")
    assert found.key_path == str(folder / "b" / "keys/me.key")


def test_one_scheme_only(write):
    """With a token, name and password are left out."""
    write(a=config({"token": "t", "username": "u", "password": "p"}))
    found = kubeconfig.load()
    assert (found.token, found.username, found.password) == ("t", None, None)


def test_a_user_without_anything_is_anonymous(write):
    """An empty user entry is no error."""
    write(a=config({}))
    found = kubeconfig.load()
    assert (found.token, found.username) == (None, None)


def test_a_token_file_is_read_each_time(write):
    """A token that rotates is found where it is."""
    folder = write(a=config({"tokenFile": "token"}))
    for token in ("one", "two"):
        (folder / "a" / "token").write_text(f"{token}\n")
        assert kubeconfig.load().token == token


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(None, "does not exist", id="missing"),
        pytest.param("{a: [secret-token", "is not YAML", id="not-yaml"),
        pytest.param("just text", "holds no configuration", id="no-mapping"),
        pytest.param({**config(), "current-context": ""}, "has no current-context", id="no-context"),
        pytest.param(config(context="other"), "has no context named 'other'", id="unknown-context"),
        pytest.param({**config(), "clusters": []}, "has no cluster named 'c'", id="unknown-cluster"),
        pytest.param(config(cluster={"server": ""}), "names no server", id="no-server"),
        pytest.param(config({"tokenFile": "nowhere"}), "can't be read", id="no-token-file"),
    ],
)
def test_what_is_wrong_is_told_with_the_files_name(write, content, expected):
    """One line that names the file, and shows nothing of what is in it."""
    folder = write(a=content)
    with pytest.raises(CredentialsError, match=expected) as caught:
        kubeconfig.load()
    assert str(folder) in str(caught.value)
    assert "secret" not in str(caught.value)


def test_no_secret_in_the_repr(write):
    """Credentials show their server only."""
    write(a=config())
    assert repr(kubeconfig.load()) == "<credentials for https://one>"


def plugin(tmp_path, body):
    """A credential plugin that prints this."""
    script = tmp_path / "plugin.py"
    script.write_text(f"import os, json\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"command": sys.executable, "args": [str(script)], "env": [{"name": "EXTRA", "value": "given"}]}


def test_a_credential_plugin_gives_a_certificate_and_its_expiry(write, tmp_path):
    """It is told what is asked for, and what it gives is used a little shorter than it is valid."""
    status = {"clientCertificateData": "CERT", "clientKeyData": "KEY", "expirationTimestamp": "2030-01-01T00:00:10Z"}
    body = (
        "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'\n"
        f"assert os.environ['EXTRA'] == 'given'\nprint({json.dumps(json.dumps({'status': status}))})"
    )
    write(a=config({"exec": plugin(tmp_path, body)}))
    found = kubeconfig.load()
    assert (found.certificate_data, found.key_data) == ("CERT", "KEY")
    assert found.expiration == datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("print('secret-token'); raise SystemExit(3)", "failed with exit status 3", id="fails"),
        pytest.param("print('secret-token')", "did not print an ExecCredential", id="nonsense"),
        pytest.param("print('[]')", "did not print an ExecCredential", id="other-json"),
    ],
)
def test_a_plugin_that_fails_is_named_and_its_words_are_not(write, tmp_path, body, expected):
    """What a plugin prints may be the secret itself."""
    write(a=config({"exec": plugin(tmp_path, body)}))
    with pytest.raises(CredentialsError, match=expected) as caught:
        kubeconfig.load()
    assert "secret" not in str(caught.value)
    assert sys.executable in str(caught.value)


def test_a_server_name_that_can_not_be_asked_for_is_told(write, caplog):
    """Else a certificate that is refused for its name would be a riddle."""
    write(a=config(cluster={"tls-server-name": "api.internal"}))
    kubeconfig.load()
    assert "names api.internal as the tls-server-name" in caplog.text


def test_a_plugin_that_is_not_there(write):
    """A missing command is told by its name."""
    write(a=config({"exec": {"command": "no-such-plugin"}}))
    with pytest.raises(CredentialsError, match="no-such-plugin can't be run"):
        kubeconfig.load()


def test_an_auth_provider_is_left_to_the_client_libraries(write):
    """Only they know how to log in by it."""
    write(a=config({"auth-provider": {"name": "oidc"}}))
    assert kubeconfig.needs_another_client()


def with_top(**fields):
    return {**config(), **fields}


def with_plugin(**fields):
    version = "client.authentication.k8s.io/v1"
    return config({"exec": {"apiVersion": version, "command": "plug", "interactiveMode": "Never", **fields}})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(config(cluster={"insecure-skip-tls-verify": "false"}),
                     r"clusters\[0\].cluster.insecure-skip-tls-verify has to be true or false, not a text", id="truth"),
        pytest.param(config(cluster={"server": ["https://x"]}),
                     r"clusters\[0\].cluster.server has to be a text, not a list",
                     id="server"),
        pytest.param(config(cluster={"proxy-url": 1}), "proxy-url has to be a text, not a number", id="proxy"),
        pytest.param(config(cluster=None) | {"clusters": [{"name": "c", "cluster": "secret"}]},
                     r"clusters\[0\].cluster has to be a mapping, not a text", id="cluster"),
        pytest.param(config({"token": 123}), r"users\[0\].user.token has to be a text, not a number", id="token"),
        pytest.param(config({"token": ["secret"]}), "user.token has to be a text, not a list", id="token-list"),
        pytest.param(config({"token": True}), "user.token has to be a text, not true or false", id="token-true"),
        pytest.param(config({"tokenFile": {"secret": 1}}), "user.tokenFile has to be a text", id="token-file"),
        pytest.param(config({"username": 1, "password": "p"}), "user.username has to be a text", id="user-name"),
        pytest.param(config({"as-groups": "secret"}), "user.as-groups has to be a list, not a text", id="groups"),
        pytest.param(with_top(contexts={"c": {"cluster": "c"}}), "contexts has to be a list, not a mapping",
                     id="contexts"),
        pytest.param(with_top(contexts=[{"name": "c", "context": {"cluster": "c", "namespace": 5}}]),
                     r"contexts\[0\].context.namespace has to be a text", id="namespace"),
        pytest.param(with_top(users="secret"), "users has to be a list, not a text", id="users"),
        pytest.param(with_top(users=["secret"]), r"users\[0\] has to be a mapping, not a text", id="user"),
        pytest.param(with_top(users=[{"user": {"token": "secret"}}]), r"users\[0\].name is missing", id="no-name"),
        pytest.param(with_top(users=config()["users"] * 2), r"users\[1\].name is 'u', which another entry", id="twice"),
        pytest.param(with_top(**{"current-context": ["c"]}), "current-context has to be a text", id="current"),
        pytest.param(with_top(kind="Pod"), "kind has to be Config", id="kind"),
        pytest.param(with_top(apiVersion="v2"), "apiVersion has to be v1", id="version"),
        pytest.param(with_plugin(args="secret"), "exec.args has to be a list, not a text", id="args"),
        pytest.param(with_plugin(args=[1]), r"exec.args\[0\] has to be a text, not a number", id="argument"),
        pytest.param(with_plugin(env=[{"name": "A", "value": 1}]), r"exec.env\[0\].value has to be a text", id="env"),
        pytest.param(with_plugin(provideClusterInfo="yes"), "exec.provideClusterInfo has to be true or false",
                     id="info"),
    ],
)  # fmt: skip
def test_a_field_of_another_type_is_refused(write, content, expected):
    """Nothing is guessed: `"false"` would be taken for true. The line names file and field."""
    folder = write(a=content)
    with pytest.raises(CredentialsError, match=expected) as caught:
        kubeconfig.load()
    assert str(folder / "a" / "config") in str(caught.value)
    assert "secret" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(config(cluster={"certificate-authority": "/nope"}), "certificate-authority: /nope can't be read",
                     id="no-authority"),
        pytest.param(config(cluster={"certificate-authority": "~/nope"}), "a/~/nope can't be read", id="tilde"),
        pytest.param(config(cluster={"certificate-authority": "."}), "can't be read: Is a directory", id="folder"),
        pytest.param(config(cluster={"certificate-authority": "config"}), "holds no certificate", id="no-certificate"),
        pytest.param(config(cluster={"certificate-authority-data": "%%%"}), "certificate-authority-data is not base64",
                     id="no-base64"),
        pytest.param(config(cluster={"certificate-authority-data": "c2VjcmV0"}),
                     "certificate-authority-data is not PEM",
                     id="no-pem"),
        pytest.param(
            config(cluster={"certificate-authority-data":
                            base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIB\n").decode()}),
            "certificate-authority-data holds no certificate", id="broken"),
        pytest.param(config(cluster={"insecure-skip-tls-verify": True, "certificate-authority-data": IN_BASE64}),
                     "contradict each other", id="insecure-with-authority"),
        pytest.param(config({"client-certificate": "/nope", "client-key": "config"}),
                     "client-certificate: /nope can't be read", id="no-certificate-file"),
        pytest.param(config({"client-certificate": "config", "client-key": "/nope"}),
                     "client-key: /nope can't be read", id="no-key-file"),
        pytest.param(config({"client-certificate-data": IN_BASE64}), "client-key .* is missing", id="no-key"),
        pytest.param(config({"client-certificate-data": "%", "client-key-data": IN_BASE64}),
                     "client-certificate-data is not base64", id="certificate-no-base64"),
        pytest.param(config({"client-certificate-data": IN_BASE64, "client-key-data": "c2VjcmV0"}),
                     "client-key-data is not PEM", id="key-no-pem"),
        pytest.param(config({"tokenFile": "/dev/null"}), "token file /dev/null is empty", id="empty-token-file"),
        pytest.param(config({"tokenFile": "."}), "can't be read", id="token-folder"),
        pytest.param(config(cluster={"server": "ftp://x"}), "server is no address", id="ftp"),
        pytest.param(config(cluster={"server": "https://"}), "server is no address", id="no-host"),
        pytest.param(config(cluster={"server": "https://x:port"}), "server is no address", id="no-port"),
        pytest.param(with_top(contexts=[{"name": "c"}]), "names no cluster in its context 'c'", id="empty-context"),
        pytest.param(with_top(contexts=[{"name": "c", "context": {"cluster": "c", "user": "x"}}]),
                     "has no user named 'x'", id="unknown-user"),
        pytest.param("", "has no current-context", id="empty"),
    ],
)  # fmt: skip
def test_what_can_not_be_used_is_named(write, content, expected):
    """File, field and, where it is one, path; never what is in it."""
    write(a=content)
    with pytest.raises(CredentialsError, match=expected) as caught:
        kubeconfig.load()
    assert "c2VjcmV0" not in str(caught.value) and "\n" not in str(caught.value)


def test_the_file_of_the_entry_is_named(write):
    """Of several files that one in which it is wrong."""
    folder = write(a={"current-context": "c"}, b=config({"client-certificate": "/nope"}))
    with pytest.raises(CredentialsError, match="client-certificate") as caught:
        kubeconfig.load()
    assert str(folder / "b" / "config") in str(caught.value) and str(folder / "a") not in str(caught.value)


@pytest.mark.parametrize("cluster, expected", [
    ({"server": "api:6443"}, "http://api:6443"),
    ({"server": "api:6443", "certificate-authority-data": IN_BASE64}, "https://api:6443"),
    ({"server": "api", "insecure-skip-tls-verify": True}, "https://api"),
    ({"server": "https://[fd00::1]:6443/path"}, "https://[fd00::1]:6443/path"),
], ids=["plain", "authority", "insecure", "address"])  # fmt: skip
def test_a_server_without_a_scheme(write, cluster, expected):
    """It is HTTPS if anything is said of TLS, as for kubectl."""
    write(a=config(cluster=cluster))
    assert kubeconfig.load().server == expected


def test_data_wins_over_the_file_of_the_same_thing(write):
    """And that file is not even looked for; line breaks in the data mean nothing."""
    cut = IN_BASE64[:40] + "\n" + IN_BASE64[40:]
    write(a=config(
        {"client-certificate": "/nope", "client-certificate-data": cut, "client-key": "/nope", "client-key-data": cut},
        {"certificate-authority": "/nope", "certificate-authority-data": cut},
    ))  # fmt: skip
    found = kubeconfig.load()
    assert (found.ca_path, found.certificate_path, found.key_path) == (None, None, None)
    assert (found.ca_data, found.certificate_data, found.key_data) == (cut, cut, cut)


def test_the_token_of_the_file_wins(write):
    """It is the one that rotates; the other one is for when there is no file."""
    folder = write(a=config({"tokenFile": "token", "token": "stale"}))
    assert kubeconfig.load().token == "stale"
    (folder / "a" / "token").write_text("fresh\n")
    assert kubeconfig.load().token == "fresh"


def test_a_file_in_json(write):
    """JSON is YAML; a mark of the byte order and further documents mean nothing."""
    write(a=json.dumps(config()))
    assert kubeconfig.load().token == "secret-token"


@pytest.mark.parametrize(
    "change", [lambda text: "\ufeff" + text, lambda text: f"{text}---\na: b\n"], ids=["mark", "two"]
)
def test_what_is_around_the_first_document_means_nothing(write, change):
    """As for kubectl."""
    write(a=change(yaml.safe_dump(config())))
    assert kubeconfig.load().token == "secret-token"


def test_a_file_and_a_context_that_are_named(write, monkeypatch):
    """They win over the variable and over what the file calls current."""
    folder = write(a=config(), b=config(cluster={"server": "https://two"}, context="other"))
    monkeypatch.setenv("KUBECONFIG", str(folder / "a" / "config"))
    assert kubeconfig.load(path=folder / "b" / "config", context="c").server == "https://two"
    assert kubeconfig.load(context="c").server == "https://one"
    assert not kubeconfig.needs_another_client(path=str(folder / "b" / "config"), context="c")
    for path, context, expected in ((folder / "b" / "config", None, "has no context named 'other'"),
                                    (folder / "none", "c", "none does not exist")):  # fmt: skip
        with pytest.raises(CredentialsError, match=expected):
            kubeconfig.load(path=path, context=context)


def test_an_operator_takes_a_file_and_a_context(write, monkeypatch):
    """What there is to be found is not asked then."""
    folder = write(a=config(), b=config(context="other"))
    monkeypatch.setenv("KUBECONFIG", str(folder / "a" / "config"))
    registry = opkit.Registry()

    @opkit.reconcile("v1", "pods", registry=registry)
    async def reconcile(): ...

    for named, expected in (({"kubeconfig": folder / "none"}, "none does not exist"),
                            ({"kubeconfig": folder / "b" / "config"}, "no context named 'other'"),
                            ({"context": "x"}, "no context named 'x'")):  # fmt: skip
        operator = opkit.Operator(registry=registry, **named)
        with pytest.raises(CredentialsError, match=expected):
            asyncio.run(operator.run())


# Credential plugins.

V1, V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"


@pytest.fixture
def ask(write, tmp_path):
    """Run a plugin that writes down what it is asked and prints this status; what it was asked, and what came of it."""

    def ask(status=None, cluster=None, version=V1, answer=None, **fields):
        told = tmp_path / "told"
        printed = {"apiVersion": version, "kind": "ExecCredential", "status": status or {"token": "t"}}
        body = (
            f"open({str(told)!r}, 'w').write(os.environ['KUBERNETES_EXEC_INFO'])\n"
            f"print({json.dumps(json.dumps(answer or printed))})"
        )
        entry = {**plugin(tmp_path, body), "apiVersion": version, "interactiveMode": "Never", **fields}
        write(a=config({"exec": entry}, cluster))
        found = kubeconfig.load()
        return json.loads(told.read_text()), found

    return ask


def test_a_plugin_is_told_of_its_cluster_if_it_is_to_be(ask):
    """What it needs for a connection of its own, and the settings that are meant for it."""
    told, _ = ask(provideClusterInfo=True, cluster={
        "certificate-authority-data": IN_BASE64, "tls-server-name": "name", "proxy-url": "http://p:1",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}},
                       {"name": "other", "extension": {"a": 1}}],
    })  # fmt: skip
    assert told == {
        "apiVersion": V1, "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {
            "server": "https://one", "certificate-authority-data": IN_BASE64, "tls-server-name": "name",
            "proxy-url": "http://p:1", "config": {"audience": "x"},
        }},
    }  # fmt: skip


def test_a_plugin_gets_the_authority_of_a_file_as_data(ask, tmp_path):
    """It would not know where that file lies."""
    (tmp_path / "ca.crt").write_text(AUTHORITY)
    told, _ = ask(provideClusterInfo=True, cluster={"certificate-authority": "../ca.crt"})
    assert told["spec"]["cluster"]["certificate-authority-data"] == IN_BASE64


def test_a_plugin_is_told_that_nothing_is_verified(ask):
    """So that it does not verify either."""
    told, _ = ask(provideClusterInfo=True, cluster={"insecure-skip-tls-verify": True}, version=V1BETA1)
    assert told["spec"]["cluster"]["insecure-skip-tls-verify"] is True and told["apiVersion"] == V1BETA1


def test_a_plugin_is_told_nothing_of_its_cluster_otherwise(ask):
    """Only if the kubeconfig says so."""
    told, found = ask()
    assert told["spec"] == {"interactive": False}
    assert (found.token, found.from_plugin) == ("t", True)


@pytest.mark.parametrize("command, found", [("./plug", True), ("sub/../plug", True), ("plug", False)])
def test_where_a_plugin_is_looked_for(write, monkeypatch, command, found):
    """A path starts at the kubeconfig's folder, wherever the process is; a bare name is looked up in PATH."""
    folder = write(a=with_plugin(command=command))
    (folder / "a" / "sub").mkdir()
    script = folder / "a" / "plug"
    script.write_text('#!/bin/sh\necho \'{"status": {"token": "t"}}\'\n')
    script.chmod(0o755)
    monkeypatch.chdir("/")
    if found:
        assert kubeconfig.load().token == "t"
    else:
        with pytest.raises(CredentialsError, match="plugin plug can't be run"):
            kubeconfig.load()
        monkeypatch.setenv("PATH", str(script.parent), prepend=os.pathsep)
        assert kubeconfig.load().token == "t"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "exec.apiVersion is .*v1alpha1",
                     id="old"),
        pytest.param({"apiVersion": "v1"}, "exec.apiVersion is 'v1'", id="other"),
        pytest.param({"interactiveMode": None}, "exec.interactiveMode is missing", id="no-mode"),
        pytest.param({"interactiveMode": "Sometimes"}, "exec.interactiveMode is 'Sometimes'", id="odd-mode"),
        pytest.param({"interactiveMode": "Always"}, "there is no terminal", id="no-terminal"),
        pytest.param({"command": ""}, "exec.command is missing", id="no-command"),
        pytest.param({"env": [{"value": "v"}]}, "exec.env has no name", id="no-name"),
        pytest.param({"command": "nope", "installHint": "Do this:\n  that"}, "nope can't be run: .*; Do this: that$",
                     id="hint"),
        pytest.param({"command": "./nope"}, "a/nope can't be run", id="no-file"),
        pytest.param({"command": "nul\0"}, "can't be run", id="nul"),
    ],
)  # fmt: skip
def test_a_plugin_that_can_not_be_asked_is_told(write, monkeypatch, fields, expected):
    """In one line, with its hint how to install it."""
    monkeypatch.setattr(credential_plugin.sys, "stdin", SimpleNamespace(isatty=lambda: False, closed=False))
    write(a=with_plugin(**fields))
    with pytest.raises(CredentialsError, match=expected) as caught:
        kubeconfig.load()
    assert "\n" not in str(caught.value)


def test_the_older_version_needs_no_word_on_the_terminal(ask):
    """Only v1 wants to know whether a user may be asked."""
    _, found = ask(version=V1BETA1, interactiveMode=None)
    assert found.token == "t"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param({"status": {"token": 1}}, "did not print an ExecCredential", id="number"),
        pytest.param({"status": {"token": "secret", "expirationTimestamp": "soon"}}, "did not print", id="stamp"),
        pytest.param({"status": {}}, "neither a token nor a certificate", id="nothing"),
        pytest.param({"status": None}, "did not print an ExecCredential", id="null"),
        pytest.param({"status": {"clientKeyData": "secret"}}, "not both", id="key-alone"),
        pytest.param({"apiVersion": V1BETA1, "status": {"token": "secret"}}, "answers in another version",
                     id="version"),
    ],
)  # fmt: skip
def test_what_a_plugin_may_not_print(ask, answer, expected):
    """It is told, and not shown."""
    with pytest.raises(CredentialsError, match=expected) as caught:
        ask(answer=answer)
    assert "secret" not in str(caught.value)


def test_an_extension_that_is_no_json_is_told(write):
    """YAML can say more than that: here, a thing that holds itself."""
    text = yaml.safe_dump(with_plugin(provideClusterInfo=True))
    extension = "extensions: [{name: client.authentication.k8s.io/exec, extension: &x {y: *x}}]"
    write(a=text.replace("    server: https://one", f"    server: https://one\n    {extension}"))
    with pytest.raises(CredentialsError, match="extension of the cluster can't be written as JSON"):
        kubeconfig.load()


@pytest.mark.parametrize("text", ["[" * 5000, "a: 2020-13-45", "\0", "a: !!python/object:os.system x", "? [a]\n: b"])
def test_whatever_is_in_a_file_is_no_accident(write, text):
    """Deep, odd, or dangerous: it is told in one line."""
    write(a=text)
    with pytest.raises(CredentialsError, match="is not YAML"):
        kubeconfig.load()


@pytest.mark.parametrize("own", [{"token": "mine"}, {"username": "me", "password": "p"}], ids=["token", "name"])
def test_a_user_that_names_itself_is_not_asked_to_by_a_plugin(write, own):
    """As for kubectl."""
    write(a=config({**own, "exec": {"command": "no-such-plugin"}}))
    found = kubeconfig.load()
    assert (found.token, found.username) == (own.get("token"), own.get("username"))


def test_a_stamp_without_a_zone_is_utc(ask):
    """Whatever the zone of this machine."""
    _, found = ask(status={"token": "t", "expirationTimestamp": "2030-01-01T00:00:10.123456789"})
    assert found.expiration.utcoffset() == datetime.timedelta(0)


ENCRYPTED = ["-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"]


@pytest.mark.parametrize("key", ENCRYPTED, ids=["pkcs8", "traditional"])
@pytest.mark.parametrize("place", ["file", "data", "plugin"])
def test_a_key_that_needs_a_password_is_refused(write, tmp_path, place, key):
    """Else the password is asked for at the terminal, and the whole operator waits for it."""
    (tmp_path / "key").write_text(key)
    user = {"client-certificate-data": IN_BASE64}
    if place == "file":
        user["client-key"] = str(tmp_path / "key")
    elif place == "data":
        user["client-key-data"] = base64.b64encode(key.encode()).decode()
    else:
        status = {"clientCertificateData": AUTHORITY, "clientKeyData": key}
        user = {"exec": plugin(tmp_path, f"print({json.dumps(json.dumps({'status': status}))})")}
    write(a=config(user))
    with pytest.raises(CredentialsError, match=r"client-key.* is encrypted") as caught:
        kubeconfig.load()
    assert "BEGIN" not in str(caught.value)
