"""
Bodies of objects.

Inside opkit a body is the decoded JSON itself (`Raw`), shared and never changed. What authors are given is a
copy of their own with kopf's shortcuts on it (`Body`): they may change it, and nobody else sees that.
"""

from __future__ import annotations

from typing import Any

Raw = dict[str, Any]
"""A decoded JSON object. Treated as read-only everywhere inside opkit."""


def clone(value: Any) -> Any:
    """Copy decoded JSON in depth. Several times faster than `copy.deepcopy`, which knows more types."""
    if isinstance(value, dict):
        return {key: clone(item) if isinstance(item, (dict, list)) else item for key, item in value.items()}
    if isinstance(value, list):
        return [clone(item) if isinstance(item, (dict, list)) else item for item in value]
    return value


def metadata(raw: Raw) -> Raw:
    """The metadata; empty where absent or null."""
    return raw.get("metadata") or {}


def identity(raw: Raw) -> str:
    """
    The UID, which tells an object from a later one of the same name.

    Kinds without UID use (kind, namespace, name, creationTimestamp) instead (semantics: 1).
    """
    meta = metadata(raw)
    uid = meta.get("uid")
    if uid:
        return str(uid)
    parts = (raw.get("kind"), meta.get("namespace"), meta.get("name"), meta.get("creationTimestamp"))
    return "/".join(str(part or "") for part in parts)


def reference(raw: Raw) -> str:
    """The object's name for people: `namespace/name`, or just `name`."""
    meta = metadata(raw)
    name, namespace = meta.get("name") or "?", meta.get("namespace")
    return f"{namespace}/{name}" if namespace else str(name)


def finalizers(raw: Raw) -> list[str]:
    return metadata(raw).get("finalizers") or []


def is_deleting(raw: Raw) -> bool:
    """Whether the object is marked for deletion."""
    return bool(metadata(raw).get("deletionTimestamp"))


class Meta(dict[str, Any]):
    """An object's metadata: a plain dict with kopf's shortcuts."""

    @property
    def name(self) -> str | None:
        return self.get("name")

    @property
    def namespace(self) -> str | None:
        return self.get("namespace")

    @property
    def uid(self) -> str | None:
        return self.get("uid")

    @property
    def labels(self) -> dict[str, str]:
        return self.get("labels") or {}

    @property
    def annotations(self) -> dict[str, str]:
        return self.get("annotations") or {}

    @property
    def creation_timestamp(self) -> str | None:
        return self.get("creationTimestamp")

    @property
    def deletion_timestamp(self) -> str | None:
        return self.get("deletionTimestamp")


class Body(dict[str, Any]):
    """
    An object: a plain dict with kopf's shortcuts.

    What is absent or null reads as empty: `body.spec`, `body.labels` and the like are always dicts.
    """

    @classmethod
    def of(cls, raw: Raw) -> Body:
        """A copy of its own, in depth."""
        body = cls(clone(raw))
        body["metadata"] = Meta(body.get("metadata") or {})
        return body

    @property
    def metadata(self) -> Meta:
        meta = self.get("metadata")
        return meta if isinstance(meta, Meta) else Meta(meta or {})

    meta = metadata

    @property
    def spec(self) -> dict[str, Any]:
        return self.get("spec") or {}

    @property
    def status(self) -> dict[str, Any]:
        return self.get("status") or {}

    @property
    def name(self) -> str | None:
        return self.metadata.name

    @property
    def namespace(self) -> str | None:
        return self.metadata.namespace

    @property
    def uid(self) -> str | None:
        return self.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels

    @property
    def annotations(self) -> dict[str, str]:
        return self.metadata.annotations
