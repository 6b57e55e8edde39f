"""
What kopf's client raises, in opkit's words: errors of whatever shape.

Pure functions; what they are given is kopf's, but kopf is not imported for that.
"""

from __future__ import annotations

import email.utils
from collections.abc import Mapping
from typing import Any

import aiohttp

from opkit.errors import ApiError


def translated(error: Any) -> ApiError:
    """An error of kopf's client."""
    seconds = _retry_after(error.headers or {})
    payload = error._payload
    if isinstance(payload, dict):
        return ApiError.of_body(payload, http_status=error.status, retry_after=seconds)
    text = payload if isinstance(payload, str) else ""
    return ApiError.of(error.status, message=text, retry_after=seconds)


def may_pass(error: ApiError) -> bool:
    """Whether the same request may be answered otherwise in a moment: the server is too busy, broken, or not there."""
    return error.status == 0 or error.status == 429 or error.status >= 500


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks to wait: it may say them, or name a time of day, by its own clock."""
    value = headers.get("Retry-After") or ""
    if value.replace(".", "", 1).isdigit():
        return float(value)
    try:
        then, now = (email.utils.parsedate_to_datetime(text) for text in (value, headers.get("Date") or ""))
        return max(0.0, (then - now).total_seconds())
    except (ValueError, TypeError):
        return None


def beneath(error: BaseException) -> BaseException:
    """The answer that made kopf's client fail; the failure itself if there was none."""
    context: BaseException | None = error
    while context is not None:
        if hasattr(context, "_payload") and hasattr(context, "_status"):
            return translated(context)
        if isinstance(context, aiohttp.ClientResponseError):
            return ApiError.of(context.status, message=context.message)
        context = context.__context__
    return error


def words(error: BaseException) -> str:
    """An error in words; its class where it has none."""
    return str(error).strip() or type(error).__name__
