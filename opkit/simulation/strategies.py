"""
What built-in kinds do on their own when they are written: checks and defaults that clients can see.

Only what operators and kubectl come across. `prepare` completes a new body in place, `causes` tells what is
wrong with it. Custom resources have schemas instead.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import Any

from opkit.cluster.body import Raw
from opkit.errors import ApiError
from opkit.simulation import definitions, shapes, workloads
from opkit.simulation.kinds import Kind
from opkit.simulation.refusals import Cause, bad_request, bad_value, required

# Go reads exactly six digits where the layout has them.
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")

_FIELDS: dict[str, frozenset[str]] = {
    "ConfigMap": frozenset({"data", "binaryData", "immutable"}),
    "Secret": frozenset({"data", "stringData", "type", "immutable"}),
    "Lease": frozenset({"spec"}),
    "ServiceAccount": frozenset({"secrets", "imagePullSecrets", "automountServiceAccountToken"}),
    "Role": frozenset({"rules"}),
    "ClusterRole": frozenset({"rules", "aggregationRule"}),
    "RoleBinding": frozenset({"subjects", "roleRef"}),
    "ClusterRoleBinding": frozenset({"subjects", "roleRef"}),
    "Endpoints": frozenset({"subsets"}),
    "SelfSubjectAccessReview": frozenset({"spec", "status"}),
}
_SPEC_AND_STATUS = frozenset({"spec", "status"})
_SHAPED = frozenset(
    {
        "Namespace",
        "Node",
        "Pod",
        "Service",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Deployment",
        "ReplicaSet",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "CronJob",
        "Ingress",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "HorizontalPodAutoscaler",
        "CustomResourceDefinition",
        "ReplicationController",
        "ResourceQuota",
        "LimitRange",
    }
)


def prune(kind: Kind, body: Raw) -> Raw:
    """Drop unknown fields at the top of a body, and nulls there."""
    known = _FIELDS.get(kind.kind) or (_SPEC_AND_STATUS if kind.kind in _SHAPED else None)
    return {
        key: value
        for key, value in body.items()
        if key == "metadata" or (value is not None and (known is None or key in known))
    }


def prepare(kind: Kind, body: Raw, old: Raw | None) -> None:
    """Complete a body in place. Raises 400 for values of types that can't be read."""
    if (problem := shapes.problem(kind.kind, body)) is not None:
        raise _unreadable(kind, problem)
    if kind.kind in _PREPARE:
        _PREPARE[kind.kind](kind, body, old)


def causes(kind: Kind, body: Raw, old: Raw | None) -> Iterator[Cause]:
    """All that is wrong with a completed body, but for its metadata."""
    if kind.kind in _CAUSES:
        yield from _CAUSES[kind.kind](body, old)


def _unreadable(kind: Kind, problem: str) -> ApiError:
    return bad_request(f'{kind.kind} in version "v1" cannot be handled as a {kind.kind}: {problem}')


def _texts(body: Raw, field: str) -> dict[str, str]:
    """A map of texts, in which a null stands for the empty one."""
    return {key: "" if value is None else value for key, value in (body.get(field) or {}).items()}


def _put(body: Raw, field: str, texts: dict[str, str]) -> None:
    if texts:
        body[field] = texts
    else:
        body.pop(field, None)


def _prepare_config_map(kind: Kind, body: Raw, old: Raw | None) -> None:
    for field in ("data", "binaryData"):
        _put(body, field, _texts(body, field))


def _prepare_secret(kind: Kind, body: Raw, old: Raw | None) -> None:
    data = _texts(body, "data")
    for key, value in data.items():
        try:
            base64.b64decode(value, validate=True)
        except ValueError:  # also for text that is not ASCII
            raise _unreadable(kind, f"data.{key} is not base64") from None
    for key, value in _texts(body, "stringData").items():
        data[key] = base64.b64encode(value.encode("utf-8", "replace")).decode()
    body.pop("stringData", None)
    _put(body, "data", data)
    body["type"] = body.get("type") or "Opaque"


