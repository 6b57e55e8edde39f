"""The web application's handlers, in virtual time: no cluster, no waiting. `event_injector` comes with opkit."""

import itertools
from pathlib import Path

import pytest

import opkit

HANDLERS = Path(__file__).with_name("handlers.py")
MINUTE = 60


@pytest.fixture
def op(event_injector):
    return event_injector(HANDLERS)


@pytest.fixture
def dns(op, mocker):
    """The outside world: what was asked of the name server."""
    return mocker.patch("handlers.create_dns"), mocker.patch("handlers.drop_dns")


@pytest.fixture
def shop(op, dns):
    """A web application that is up: its Deployment has all of its replicas."""
    web = op.add("webapps", "shop", spec={"replicas": 2, "host": "shop.example.com", "settings": {"COLOUR": "red"}})
    op.drain()
    op.modify_status(("deployments", "shop"), {"readyReplicas": 2, "replicas": 2})
    op.settle()
    return web


def test_creates_its_children(op, shop, dns):
    """A new WebApp gets a Deployment, a Service, a ConfigMap and a DNS record."""
    create_dns, _ = dns
    deployment = op.get("deployments", "shop")
    assert deployment.spec["replicas"] == 2
    assert deployment.metadata["ownerReferences"][0]["uid"] == shop.uid
    assert op.get("configmaps", "shop")["data"] == {"COLOUR": "red"}
    assert op.exists("services", "shop")
    create_dns.assert_called_with("shop.example.com", "shop.default.svc")


def test_says_in_its_status_how_it_is(op, shop):
    """The status has a Ready condition, and the generation that it speaks of."""
    status = op.get(shop).status
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Ready", "True", "AllReplicasReady")
    assert status["observedGeneration"] == op.get(shop).metadata["generation"] == 1


def test_looks_again_while_replicas_are_missing(op, dns):
    """Until all replicas are ready, the handler asks to come back every five seconds."""
    op.add("webapps", "shop", spec={"replicas": 2})
    op.drain()
    (waiting,) = op.scheduled()
    assert (waiting.due_in, waiting.trigger) == (5, {opkit.Trigger.REQUEUE})
    op.advance(15)
    assert len(op.calls("reconcile")) == 4
    op.modify_status(("deployments", "shop"), {"readyReplicas": 2})
    op.settle()  # nothing is due any more, so nothing polls
    assert op.get("webapps", "shop").status["readyReplicas"] == 2


def test_follows_its_spec(op, shop):
    """A change of the spec is a change of the children."""
    op.modify(shop, {"spec": {"replicas": 3, "settings": {"COLOUR": "blue"}}})
    op.drain()
    assert op.get("deployments", "shop").spec["replicas"] == 3
    assert op.get("configmaps", "shop")["data"] == {"COLOUR": "blue"}


def test_puts_right_what_somebody_changed(op, shop):
    """Drift: a Deployment that was scaled by hand is as it should be again, after one run."""
    before = len(op.calls("reconcile"))
    op.modify(("deployments", "shop"), {"spec": {"replicas": 9}})
    op.settle()
    assert op.get("deployments", "shop").spec["replicas"] == 2
    assert len(op.calls("reconcile")) == before + 1


def test_makes_again_what_somebody_deleted(op, shop):
    """Drift: a Service that was deleted is there again."""
    op.delete(("services", "shop"))
    op.settle()
    assert op.exists("services", "shop")


def test_has_nothing_to_do_when_nothing_has_changed(op, shop):
    """Reconciling once more changes nothing in the cluster."""
    op.check_idempotent(shop)


