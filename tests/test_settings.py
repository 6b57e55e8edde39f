"""Settings: words for enumerations, and values that no operator can work with."""

import math

import pytest

import opkit


def test_a_word_stands_for_its_value():
    """Enumerated settings may be given as text."""
    settings = opkit.Settings()
    settings.reconcile.strategy = "by-resource-version"
    settings.finalizers.on_leave = "keep"
    assert settings.reconcile.strategy is opkit.ReconcileStrategy.BY_RESOURCE_VERSION
    assert settings.finalizers.on_leave == "keep"


def test_an_unknown_word_is_told_with_those_that_there_are():
    """The message names all words."""
    with pytest.raises(ValueError, match="one of wait, discard, requeue-after-delay, not 'later'"):
        opkit.Settings().parallel.conflict = "later"


def test_an_unknown_setting_is_told_with_those_that_there_are():
    """A misspelt setting is no new one."""
    with pytest.raises(AttributeError, match="there is no setting 'limits' here; there are: conflict, limit"):
        opkit.Settings().parallel.limits = 3


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [
        ("parallel", "limit", 0),
        ("parallel", "threads", 0),
        ("parallel", "requeue_delay", -1),
        ("reconcile", "resync", math.nan),
        ("reconcile", "timeout", math.inf),
        ("shutdown", "grace", -5),
        ("leader_election", "mode", "single"),
    ],
    ids=lambda value: str(value),
)
def test_what_cant_be_served_is_refused(event_injector, group, name, value):
    """It ends the start in one line, rather than in an operator that does nothing."""
    registry = opkit.Registry()
    opkit.reconcile("example.com", "v1", "webs", registry=registry)(lambda web: None)
    settings = opkit.Settings()
    setattr(getattr(settings, group), name, value)
    op = event_injector(registry, settings)
    with pytest.raises(opkit.OpkitError, match="the settings can't be served"):
        op.drain()


def test_frozen_settings_say_where_to_change_them():
    """After the start nothing changes any more."""
    settings = opkit.Settings()
    settings.freeze()
    with pytest.raises(AttributeError, match="set 'limit' in a startup handler"):
        settings.parallel.limit = 3
