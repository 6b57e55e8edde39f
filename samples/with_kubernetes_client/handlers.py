"""
Disks: a PersistentVolumeClaim for each Disk, by the `kubernetes` client.

The parameter that is annotated with `kubernetes.client.ApiClient` receives a client which is logged in as the operator
is. The client blocks, so the handler is a plain `def`: it runs in a thread.
"""

import kubernetes.client
from kubernetes.utils import parse_quantity

import opkit


@opkit.reconcile("example.com", "v1", "disks")
def claim(disk, spec, name, namespace, patch, logger, api: kubernetes.client.ApiClient):
    core = kubernetes.client.CoreV1Api(api)
    try:
        existing = core.read_namespaced_persistent_volume_claim(name, namespace)
    except kubernetes.client.ApiException as error:
        if error.status != 404:
            raise
        existing = core.create_namespaced_persistent_volume_claim(namespace, claim_for(disk))
        logger.info("Claimed %s.", spec["size"])

    claimed = existing.spec.resources.requests["storage"]
    if parse_quantity(spec["size"]) < parse_quantity(claimed):
        # No retry can help: the object has to change first.
        raise opkit.PermanentError(f"a disk can't shrink from {claimed} to {spec['size']}")
    if parse_quantity(spec["size"]) > parse_quantity(claimed):
        larger = {"spec": {"resources": {"requests": {"storage": spec["size"]}}}}
        core.patch_namespaced_persistent_volume_claim(name, namespace, larger)
        logger.info("Asked for %s instead of %s.", spec["size"], claimed)

    patch.status["size"] = spec["size"]
    patch.status["phase"] = existing.status.phase if existing.status else None


def claim_for(disk):
    """The claim that a disk wants. It goes with the disk, by its owner reference."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": disk.name, "ownerReferences": [owner_reference(disk)]},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": disk.spec["size"]}},
        },
    }


def owner_reference(owner):
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
