"""A handler that uses the `kubernetes` client: a mock takes the client's place, all else is as in production."""

from pathlib import Path

import kubernetes.client
import pytest

HANDLERS = Path(__file__).with_name("handlers.py")


@pytest.fixture
def core(mocker):
    """The part of the client that the handler uses."""
    return mocker.patch("kubernetes.client.CoreV1Api").return_value


@pytest.fixture
def op(event_injector, mocker, core):
    return event_injector(HANDLERS, clients={"kubernetes": mocker.sentinel.client})


def claim(size, phase="Bound"):
    return kubernetes.client.V1PersistentVolumeClaim(
        spec=kubernetes.client.V1PersistentVolumeClaimSpec(
            resources=kubernetes.client.V1VolumeResourceRequirements(requests={"storage": size})
        ),
        status=kubernetes.client.V1PersistentVolumeClaimStatus(phase=phase),
    )


def test_claims_what_is_missing(op, core):
    """A new Disk gets a claim that it owns."""
    core.read_namespaced_persistent_volume_claim.side_effect = kubernetes.client.ApiException(status=404)
    core.create_namespaced_persistent_volume_claim.return_value = claim("1Gi", "Pending")
    disk = op.add("disks", "data", spec={"size": "1Gi"})
    op.drain()
    ((namespace, body), _) = core.create_namespaced_persistent_volume_claim.call_args
    assert namespace == "default"
    assert body["metadata"]["ownerReferences"][0]["uid"] == disk.uid
    assert op.get(disk).status == {"size": "1Gi", "phase": "Pending"}


def test_asks_for_more(op, core):
    """A larger Disk is a larger claim."""
    core.read_namespaced_persistent_volume_claim.return_value = claim("1Gi")
    op.add("disks", "data", spec={"size": "2Gi"})
    op.drain()
    core.patch_namespaced_persistent_volume_claim.assert_called_once()


def test_gives_up_on_less_until_it_is_changed(op, core):
    """No retry can make a disk shrink; a change of the object is a new start."""
    core.read_namespaced_persistent_volume_claim.return_value = claim("2Gi")
    disk = op.add("disks", "data", spec={"size": "1Gi"})
    op.settle()
    assert [call.outcome for call in op.calls("claim")] == ["failure"]
    op.modify(disk, {"spec": {"size": "2Gi"}})
    op.settle()
    assert op.calls("claim")[-1].outcome == "success"
