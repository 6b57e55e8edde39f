"""The plan as text and as data."""

import json
import os
import textwrap

import pytest

import opkit
from opkit.plan.printing import short_path

SOURCE = textwrap.dedent(
    """
    import opkit

    @opkit.filter.update
    def image_changed(new, old): ...

    @opkit.filter.generic
    def paused(body): ...

    @opkit.reconcile("example.com", "v1", "webapps", on_update=image_changed & ~paused,
                     owns=["configmaps"], retry=opkit.Retry(attempts=3), resync=None, timeout=4.5)
    async def web(webapp): ...

    @opkit.reconcile("example.com", "v1", "webapps", label_selector="a=b", default_filters=False, resync=60,
                     strategy=opkit.ReconcileStrategy.BY_RESOURCE_VERSION)
    def dns(webapp): ...

    @opkit.delete("webapps", controller="web")
    def gone(body, reason): ...

    @opkit.finalizer("webapps", when=paused)
    def drop_dns(name): ...

    @opkit.secondary("secrets", of="webapps", generic=paused)
    def of_secret(body): ...

    @opkit.poll(of="webapps", interval=30, each=True)
    def bills(webapp): ...

    @opkit.startup()
    def start(settings): ...

    @opkit.probe()
    def alive(): ...
    """
)


@pytest.fixture
def plan():
    with opkit.Registry().as_default() as registry:
        exec(compile(SOURCE, os.path.abspath("handlers.py"), "exec"), {})
    return registry.compile()


def test_text(plan):
    """All that a person wants to know, in the order in which it matters."""
    expected = """
        resource webapps.v1.example.com
          controller web
            reconcile  web (handlers.py:10), webapp is the object
            delete     gone (handlers.py:18), after the fact and without guarantee
            defaults   strategy from settings
            filter     update: image_changed & ~paused
            owns       configmaps
            retry      after 1 s, then times 2 up to 300 s, 3 attempts at most
            resync     off
            timeout    4.5 s
          controller dns
            reconcile  dns (handlers.py:14), webapp is the object
            labels     a=b
            defaults   off: every update is accepted
            retry      from settings
            resync     every 60 s
            timeout    from settings
          finalizers, in this order
            1. example.com/drop-dns: drop_dns (handlers.py:21) when paused
          secondary secrets: of_secret (handlers.py:24)
            filter     generic: paused
          poll every 30 s, each object: bills (handlers.py:27), webapp is the object

        startup: start (handlers.py:30)
        probe alive: alive (handlers.py:33)

        1 resource, 2 controllers, 1 finalizer, 4 watches per namespace or cluster (3 under SHARED)
    """
    assert str(plan) == textwrap.dedent(expected).strip()


def test_data(plan):
    """The same as plain data, which JSON can hold."""
    data = json.loads(json.dumps(plan.as_dict()))
    (resource,) = data["resources"]
    web, dns = resource["controllers"]
    assert web["reconcile"] == {
        "handler": "web", "file": "handlers.py", "line": 10, "async": True, "object": "webapp",
    }  # fmt: skip
    assert resource["finalizers"][0]["object"] is None
    assert web["filters"] == {"update": "image_changed & ~paused"}
    assert (web["retry"]["attempts"], web["resync"], web["timeout"], web["strategy"]) == (3, "off", 4.5, None)
    assert (dns["resync"], dns["label_selector"], dns["default_filters"]) == (60, "a=b", False)
    assert dns["strategy"] == "by-resource-version" and dns["delete"] is None
    assert resource["finalizers"][0]["name"] == "example.com/drop-dns"
    assert resource["secondaries"][0]["resource"] == "secrets"
    assert resource["polls"][0]["interval"] == 30
    assert data["probes"][0]["id"] == "alive" and data["startup"][0]["handler"] == "start"


def test_watches_are_counted_once(plan):
    """Controllers with equal selectors share a watch, and so do resources that several of them own."""
    watches = [(one["resource"], one["label_selector"]) for one in plan.as_dict()["watches"]]
    assert watches == [
        ("webapps.v1.example.com", None),
        ("configmaps", None),
        ("webapps.v1.example.com", "a=b"),
        ("secrets", None),
    ]


def test_paths_are_short_below_the_current_folder(tmp_path, monkeypatch):
    """A file below the current folder is shown relative to it, any other as it is."""
    monkeypatch.chdir(tmp_path)
    assert short_path(str(tmp_path / "a" / "b.py")) == os.path.join("a", "b.py")
    assert short_path(f"{tmp_path}-other/b.py") == f"{tmp_path}-other/b.py"
