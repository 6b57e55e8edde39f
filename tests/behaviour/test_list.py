"""Lists: shape, order, pages, selectors, versions, other representations."""

import pytest

from .client import GROUP, TABLE, unique
from .conftest import Collection


def test_shape(api, widgets, configmaps):
    """
    A list has its kind and a version; items of custom resources say their kind, those of built-in kinds
    don't.
    """
    widgets.create("a", {"x": 1})
    body = api.get(widgets.path).ok(200)
    assert (body["kind"], body["apiVersion"]) == ("WidgetList", f"{GROUP}/v1")
    assert body["metadata"]["resourceVersion"].isdigit()
    item = body["items"][0]
    assert (item["kind"], item["apiVersion"], item["spec"]) == ("Widget", f"{GROUP}/v1", {"x": 1})
    configmaps.create("a")
    body = api.get(configmaps.path, labelSelector="!nothing").ok(200)
    assert body["kind"] == "ConfigMapList" and "kind" not in body["items"][0]


def test_clusterwide_and_namespaced_in_order(api, namespace, widgets):
    """Lists are in the order of namespace/name."""
    names = [f"{namespace}-b", namespace]
    api.post("/api/v1/namespaces", {"metadata": {"name": names[0]}}).ok(201)
    other = Collection(api, "widgets", "Widget", names[0])
    for name in ("z", "a", "m"):
        widgets.create(name, {})
    other.create("x", {})
    assert widgets.names() == ["a", "m", "z"]
    items = api.get(widgets.everywhere).ok(200)["items"]
    found = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in items]
    expected = [(names[0], "x"), (namespace, "a"), (namespace, "m"), (namespace, "z")]
    assert [pair for pair in found if pair[0] in names] == expected


def test_limit_and_continue(api, widgets):
    """Pages show one state at one version, whatever is created meanwhile."""
    for name in "abcde":
        widgets.create(name, {})
    pages, query = [], {"limit": 2}
    while not pages or pages[-1]["metadata"].get("continue"):
        if pages:
            query["continue"] = pages[-1]["metadata"]["continue"]
        pages.append(api.get(widgets.path, **query).ok(200))
        widgets.create(f"b{len(pages)}", {})
    names = [[item["metadata"]["name"] for item in page["items"]] for page in pages]
    assert names == [["a", "b"], ["c", "d"], ["e"]]
    assert [page["metadata"].get("remainingItemCount") for page in pages] == [3, 1, None]
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1


def test_limit_with_a_selector_tells_no_remaining_count(api, widgets):
    """With a selector nobody knows how many there are."""
    for name in "abc":
        widgets.create(name, {}, metadata={"labels": {"k": "v"}})
    meta = api.get(widgets.path, limit=2, labelSelector="k=v").ok(200)["metadata"]
    assert meta["continue"] and "remainingItemCount" not in meta


def test_nonsense_continue_is_400(api, widgets):
    """A token that the server did not give is refused."""
    widgets.create("a", {})
    api.get(widgets.path, **{"limit": 1, "continue": "nonsense"}).refused(400, reason="BadRequest")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param("app=web", ["a", "b"], id="equal"),
        pytest.param("app==web", ["a", "b"], id="double-equal"),
        pytest.param("app!=web", ["c", "d"], id="not-equal-matches-absent"),
        pytest.param("app in (web,api)", ["a", "b", "c"], id="in"),
        pytest.param("app notin (web)", ["c", "d"], id="notin-matches-absent"),
        pytest.param("tier", ["a"], id="exists"),
        pytest.param("!tier", ["b", "c", "d"], id="not-exists"),
        pytest.param("app=web,!tier", ["b"], id="and"),
    ],
)
def test_label_selectors(widgets, selector, expected):
    """The full syntax is understood."""
    for name, labels in {
        "a": {"app": "web", "tier": "1"},
        "b": {"app": "web"},
        "c": {"app": "api"},
        "d": {},
    }.items():
        widgets.create(name, {}, metadata={"labels": labels})
    assert widgets.names(labelSelector=selector) == expected


@pytest.mark.parametrize("selector", ["a in", "a=b=c", "=x", "a in (b", "-a-=b", "a=b,,c"])
def test_nonsense_label_selector_is_400(api, widgets, selector):
    """What can't be parsed is refused."""
    api.get(widgets.path, labelSelector=selector).refused(400, reason="BadRequest")


