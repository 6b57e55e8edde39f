"""
The rules of names, labels, annotations and finalizers. Pure functions from a text to what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opkit.cluster.selector import is_label_key, is_label_value
from opkit.simulation.refusals import Cause, bad_value

ANNOTATIONS_LIMIT = 256 * 1024

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LABEL_NAMED = frozenset({"namespaces", "services"})
_PATH_NAMED_GROUP = "rbac.authorization.k8s.io"

_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def name_problem(group: str, plural: str, name: str) -> str | None:
    """What is wrong with this as the name of an object of this resource; nothing for a good one."""
    if group == _PATH_NAMED_GROUP:
        if name in (".", "..") or "/" in name or "%" in name:
            return "may not be '.' or '..', nor contain '/' or '%'"
        return None
    if plural in _LABEL_NAMED and not group:
        if len(name) > 63 or not _DNS_LABEL.fullmatch(name):
            return (
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-',"
                " and must start and end with an alphanumeric character (at most 63)"
            )
        return None
    if len(name) > 253 or not _DNS_SUBDOMAIN.fullmatch(name):
        return (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
            " and must start and end with an alphanumeric character (at most 253)"
        )
    return None


def label_causes(labels: Mapping[str, str]) -> Iterator[Cause]:
    for key, value in labels.items():
        if not is_label_key(key):
            yield bad_value("metadata.labels", key, "a qualified name must be a name or domain/name")
        if not is_label_value(value):
            yield bad_value(
                "metadata.labels",
                value,
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or"
                " '.', and must start and end with an alphanumeric character (at most 63)",
            )


def annotation_causes(annotations: Mapping[str, str]) -> Iterator[Cause]:
    size = 0
    for key, value in annotations.items():
        size += len(key) + len(value)
        if not is_label_key(key.lower()):
            yield bad_value("metadata.annotations", key, "a qualified name must be a name or domain/name")
    if size > ANNOTATIONS_LIMIT:
        yield Cause(
            "FieldValueTooLong",
            "metadata.annotations",
            f"Too long: must have at most {ANNOTATIONS_LIMIT} bytes",
        )


def finalizer_causes(finalizers: Sequence[str], is_builtin: bool) -> Iterator[Cause]:
    for name in finalizers:
        if not is_label_key(name):
            yield bad_value("metadata.finalizers", name, "a qualified name must be a name or domain/name")
        elif is_builtin and "/" not in name and name not in _STANDARD_FINALIZERS:
            yield bad_value(
                "metadata.finalizers",
                name,
                "name is neither a standard finalizer name nor is it fully qualified",
            )


def owner_causes(owners: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    path = "metadata.ownerReferences"
    for owner in owners:
        for field, word in (("apiVersion", "version"), ("kind", "kind"), ("name", "name"), ("uid", "uid")):
            if not owner.get(field):
                yield bad_value(f"{path}.{field}", "", f"{word} must not be empty")
    if sum(1 for owner in owners if owner.get("controller")) > 1:
        yield bad_value(path, len(owners), "Only one reference can have Controller set to true")
