"""
ConfigMaps mirrored into other namespaces.

A ConfigMap with the label `mirror.example.com/enabled=true` is copied, under its own name, into the namespaces that
its annotation `mirror.example.com/namespaces` lists. ConfigMaps have no generation, so every change of one is
worth a run.
"""

import opkit

CONFIGMAPS = ("v1", "configmaps")
ENABLED = "mirror.example.com/enabled"
NAMESPACES = "mirror.example.com/namespaces"
SOURCE = "mirror.example.com/source-uid"

LOOK_AGAIN = 60


@opkit.reconcile(*CONFIGMAPS, label_selector={ENABLED: "true"})
async def mirror(body, name, namespace, uid, cluster, event, logger):
    wanted = wanted_namespaces(body)
    await remove_copies(cluster, uid, keep=wanted)
    missing = set()
    for target in sorted(wanted):
        try:
            existing = await find(cluster, name, target)
            if existing is not None and existing.labels.get(SOURCE) != uid:
                event("NotMirrored", f"There is another ConfigMap {name} in {target}.", type="Warning")
                continue
            await cluster.apply(copy_of(body, target))
        except opkit.NotFound:
            missing.add(target)
    if missing:
        logger.warning("There are no namespaces %s yet.", ", ".join(sorted(missing)))
        return opkit.success(requeue_after=LOOK_AGAIN)
    return opkit.success()


# Owner references don't reach into other namespaces: without a finalizer, the copies would stay for ever.
@opkit.finalizer(*CONFIGMAPS, name="mirror.example.com/copies")
async def remove_all_copies(uid, cluster):
    await remove_copies(cluster, uid, keep=set())


@opkit.delete(*CONFIGMAPS)
async def stop_mirroring(uid, reason, cluster, logger):
    # Also told when the label is taken away. The ConfigMap lives on then, so its finalizer is not called, but nobody
    # wants its copies any more. Of one that is really gone there are none left, and this does nothing.
    logger.info("Not mirrored any more (%s).", reason)
    await remove_copies(cluster, uid, keep=set())


def wanted_namespaces(body):
    """The namespaces in the annotation, apart from the one in which the original is."""
    words = body.annotations.get(NAMESPACES, "").split(",")
    return {word.strip() for word in words} - {"", body.namespace}


def copy_of(body, namespace):
    """The copy. It has none of the original's labels: with them, it would be mirrored in its turn."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": body.name, "namespace": namespace, "labels": {SOURCE: body.uid}},
        "data": body.get("data") or {},
        "binaryData": body.get("binaryData") or {},
    }


async def find(cluster, name, namespace):
    """The ConfigMap of that name, or None."""
    try:
        return await cluster.get(CONFIGMAPS, name, namespace)
    except opkit.NotFound:
        return None


async def remove_copies(cluster, uid, keep):
    """Delete the copies of an original in all namespaces but these."""
    for copy in await cluster.list(CONFIGMAPS, label_selector=f"{SOURCE}={uid}"):
        if copy.namespace not in keep:
            try:
                await cluster.delete(CONFIGMAPS, copy.name, copy.namespace, uid=copy.uid)
            except opkit.NotFound:
                pass  # somebody was faster
