"""A custom resource's schema at work."""

import pytest


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        pytest.param({}, "spec.size", "FieldValueRequired", id="required"),
        pytest.param({"size": "x"}, "spec.size", "FieldValueInvalid", id="type"),
        pytest.param({"size": 1.5}, "spec.size", None, id="integer"),
        pytest.param({"size": True}, "spec.size", None, id="boolean-is-no-integer"),
        pytest.param({"size": 0}, "spec.size", "FieldValueInvalid", id="minimum"),
        pytest.param({"size": 10}, "spec.size", "FieldValueInvalid", id="maximum"),
        pytest.param({"size": 1, "color": "green"}, "spec.color", "FieldValueNotSupported", id="enum"),
        pytest.param({"size": 1, "name": "A"}, "spec.name", "FieldValueInvalid", id="pattern"),
        pytest.param({"size": 1, "tags": [1]}, "spec.tags", "FieldValueInvalid", id="items"),
        pytest.param({"size": 1, "weights": {"a": "x"}}, "spec.weights.a", "FieldValueInvalid", id="additional"),
        pytest.param([], "spec", "FieldValueInvalid", id="spec-type"),
    ],
)
def test_violations_are_422_with_causes(api, stricts, spec, field, reason):
    """Each violation is a cause that names the field; details.kind is the Kind."""
    status = api.post(stricts.path, stricts.body("a", spec)).refused(422, reason="Invalid")
    assert status["details"]["kind"] == "Strict" and status["details"]["name"] == "a"
    causes = [(cause["field"].lstrip(".").partition("[")[0], cause["reason"]) for cause in status["details"]["causes"]]
    assert any(found == field and reason in (None, why) for found, why in causes), causes


def test_violations_by_patch_are_422(api, stricts):
    """Updates are validated as well, and change nothing when refused."""
    before = stricts.create("a", {"size": 1})
    api.patch(stricts.at("a"), {"spec": {"size": 100}}).refused(422, reason="Invalid")
    assert stricts.get("a") == before


def test_unknown_fields_are_pruned_and_preserved_where_told(stricts):
    """Fields that the schema does not know are dropped at every level, but for open objects."""
    spec = {"size": 1, "unknown": 1, "nested": {"unknown": 1, "depth": 7}, "free": {"any": {"thing": [1]}}}
    made = stricts.create("a", spec, unknown={"top": 1})
    assert made["spec"] == {
        "size": 1,
        "nested": {"depth": 7},
        "free": {"any": {"thing": [1]}},
        "mode": "fast",
    }
    assert "unknown" not in made


def test_defaults_are_applied_on_write(stricts):
    """
    Defaults are filled in on creation, inside of objects that are there, and again when a patch removes them.
    """
    made = stricts.create("a", {"size": 1, "nested": {}})
    assert made["spec"] == {"size": 1, "mode": "fast", "nested": {"depth": 3}}
    assert stricts.patch("a", {"spec": {"mode": "slow"}})["spec"]["mode"] == "slow"
    assert stricts.patch("a", {"spec": {"mode": None}})["spec"]["mode"] == "fast"


def test_nulls_are_dropped_but_for_nullable_fields(stricts, widgets):
    """A null is kept where the schema says so; elsewhere the field counts as absent."""
    assert stricts.create("a", {"size": 1, "maybe": None, "color": None})["spec"] == {
        "size": 1,
        "maybe": None,
        "mode": "fast",
    }
    body = widgets.body("a") | {"spec": None}
    assert "spec" not in widgets.api.post(widgets.path, body).ok(201)