@pytest.mark.parametrize(
    ("patch", "by"),
    [
        pytest.param({"spec": {"contact": "me@example.com"}}, "only_contact_changed", id="only-the-contact"),
        pytest.param({"spec": {"paused": True, "replicas": 9}}, "is_paused", id="paused"),
        pytest.param({"metadata": {"labels": {"tier": "front"}}}, "default", id="only-a-label"),
    ],
)
def test_ignores_what_does_not_concern_it(op, shop, patch, by):
    """The filters refuse, and say which of them did."""
    before = len(op.calls())
    op.modify(shop, patch)
    op.drain()
    assert len(op.calls()) == before
    assert by in op.refused(shop)[-1].by


def test_retries_with_backoff_while_the_name_server_is_down(op, dns):
    """Failures are retried later and later, at most a minute apart, until one succeeds."""
    create_dns, _ = dns
    create_dns.side_effect = OSError("no answer")
    op.add("webapps", "shop", spec={"replicas": 0, "host": "shop.example.com"})
    op.advance(5 * MINUTE)
    times = [call.at for call in op.calls("reconcile")]
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[0] == pytest.approx(1, rel=0.1)
    assert pauses[3] == pytest.approx(8, rel=0.1)
    assert max(pauses) <= 66
    create_dns.side_effect = None
    op.advance(2 * MINUTE)
    assert op.calls("reconcile")[-1].outcome == "success"
    assert op.get("webapps", "shop").status["host"] == "shop.example.com"


def test_a_former_host_is_dropped(op, shop, dns):
    """The status remembers which record there is to be dropped when the host changes."""
    _, drop_dns = dns
    op.modify(shop, {"spec": {"host": "store.example.com"}})
    op.drain()
    drop_dns.assert_called_once_with("shop.example.com")


def test_drops_its_record_before_it_goes(op, shop, dns):
    """The finalizer holds the object until the record is gone."""
    _, drop_dns = dns
    drop_dns.side_effect = OSError("no answer")
    op.delete(shop)
    op.drain()
    assert op.exists(shop)
    drop_dns.side_effect = None
    op.settle()
    assert not op.exists(shop)
    assert op.calls()[-1].handler == "say_goodbye"


def test_a_pause_does_not_hold_up_its_deletion(op, shop, dns):
    """A paused WebApp can be deleted like any other."""
    op.modify(shop, {"spec": {"paused": True}})
    op.delete(shop)
    op.settle()
    assert not op.exists(shop)


def test_a_restart_in_the_middle_of_a_cleanup(op, shop, dns):
    """Killed between the cleanup and the removal of the finalizer: the next process does both."""
    _, drop_dns = dns
    with op.hold("drop_dns_records"):
        op.delete(shop)
        op.drain()
        op.restart(kill=True)
    op.settle()
    assert not op.exists(shop)
    drop_dns.assert_called_once_with("shop.example.com")


def test_somebody_else_has_changed_the_deployment_in_between(op, shop):
    """A conflict is tried again within a second, and is no failed attempt."""
    op.fail("apply", "deployments").once(status=409)
    op.modify(shop, {"spec": {"replicas": 3}})
    op.advance(1)
    failed, repeated = op.calls("reconcile")[-2:]
    assert (failed.outcome, repeated.outcome, repeated.attempt) == ("failure", "success", 1)
    assert repeated.at - failed.at < 1
    assert op.get("deployments", "shop").spec["replicas"] == 3


def test_an_answer_that_is_lost(op, dns):
    """The Deployment was made, and nobody was told: the next attempt does not make another."""
    op.fail("apply", "deployments").reply_lost()
    op.add("webapps", "shop", spec={"replicas": 0})
    op.settle()
    assert [call.outcome for call in op.calls("reconcile")] == ["failure", "success"]
    assert len(op.list("deployments")) == 1


@pytest.mark.opkit_interleavings(5)
def test_many_at_once_in_any_order(op, dns):
    """Whatever the order in which ten of them are handled, each has its children in the end."""
    for number in range(10):
        op.add("webapps", f"shop-{number}", spec={"replicas": 0})
    op.settle()
    assert len(op.list("deployments")) == len(op.list("services")) == 10
