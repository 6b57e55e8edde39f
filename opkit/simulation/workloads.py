"""Defaults and checks of Pods and of the kinds that hold a template of one. Nothing runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opkit.cluster.body import Raw, clone
from opkit.simulation.kinds import Kind
from opkit.simulation.refusals import Cause, bad_request, bad_value, required

SELECTING = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
KINDS = (*SELECTING, "Pod", "Job", "CronJob", "ReplicationController")

_POD_DEFAULTS: Raw = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
_CONTAINER_DEFAULTS: Raw = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
_SPEC_DEFAULTS: dict[str, Raw] = {
    "Deployment": {
        "replicas": 1,
        "strategy": _ROLLING,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    },
    "ReplicaSet": {"replicas": 1},
    "ReplicationController": {"replicas": 1},
    "StatefulSet": {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "revisionHistoryLimit": 10,
    },
    "DaemonSet": {
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        "revisionHistoryLimit": 10,
    },
    "Job": {"parallelism": 1, "completions": 1, "backoffLimit": 6},
    "CronJob": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
}


def prepare(kind: Kind, body: Raw, old: Raw | None) -> None:
    """Fill in defaults, in place. Raises 400 for values of wrong types."""
    spec = body.setdefault("spec", {})
    for key, value in _SPEC_DEFAULTS.get(kind.kind, {}).items():
        if spec.get(key) is None:
            spec[key] = clone(value)
    if kind.kind == "Pod":
        _fill_pod(spec)
        status = body.setdefault("status", {})
        status.setdefault("phase", "Pending")
        status.setdefault("qosClass", "BestEffort")
        return
    holder = _object(_object(spec, "jobTemplate"), "spec") if kind.kind == "CronJob" else spec
    template = _object(holder, "template")
    template.setdefault("metadata", {"creationTimestamp": None})
    _fill_pod(_object(template, "spec"))
    body.setdefault("status", {})


def _object(holder: Raw, field: str) -> Raw:
    value = holder.setdefault(field, {})
    if not isinstance(value, dict):
        raise bad_request(f"{field} must be an object, not {value!r:.40}")
    return value


def _fill_pod(spec: Raw) -> None:
    for key, value in _POD_DEFAULTS.items():
        if spec.get(key) is None:
            spec[key] = clone(value)
    for field in ("initContainers", "containers"):
        containers = spec.get(field) or []
        if not isinstance(containers, list) or not all(isinstance(item, dict) for item in containers):
            raise bad_request(f"{field} must be a list of objects")
        for container in containers:
            _fill_container(container)


def _fill_container(container: Raw) -> None:
    for key, value in _CONTAINER_DEFAULTS.items():
        if container.get(key) is None:
            container[key] = clone(value)
    image = str(container.get("image") or "")
    is_latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    container.setdefault("imagePullPolicy", "Always" if is_latest else "IfNotPresent")
    for port in container.get("ports") or ():
        if isinstance(port, dict):
            port.setdefault("protocol", "TCP")


def pod_causes(body: Raw, old: Raw | None) -> Iterator[Cause]:
    yield from _template_causes(body["spec"], "spec")


def selector_causes(body: Raw, old: Raw | None) -> Iterator[Cause]:
    """A workload selects its own Pods, by a selector that never changes."""
    spec = body["spec"]
    selector = spec.get("selector")
    if not isinstance(selector, dict) or not selector:
        yield required("spec.selector")
    else:
        yield from _selected_causes(selector, spec["template"])
        if old is not None and old.get("spec", {}).get("selector") != selector:
            yield bad_value("spec.selector", selector, "field is immutable")
    yield from _template_causes(spec["template"]["spec"], "spec.template.spec")


def _selected_causes(selector: Raw, template: Raw) -> Iterator[Cause]:
    wanted: Any = selector.get("matchLabels") or {}
    labels: Any = (template.get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        yield bad_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _template_causes(spec: Raw, path: str) -> Iterator[Cause]:
    containers = spec.get("containers")
    if not containers:
        yield required(f"{path}.containers")
    for index, container in enumerate(containers or ()):
        for field in ("name", "image"):
            if not container.get(field):
                yield required(f"{path}.containers[{index}].{field}")
