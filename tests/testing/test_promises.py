"""
The four promises, over random histories of events, faults and restarts: nothing is lost, nothing runs twice at once,
the budget is kept, and the end is the same.
"""

import asyncio
import collections
import random

import pytest

import opkit
from opkit import Settings
from opkit.retry import Retry
from opkit.testing import FakeEventInjector

LIMIT = 2


class World:
    """An operator that copies each webapp's spec into a ConfigMap and its status, and counts who runs at once."""

    def __init__(self):
        self.registry = opkit.Registry()
        self.running = collections.Counter()
        self.doubled = []
        self.most = 0
        opkit.reconcile("example.com", "v1", "webapps", registry=self.registry)(self.reconcile)
        opkit.finalizer("example.com", "v1", "webapps", registry=self.registry, name="example.com/copy")(self.cleanup)

    async def _alone(self, uid, work):
        if self.running[uid]:
            self.doubled.append(uid)
        self.running[uid] += 1
        self.most = max(self.most, sum(self.running.values()))
        try:
            await work
        finally:
            self.running[uid] -= 1

    async def reconcile(self, uid, name, spec, body, cluster, patch):
        patch.status["n"] = spec.get("n")
        await self._alone(uid, self._copy(name, spec, cluster))

    async def _copy(self, name, spec, cluster):
        await asyncio.sleep(0.7)
        copy = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": str(spec.get("n"))}}
        await cluster.apply(copy)

    async def cleanup(self, uid, name, cluster):
        await self._alone(uid, self._remove(name, cluster))

    async def _remove(self, name, cluster):
        await asyncio.sleep(0.3)
        try:
            await cluster.delete(("v1", "configmaps"), name)
        except opkit.NotFound:
            pass


def history(op, chance, steps=25):
    """Somebody works on three webapps, while everything goes wrong now and then."""

    def write():
        name, n = chance.choice("abc"), chance.randrange(100)
        if not op.exists("webapps", name):
            op.add("webapps", name, spec={"n": n})
        elif chance.random() < 0.25:
            op.delete(("webapps", name))
        else:
            op.modify(("webapps", name), {"spec": {"n": n}})

    def refuse():
        verb, resource = chance.choice([("patch", "webapps"), ("patch_status", "webapps"), ("patch", "configmaps"),
                                        ("delete", "configmaps"), ("get", "webapps")])  # fmt: skip
        fault = op.fail(verb, resource)
        chance.choice([
            lambda: fault.times(2, status=chance.choice([409, 422, 429, 500, 503])), fault.unreachable,
            fault.reply_lost, lambda: fault.delay(chance.choice([0.1, 2.0])),
        ])()  # fmt: skip

    def disturb():
        stream = op.watch("webapps")
        chance.choice([stream.disconnect, stream.expire, stream.silence, lambda: stream.error(500)])()

    for _ in range(steps):
        chance.choices(
            [write, refuse, disturb, lambda: op.restart(), lambda: op.restart(kill=True), op.lose_leadership,
             op.gain_leadership],
            [10, 2, 2, 0.5, 1, 0.4, 1],
        )[0]()  # fmt: skip
        op.advance(chance.choice([0, 0, 0.2, 1, 5]))
    op.gain_leadership()


@pytest.mark.parametrize("tens", range(20), ids=lambda tens: f"seeds {tens * 10} to {tens * 10 + 9}")
def test_the_promises_hold(tens):
    """Two hundred seeds; each picks a history, an interleaving and all jitter."""
    for seed in range(tens * 10, tens * 10 + 10):
        world, settings = World(), Settings(retry=Retry(maximum=20))
        settings.parallel.limit = LIMIT
        with FakeEventInjector(world.registry, settings, seed=seed) as op:
            history(op, random.Random(seed))
            op.settle(within=3600)
            said = f"seed {seed}\n{op.timeline()}"
            wanted = {web.name: web.spec["n"] for web in op.list("webapps")}
            statuses = {web.name: web.status.get("n") for web in op.list("webapps")}
            copies = {copy.name: int(copy["data"]["n"]) for copy in op.list("configmaps")}
            assert not any(web.metadata.deletion_timestamp for web in op.list("webapps")), said
        assert not world.doubled, said
        assert world.most <= LIMIT, said
        assert statuses == copies == wanted, said
