"""
The kinds that are always there: those of Kubernetes that operators touch. Only kept, nothing acts on them.

A table, and the conversion between the two faces of Events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opkit.cluster.body import Raw
from opkit.simulation.kinds import ALL_VERBS, METADATA_FIELDS, Kind, Version

_NO_COLLECTION = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
_REPLICAS = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}

# group, versions (best first), plural, kind, marks, short names
# marks: c = cluster-scoped, s = status subresource, r = scale subresource, g = has a generation, a = in "all"
_TABLE = """
- v1 configmaps ConfigMap - cm
- v1 endpoints Endpoints - ep
- v1 events Event - ev
- v1 limitranges LimitRange - limits
- v1 namespaces Namespace cs ns
- v1 nodes Node cs no
- v1 persistentvolumeclaims PersistentVolumeClaim s pvc
- v1 persistentvolumes PersistentVolume cs pv
- v1 pods Pod sa po
- v1 podtemplates PodTemplate - -
- v1 replicationcontrollers ReplicationController srga rc
- v1 resourcequotas ResourceQuota s quota
- v1 secrets Secret - -
- v1 serviceaccounts ServiceAccount - sa
- v1 services Service sa svc
admissionregistration.k8s.io v1 mutatingwebhookconfigurations MutatingWebhookConfiguration cg -
admissionregistration.k8s.io v1 validatingwebhookconfigurations ValidatingWebhookConfiguration cg -
apiextensions.k8s.io v1 customresourcedefinitions CustomResourceDefinition csg crd,crds
apps v1 controllerrevisions ControllerRevision - -
apps v1 daemonsets DaemonSet sga ds
apps v1 deployments Deployment srga deploy
apps v1 replicasets ReplicaSet srga rs
apps v1 statefulsets StatefulSet srga sts
authorization.k8s.io v1 selfsubjectaccessreviews SelfSubjectAccessReview c -
autoscaling v2,v1 horizontalpodautoscalers HorizontalPodAutoscaler sa hpa
batch v1 cronjobs CronJob sga cj
batch v1 jobs Job sga -
coordination.k8s.io v1 leases Lease - -
discovery.k8s.io v1 endpointslices EndpointSlice g -
events.k8s.io v1 events Event - ev
networking.k8s.io v1 ingressclasses IngressClass cg -
networking.k8s.io v1 ingresses Ingress sg ing
networking.k8s.io v1 networkpolicies NetworkPolicy g netpol
policy v1 poddisruptionbudgets PodDisruptionBudget sg pdb
rbac.authorization.k8s.io v1 clusterrolebindings ClusterRoleBinding c -
rbac.authorization.k8s.io v1 clusterroles ClusterRole c -
rbac.authorization.k8s.io v1 rolebindings RoleBinding - -
rbac.authorization.k8s.io v1 roles Role - -
scheduling.k8s.io v1 priorityclasses PriorityClass cg pc
storage.k8s.io v1 storageclasses StorageClass c sc
"""

_VERBS: Mapping[str, tuple[str, ...]] = {
    "selfsubjectaccessreviews": ("create",),
    "namespaces": _NO_COLLECTION,
    "services": _NO_COLLECTION,
}

_EVENT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "events": (
        *(f"involvedObject.{name}" for name in _EVENT_FIELDS),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "replicationcontrollers": ("status.replicas",),
    "replicasets": ("status.replicas",),
    "jobs": ("status.successful",),
    "secrets": ("type",),
}


def builtin_kinds() -> Iterator[Kind]:
    """All built-in kinds. Newly made, so that no two stores share anything."""
    for line in _TABLE.strip().splitlines():
        group, versions, plural, kind, marks, short_names = line.split()
        group = "" if group == "-" else group
        is_foreign_event = (group, plural) == ("events.k8s.io", "events")
        yield Kind(
            group=group,
            plural=plural,
            kind=kind,
            versions=tuple(_version(name, plural, marks, is_foreign_event) for name in versions.split(",")),
            namespaced="c" not in marks,
            singular=kind.lower(),
            short_names=() if short_names == "-" else tuple(short_names.split(",")),
            categories=("all",) if "a" in marks else (),
            verbs=_VERBS.get(plural, ALL_VERBS),
            has_generation="g" in marks,
            fields=METADATA_FIELDS | frozenset(_FIELDS.get(plural, ())),
            storage=("", "events") if is_foreign_event else ("", ""),
        )


def _version(name: str, plural: str, marks: str, is_foreign_event: bool) -> Version:
    subresources = {"s": "status", "r": "scale"}
    names = {subresources[mark] for mark in marks if mark in subresources}
    return Version(
        name,
        subresources=frozenset(names | {"finalize"} if plural == "namespaces" else names),
        scale=_REPLICAS if "r" in marks else None,
        to_storage=event_to_core if is_foreign_event else None,
        from_storage=event_from_core if is_foreign_event else None,
    )


_EVENT_NAMES = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedCount": "count",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedSource": "source",
}
_CORE_EVENT_NAMES = {core: name for name, core in _EVENT_NAMES.items()}


def event_to_core(body: Raw) -> Raw:
    """An Event of events.k8s.io in the core group's words, in which it is stored."""
    return {_EVENT_NAMES.get(key, key): value for key, value in body.items()}


def event_from_core(body: Raw) -> Raw:
    """A stored Event in the words of events.k8s.io."""
    return {_CORE_EVENT_NAMES.get(key, key): value for key, value in body.items()}