def test_field_selectors(api, namespace, widgets):
    """Custom resources are selected by name and namespace; all else is refused."""
    for name in "abc":
        widgets.create(name, {"x": 1})
    assert widgets.names(fieldSelector="metadata.name=b") == ["b"]
    assert widgets.names(fieldSelector="metadata.name!=b") == ["a", "c"]
    items = api.get(widgets.everywhere, fieldSelector=f"metadata.namespace={namespace}").ok(200)["items"]
    assert len(items) == 3
    for selector in ("spec.x=1", "nonsense", "metadata.uid=1"):
        api.get(widgets.path, fieldSelector=selector).refused(400, reason="BadRequest")


def test_field_selectors_of_events(api, namespace):
    """Events are selected by what they are about."""
    path = f"/api/v1/namespaces/{namespace}/events"
    for name, reason in (("a", "Made"), ("b", "Broken")):
        about = {"kind": "Widget", "name": f"w-{name}", "namespace": namespace}
        api.post(path, {"metadata": {"name": name}, "involvedObject": about, "reason": reason}).ok(201)

    def names(selector):
        return [item["metadata"]["name"] for item in api.get(path, fieldSelector=selector).ok(200)["items"]]

    assert names("involvedObject.name=w-a") == ["a"]
    assert names("reason=Broken,involvedObject.kind=Widget") == ["b"]
    assert names("type!=Warning") == ["a", "b"]


def test_versions_of_lists(api, widgets):
    """0 and older versions are answered, later ones time out, nonsense is refused."""
    first = widgets.create("a", {})["metadata"]["resourceVersion"]
    widgets.create("b", {})
    assert set(widgets.names(resourceVersion="0")) <= {"a", "b"}
    assert sorted(widgets.names(resourceVersion=first)) == ["a", "b"]  # from a cache, in any order
    assert widgets.names(resourceVersion=first, resourceVersionMatch="Exact", limit=10) == ["a"]
    api.get(widgets.path, resourceVersion=str(int(first) + 10**6)).refused(504, reason="Timeout")
    assert api.get(widgets.path, resourceVersion="nonsense").status in (400, 500)


@pytest.mark.parametrize("query", [{"limit": "x"}, {"timeoutSeconds": "abc", "watch": "true"}])
def test_nonsense_numbers_are_400(api, widgets, query):
    """Numbers have to be numbers."""
    api.get(widgets.path, **query).refused(400, reason="BadRequest")


def test_table(api, widgets):
    """What kubectl get prints: columns with the printer columns, rows with the metadata."""
    widgets.create("a", {"size": 3})
    for path, count in ((widgets.path, 1), (widgets.at("a"), 1)):
        table = api.get(path, accept=TABLE).ok(200)
        assert table["kind"] == "Table"
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size"]
        assert [row["cells"] for row in table["rows"]] == [["a", 3]] * count
        row = table["rows"][0]["object"]
        assert row["kind"] == "PartialObjectMetadata" and row["metadata"]["name"] == "a"


def test_table_of_a_kind_without_columns(api, gadgets):
    """Without printer columns there are name and age."""
    gadgets.create("a", {})
    table = api.get(gadgets.path, accept=TABLE).ok(200)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]
    assert table["rows"][0]["cells"][1].endswith("s")


@pytest.mark.parametrize("is_list", [True, False])
def test_partial_object_metadata(api, widgets, is_list):
    """The metadata alone."""
    widgets.create("a", {"x": 1}, metadata={"labels": {"k": "v"}})
    kind = "PartialObjectMetadata" + ("List" if is_list else "")
    accept = f"application/json;as={kind};v=v1;g=meta.k8s.io"
    body = api.get(widgets.path if is_list else widgets.at("a"), accept=accept).ok(200)
    assert body["kind"] == kind and body["apiVersion"] == "meta.k8s.io/v1"
    item = body["items"][0] if is_list else body
    assert item["metadata"]["labels"] == {"k": "v"} and "spec" not in item


def test_version_of_a_list_is_the_servers(api, widgets, configmaps):
    """Whatever is written moves the one counter."""
    before = int(widgets.version())
    configmaps.create(unique("cm"))
    assert int(widgets.version()) > before
