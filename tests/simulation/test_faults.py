"""The fault plan: which requests are meant, how often, in which order."""

import pytest

from opkit.simulation.faults import NO_FAULT, FaultPlan, Stream


@pytest.mark.parametrize(
    ("planned", "asked", "meant"),
    [
        pytest.param(("patch", "shops"), ("patch", "shops", None), True, id="same"),
        pytest.param(("patch", "shops"), ("apply", "shops", None), True, id="apply-is-a-patch"),
        pytest.param(("apply", "shops"), ("patch", "shops", ""), True, id="patch-is-what-apply-sends"),
        pytest.param(("replace", "shops"), ("update", "shops", None), True, id="replace-is-update"),
        pytest.param(("patch", "shops"), ("get", "shops", None), False, id="other-verb"),
        pytest.param(("patch", "shops"), ("patch", "pods", None), False, id="other-resource"),
        pytest.param(("patch", "shops"), ("patch", "shops", "status"), False, id="subresource-not-meant"),
        pytest.param(("patch", "shops", "status"), ("patch", "shops", "status"), True, id="subresource"),
        pytest.param(("*",), ("delete", "pods", None), True, id="any"),
        pytest.param(("*", "*", "*"), ("patch", "pods", "status"), True, id="any-subresource"),
    ],
)
def test_requests_are_meant_by_verb_resource_and_subresource(planned, asked, meant):
    """A fault is for exactly the requests that its plan names."""
    plan = FaultPlan()
    plan.fail(*planned).once(status=500)
    assert (plan.take(*asked).error is not None) is meant


def test_faults_are_used_up_in_order():
    """The first planned is the first to happen."""
    plan = FaultPlan()
    plan.fail("get").times(2, status=500).once(status=404)
    assert [plan.take("get", "pods").error.status for _ in range(3)] == [500, 500, 404]
    assert plan.take("get", "pods") is NO_FAULT


def test_delay_comes_together_with_another_fault():
    """A request may be late, and then fail."""
    plan = FaultPlan()
    plan.fail("get").delay(3).once(status=503)
    fault = plan.take("get", "pods")
    assert fault.delay == 3 and fault.error.status == 503
    plan.fail("get").delay(1)
    assert plan.take("get", "pods").delay == 1


def test_unreachable_and_lost_answers_differ():
    """In one case nothing is carried out, in the other the write is there."""
    plan = FaultPlan()
    plan.fail("create").unreachable().reply_lost()
    first, second = plan.take("create", "pods"), plan.take("create", "pods")
    assert (first.error.status, first.reply_lost) == (0, False)
    assert (second.error, second.reply_lost) == (None, True)


def test_stream_faults_reach_the_named_streams_only():
    """Streams of other resources, and closed ones, are left alone."""
    plan, ended = FaultPlan(), []
    shops, pods = (
        Stream("shops", lambda error: ended.append(("shops", error.status))),
        Stream("pods", ended.append),
    )
    plan.opened(shops)
    plan.opened(pods)
    assert plan.watch("shops").error(503) == 1
    plan.closed(shops)
    assert plan.watch("shops").disconnect() == 0
    assert ended == [("shops", 503)]


def test_clear_forgets_all():
    """After it, nothing fails and nothing is silent."""
    plan = FaultPlan()
    stream = Stream("shops", lambda error: None)
    plan.opened(stream)
    plan.watch().silence()
    plan.fail("get").times(5)
    plan.clear()
    assert plan.take("get", "shops") is NO_FAULT and not stream.is_silent
