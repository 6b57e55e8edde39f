"""
The errors that opkit raises, and the two that handlers raise to steer it.

    OpkitError
    ├── RegistrationError    the declarations are wrong: every problem at once
    ├── CredentialsError     no way into a cluster was found
    ├── ForgottenAwait       a handler did not await what it called, so nothing was done
    └── ApiError             the API server refused, or did not answer
        ├── Forbidden  NotFound  Conflict  AlreadyExists  Invalid  TooManyRequests
        └── Unreachable      no answer: the request may or may not have been carried out

    TemporaryError           raised by handlers: fail now, come back after a delay of your own
    PermanentError           raised by handlers: fail without retry until the object changes
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any


class OpkitError(Exception):
    """The base of all errors that opkit itself raises."""


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class Problem:
    """One thing that is wrong with the declarations, and where it is written (no file: nowhere in particular)."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" if self.file else self.message


class RegistrationError(OpkitError):
    """The declarations can't be compiled; `problems` holds every problem at once, in the order of the files."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class CredentialsError(OpkitError):
    """No credentials for a cluster were found, or the cluster refused all of them."""


class ForgottenAwait(OpkitError):
    """A handler called a method of `cluster` and did not await it, so nothing was done."""


class ApiError(OpkitError):
    """
    A request to the API server failed.

    `status` is the HTTP status (0 if there was no answer), `reason` the machine-readable word of the
    Kubernetes Status (`NotFound`, `Conflict`, ...; may be empty), `message` is for people, `details` the
    Status' own details, `retry_after` the seconds that the server asked to wait, if it did.
    """

    status: int
    reason: str

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        reason: str | None = None,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if status is not None:
            self.status = status
        elif not hasattr(self, "status"):
            self.status = 500
        if reason is not None:
            self.reason = reason
        elif not hasattr(self, "reason"):
            self.reason = ""
        self.details: dict[str, Any] = dict(details or {})
        self.retry_after = retry_after

    def __str__(self) -> str:
        what = f"{self.status} {self.reason}".strip()
        return f"{what}: {self.message}" if self.message else what

    @staticmethod
    def of(
        status: int,
        reason: str = "",
        message: str = "",
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> ApiError:
        """Make the error of the most specific class for this status and reason."""
        cls: type[ApiError] = _BY_STATUS.get(status, ApiError)
        if status == 409 and reason == "AlreadyExists":
            cls = AlreadyExists
        return cls(
            message,
            status=status,
            reason=reason or getattr(cls, "reason", ""),
            details=details,
            retry_after=retry_after,
        )

    @staticmethod
    def of_body(body: Any, *, http_status: int, retry_after: float | None = None) -> ApiError:
        """Make the error from a decoded answer, which is a Kubernetes Status or, from proxies, anything else."""
        if not isinstance(body, Mapping) or body.get("kind") != "Status":
            return ApiError.of(http_status, message="" if body is None else str(body)[:256], retry_after=retry_after)
        given = body.get("details")
        details: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        wait, code = details.get("retryAfterSeconds"), body.get("code")
        if retry_after is None and isinstance(wait, int | float) and not isinstance(wait, bool):
            retry_after = wait
        return ApiError.of(
            code if type(code) is int and code else http_status,
            str(body.get("reason") or ""),
            str(body.get("message") or ""),
            details=details,
            retry_after=retry_after,
        )


class Forbidden(ApiError):
    """403: the credentials are known, but not allowed to do this."""

    status, reason = 403, "Forbidden"


class NotFound(ApiError):
    """404: no such object, or no such kind on this server."""

    status, reason = 404, "NotFound"

    @property
    def is_about_an_object(self) -> bool:
        """
        Whether the server says that it has no object of this name.

        Otherwise it does not know the path at all, which while it starts also happens for what it will serve.
        """
        return bool(self.details.get("name"))


class Conflict(ApiError):
    """409: the object was changed since it was read, or a precondition does not hold."""

    status, reason = 409, "Conflict"


class AlreadyExists(ApiError):
    """409: an object of this name exists already."""

    status, reason = 409, "AlreadyExists"


class Invalid(ApiError):
    """422: the server understood the object and refused its content."""

    status, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    """429: the server asks to slow down; `retry_after` says for how long."""

    status, reason = 429, "TooManyRequests"


class Unreachable(ApiError):
    """There was no answer. The request may or may not have been carried out."""

    status, reason = 0, "Unreachable"


_BY_STATUS: dict[int, type[ApiError]] = {
    cls.status: cls for cls in (Forbidden, NotFound, Conflict, Invalid, TooManyRequests, Unreachable)
}


class TemporaryError(Exception):
    """
    Raised by a handler: this run failed, try again.

    With `delay` (seconds) the next try comes after exactly that, otherwise after the retry policy's delay.
    """

    def __init__(self, message: str = "", delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay


class PermanentError(Exception):
    """Raised by a handler: this run failed, and trying again is no use until the object changes."""
