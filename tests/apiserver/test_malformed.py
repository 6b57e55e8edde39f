"""Whatever is sent, the answer is a Status with the right code: never a 500, never a hang."""

import http.client
import json
import socket
import urllib.parse

import pytest

from opkit.testing.embedded import EmbeddedCluster

WHERE = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def server():
    with EmbeddedCluster() as running:
        yield running


@pytest.fixture
def ask(server):
    """Send one request on a connection of its own."""
    address = urllib.parse.urlsplit(server.url)

    def send(method, path, body=None, **headers):
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
        headers = {"Authorization": f"Bearer {server.token}", **headers}
        headers = {key.replace("_", "-"): value for key, value in headers.items() if value is not None}
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        return response.status, json.loads(text) if response.headers.get_content_type() == "application/json" else None

    return send


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="half"),
        pytest.param(b"[1, 2]", id="list"),
        pytest.param(b"NaN", id="nan"),
        pytest.param(b'{"metadata": {"name": "a"}, "data": {"a": NaN}}', id="nan-inside"),
        pytest.param(b'{"metadata": {"name": "a"}, "data": {"a": 1e999}}', id="infinite"),
        pytest.param(b'{"a": ' + b"9" * 10_000 + b"}", id="endless-number"),
        pytest.param(b"[" * 100_000, id="deep-list"),
        pytest.param(
            b'{"metadata": {"name": "a"}, "data": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001, id="deep-object"
        ),
        pytest.param(b"\xff\xfe\x00", id="no-text"),
        pytest.param(b'{"metadata": "text"}', id="metadata-type"),
        pytest.param(b'{"metadata": {"name": 1}}', id="name-type"),
        pytest.param(b'{"metadata": {"name": "a", "finalizers": "x"}}', id="finalizers-type"),
        pytest.param(b'{"metadata": {"name": "a", "ownerReferences": [1]}}', id="owners-type"),
        pytest.param(b'{"metadata": {"name": "a", "labels": ["x"]}}', id="labels-type"),
        pytest.param(b'{"metadata": {"name": "a"}, "data": "text"}', id="data-type"),
        pytest.param(b'{"apiVersion": 1, "kind": {}, "metadata": {"name": "a"}}', id="kind-type"),
    ],
)
def test_bad_bodies_are_400(ask, body):
    """Bodies of any shape are refused, none breaks the server."""
    status, answer = ask("POST", WHERE, body, Content_Type="application/json")
    assert (status, answer["kind"], answer["reason"]) == (400, "Status", "BadRequest")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"a: [", id="broken"),
        pytest.param(b"a: &x [1]\nb: *x", id="alias"),
        pytest.param(b"? [a, b]\n: c", id="list-as-key"),
        pytest.param(b"metadata: {name: a}\ndata: {a: !!binary aGVsbG8=}", id="binary"),
        pytest.param(b"!!python/object/apply:os.getcwd []", id="python"),
        pytest.param(b"metadata: {name: a}\ndata: {a: .inf}", id="infinite"),
        pytest.param(b"a: 1\n---\nb: 2", id="two-documents"),
    ],
)
def test_bad_yaml_is_400(ask, text):
    """YAML that is no JSON is refused; aliases are, too."""
    status, answer = ask("POST", WHERE, text, Content_Type="application/yaml")
    assert (status, answer["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"k8s\x00", 415, id="no-kind"),
        pytest.param(b"nothing", 400, id="no-magic"),
        pytest.param(b"k8s\x00\xff\xff\xff", 400, id="cut-number"),
        pytest.param(b"k8s\x00\x0a\x7fabc", 400, id="cut-text"),
        pytest.param(b"k8s\x00\x0a\x0b\x0a\x02v1\x12\x05Event\x12\x00", 415, id="unsupported-kind"),
    ],
)
def test_bad_protobuf_is_refused_cleanly(ask, body, code):
    """Protobuf is decoded for a few kinds; all else is a clean refusal."""
    status, answer = ask("POST", WHERE, body, Content_Type="application/vnd.kubernetes.protobuf")
    assert (status, answer["kind"]) == (code, "Status")


