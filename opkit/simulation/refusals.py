"""
The errors of an API server: status codes, reasons, details and wording as on a real one.

Gives `opkit.ApiError` values to raise, and the Kubernetes Status that says the same in JSON.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from opkit.cluster.body import Raw
from opkit.errors import ApiError

if TYPE_CHECKING:
    from opkit.simulation.kinds import Kind


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """One thing that is wrong with one field."""

    reason: str
    field: str
    message: str

    def as_json(self) -> Raw:
        return {"reason": self.reason, "message": self.message, "field": self.field}


def required(field: str, message: str = "") -> Cause:
    return Cause("FieldValueRequired", field, f"Required value{': ' if message else ''}{message}")


def bad_value(field: str, value: Any, message: str) -> Cause:
    return Cause("FieldValueInvalid", field, f"Invalid value: {show(value)}: {message}")


def forbidden_value(field: str, message: str) -> Cause:
    return Cause("FieldValueForbidden", field, f"Forbidden: {message}")


def show(value: Any) -> str:
    """A value in a message: short, on one line."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 200 else f"{text[:200]}..."


def bad_request(message: str) -> ApiError:
    return ApiError.of(400, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError.of(401, "Unauthorized", "Unauthorized")


def forbidden(kind: Kind, name: str, message: str, causes: Iterable[Raw] = ()) -> ApiError:
    shown = list(causes)
    details = _details(kind.group, kind.plural, name) | ({"causes": shown} if shown else {})
    return ApiError.of(403, "Forbidden", f'{kind.qualified} "{name}" is forbidden: {message}', details=details)


def not_found(kind: Kind, name: str) -> ApiError:
    message = f'{kind.qualified} "{name}" not found'
    return ApiError.of(404, "NotFound", message, details=_details(kind.group, kind.plural, name))


def no_such_resource() -> ApiError:
    return ApiError.of(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed(what: str) -> ApiError:
    return ApiError.of(405, "MethodNotAllowed", f"{what} is not supported on resources of this kind", details={})


def already_exists(kind: Kind, name: str) -> ApiError:
    message = f'{kind.qualified} "{name}" already exists'
    return ApiError.of(409, "AlreadyExists", message, details=_details(kind.group, kind.plural, name))


def conflict(kind: Kind, name: str, message: str = "", causes: Iterable[Cause] = ()) -> ApiError:
    details = _details(kind.group, kind.plural, name)
    if not message:
        message = "the object has been modified; please apply your changes to the latest version and try again"
    shown = [cause.as_json() for cause in causes]
    return ApiError.of(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {kind.qualified} "{name}": {message}',
        details=details | ({"causes": shown} if shown else {}),
    )


def apply_conflict(causes: list[Cause]) -> ApiError:
    """What server-side apply answers when other managers own the fields."""
    lines = "".join(f"\n- {cause.field}: {cause.message}" for cause in causes)
    return ApiError.of(
        409,
        "Conflict",
        f"Apply failed with {len(causes)} conflict{'s' if len(causes) > 1 else ''}:{lines}",
        details={"causes": [cause.as_json() for cause in causes]},
    )


def expired(asked: int, oldest: int) -> ApiError:
    return ApiError.of(410, "Expired", f"too old resource version: {asked} ({oldest})")


def token_expired() -> ApiError:
    message = (
        "The provided continue parameter is too old to display a consistent list result."
        " You must start a new list without the continue parameter."
    )
    return ApiError.of(410, "Expired", message)


def too_large_version(asked: int, current: int) -> ApiError:
    cause = Cause("ResourceVersionTooLarge", "", "Too large resource version")
    return ApiError.of(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={"causes": [cause.as_json()], "retryAfterSeconds": 1},
        retry_after=1,
    )


def too_large(message: str) -> ApiError:
    return ApiError.of(413, "RequestEntityTooLarge", message)


def unsupported_media(message: str) -> ApiError:
    return ApiError.of(415, "UnsupportedMediaType", message)


def invalid(kind: Kind, name: str, causes: Iterable[Cause]) -> ApiError:
    """422 with the causes; `details.kind` is the Kind here, not the plural."""
    causes = list(causes)
    details = _details(kind.group, kind.kind, name) | {"causes": [cause.as_json() for cause in causes]}
    parts = [f"{cause.field}: {cause.message}" for cause in causes]
    text = parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return ApiError.of(422, "Invalid", f'{qualified} "{name}" is invalid: {text}', details=details)


def invalid_patch(problem: str = "") -> ApiError:
    """A JSON patch that is well-formed, but can't be applied to this object."""
    message = "the server rejected our request due to an error in our request"
    return ApiError.of(422, "Invalid", message if not problem else f"{message}: {problem}", details={})


def status_of(error: ApiError) -> Raw:
    """The Kubernetes Status that tells this error."""
    body: Raw = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "details": error.details,
        "code": error.status,
    }
    if error.retry_after is not None:
        body["details"] = {**error.details, "retryAfterSeconds": int(error.retry_after)}
    if not body["details"]:
        del body["details"]
    return body


def _details(group: str, kind: str, name: str) -> Raw:
    details = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in details.items() if value}
