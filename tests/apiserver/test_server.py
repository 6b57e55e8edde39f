"""The server's life: it starts, lets in, watches, fails on demand, and stops cleanly."""

import asyncio
import json
import stat

import aiohttp
import pytest

from opkit.apiserver.server import ApiServer
from opkit.simulation.faults import FaultPlan

from .conftest import new_store

MAPS = "/api/v1/namespaces/default/configmaps"


def body(name):
    return {"metadata": {"name": name}}


class Client:
    """A client of a server in the same loop."""

    def __init__(self, server, session):
        self.server = server
        self.session = session

    async def ask(self, method, path, body=None, **headers):
        data = None if body is None else json.dumps(body)
        headers = {
            "Authorization": f"Bearer {self.server.token}",
            "Content-Type": "application/json",
            **headers,
        }
        async with self.session.request(method, self.server.url + path, data=data, headers=headers) as response:
            return response.status, await response.json(), response.headers

    def watch(self, path=MAPS, **query):
        headers = {"Authorization": f"Bearer {self.server.token}"}
        query = {"watch": "true", **query}
        timeout = aiohttp.ClientTimeout(total=30)
        return self.session.get(self.server.url + path, params=query, headers=headers, timeout=timeout)


def run(test, **options):
    """Run a coroutine function with a client of a new server."""

    async def main():
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            ApiServer(new_store(), **options) as server,
            aiohttp.ClientSession(connector=connector) as session,
        ):
            return await asyncio.wait_for(test(Client(server, session)), 60)

    return asyncio.run(main())


async def next_event(response):
    line = await response.content.readline()
    return json.loads(line) if line else None


def test_kubeconfig_is_private(tmp_path):
    """The kubeconfig holds the token, so only its owner may read it, even if it was there before."""
    path = tmp_path / "kubeconfig"
    path.write_text("old")
    path.chmod(0o644)

    async def test(client):
        client.server.kubeconfig(path)
        assert client.server.token in path.read_text()

    run(test)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_token_in_the_path_lets_in():
    """kubectl sends no header over plain HTTP; openapi paths keep the prefix."""

    async def test(client):
        prefix = f"{client.server.url}/{client.server.token}"
        async with client.session.get(f"{prefix}{MAPS}") as response:
            assert response.status == 200
        async with client.session.get(f"{prefix}/openapi/v3") as response:
            paths = (await response.json())["paths"]
        assert paths["api/v1"]["serverRelativeURL"] == f"/{client.server.token}/openapi/v3/api/v1"
        async with client.session.get(f"{client.server.url}/wrong{MAPS}") as response:
            assert response.status == 401

    run(test)


def test_port_that_is_taken_is_an_error():
    """It is told, and nothing is left open."""

    async def test(client):
        port = int(client.server.url.rpartition(":")[2])
        with pytest.raises(OSError):
            await ApiServer(new_store(), port=port).start()

    run(test)


def test_stop_ends_watches_cleanly():
    """On shutdown watches end with a clean last chunk, at once."""

    async def test(client):
        async with client.watch() as response:
            await asyncio.wait_for(client.server.stop(), 3)
            assert await next_event(response) is None
        assert client.server.store.statistics()["watchers"] == 0

    run(test)


def test_watch_of_a_client_that_has_gone_is_forgotten():
    """It does not stay until its next event."""

    async def test(client):
        response = await client.watch()
        assert client.server.store.statistics()["watchers"] == 1
        response.close()
        async with asyncio.timeout(10):
            while client.server.store.statistics()["watchers"]:  # noqa: ASYNC110  (the server tells nobody of this)
                await asyncio.sleep(0.01)

    run(test)


def test_change_reaches_200_watchers():
    """Each watcher gets every event, in order."""

    async def test(client):
        responses = [await client.watch() for _ in range(200)]
        for number in range(10):
            await client.ask("POST", MAPS, body(f"m{number}"))
        for response in responses:
            names = [(await next_event(response))["object"]["metadata"]["name"] for _ in range(10)]
            assert names == [f"m{number}" for number in range(10)]
            response.close()

    run(test)