def test_body_of_50_mb_is_413(server):
    """It is refused without being held in memory, whether its length is announced or not."""
    address = urllib.parse.urlsplit(server.url)
    head = f"POST {WHERE} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n"
    for length in ("Content-Length: 52428800", "Transfer-Encoding: chunked"):
        with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
            connection.sendall(f"{head}Content-Type: application/json\r\n{length}\r\n\r\n".encode())
            block = b"x" * 65536 if "Content" in length else b"10000\r\n" + b"x" * 65536 + b"\r\n"
            try:
                for _ in range(800):
                    connection.sendall(block)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has answered and closed in the middle
            assert b" 413 " in connection.recv(200).splitlines()[0]


@pytest.mark.parametrize(
    "query",
    [
        "labelSelector=%21%21",
        "labelSelector=" + "a" * 7000,
        "labelSelector=a+in+(" + "b%2C" * 2000,
        "labelSelector=" + "(" * 3000,
        "fieldSelector=a%3Db%3Dc",
        "fieldSelector=spec.nothing%3D1",
        "limit=many",
        "limit=" + "9" * 100,
        "continue=%ff%fe",
        "continue=eyJydiI6ICJ4In0%3D",
        "resourceVersion=-1",
        "resourceVersion=1e3",
        "resourceVersion=%D9%A3",
        "watch=1&timeoutSeconds=soon",
        "watch=1&resourceVersion=x",
    ],
)
def test_absurd_queries_are_400(ask, query):
    """Selectors, numbers and tokens that make no sense are refused."""
    status, answer = ask("GET", f"{WHERE}?{query}")
    assert (status, answer["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    "path",
    ["/nope", "/apis/no.group/v1/things", "/api/v1/a/b/c/d/e/f", "//", "/api/v1/namespaces//x", "/%00"],
)
def test_unknown_paths_are_404(ask, path):
    """What is nowhere is not found (the root is, by any number of slashes)."""
    assert ask("GET", path)[0] == (200 if path == "//" else 404)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", WHERE),
        ("PATCH", WHERE),
        ("OPTIONS", WHERE),
        ("TRACE", f"{WHERE}/a"),
        ("DELETE", "/api/v1/namespaces"),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ],
)
def test_unsupported_methods_are_405(ask, method, path):
    """Verbs that a resource does not have are not allowed."""
    assert ask(method, path, b"{}")[0] == 405


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer wrong", "Basic dXNlcjpwYXNz", "Bearer " + "x" * 4000, "Bearer \u00e9"],
)
def test_wrong_tokens_are_401(ask, authorization):
    """Without the token nothing is told."""
    status, answer = ask("GET", WHERE, Authorization=authorization)
    assert (status, answer["reason"]) == (401, "Unauthorized")


def test_health_and_version_need_no_token(ask):
    """But a wrong one is wrong there, too."""
    for path in ("/healthz", "/readyz", "/version"):
        assert ask("GET", path, Authorization=None)[0] == 200
        assert ask("GET", path, Authorization="Bearer wrong")[0] == 401


def test_garbage_instead_of_http(server, ask):
    """What is no HTTP at all gets an error, and harms nobody."""
    address = urllib.parse.urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(b"\x16\x03\x01 this is no http\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.")
    assert ask("GET", WHERE)[0] == 200


def test_lone_surrogates_are_stored_as_replacement_characters(ask):
    """Text that is no Unicode is mended, as in Go."""
    body = b'{"metadata": {"name": "odd"}, "data": {"k": "a\\ud800b"}}'
    status, answer = ask("POST", WHERE, body, Content_Type="application/json")
    assert status == 201 and answer["data"] == {"k": "a\ufffdb"}


def test_exploding_json_patch_is_413(ask):
    """Copies of copies are stopped before they fill the memory."""
    ask("POST", WHERE, json.dumps({"metadata": {"name": "bomb"}, "data": {"k": "x" * 1000}}))
    patch = [{"op": "add", "path": "/a", "value": ["x" * 100]}]
    patch += [{"op": "copy", "from": "/a", "path": "/a/-"} for _ in range(40)]
    status, answer = ask("PATCH", f"{WHERE}/bomb", json.dumps(patch), Content_Type="application/json-patch+json")
    assert (status, answer["reason"]) == (413, "RequestEntityTooLarge")
