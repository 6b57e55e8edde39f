"""The journal: decisions about objects, and how long those of what is gone are kept."""

import weakref

import pytest

from opkit.flow.journal import KEPT, Journal


@pytest.fixture
def journal():
    return Journal(lambda: 1.0)


def note(journal, uid, number=0):
    journal.note(uid, "next", "controller", number, frozenset(), 1)


def come(journal, uid):
    journal.note(uid, "event", "ADDED", "controller", True, "every filter")


def test_the_last_decisions_are_kept(journal):
    """No more than so many, oldest first."""
    come(journal, "u")
    for number in range(500):
        note(journal, "u", number)
    assert [one["due_in"] for one in journal.explain("u")] == list(range(500 - KEPT, 500))


def test_the_end_of_an_object_is_explained_by_its_name_for_a_while(journal):
    """Until many others are gone as well."""
    for number in range(300):
        come(journal, f"u{number}")
        journal.close(f"u{number}", f"default/o{number}")
    assert journal.explain_gone("default/o299") and journal.explain_gone("default/o100")
    assert not journal.explain_gone("default/o99") and len(journal) == 0


def test_nothing_is_kept_of_what_is_not_explained_any_more(journal):
    """Neither its decisions nor its name."""

    class Name(str):
        pass

    first = Name("default/first")
    seen = weakref.ref(first)
    come(journal, "first")
    journal.close("first", first)
    del first
    assert seen() is not None
    for number in range(300):
        come(journal, f"u{number}")
        journal.close(f"u{number}", f"default/o{number}")
    assert seen() is None


def test_last_words_of_what_is_forgotten_are_not_kept(journal):
    """A run that ends after its object makes no new entry."""
    note(journal, "u")
    assert not journal.explain("u") and len(journal) == 0


def test_an_object_that_comes_back_goes_on_with_its_decisions(journal):
    """It had only left a watch."""
    come(journal, "u")
    journal.close("u", "default/a")
    come(journal, "u")
    assert len(journal.explain("u")) == 2 and len(journal) == 1
