"""Kubeconfig files: merged, resolved and read as kubectl does."""

import datetime
import json
import os
import stat
import sys

import pytest
import yaml

from opkit.cluster import kubeconfig
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
