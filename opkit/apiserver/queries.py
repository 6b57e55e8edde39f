"""What stands behind the question mark of a URL, parsed; nonsense is refused with 400 or 422."""

from __future__ import annotations

import dataclasses
import re

from aiohttp import web

from opkit.cluster.selector import FieldSelector, LabelSelector
from opkit.simulation import refusals
from opkit.simulation.deletion import check_dry_run
from opkit.simulation.watchers import Selection
from opkit.simulation.writes import Options

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_SELECTOR_LIMIT = 64 * 1024
_MANAGER_LIMIT = 128


@dataclasses.dataclass(frozen=True, slots=True)
class ListQuery:
    """What a list or a watch is asked for."""

    selection: Selection
    is_watch: bool
    version: int | None
    is_exact: bool
    limit: int
    token: str
    timeout: int | None
    bookmarks: bool
    initial_events: bool


def parse_list(request: web.BaseRequest, namespace: str | None) -> ListQuery:
    query = request.query
    is_watch = parse_boolean(query.get("watch"))
    match = query.get("resourceVersionMatch", "")
    initial_events = parse_boolean(query.get("sendInitialEvents"))
    version = _version(query.get("resourceVersion", ""))
    if match not in ("", "Exact", "NotOlderThan") or (match and not version and not is_watch and match == "Exact"):
        raise refusals.bad_request(f"resourceVersionMatch: Forbidden: {match!r} needs a resourceVersion it can match")
    return ListQuery(
        selection=Selection(
            namespace, _labels(query.get("labelSelector", "")), _fields(query.get("fieldSelector", ""))
        ),
        is_watch=is_watch,
        version=version,
        is_exact=match == "Exact",
        limit=max(0, _integer(query.get("limit")) or 0),
        token=query.get("continue", ""),
        timeout=_integer(query.get("timeoutSeconds")),
        bookmarks=parse_boolean(query.get("allowWatchBookmarks")),
        initial_events=initial_events,
    )


def parse_write(request: web.BaseRequest, subresource: str = "") -> Options:
    query = request.query
    manager = query.get("fieldManager", "")
    if len(manager) > _MANAGER_LIMIT or not manager.isprintable():
        raise refusals.bad_request("fieldManager: must be at most 128 printable characters")
    agent = request.headers.get("User-Agent", "unknown").partition("/")[0][:_MANAGER_LIMIT]
    return Options(
        manager=manager or agent,
        subresource=subresource if subresource != "scale" else "",
        dry_run=parse_dry_run(request),
        force=parse_boolean(query.get("force")),
    )


def parse_dry_run(request: web.BaseRequest) -> bool:
    return check_dry_run(request.query.getall("dryRun", []))


def parse_boolean(text: str | None) -> bool:
    """As Go's API machinery reads one: all but absence, `false` and `0` is true."""
    return text is not None and text.lower() not in ("false", "0")


def _integer(text: str | None) -> int | None:
    if text is None or text == "":
        return None
    if not _INTEGER.fullmatch(text):
        raise refusals.bad_request(f"{refusals.show(text)} is not an integer")
    return int(text)


def _version(text: str) -> int | None:
    """A version to start from; none for an absent one, and for 0, which means the same here."""
    if not re.fullmatch(r"\d{0,18}", text, re.ASCII):
        raise refusals.bad_request(f"resourceVersion: Invalid value: {refusals.show(text)}")
    return int(text or 0) or None


def _labels(text: str) -> LabelSelector:
    _check_length(text)
    try:
        return LabelSelector.parse(text)
    except ValueError as error:
        raise refusals.bad_request(str(error)) from None


def _fields(text: str) -> FieldSelector:
    _check_length(text)
    try:
        return FieldSelector.parse(text)
    except ValueError as error:
        raise refusals.bad_request(str(error)) from None


def _check_length(text: str) -> None:
    if len(text) > _SELECTOR_LIMIT:
        raise refusals.bad_request(f"a selector of more than {_SELECTOR_LIMIT} characters is not supported")
