"""Clients of other libraries follow the operator's credentials."""

import contextlib
import http.server
import threading

import kopf
import pytest

from opkit.cluster.clients import make_client


class Server(http.server.ThreadingHTTPServer):
    """Answers an empty list to who has one of the good tokens; writes down the tokens that it was shown."""

    def __init__(self):
        self.good, self.shown, self.bodies = {"Bearer one"}, [], []
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        token = self.headers.get("Authorization")
        self.server.shown.append(token)
        self.server.bodies.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        text = b'{"kind": "NamespaceList", "apiVersion": "v1", "metadata": {}, "items": []}'
        self.send_response(200 if token in self.server.good else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET

    def log_message(self, *_):
        """Tests are quiet."""


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Source:
    """Credentials that change: `now` is what is there, `next` what a refusal brings."""

    def __init__(self, url, **given):
        self.url, self.helps, self.refusals = url, 0, 0
        self.now, self.next = self.make(token="one", **given), None

    def make(self, **given):
        return kopf.ConnectionInfo(server=self.url, **given)

    def current(self):
        return self.now

    def after_refusal(self, refused):
        self.refusals += 1
        if self.next is not None:
            self.now, self.next = self.next, None
        return self.now if self.now is not refused else None

    def helped(self):
        self.helps += 1


def ask_kubernetes(client):
    from kubernetes.client import ApiException, CoreV1Api

    try:
        return len(CoreV1Api(client).list_namespace().items)
    except ApiException as error:
        return error.status


def ask_pykube(client):
    return client.get(url="namespaces").status_code - 200 or 0


@pytest.fixture(params=["kubernetes", "pykube"])
def client(request, server):
    """Gives `source` and a function that asks the server by one and the same client."""
    source = Source(server.url)
    made = make_client(request.param, source)
    ask = {"kubernetes": ask_kubernetes, "pykube": ask_pykube}[request.param]
    with contextlib.closing(made.session if request.param == "pykube" else contextlib.ExitStack()):
        yield source, lambda: ask(made)
    if request.param == "kubernetes":
        made.rest_client.pool_manager.clear()


def test_a_client_takes_the_token_of_the_moment(client, server):
    """Though it was made long before."""
    source, ask = client
    for token in ("one", "two", "three"):
        source.now = source.make(token=token)
        server.good = {f"Bearer {token}"}
        assert ask() == 0
    assert server.shown == ["Bearer one", "Bearer two", "Bearer three"] and source.refusals == 0


def test_a_client_that_is_refused_is_sent_again_with_another_token(client, server):
    """Before the operator itself has noticed anything."""
    source, ask = client
    assert ask() == 0
    server.good, source.next = {"Bearer two"}, source.make(token="two")
    assert ask() == 0 and ask() == 0
    assert server.shown == ["Bearer one", "Bearer one", "Bearer two", "Bearer two"]
    assert (source.refusals, source.helps) == (1, 1)


def test_a_client_without_other_credentials_tells_the_refusal(client, server):
    """In its own way, and once for each request."""
    source, ask = client
    server.good = set()
    assert ask() in (401, 201)
    assert server.shown == ["Bearer one"] and source.helps == 0


def test_another_scheme_than_bearer_is_kept(client, server):
    """A login handler may give any."""
    source, ask = client
    source.now = source.make(scheme="Basic", token="dTpw")
    server.good = {"Basic dTpw"}
    assert ask() == 0


def test_a_write_that_is_refused_is_sent_again_whole(server):
    """With its body."""
    from kubernetes.client import CoreV1Api

    source = Source(server.url)
    source.next = source.make(token="two")
    server.good = {"Bearer two"}
    api = make_client("kubernetes", source)
    CoreV1Api(api).create_namespace({"metadata": {"name": "a"}}, _preload_content=False).close()
    assert server.bodies[0] == server.bodies[1] and b'"a"' in server.bodies[1]
    api.rest_client.pool_manager.clear()


def test_what_connects_by_itself_asks_for_the_token_first(server):
    """As `kubernetes.stream` does, which opens a web socket."""
    source = Source(server.url)
    api = make_client("kubernetes", source)
    source.now = source.make(token="two")
    assert api.configuration.auth_settings()["BearerToken"]["value"] == "Bearer two"


@pytest.mark.parametrize("library", ["kubernetes", "pykube"])
def test_a_certificate_that_is_replaced_is_where_the_client_reads_it(server, library):
    """In the same file, for its owner only; connections with the old one are forgotten."""
    pem = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"
    source = Source(server.url, certificate_data=pem.format("old"), private_key_data=pem.format("key"))
    made = make_client(library, source)
    if library == "kubernetes":
        path = made.configuration.cert_file
    else:
        path = made.config.user["client-certificate"].filename()
    source.now = source.make(token="one", certificate_data=pem.format("new"), private_key_data=pem.format("key"))
    {"kubernetes": ask_kubernetes, "pykube": ask_pykube}[library](made)
    with open(path) as file:
        assert "new" in file.read()
    if library == "kubernetes":
        made.rest_client.pool_manager.clear()
    else:
        made.session.close()
