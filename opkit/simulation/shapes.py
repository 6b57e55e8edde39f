"""
The shapes of built-in kinds, as far as the rules here look into them: which types stand where.

A real server decodes into typed structures, so a wrong type anywhere is a bad request; here it is one in
these places. A null counts as absent everywhere.
"""

from __future__ import annotations

from typing import Any

import jsonschema

from opkit.cluster.body import Raw

Shape = dict[str, Any]


def _object(**fields: Shape) -> Shape:
    return {"type": ["object", "null"], "properties": fields}


def _list(item: Shape) -> Shape:
    return {"type": ["array", "null"], "items": item}


def _map(item: Shape) -> Shape:
    return {"type": ["object", "null"], "additionalProperties": item}


_TEXT: Shape = {"type": ["string", "null"]}
_INTEGER: Shape = {"type": ["integer", "null"]}
_BOOLEAN: Shape = {"type": ["boolean", "null"]}
_NAME: Shape = {"type": "string"}
_ANY: Shape = {"type": "object"}

_STATUS = _object(conditions=_list(_ANY))
_CONTAINER: Shape = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "image": _TEXT,
        "command": _list(_TEXT),
        "args": _list(_TEXT),
        "env": _list(_ANY),
        "ports": _list(_ANY),
        "volumeMounts": _list(_ANY),
        "resources": _object(),
    },
}
_POD = _object(
    containers=_list(_CONTAINER),
    initContainers=_list(_CONTAINER),
    volumes=_list(_ANY),
    tolerations=_list(_ANY),
    imagePullSecrets=_list(_ANY),
    nodeSelector=_map(_TEXT),
)
_LABELLED = _object(labels=_map(_TEXT), annotations=_map(_TEXT))
_TEMPLATE = _object(metadata=_LABELLED, spec=_POD)
_SELECTOR = _object(matchLabels=_map(_TEXT), matchExpressions=_list(_ANY))
_WORKLOAD = _object(spec=_object(replicas=_INTEGER, selector=_SELECTOR, template=_TEMPLATE), status=_STATUS)
_JOB_SPEC = _object(template=_TEMPLATE, selector=_SELECTOR, parallelism=_INTEGER, completions=_INTEGER)
_FINALIZED = _object(spec=_object(finalizers=_list(_TEXT)), status=_object(phase=_TEXT))
_SPEC_AND_STATUS = _object(spec=_object(), status=_object())

_INNER: Shape = {"$ref": "#/definitions/schema"}
_SCHEMA: Shape = {
    "type": "object",
    "properties": {
        "type": _TEXT,
        "pattern": _TEXT,
        "nullable": _BOOLEAN,
        "properties": {"type": ["object", "null"], "additionalProperties": _INNER},
        "items": _INNER,
        "not": _INNER,
        "additionalProperties": {"anyOf": [{"type": ["boolean", "null"]}, _INNER]},
        **dict.fromkeys(("allOf", "anyOf", "oneOf"), _list(_INNER)),
        "required": _list(_NAME),
        "enum": _list({}),
        "x-kubernetes-preserve-unknown-fields": _BOOLEAN,
        "x-kubernetes-embedded-resource": _BOOLEAN,
        "x-kubernetes-int-or-string": _BOOLEAN,
        "x-kubernetes-list-type": _TEXT,
        "x-kubernetes-map-type": _TEXT,
        "x-kubernetes-list-map-keys": _list(_NAME),
    },
}
_VERSION = {
    **_object(
        name=_TEXT,
        served=_BOOLEAN,
        storage=_BOOLEAN,
        schema=_object(openAPIV3Schema=_INNER),
        subresources=_object(
            status=_object(),
            scale=_object(specReplicasPath=_NAME, statusReplicasPath=_NAME, labelSelectorPath=_TEXT),
        ),
        additionalPrinterColumns=_list(
            {**_object(name=_TEXT, type=_TEXT, jsonPath=_TEXT, priority=_INTEGER), "type": "object"}
        ),
    ),
    "type": "object",
}
_DEFINITION = _object(
    group=_TEXT,
    scope=_TEXT,
    preserveUnknownFields=_BOOLEAN,
    conversion=_object(),
    names=_object(
        plural=_TEXT,
        singular=_TEXT,
        kind=_TEXT,
        listKind=_TEXT,
        shortNames=_list(_NAME),
        categories=_list(_NAME),
    ),
    versions=_list(_VERSION),
)

_SHAPES: dict[str, Shape] = {
    "Pod": _object(spec=_POD, status=_STATUS),
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"), _WORKLOAD),
    "ReplicationController": _object(
        spec=_object(replicas=_INTEGER, selector=_map(_TEXT), template=_TEMPLATE), status=_STATUS
    ),
    "Job": _object(spec=_JOB_SPEC, status=_STATUS),
    "CronJob": _object(
        spec=_object(schedule=_TEXT, jobTemplate=_object(metadata=_LABELLED, spec=_JOB_SPEC)),
        status=_object(),
    ),
    "Service": _object(
        spec=_object(type=_TEXT, clusterIP=_TEXT, ports=_list(_ANY), selector=_map(_TEXT)), status=_object()
    ),
    "ConfigMap": _object(data=_map(_TEXT), binaryData=_map(_TEXT)),
    "Secret": _object(data=_map(_TEXT), stringData=_map(_TEXT), type=_TEXT),
    "Namespace": _FINALIZED,
    "Event": _object(involvedObject=_object(namespace=_TEXT, name=_TEXT, kind=_TEXT), message=_TEXT, reason=_TEXT),
    "Lease": _object(
        spec=_object(
            holderIdentity=_TEXT,
            acquireTime=_TEXT,
            renewTime=_TEXT,
            leaseDurationSeconds=_INTEGER,
            leaseTransitions=_INTEGER,
        )
    ),
    "ServiceAccount": _object(secrets=_list(_ANY), imagePullSecrets=_list(_ANY)),
    **dict.fromkeys(("RoleBinding", "ClusterRoleBinding"), _object(roleRef=_object(name=_TEXT), subjects=_list(_ANY))),
    **dict.fromkeys(("Role", "ClusterRole"), _object(rules=_list(_ANY))),
    "SelfSubjectAccessReview": _object(
        spec=_object(resourceAttributes=_object(), nonResourceAttributes=_object()), status=_object()
    ),
    **dict.fromkeys(
        (
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Ingress",
            "NetworkPolicy",
            "PodDisruptionBudget",
        ),
        _SPEC_AND_STATUS,
    ),
    "HorizontalPodAutoscaler": _SPEC_AND_STATUS,
    "CustomResourceDefinition": {
        **_object(spec=_DEFINITION, status=_STATUS),
        "definitions": {"schema": _SCHEMA},
    },
}
_VALIDATORS = {kind: jsonschema.Draft4Validator(shape) for kind, shape in _SHAPES.items()}


def problem(kind: str, body: Raw) -> str | None:
    """What is of a wrong type, in one sentence; nothing if all is well."""
    validator = _VALIDATORS.get(kind)
    if validator is None:
        return None
    error = next(iter(validator.iter_errors(body)), None)
    if error is None:
        return None
    expected = error.validator_value[0] if isinstance(error.validator_value, list) else error.validator_value
    path = ".".join(str(part) for part in error.absolute_path)
    value = repr(error.instance)[:60]
    return f"{path} must be of type {expected}, not {value}"
