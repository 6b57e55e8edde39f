"""Settings: words for enumerations, and values that no operator can work with."""

import dataclasses
import math
import os
import re
from pathlib import Path

import pytest

import opkit
from opkit.settings import LeaderElectionSettings

PACKAGE = Path(opkit.__file__).parent


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


def test_defaults():
    """What holds for an operator that sets nothing."""
    settings = opkit.Settings()
    assert settings.reconcile.strategy == opkit.ReconcileStrategy.BY_GENERATION
    assert settings.watch.strategy == opkit.WatchStrategy.PER_CONTROLLER
    assert settings.parallel.conflict == opkit.ConflictStrategy.WAIT
    assert settings.parallel.limit == (os.cpu_count() or 1) * 2
    assert settings.parallel.requeue_delay == 5
    assert settings.finalizers.auto_attach and settings.finalizers.auto_detach
    assert settings.retry == opkit.Retry(initial=1, factor=2, maximum=300, jitter=0.1, attempts=None)


def groups(settings):
    return [getattr(settings, field.name) for field in dataclasses.fields(settings)]


@pytest.mark.parametrize(
    "name",
    sorted(
        field.name
        for group in groups(opkit.Settings())
        if dataclasses.is_dataclass(group) and not isinstance(group, LeaderElectionSettings)
        for field in dataclasses.fields(group)
    ),
)
def test_each_setting_is_read_somewhere(name):
    """A setting that nobody reads would be a promise that is not kept."""
    sources = [path.read_text() for path in PACKAGE.rglob("*.py") if path.name not in ("settings.py", "retry.py")]
    if name in {field.name for field in dataclasses.fields(opkit.Retry)}:
        sources.append((PACKAGE / "retry.py").read_text())
    assert any(re.search(rf"\.{name}\b", source) for source in sources)
