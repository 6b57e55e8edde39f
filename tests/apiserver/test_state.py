"""The state in a file: it comes back, and a crash at any moment leaves the old or the new one."""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from opkit.apiserver import manifests, state
from opkit.apiserver.json_yaml import load_all
from opkit.errors import ApiError
from opkit.simulation.watchers import Selection

from .conftest import DEFINITION, SHOP, new_store


@pytest.fixture
def store():
    """A store with a definition, an object of it and a ConfigMap."""
    made = new_store()
    asyncio.run(manifests.apply(made, [*load_all(DEFINITION), *load_all(SHOP)]))
    made.create(made.endpoint("", "v1", "configmaps"), {"metadata": {"name": "a"}, "data": {"k": "v"}}, "default")
    return made


def everything(store):
    return [(kind.key, record.data) for kind, record in store.all_records()]


def save(path, store):
    state.save(path, store.version, store.all_records())


def test_state_comes_back(store, tmp_path):
    """
    All objects are as they were, with uid and version; custom resources are served and go on being checked.
    """
    path = tmp_path / "state"
    save(path, store)
    restored = state.open_store(path, lambda is_empty: new_store(is_empty=is_empty))
    assert everything(restored) == everything(store)
    shops = restored.endpoint("example.com", "v1", "shops")
    after = restored.patch(shops, "corner", "default", {"spec": {"size": 2}})
    assert after.version > store.version and after.body()["metadata"]["generation"] == 2


def test_versions_of_before_are_too_old(store, tmp_path):
    """The history is not kept: a client that resumes has to list again."""
    path = tmp_path / "state"
    save(path, store)
    restored = state.open_store(path, lambda is_empty: new_store(is_empty=is_empty))
    with pytest.raises(ApiError) as caught:
        restored.watch(restored.endpoint("", "v1", "configmaps"), Selection(), store.version, lambda: None)
    assert caught.value.status == 410


def test_without_a_file_the_store_is_new(tmp_path):
    """A first run begins with the namespaces that are always there."""
    made = state.open_store(tmp_path / "absent", lambda is_empty: new_store(is_empty=is_empty))
    assert made.namespace("default") is not None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("hello", id="text"),
        pytest.param('{"opkit-state": 99, "objects": 0, "version": 1}', id="other-format"),
        pytest.param('{"opkit-state": 1, "objects": 2, "version": 1}\n{}', id="cut"),
    ],
)
def test_file_that_is_no_state_is_refused(tmp_path, text):
    """It is named, and left as it is."""
    path = tmp_path / "state"
    path.write_text(text)
    with pytest.raises(state.StateError, match="state"):
        state.open_store(path, lambda is_empty: new_store(is_empty=is_empty))
    assert path.read_text() == text


def test_failed_write_leaves_the_old_state(store, tmp_path, monkeypatch):
    """A full disk harms nothing, and leaves no rubbish."""
    path = tmp_path / "state"
    save(path, store)
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(state.StateError, match="No space left"):
        save(path, store)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["state"]


WRITER = """
import sys
from pathlib import Path
from opkit.apiserver import state
from opkit.simulation.records import Record
from opkit.simulation.builtins import builtin_kinds
kind = next(kind for kind in builtin_kinds() if kind.plural == "namespaces")
path, number = Path(sys.argv[1]), 0
while True:
    number += 1
    body = {"metadata": {"name": "n", "uid": "u", "annotations": {"number": str(number) * 1000}}}
    state.save(path, number, [(kind, Record.of(body, number))] * 50)
    print(number, flush=True)
"""


def test_crash_leaves_the_old_or_the_new_state(tmp_path):
    """Killed in the middle of writing again and again, the file is always complete."""
    path = tmp_path / "state"
    for attempt in range(5):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            for _ in range(3 + attempt):
                done = int(writer.stdout.readline())
            writer.kill()
        lines = path.read_bytes().splitlines()
        header = json.loads(lines[0])
        assert header["objects"] == len(lines) - 1 == 50
        assert header["version"] >= done
        assert {json.loads(line)["version"] for line in lines[1:]} == {header["version"]}


def test_keeper_goes_on_after_a_failed_write(tmp_path, monkeypatch, caplog):
    """A disk that is full for a while is reported; the next change is written again."""
    path = tmp_path / "state"
    store = new_store()
    maps = store.endpoint("", "v1", "configmaps")

    async def main():
        async with state.StateKeeper(store, path):
            with monkeypatch.context() as broken:
                broken.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
                store.create(maps, {"metadata": {"name": "lost"}}, "default")
                async with asyncio.timeout(10):
                    while "No space left" not in caplog.text:  # noqa: ASYNC110  (logs tell nobody)
                        await asyncio.sleep(0.02)
            store.create(maps, {"metadata": {"name": "next"}}, "default")
        assert b'"lost"' in path.read_bytes() and b'"next"' in path.read_bytes()

    asyncio.run(main())


def test_keeper_writes_changes_soon_and_at_the_end(tmp_path):
    """While the server runs, changes are in the file within a moment; the last ones at the stop."""
    path = tmp_path / "state"
    store = new_store()
    maps = store.endpoint("", "v1", "configmaps")

    async def main():
        async with state.StateKeeper(store, path):
            assert path.exists()
            store.create(maps, {"metadata": {"name": "soon"}}, "default")
            async with asyncio.timeout(10):
                while b'"soon"' not in path.read_bytes():  # noqa: ASYNC110  (files tell nobody of a change)
                    await asyncio.sleep(0.02)
            store.create(maps, {"metadata": {"name": "last"}}, "default")
        assert b'"last"' in path.read_bytes()

    asyncio.run(main())
