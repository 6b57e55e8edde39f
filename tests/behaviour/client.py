"""A client of an API server that hides nothing: requests with any body, watches line by line."""

from __future__ import annotations

import http.client
import itertools
import json
import ssl
import time
import urllib.parse

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
JSON = "application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

GROUP = "behaviour.opkit.dev"
_numbers = itertools.count()


class Answer:
    """The status and the decoded body of an answer."""

    def __init__(self, status, text):
        self.status = status
        self.text = text
        try:
            self.body = json.loads(text)
        except ValueError:
            self.body = None

    def __repr__(self):
        return f"{self.status} {self.text[:600]!r}"

    def ok(self, status=None):
        """The body; the test fails unless the status is this one (or any of success)."""
        assert (200 <= self.status < 300) if status is None else self.status == status, self
        return self.body

    def refused(self, *statuses, reason=None):
        """The Status; the test fails unless the request was refused with one of these codes."""
        assert self.status in statuses, self
        assert self.body["kind"] == "Status" and self.body["code"] == self.status, self
        assert reason is None or self.body["reason"] == reason, self
        return self.body


class Api:
    """One server, one user, one connection that is kept alive."""

    def __init__(self, url, token, certificate=None):
        self.url = url
        self.token = token
        self.certificate = certificate
        self._address = urllib.parse.urlsplit(url)
        self._connection = None

    def connect(self, timeout=30):
        host, port = self._address.hostname, self._address.port
        if self._address.scheme == "https":
            context = ssl.create_default_context(cafile=self.certificate)
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def clone(self):
        return Api(self.url, self.token, self.certificate)

    def headers(self, type=JSON, accept=JSON, token=None):
        return {"Authorization": f"Bearer {token or self.token}", "Content-Type": type, "Accept": accept}

    def request(self, method, path, body=None, type=JSON, accept=JSON, token=None, **query):
        if query:
            path += "?" + urllib.parse.urlencode(query, doseq=True)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        if self._connection is None:
            self._connection = self.connect()
        try:
            self._connection.request(method, path, data, self.headers(type, accept, token))
            response = self._connection.getresponse()
            return Answer(response.status, response.read().decode(errors="replace"))
        except BaseException:
            self.close()
            raise

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, body, **kwargs):
        return self.request("POST", path, body, **kwargs)

    def put(self, path, body, **kwargs):
        return self.request("PUT", path, body, **kwargs)

    def patch(self, path, body, type=MERGE, **kwargs):
        return self.request("PATCH", path, body, type=type, **kwargs)

    def delete(self, path, body=None, **kwargs):
        return self.request("DELETE", path, body, **kwargs)

    def watch(self, path, accept=JSON, timeout=10, **query):
        return Watch(self, path, accept, timeout, query)


class Watch:
    """An open watch; a context manager. `start` tells when the headers arrived."""

    def __init__(self, api, path, accept, timeout, query):
        query = {"watch": "true", "timeoutSeconds": 30, **query}
        self._connection = api.connect(timeout)
        self._connection.request("GET", f"{path}?{urllib.parse.urlencode(query)}", headers=api.headers(JSON, accept))
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.headers = self._response.headers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._response.close()
        self._connection.close()

    def next(self):
        """The next event; `None` at a clean end of the stream."""
        line = self._response.readline()
        return json.loads(line) if line else None

    def take(self, count):
        return [self.next() for _ in range(count)]

    def rest(self):
        """All that comes until the stream ends."""
        return list(iter(self.next, None))

    def until(self, name):
        """All events up to the one about an object of this name."""
        events = []
        while not events or events[-1]["object"]["metadata"].get("name") != name:
            event = self.next()
            assert event is not None, f"the stream ended before {name}: {events}"
            events.append(event)
        return events


def brief(events):
    """Events as (type, name, version)."""
    return [
        (event["type"], event["object"]["metadata"]["name"], event["object"]["metadata"]["resourceVersion"])
        for event in events
    ]


def types(events):
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def unique(prefix):
    """A name that nothing else in this run has."""
    return f"{prefix}-{next(_numbers)}-{time.time_ns() % 10**9}"


def eventually(check, timeout=10):
    """
    Wait until `check` gives something true, and give that: real servers establish kinds in the background.
    """
    deadline = time.monotonic() + timeout
    while not (result := check()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return result
