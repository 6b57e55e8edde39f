"""Requests: delays, retries and clocks that misbehave."""

import re
import time
from pathlib import Path

import opkit

PACKAGE = Path(opkit.__file__).parent


def test_ten_edits_leave_one_timer(webapps):
    """Each run asks to come back in 2 s: after ten edits there is still one rhythm, not ten."""

    async def reconcile():
        return opkit.success(requeue_after=2)

    op = webapps(reconcile)
    web = op.add("webapps", "shop")
    for size in range(10):
        op.modify(web, {"spec": {"size": size}})
        op.drain()
        assert len(op.scheduled(web)) == 1
    before = len(op.calls())
    op.advance(20)
    assert len(op.calls()) - before == 10


def test_a_delay_of_a_failure_is_kept_and_a_change_comes_first(webapps):
    """`failure(requeue_after=60)`: no backoff runs it before that; a changed spec does, and its result decides anew."""

    async def reconcile(spec):
        if spec["size"] == 1:
            return opkit.failure("not yet", requeue_after=60)
        return None

    op = webapps(reconcile)
    web = op.add("webapps", "shop", spec={"size": 1})
    op.advance(59)
    assert len(op.calls()) == 1
    op.modify(web, {"spec": {"size": 2}})
    op.drain()
    assert [call.outcome for call in op.calls()] == ["failure", "success"]
    op.advance(300)
    assert len(op.calls()) == 2


def test_the_time_of_day_decides_nothing(webapps, monkeypatch):
    """A clock that is set an hour back and forth moves no due time."""

    async def reconcile():
        return opkit.success(requeue_after=10)

    op = webapps(reconcile)
    op.add("webapps", "shop")
    op.drain()
    for jump in (-3600, 3600):
        real = time.time
        monkeypatch.setattr(time, "time", lambda real=real, jump=jump: real() + jump)
        op.advance(10)
    assert len(op.calls()) == 3


def test_nothing_in_the_runtime_reads_the_time_of_day_for_a_decision():
    """Only stamps are wall time, and only the clock gives them."""
    files = [*PACKAGE.glob("flow/*.py"), *PACKAGE.glob("cluster/*.py"), PACKAGE / "health.py", PACKAGE / "operator.py"]
    found = [path.name for path in files if re.search(r"\btime\.time\(|datetime\.now\(|utcnow\(", path.read_text())]
    assert found == []
