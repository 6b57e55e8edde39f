"""
Lists in pages: all pages of a list show the state at the first page's version.

A continuation token names that version and the last key; the state is told from the history, so a token lives
as long as the history does.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import itertools
import json

from opkit.errors import ApiError
from opkit.simulation import refusals
from opkit.simulation.records import Record
from opkit.simulation.shelf import Shelf
from opkit.simulation.watchers import Selection


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """One page: its objects, the version of the whole list, the token of the next page if there is one."""

    records: list[Record]
    version: int
    token: str = ""
    remaining: int | None = None


def page(
    shelf: Shelf, selection: Selection, version: int, *, limit: int = 0, token: str = "", exact: bool = False
) -> Page:
    """
    List one page of at most `limit` objects (0: all).

    `version` is the state to show: the current one, or with `exact` an older one. Raises 400 for nonsense as
    the token, 410 for one that is too old.
    """
    start = ""
    if token:
        version, start = _read_token(token)
        try:
            shelf.since(version)
        except ApiError:
            raise refusals.token_expired() from None
    found = shelf.at(version, selection.namespace, start) if token or exact else shelf.all(selection.namespace)
    if selection.is_narrow:
        found = (record for record in found if selection.selects(record))
    if not limit:
        return Page(list(found), version)
    records = list(itertools.islice(found, limit))
    rest = sum(1 for _ in found) if not selection.is_narrow else len(list(itertools.islice(found, 1)))
    if not rest:
        return Page(records, version)
    remaining = None if selection.is_narrow else rest
    return Page(records, version, _write_token(version, records[-1].key), remaining)


def _write_token(version: int, key: str) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": key})
    return base64.urlsafe_b64encode(text.encode()).decode()


def _read_token(token: str) -> tuple[int, str]:
    try:
        content = json.loads(base64.urlsafe_b64decode(token.encode()))
        version, start = content["rv"], content["start"]
    except (binascii.Error, ValueError, KeyError, TypeError):
        raise refusals.bad_request("continue key is not valid") from None
    if not isinstance(version, int) or not isinstance(start, str):
        raise refusals.bad_request("continue key is not valid")
    return version, start