def _prepare_namespace(kind: Kind, body: Raw, old: Raw | None) -> None:
    spec = body.get("spec") or {}
    body["spec"] = spec
    if old is None:
        spec["finalizers"] = list(dict.fromkeys([*(spec.get("finalizers") or ()), "kubernetes"]))
        body["status"] = {"phase": "Active"}
    elif "finalizers" in old.get("spec", {}):
        spec["finalizers"] = old["spec"]["finalizers"]  # they are changed by /finalize only
    else:
        spec.pop("finalizers", None)


def _prepare_lease(kind: Kind, body: Raw, old: Raw | None) -> None:
    spec = body.get("spec")
    if spec is None:
        body["spec"] = {}
        return
    for field in ("acquireTime", "renewTime"):
        _check_micro_time(kind, spec, field)


def _check_micro_time(kind: Kind, holder: Raw, field: str) -> None:
    value = holder.get(field)
    if value is None:
        holder.pop(field, None)
    elif not isinstance(value, str) or not _MICRO_TIME.fullmatch(value):
        raise _unreadable(kind, f"{field} must be a time with microseconds, not {value!r:.60}")


def _lease_causes(body: Raw, old: Raw | None) -> Iterator[Cause]:
    for field, least in (("leaseDurationSeconds", 1), ("leaseTransitions", 0)):
        value = body["spec"].get(field)
        if value is not None and (not isinstance(value, int) or value < least):
            bound = "greater than 0" if least else "greater than or equal to 0"
            yield bad_value(f"spec.{field}", value, f"must be {bound}")


def _prepare_event(kind: Kind, body: Raw, old: Raw | None) -> None:
    if isinstance(body.get("eventTime"), str):
        _check_micro_time(kind, body, "eventTime")
    body.setdefault("involvedObject", {})


def _event_causes(body: Raw, old: Raw | None) -> Iterator[Cause]:
    involved = body.get("involvedObject")
    namespace = involved.get("namespace") if isinstance(involved, dict) else None
    # Events about what has no namespace are kept in "default".
    if (namespace or "default") != body["metadata"].get("namespace"):
        yield bad_value("involvedObject.namespace", namespace or "", "does not match event.namespace")


def _prepare_service(kind: Kind, body: Raw, old: Raw | None) -> None:
    spec = body.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        if isinstance(port, dict):
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))
    body.setdefault("status", {"loadBalancer": {}})


def _service_causes(body: Raw, old: Raw | None) -> Iterator[Cause]:
    spec = body["spec"]
    if not spec.get("ports") and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports")


def _prepare_definition(kind: Kind, body: Raw, old: Raw | None) -> None:
    definitions.complete(body)


def _definition_causes(body: Raw, old: Raw | None) -> Iterator[Cause]:
    yield from definitions.causes(body)


def _binding_causes(body: Raw, old: Raw | None) -> Iterator[Cause]:
    if not isinstance(body.get("roleRef"), dict) or not body["roleRef"].get("name"):
        yield required("roleRef.name")
    elif old is not None and body["roleRef"] != old.get("roleRef"):
        yield bad_value("roleRef", body["roleRef"], "cannot change roleRef")


_PREPARE: dict[str, Callable[[Kind, Raw, Raw | None], None]] = {
    "ConfigMap": _prepare_config_map,
    "Secret": _prepare_secret,
    "Namespace": _prepare_namespace,
    "Lease": _prepare_lease,
    "Event": _prepare_event,
    "Service": _prepare_service,
    "CustomResourceDefinition": _prepare_definition,
    **dict.fromkeys(workloads.KINDS, workloads.prepare),
}
_CAUSES: dict[str, Callable[[Any, Any], Iterator[Cause]]] = {
    "Lease": _lease_causes,
    "Event": _event_causes,
    "Service": _service_causes,
    "CustomResourceDefinition": _definition_causes,
    "RoleBinding": _binding_causes,
    "ClusterRoleBinding": _binding_causes,
    **dict.fromkeys(workloads.SELECTING, workloads.selector_causes),
    "Pod": workloads.pod_causes,
}
