"""Several controllers with overlapping selectors, while labels change at random, on a real API server."""

import asyncio
import random

import pytest

import opkit
from opkit.settings import WatchStrategy

from .conftest import GROUP

pytestmark = pytest.mark.kube

THINGS = (GROUP, "v1", "things")
OBJECTS, FLIPS = 300, 2000
SELECTORS = {"one": "a=1", "two": "a in (1,2),!c", "three": "b"}


@pytest.mark.parametrize("strategy", list(WatchStrategy), ids=str)
def test_each_controllers_view_is_its_selectors_result(running, registry, things, strategy):
    """After 2,000 flips each controller knows just what its selector matches; nothing overlapped, the budget held."""
    views = {name: set() for name in SELECTORS}
    active, overlaps, most = set(), [], [0]

    def declare(controller, selector):
        @opkit.reconcile(*THINGS, controller=controller, label_selector=selector, registry=registry)
        async def reconcile(name):
            if name in active:
                overlaps.append(name)
            active.add(name)
            most[0] = max(most[0], len(active))
            views[controller].add(name)
            await asyncio.sleep(0)
            active.discard(name)

        @opkit.delete(*THINGS, controller=controller, registry=registry)
        async def gone(name):
            views[controller].discard(name)

    for controller, selector in SELECTORS.items():
        declare(controller, selector)
    chance = random.Random(7)
    labels = {f"x{number}": {} for number in range(OBJECTS)}
    for name in labels:
        things.create(name)
    settings = opkit.Settings()
    settings.watch.strategy = strategy
    settings.parallel.limit = 4
    with running(registry, settings) as operator:
        for _ in range(FLIPS):
            name, key = chance.choice(list(labels)), chance.choice("abc")
            value = chance.choice([None, "1", "2"])
            things.patch(name, {"metadata": {"labels": {key: value}}})
            labels[name] = {**labels[name], key: value}
        operator.quiet(2)
        streams = len(operator.operator.statistics().streams)
    expected = {
        "one": {name for name, has in labels.items() if has.get("a") == "1"},
        "two": {name for name, has in labels.items() if has.get("a") and not has.get("c")},
        "three": {name for name, has in labels.items() if has.get("b")},
    }
    assert views == expected
    assert overlaps == []
    assert most[0] <= 4
    assert streams == (1 if strategy is WatchStrategy.SHARED else 3)