def test_slow_watcher_loses_its_stream_and_harms_nobody():
    """A buffer has an end; writers never wait."""

    async def main():
        store = new_store(buffer_limit=5)
        async with ApiServer(store) as server, aiohttp.ClientSession() as session:
            client = Client(server, session)
            async with client.watch(resourceVersion=str(store.version)) as response:
                endpoint = store.endpoint("", "v1", "configmaps")
                for number in range(20):  # without giving the server's tasks a turn
                    store.create(endpoint, body(f"m{number}"), "default")
                events = [event async for event in events_of(response)]
        assert len(events) <= 6
        assert len(store.records(endpoint)) == 20

    asyncio.run(main())


async def events_of(response):
    while (event := await next_event(response)) is not None:
        yield event


def test_refusal_on_demand():
    """A planned failure is answered as a Status, with Retry-After; nothing is carried out."""
    faults = FaultPlan()

    async def test(client):
        faults.fail("create", "configmaps").once(status=429, retry_after=3)
        status, answer, headers = await client.ask("POST", MAPS, body("a"))
        assert (status, answer["reason"], headers["Retry-After"]) == (429, "TooManyRequests", "3")
        assert (await client.ask("POST", MAPS, body("a")))[0] == 201

    run(test, faults=faults)


def test_lost_answer_on_demand():
    """The write is carried out, and the client sees a broken connection."""
    faults = FaultPlan()

    async def test(client):
        faults.fail("create", "configmaps").reply_lost()
        with pytest.raises(aiohttp.ClientError):
            await client.ask("POST", MAPS, body("a"))
        assert (await client.ask("GET", f"{MAPS}/a"))[0] == 200
        faults.fail("create", "configmaps").unreachable()
        with pytest.raises(aiohttp.ClientError):
            await client.ask("POST", MAPS, body("b"))
        assert (await client.ask("GET", f"{MAPS}/b"))[0] == 404

    run(test, faults=faults)


def test_stream_faults_on_demand():
    """Streams are cut, expired, silenced, and fail with a status."""
    faults = FaultPlan()

    async def test(client):
        async with client.watch() as response:
            assert faults.watch("configmaps").disconnect() == 1
            with pytest.raises(aiohttp.ClientError):
                await next_event(response)
        async with client.watch(resourceVersion=str(client.server.store.version)) as response:
            await client.ask("POST", MAPS, body("a"))
            assert (await next_event(response))["type"] == "ADDED"
            faults.watch("configmaps").expire()
            event = await next_event(response)
            assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        old = str(client.server.store.version - 1)
        async with client.watch(resourceVersion=old) as response:
            assert (await next_event(response))["object"]["code"] == 410
        async with client.watch(resourceVersion=str(client.server.store.version)) as response:
            assert faults.watch("configmaps").silence() == 1
            await client.ask("POST", MAPS, body("b"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(response.content.readline(), 0.2)

    run(test, faults=faults)


def test_events_are_held_and_injected_on_demand():
    """A held stream sends nothing until it is released; an injected event is one that never happened."""
    faults = FaultPlan()

    async def test(client):
        async with client.watch(resourceVersion=str(client.server.store.version)) as response:
            faults.watch("configmaps").hold()
            await client.ask("POST", MAPS, body("a"))
            line = asyncio.create_task(response.content.readline())
            done, _ = await asyncio.wait([line], timeout=0.1)
            assert not done
            faults.watch("configmaps").release()
            assert json.loads(await line)["object"]["metadata"]["name"] == "a"
            faults.watch("configmaps").send("ADDED", {"metadata": {"name": "ghost"}})
            assert (await next_event(response))["object"] == {"metadata": {"name": "ghost"}}

    run(test, faults=faults)


def test_errors_of_our_own_are_500_and_logged(monkeypatch, caplog):
    """A defect is told as such, once in the log, and the server goes on."""

    async def test(client):
        with monkeypatch.context() as patched:
            patched.setattr(client.server.store, "list", None)
            status, answer, _ = await client.ask("GET", MAPS)
        assert (status, answer["reason"]) == (500, "InternalError")
        assert (await client.ask("GET", MAPS))[0] == 200

    run(test)
    assert "failed in the embedded API server" in caplog.text
