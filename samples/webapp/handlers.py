"""
A web application from one custom resource: a Deployment, a Service, a ConfigMap, and a name outside of the cluster.

Read `reconcile` first. It says what should be there, is called whenever that may not be so, and may be called
once more than needed at any time.
"""

import datetime

import children
from nameserver import create_dns, drop_dns

import opkit

WEBAPPS = ("example.com", "v1", "webapps")
LOOK_AGAIN = 5


@opkit.filter.generic
def is_paused(body):
    return body.spec.get("paused", False)


@opkit.filter.update
def only_contact_changed(new, old):
    """The contact is for people. Nothing in the cluster depends on it."""

    def rest(body):
        return {key: value for key, value in body.spec.items() if key != "contact"}

    return new.spec != old.spec and rest(new) == rest(old)


@opkit.reconcile(
    *WEBAPPS,
    # A child that somebody changes or deletes leads to a run of its owner, which puts it right.
    owns=[("apps/v1", "deployments"), ("v1", "services"), ("v1", "configmaps")],
    # Asked before every run, whatever the reason for it: a paused one is left alone in every way, but can be deleted.
    when=~is_paused,
    on_update=~only_contact_changed,
    retry=opkit.Retry(maximum=60),
)
def reconcile(webapp, spec, status, meta, patch, cluster, event, logger):
    # Server-side apply: makes what is missing, repairs what differs, leaves the rest alone. Fields that somebody else
    # has taken over are taken back by `force`. The owner takes all of them along when it is deleted.
    cluster.apply(children.config_map(webapp), owner=webapp, force=True)
    cluster.apply(children.service(webapp), owner=webapp, force=True)
    deployment = cluster.apply(children.deployment(webapp), owner=webapp, force=True)

    # What is outside of the cluster has no owner reference: the status remembers what there is to be tidied up.
    host, former_host = spec.get("host"), status.get("host")
    if former_host and former_host != host:
        drop_dns(former_host)
    if host:
        create_dns(host, children.address(webapp))

    ready, wanted = deployment.status.get("readyReplicas", 0), children.replicas(webapp)
    condition = ready_condition(status, meta.get("generation"), ready, wanted)
    patch.status.update(
        host=host,
        replicas=wanted,
        readyReplicas=ready,
        observedGeneration=meta.get("generation"),
        conditions=[condition],
    )
    if ready < wanted:
        logger.info("%s of %s replicas are ready.", ready, wanted)
        return opkit.success(requeue_after=LOOK_AGAIN)
    if condition["status"] != ready_status(status):
        event("Ready", f"All {wanted} replicas are ready.")
    return opkit.success()


@opkit.finalizer(*WEBAPPS)
def drop_dns_records(spec, status):
    """Until this has succeeded, the object stays: there is no other trace of the records."""
    for host in {spec.get("host"), status.get("host")} - {None}:
        drop_dns(host)


@opkit.delete(*WEBAPPS)
def say_goodbye(name, reason, logger):
    """Told afterwards, and not at all if it happens while the operator is down: good for a log, not for a cleanup."""
    logger.info("%s is gone (%s).", name, reason)


def ready_condition(status, generation, ready, wanted):
    """The condition `Ready`. Its time moves only when its status does, or each run would be a change."""
    value = "True" if ready >= wanted else "False"
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    since = now
    for former in status.get("conditions") or []:
        if former["type"] == "Ready" and former["status"] == value:
            since = former["lastTransitionTime"]
    return {
        "type": "Ready",
        "status": value,
        "reason": "AllReplicasReady" if value == "True" else "ReplicasMissing",
        "message": f"{ready} of {wanted} replicas are ready",
        "lastTransitionTime": since,
        "observedGeneration": generation,
    }


def ready_status(status):
    """The status of the condition `Ready` as it was, or None."""
    return next((one["status"] for one in status.get("conditions") or [] if one["type"] == "Ready"), None)
