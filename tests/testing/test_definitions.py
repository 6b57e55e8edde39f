"""Definitions beside the handlers: they are used, and whatever else lies there is left alone."""

import os

import pytest

import opkit
from opkit.apiserver.manifests import ManifestError
from opkit.testing import FakeEventInjector

HANDLERS = "import opkit\n@opkit.reconcile('x.io', 'v1', 'webs')\ndef go(name): ...\n"

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: webs.x.io}
spec:
  group: x.io
  scope: Namespaced
  names: {plural: webs, kind: Web}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              op: {type: string, enum: ['!=', =, =~]}
              size: {type: integer, default: 3}
"""


@pytest.fixture
def injector(tmp_path):
    """An injector for handlers with these files beside them."""
    made = []

    def make(files):
        (tmp_path / "handlers.py").write_text(HANDLERS)
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        made.append(FakeEventInjector(tmp_path / "handlers.py"))
        return made[-1]

    yield make
    for one in made:
        one.close()


def size(op):
    """What the schema's default makes of an object without one; None under a permissive definition."""
    web = op.add("webs", "a", spec={"op": "="})
    op.drain()
    return op.get(web)["spec"].get("size")


@pytest.mark.parametrize(
    "name", ["crd.yaml", "crd.yml", "crds/web.yaml", "crd.json"], ids=["yaml", "yml", "folder", "json"]
)
def test_definitions_are_used(injector, name):
    """Beside the handlers or in a folder there, read as kubectl reads them."""
    if name.endswith("json"):
        import json

        from opkit.apiserver import json_yaml

        assert size(injector({name: json.dumps(json_yaml.load(DEFINITION))})) == 3
    else:
        assert size(injector({name: DEFINITION})) == 3


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("templates/pvc.yaml", "metadata:\n  name: x\n  {% if size %}\n  size: {{ size }}\n  {% endif %}\n"),
        ("templates/crd.yaml", "{{- if .crds }}\n" + DEFINITION + "{{- end }}\n"),
        ("mkdocs.yml", "extensions:\n- emoji: !!python/name:material.extensions.emoji.twemoji\n"),
        ("stack.yaml", "Role: !Ref foo\nOther: !GetAtt a.b\n"),
        ("broken.yaml", "a: [\n\tb: }\n"),
        ("broken_crd.yaml", "kind: CustomResourceDefinition\na: [\n"),
        ("binary.yaml", b"\x00\xff\xfe CustomResourceDefinition \x80"),
        ("nameless.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {}\n"),
        ("old.yaml", "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n"),
        ("list.yaml", "- a\n- kind: CustomResourceDefinition\n"),
        ("text.yaml", "CustomResourceDefinition"),
        ("empty.yaml", ""),
        ("data.json", '{"a": '),
    ],
)
def test_what_is_no_definition_is_left_alone(injector, name, content):
    """Templates, other tools' files and broken ones are none of the injector's business; the definition counts."""
    assert size(injector({name: content, "z_crd.yaml": DEFINITION})) == 3


def test_what_can_not_be_read_is_left_alone(injector, tmp_path):
    """Folders that are named like files, links in circles, pipes and unreadable files."""
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "circle").symlink_to(tmp_path)
    (tmp_path / "self.yaml").symlink_to(tmp_path / "self.yaml")
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "secret.yaml").write_text(DEFINITION)
    (tmp_path / "secret.yaml").chmod(0)
    assert size(injector({"z_crd.yaml": DEFINITION})) == 3


def test_huge_files_are_left_alone(injector, tmp_path):
    """They hold data, and would take minutes."""
    with open(tmp_path / "huge.yaml", "wb") as file:
        file.write(b"kind: CustomResourceDefinition\n")
        file.truncate(2**30)
    assert size(injector({"z_crd.yaml": DEFINITION})) == 3


@pytest.mark.parametrize("parts", [("{{ x", DEFINITION), (DEFINITION, "{{ x"), ("a: *b", DEFINITION, "c: !x y")])
def test_documents_are_read_one_by_one(injector, parts):
    """Of a file with a definition and something broken, the definition is taken, wherever it stands."""
    assert size(injector({"all.yaml": "\n---\n".join(parts)})) == 3


def test_definitions_in_a_list(injector):
    """As `kubectl get crds -o yaml` writes them."""
    items = "".join(f"  {line}\n" for line in DEFINITION.strip().splitlines())
    assert size(injector({"all.yaml": "apiVersion: v1\nkind: List\nitems:\n-" + items[1:]})) == 3


def test_unreadable_definition_is_told_to_the_log(injector, caplog):
    """One that can't be read is named with its line, for whoever wonders why it does not count."""
    injector({"crd.yaml": "a: 1\n---\n" + DEFINITION + "oops: [\n"})
    (record,) = [one for one in caplog.records if one.name == "opkit.testing"]
    assert "crd.yaml:" in record.getMessage()


def test_refused_definition_is_named_with_its_file(injector):
    """A definition that a server would refuse is a mistake that the author wants to know."""
    with pytest.raises(ManifestError, match=r"crds/web\.yaml: the definition webs\.x\.io is refused: "):
        injector({"crds/web.yaml": DEFINITION.replace("scope: Namespaced", "scope: Everywhere")})


def test_what_is_asked_for_and_can_not_be_read_is_an_error(injector, tmp_path):
    """`op.apply` names the file and the line."""
    op = injector({"z_crd.yaml": DEFINITION, "other/bad.yaml": "a: 1\nb: {{ x }}\n"})
    with pytest.raises(ManifestError, match=r"bad\.yaml:2: "):
        op.apply(tmp_path / "other")


def test_versions_of_one_kind_share_a_definition(event_injector):
    """Controllers that name different versions are served both, though nobody has written a definition."""
    registry = opkit.Registry()
    seen = []

    @opkit.reconcile("x.io", "v1", "webs", controller="old", registry=registry)
    def old(resource):
        seen.append(resource.version)

    @opkit.reconcile("x.io", "v2", "webs", controller="new", registry=registry)
    def new(resource):
        seen.append(resource.version)

    op = event_injector(registry)
    op.add(("x.io", "v1", "webs"), "a")
    op.settle()
    assert sorted(seen) == ["v1", "v2"]


def test_a_version_that_the_definition_lacks_is_told(injector):
    """The author has written a definition, so it is not for us to add a version to it."""
    with pytest.raises(ManifestError, match=r"webs\.x\.io beside the handlers does not serve"):
        injector({"definition.yaml": DEFINITION.replace("name: v1", "name: v3")})
