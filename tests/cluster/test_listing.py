"""From the bytes of a list to its objects, however the network cuts them."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opkit.cluster import listing
from opkit.cluster.listing import ListDecoder

NAMES = st.text('ab{}[],:"\\é漢\n', max_size=4)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), NAMES),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


def thing(name, **fields):
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, **fields}


def listed(items, **fields):
    return {"apiVersion": "example.com/v1", "items": items, "kind": "ThingList", "metadata": {"resourceVersion": "7"}}


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decoded(text, cuts=()):
    """What comes out while it arrives, and the list that is left at the end."""
    decoder, early, begin = ListDecoder(), [], 0
    for cut in [*sorted(cuts), len(text)]:
        early += decoder.feed(text[begin:cut])
        begin = cut
    return early, decoder.end()


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """A few bytes are enough to look at."""
    monkeypatch.setattr(listing, "_ENOUGH", 8)


@pytest.mark.parametrize("shape", [thing, lambda name, **fields: {"metadata": {"name": name}, **fields}])
@given(data=st.data())
def test_nothing_is_lost_or_invented(shape, data):
    """Any objects, cut anywhere: all come, in order, and what stands around them too."""
    values = data.draw(st.lists(VALUES, max_size=5))
    text = compact(listed([shape(str(number), spec=value) for number, value in enumerate(values)]))
    early, rest = decoded(text, data.draw(st.sets(st.integers(0, len(text)), max_size=12)))
    assert {**rest, "items": [*early, *rest["items"]]} == json.loads(text)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_objects_come_before_the_list_is_complete(size):
    """All but the last, since only the next one's beginning tells that an object is over."""
    items = [thing(str(number), spec={"n": number}) for number in range(20)]
    text = compact(listed(items))
    early, rest = decoded(text, range(size, len(text), size))
    assert len(early) >= 18 and [*early, *rest["items"]] == items


def test_objects_inside_of_objects_are_no_border():
    """A template that looks like an object of the list belongs to the object that holds it."""
    items = [thing(str(number), spec=[thing("x"), thing("y")]) for number in range(5)]
    text = compact(listed(items))
    for cut in range(len(text)):
        early, rest = decoded(text, [cut])
        assert [*early, *rest["items"]] == items


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps(listed([thing("a"), thing("b")]), indent=1).encode(), id="spaces"),
        pytest.param(compact({**listed([{"zone": 1, **thing("a")}, thing("b")])}), id="unequal-beginnings"),
        pytest.param(compact({"x": {"items": [thing("c")]}, **listed([thing("a"), thing("b")])}), id="other-items"),
        pytest.param(compact({"kind": "Status", "code": 500}), id="no-list"),
        pytest.param(compact(listed(None)), id="null"),
        pytest.param(b"[]", id="no-object"),
    ],
)
def test_other_forms_are_decoded_at_the_end(text):
    """Whatever a proxy or another server makes of it."""
    early, rest = decoded(text, range(1, len(text)))
    whole = json.loads(text)
    if early:
        rest["items"] = [*early, *rest["items"]]
    assert rest == whole


@pytest.mark.parametrize("cut", [0, 1, 40, 150, 290])
def test_a_list_that_breaks_off_is_no_list(cut):
    """Its end is missing: whoever decodes it is told."""
    text = compact(listed([thing(str(number)) for number in range(5)]))[:cut]
    with pytest.raises(ValueError):
        decoded(text, range(1, len(text), 16))


def test_a_large_object_is_looked_at_a_few_times(monkeypatch):
    """Not once for each chunk, which would take a minute for an object of megabytes."""
    looks = []
    monkeypatch.setattr(listing, "_ENOUGH", 1000)
    monkeypatch.setattr(ListDecoder, "_split", lambda self, text: looks.append(len(text)) or ((), text))
    text = compact(listed([thing("a", spec="x" * 200_000)]))
    decoded(text, range(1000, len(text), 100))
    assert len(looks) < 20


@pytest.mark.parametrize("shape", [thing, lambda name, **fields: {"metadata": {"name": name}, **fields}])
def test_an_object_full_of_what_looks_like_borders_costs_no_more_than_another(monkeypatch, shape):
    """Anybody who may create an object may create this one: it must not stop the loop for a minute."""
    decoded_bytes = []
    real = listing.decode
    monkeypatch.setattr(listing, "_ENOUGH", 10_000)
    monkeypatch.setattr(listing, "decode", lambda text: decoded_bytes.append(len(text)) or real(text))
    evil = shape("evil", spec={"pad": "p" * 30_000, "all": [shape("x")] * 5_000})
    items = [shape("a"), shape("b"), evil, *(shape(str(number)) for number in range(1000))]
    text = compact(listed(items))
    early, rest = decoded(text, range(1000, len(text), 1000))
    assert [*early, *rest["items"]] == items and len(early) > 500
    assert sum(decoded_bytes) < 8 * len(text)


def test_random_chunks_of_a_long_list():
    """A thousand objects in the pieces of a socket."""
    chance = random.Random(1)
    items = [thing(str(number), spec={"text": "}," * chance.randrange(9)}) for number in range(1000)]
    text = compact(listed(items))
    early, rest = decoded(text, (chance.randrange(len(text)) for _ in range(300)))
    assert [*early, *rest["items"]] == items and len(early) > 900
