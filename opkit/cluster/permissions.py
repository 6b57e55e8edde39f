"""
What a 403 wants: the verb, the resource and the rule to add to a Role, in the words of the error.

Takes an error and the request that was refused; gives the error with what is missing, in one line. Pure. Leaves alone
what is no matter of rights: quotas, admission webhooks, namespaces that are being deleted.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from opkit.errors import ApiError, Forbidden

_APPLY = "application/apply-patch+yaml"

# What the authorizer says, in all versions of Kubernetes.
_RESOURCE = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)"(?: in API group "(?P<group>[^"]*)")?'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_PATH = re.compile(r'cannot (?P<verb>\S+) path "(?P<path>[^"]+)"')

# What an older server says where it asks the authorizer a second time: nothing.
_SILENT = re.compile(r"(^|is forbidden:)\s*$")

_OWNER = "cannot set blockOwnerDeletion"

# Subresources of namespaces, which look like resources in them.
_OF_NAMESPACES = ("status", "finalize")

# What is asked for together with a verb: a list that is followed, an object that is made if there is none.
_TOGETHER = {"watch": ("list", "watch")}


@dataclasses.dataclass(frozen=True, slots=True)
class _Right:
    """What somebody may do."""

    verbs: Sequence[str]
    group: str
    resource: str
    namespace: str | None

    def rule(self) -> str:
        """Where to add which rule."""
        role = f"a Role in the namespace {self.namespace}" if self.namespace else "a ClusterRole"
        group = self.group or '""'
        return (
            f"add to {role}: {{apiGroups: [{group}], resources: [{self.resource}], verbs: [{', '.join(self.verbs)}]}}"
        )


def explained(
    error: ApiError, method: str, path: str, *, params: Mapping[str, str] | None = None, media_type: str | None = None,
    payload: Any = None,
) -> ApiError:  # fmt: skip
    """The same error; one that lacks rights says which."""
    if error.status != 403 or error.reason != Forbidden.reason:
        return error
    hint = _hint(error.message, _asked(method, path, params or {}), media_type == _APPLY, payload)
    if hint is None:
        return error
    said = error.message.strip().removesuffix(":")
    message = f"{said}; {hint}" if said else hint
    return Forbidden(message, details=error.details, retry_after=error.retry_after)


def _hint(message: str, asked: _Right | None, is_apply: bool, payload: Any) -> str | None:
    if _OWNER in message:
        return _owner_hint(payload)
    if found := _PATH.search(message):
        return f"add to a ClusterRole: {{nonResourceURLs: [{found['path']}], verbs: [{found['verb']}]}}"
    if found := _RESOURCE.search(message):
        asked = _Right((found["verb"],), found["group"] or "", found["resource"], found["namespace"])
    elif asked is None or not _SILENT.search(message):
        return None
    if is_apply and "/" not in asked.resource and asked.verbs[0] in ("patch", "create"):
        right = dataclasses.replace(asked, verbs=("patch", "create"))
        why = "create is missing" if not found else f"{found['verb']} is missing"
        return f"apply needs both patch and create ({why}): {right.rule()}"
    right = dataclasses.replace(asked, verbs=_TOGETHER.get(asked.verbs[0], asked.verbs))
    return right.rule()


def _asked(method: str, path: str, params: Mapping[str, str]) -> _Right | None:
    """What a request needs, by its path; `None` for one that is about no resource."""
    parts = path.partition("?")[0].strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return None
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
            rest = rest[2:]
    has_name = len(rest) > 1
    resource = "/".join((rest[0], *rest[2:]))
    return _Right((_verb(method.lower(), has_name, params),), group, resource, namespace)


def _verb(method: str, has_name: bool, params: Mapping[str, str]) -> str:
    if method == "get":
        return "watch" if params.get("watch") else "get" if has_name else "list"
    if method == "delete":
        return "delete" if has_name else "deletecollection"
    return {"post": "create", "put": "update", "patch": "patch"}.get(method, method)


def _owner_hint(payload: Any) -> str:
    """The owner is known by its kind alone: its resource has to be put in by the reader."""
    meta = payload.get("metadata") if isinstance(payload, Mapping) else None
    given = meta.get("ownerReferences") if isinstance(meta, Mapping) else None
    owners = [one for one in given if isinstance(one, Mapping)] if isinstance(given, list) else []
    for owner in owners:
        if owner.get("blockOwnerDeletion"):
            group = str(owner.get("apiVersion", "")).rpartition("/")[0] or '""'
            kind = owner.get("kind")
            return (
                f"an owner needs update on its finalizers: add to a Role: {{apiGroups: [{group}], resources: "
                f"[PLURAL/finalizers], verbs: [update]}}, with the plural of {kind} for PLURAL"
            )
    return "an owner needs update on its finalizers: add a rule with resources: [PLURAL/finalizers], verbs: [update]"
