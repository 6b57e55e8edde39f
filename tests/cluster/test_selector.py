"""Label and field selectors: their grammar, what they match, when two are equal."""

import pytest

from opkit.cluster.selector import FieldSelector, LabelSelector, parse_fields, parse_labels

LABELS = {"app": "web", "tier": "front", "weight": "7", "example.com/owner": "me", "empty": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", True, id="empty-selects-all"),
        pytest.param("app=web", True, id="equal"),
        pytest.param("app==web", True, id="double-equal"),
        pytest.param("app = web , tier = front", True, id="spaces"),
        pytest.param("app=api", False, id="other-value"),
        pytest.param("app!=web", False, id="not-equal"),
        pytest.param("absent!=web", True, id="not-equal-matches-absent"),
        pytest.param("app in (web, api)", True, id="in"),
        pytest.param("absent in (web)", False, id="in-needs-the-label"),
        pytest.param("app notin (web,api)", False, id="notin"),
        pytest.param("absent notin (web)", True, id="notin-matches-absent"),
        pytest.param("tier", True, id="exists"),
        pytest.param("absent", False, id="exists-absent"),
        pytest.param("!absent", True, id="not-exists"),
        pytest.param("! tier", False, id="not-exists-present"),
        pytest.param("example.com/owner=me", True, id="qualified-key"),
        pytest.param("empty=", True, id="empty-value"),
        pytest.param("absent=", False, id="empty-value-needs-the-label"),
        pytest.param("app in (,web)", True, id="empty-value-in-list"),
        pytest.param("weight>5", True, id="greater"),
        pytest.param("weight<5", False, id="less"),
        pytest.param("app>5", False, id="greater-of-a-word"),
        pytest.param("app=web,tier!=back,weight,!absent", True, id="all-must-hold"),
        pytest.param("in in (in)", False, id="keyword-as-key"),
    ],
)
def test_label_selector_matches(text, expected):
    """A selector matches as on a server: every requirement holds; != and notin hold for absent labels."""
    assert parse_labels(text).matches(LABELS) is expected


@pytest.mark.parametrize(
    "text",
    [
        "a=b,",
        ",a",
        "a==b==c",
        "a in b",
        "a in (b",
        "a in ()x",
        "-a",
        "a=b c",
        "a=-",
        "!!a",
        "!",
        "a>b",
        "a/b/c",
        "(",
        "a=" + "x" * 64,
    ],
)
def test_nonsense_label_selector(text):
    """What Kubernetes would refuse is a ValueError in one line."""
    with pytest.raises(ValueError) as caught:
        LabelSelector.parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param("a=b", "a==b", id="operators"),
        pytest.param("a=b,c", " c , a = b ", id="order"),
        pytest.param("a in (y,x)", "a in (x,y,x)", id="values"),
        pytest.param("a in (x)", "a=x", id="one-value"),
        pytest.param({"a": "x"}, "a=x", id="dict"),
        pytest.param({"matchLabels": {"a": "x"}}, "a=x", id="match-labels"),
        pytest.param(
            {
                "matchExpressions": [
                    {"key": "a", "operator": "NotIn", "values": ["x"]},
                    {"key": "b", "operator": "DoesNotExist"},
                ]
            },
            "!b,a!=x",
            id="match-expressions",
        ),
        pytest.param(None, "", id="none"),
    ],
)
def test_label_selectors_are_equal_when_they_mean_the_same(left, right):
    """Selectors compare, hash and print by meaning, not by spelling."""
    one, two = LabelSelector.parse(left), LabelSelector.parse(right)
    assert one == two and hash(one) == hash(two) and str(one) == str(two)
    assert LabelSelector.parse(str(one)) == one


def test_no_labels_at_all():
    """Absent labels read as empty."""
    assert LabelSelector.parse("!a").matches(None)
    assert not LabelSelector.parse("a").matches(None)


BODY = {
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"paused": True, "size": 3},
    "reason": "a,b=c",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", True, id="empty"),
        pytest.param("metadata.name=web", True, id="equal"),
        pytest.param("metadata.name==web,metadata.namespace!=other", True, id="both"),
        pytest.param("metadata.name!=web", False, id="not-equal"),
        pytest.param("status.phase=", True, id="absent-is-empty"),
        pytest.param("status.phase!=Running", True, id="absent-differs"),
        pytest.param("spec.paused=true", True, id="boolean"),
        pytest.param("spec.size=3", True, id="number"),
        pytest.param(r"reason=a\,b\=c", True, id="escapes"),
    ],
)
def test_field_selector_matches(text, expected):
    """Fields are compared as text; what is absent is the empty text."""
    assert FieldSelector.parse(text).matches(BODY) is expected


@pytest.mark.parametrize("text", ["metadata.name", "=x", "a=b=c", "!a", "a=b\\"])
def test_nonsense_field_selector(text):
    """What is not PATH=VALUE is a ValueError in one line."""
    with pytest.raises(ValueError) as caught:
        FieldSelector.parse(text)
    assert "\n" not in str(caught.value)


def test_field_selectors_are_normalised():
    """Field selectors compare and print by meaning, and their printed form reads back."""
    assert FieldSelector.parse({"a": "x", "b": "y"}) == FieldSelector.parse("b==y, a=x")
    odd = FieldSelector.parse(r"a=x\,y\\")
    assert FieldSelector.parse(str(odd)) == odd
    assert parse_fields("b==y,a!=x") == (("a", "!=", "x"), ("b", "=", "y"))
