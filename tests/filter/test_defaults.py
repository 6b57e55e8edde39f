"""The default filters: which updates are worth a run."""

import pytest

from opkit.filter.defaults import accepts_update
from opkit.settings import ReconcileStrategy

OURS = "example.com/cleanup"


def body(version="1", **metadata):
    return {"metadata": {"resourceVersion": version, **metadata}}


def by_generation(new, old, finalizers=()):
    return accepts_update(new, old, strategy=ReconcileStrategy.BY_GENERATION, finalizers=finalizers)


def by_version(new, old):
    return accepts_update(new, old, strategy=ReconcileStrategy.BY_RESOURCE_VERSION)


DELETED = {"deletionTimestamp": "2020-01-01T00:00:00Z", "finalizers": ["a/b"]}


@pytest.mark.parametrize(
    "new, old, accepted",
    [
        pytest.param(body(generation=1), body(generation=1), False, id="same-generation"),
        pytest.param(body(generation=2), body(generation=1), True, id="greater"),
        pytest.param(body(generation=1), body(generation=2), True, id="lower-after-a-restore"),
        pytest.param(body(generation=0), body(generation=0), False, id="zero-is-a-generation"),
        pytest.param(body(), body(generation=1), True, id="none-in-new"),
        pytest.param(body(generation=1), body(), True, id="none-in-old"),
        pytest.param(body(generation=None), body(generation=None), True, id="null"),
        pytest.param({"metadata": None}, {}, True, id="no-metadata"),
        pytest.param(body(generation=1, labels={"a": "b"}), body(generation=1), False, id="labels"),
        pytest.param(body(generation=1, finalizers=["x/y"]), body(generation=1), False, id="foreign-finalizer"),
        pytest.param(body(generation=1, **DELETED), body(generation=1), True, id="just-marked"),
        pytest.param(body(generation=1, **DELETED), body(generation=1, **DELETED), False, id="marked-unchanged"),
        pytest.param(
            body(generation=1, **{**DELETED, "finalizers": []}),
            body(generation=1, **DELETED),
            True,
            id="marked-finalizers-differ",
        ),
        pytest.param(
            body(generation=1, **{**DELETED, "finalizers": None}),
            body(generation=1, **{**DELETED, "finalizers": []}),
            False,
            id="marked-null-finalizers-are-none",
        ),
        pytest.param(
            body(generation=1, **{**DELETED, "deletionTimestamp": "2020-01-01T00:00:09Z"}),
            body(generation=1, **DELETED),
            True,
            id="marked-time-differs",
        ),
        pytest.param(
            body(generation=1, **DELETED), body(generation=2, **DELETED), True, id="marked-generation-differs"
        ),
    ],
)
def test_by_generation(new, old, accepted):
    """By generation: the spec, and the deletion; neither labels nor status."""
    assert by_generation(new, old) is accepted


@pytest.mark.parametrize(
    "new, old, accepted",
    [
        pytest.param([OURS], [OURS], False, id="in-both"),
        pytest.param([], [OURS], True, id="missing-in-new"),
        pytest.param([OURS], None, True, id="missing-in-old"),
        pytest.param(["x/y"], ["x/y"], True, id="missing-in-both"),
        pytest.param(["x/y", OURS], [OURS], False, id="foreign-one-comes"),
    ],
)
def test_by_generation_our_finalizer_missing(new, old, accepted):
    """By generation: an update is accepted while a finalizer of this operator is missing in either body."""
    result = by_generation(body(generation=1, finalizers=new), body(generation=1, finalizers=old), [OURS])
    assert result is accepted


def test_by_generation_every_one_of_our_finalizers_counts():
    """One of several missing is enough."""
    new = old = body(generation=1, finalizers=[OURS])
    assert by_generation(new, old, [OURS, "example.com/other"])


@pytest.mark.parametrize(
    "new, old, accepted",
    [
        pytest.param(body("2"), body("1"), True, id="differs"),
        pytest.param(body("1"), body("2"), True, id="opaque-so-older-differs-too"),
        pytest.param(body("1", generation=2), body("1", generation=1), False, id="same"),
        pytest.param(body(None), body(None), True, id="unknown-may-have-changed"),
    ],
)
def test_by_resource_version(new, old, accepted):
    """By resource version: every update with another version, whatever it changed."""
    assert by_version(new, old) is accepted
