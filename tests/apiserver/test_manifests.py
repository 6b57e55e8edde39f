"""Files of objects: read, ordered, applied."""

import asyncio
import json

import pytest

from opkit.apiserver import manifests

from .conftest import DEFINITION, SHOP, new_store


def test_definitions_come_first_then_namespaces(tmp_path):
    """Files and folders are read with their subfolders, and ordered so that each object can be applied."""
    (tmp_path / "a-shop.yaml").write_text(SHOP)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "z.yml").write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n---\n" + DEFINITION
    )
    (tmp_path / "list.json").write_text(
        json.dumps(
            {
                "kind": "List",
                "apiVersion": "v1",
                "items": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}],
            }
        )
    )
    (tmp_path / "README.md").write_text("not: [an object")
    kinds = [body["kind"] for body in manifests.load([tmp_path])]
    assert kinds == ["CustomResourceDefinition", "Namespace", "Shop", "Secret"]


def test_applied_objects_are_there_and_may_be_applied_again(tmp_path):
    """Applying twice changes nothing the second time; an object without a namespace goes to the given one."""
    (tmp_path / "shop.yaml").write_text(f"{DEFINITION}\n---\n{SHOP}")
    store = new_store()
    bodies = manifests.load([tmp_path / "shop.yaml"])
    applied = asyncio.run(manifests.apply(store, bodies))
    assert [body["metadata"]["name"] for body in applied] == ["shops.example.com", "corner"]
    assert applied[1]["metadata"]["namespace"] == "default"
    version = store.version
    asyncio.run(manifests.apply(store, bodies))
    assert store.version == version


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: [", id="no-yaml"),
        pytest.param("just text", id="no-object"),
        pytest.param("kind: Shop\nmetadata: {name: x}", id="no-version"),
        pytest.param("apiVersion: v1\nkind: Pod\nmetadata: {}", id="no-name"),
        pytest.param("kind: List\napiVersion: v1\nitems: [1]", id="bad-item"),
    ],
)
def test_bad_file_is_named(tmp_path, text):
    """What can't be applied is an error with the name of the file, in one line."""
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(manifests.ManifestError, match=r"bad\.yaml") as caught:
        manifests.load([path])
    assert "\n" not in str(caught.value)


def test_missing_file_is_named(tmp_path):
    """A path that leads nowhere is an error."""
    with pytest.raises(manifests.ManifestError, match="nowhere"):
        manifests.load([tmp_path / "nowhere.yaml"])


def test_object_of_an_unknown_kind_is_named(tmp_path):
    """Without its definition an object can't be applied."""
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP)
    with pytest.raises(manifests.ManifestError, match=r"Shop.*example.com/v1"):
        asyncio.run(manifests.apply(new_store(), manifests.load([path])))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        pytest.param("kind: A\nkind: B\n", r"bad\.yaml:2: ", id="twice"),
        pytest.param("a: 1\nb: !Ref x\n", r"bad\.yaml:2: ", id="tag"),
        pytest.param("a: 1\nb: {{ x }}\n", r"bad\.yaml:2: ", id="template"),
    ],
)
def test_bad_line_is_named(tmp_path, text, where):
    """A file of a folder that was asked for and can't be read is named, with the line."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "bad.yaml").write_text(text)
    with pytest.raises(manifests.ManifestError, match=where):
        manifests.load([tmp_path])


def test_folders_may_hold_anything_else(tmp_path):
    """Folders that are named like files, links in circles and files of other kinds are passed by."""
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "circle").symlink_to(tmp_path)
    (tmp_path / "self.yaml").symlink_to(tmp_path / "self.yaml")
    (tmp_path / "image.png").write_bytes(b"\x00\xff")
    (tmp_path / "shop.yaml").write_text(SHOP)
    assert [body["kind"] for body in manifests.load([tmp_path])] == ["Shop"]
