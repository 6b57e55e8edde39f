"""
Request bodies: read under a limit, decoded by their media type.

Whatever a client sends, the result is decoded JSON or an `ApiError` of status 400, 413 or 415.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import yaml
from aiohttp import web

from opkit.apiserver import json_yaml, protobuf
from opkit.simulation import refusals

LIMIT = 3 * 1024 * 1024

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


def media_type(request: web.BaseRequest) -> str:
    """The media type of the body, without parameters."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


async def read(request: web.BaseRequest) -> bytes:
    """The body as it is. Raises 413, before more than the limit is held in memory."""
    if (request.content_length or 0) > LIMIT:
        raise refusals.too_large(f"Request entity too large: limit is {LIMIT}")
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.content.iter_any():
            size += len(chunk)
            if size > LIMIT:
                raise refusals.too_large(f"Request entity too large: limit is {LIMIT}")
            chunks.append(chunk)
    except web.RequestPayloadError as error:
        raise refusals.bad_request(f"the body can't be read: {error}") from None
    return b"".join(chunks)


async def read_object(request: web.BaseRequest) -> Any:
    """The body of a create or an update."""
    type = media_type(request) or JSON
    if type not in (JSON, YAML, PROTOBUF):
        raise refusals.unsupported_media(
            "the body of the request was in an unknown format - accepted media types include:"
            f" {JSON}, {YAML}, {PROTOBUF}"
        )
    data = await read(request)
    if type == PROTOBUF:
        return _from_protobuf(data)
    return from_yaml(data) if type == YAML else from_json(data)


async def read_patch(request: web.BaseRequest, is_builtin: bool) -> tuple[str, Any]:
    """The type of a patch, and the patch."""
    accepted = [type for type in PATCH_TYPES if is_builtin or "strategic" not in type]
    type = media_type(request)
    if type not in accepted:
        raise refusals.unsupported_media(
            f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
        )
    data = await read(request)
    return PATCH_TYPES[type], from_yaml(data) if type.endswith("yaml") else from_json(data)


async def read_options(request: web.BaseRequest) -> Any:
    """The body of a deletion, which is optional."""
    data = await read(request)
    if not data:
        return None
    if data.startswith(protobuf.MAGIC):
        raise refusals.unsupported_media("delete options in protobuf are not supported: send JSON")
    return from_json(data)


def from_json(data: bytes) -> Any:
    try:
        return json.loads(data, parse_constant=_no_constant)
    except RecursionError:
        raise refusals.bad_request("the object provided is nested too deeply") from None
    except ValueError as error:  # also of bytes that are not UTF-8, and of numbers with thousands of digits
        raise refusals.bad_request(f"the object provided is unrecognized: json parse error: {error}") from None


def from_yaml(data: bytes) -> Any:
    if data.lstrip().startswith(b"{"):  # most YAML that clients send is JSON, which is read many times faster
        return from_json(data)
    try:
        return from_json(json.dumps(json_yaml.load(data), allow_nan=False).encode())
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, UnicodeError) as error:
        text = " ".join(str(error).split())
        raise refusals.bad_request(f"the object provided is unrecognized: yaml parse error: {text[:300]}") from None


def _from_protobuf(data: bytes) -> Any:
    try:
        return protobuf.decode(data)
    except protobuf.UnknownKind as error:
        raise refusals.unsupported_media(str(error)) from None
    except ValueError as error:
        raise refusals.bad_request(f"the object provided is unrecognized: protobuf: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
