"""
Declarations: what a decorator was given, word for word, and where it stands.

Frozen values without any judgement: whatever an author wrote is kept as it is, right or wrong, until the
compiler looks at all of them together.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from typing import Any

from opkit.filter.expressions import FilterKind


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class Place:
    """A line in a file of the author's."""

    file: str
    line: int

    @classmethod
    def of_caller(cls) -> Place:
        """The line outside opkit that called into it: there stands the decorator."""
        frame = sys._getframe(1)
        while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
            frame = frame.f_back
        return cls(frame.f_code.co_filename, frame.f_lineno)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def _is_ours(module: str) -> bool:
    return module.startswith(("opkit.declaration.", "opkit.filter.")) or module == "opkit.filter"


class Activity(enum.StrEnum):
    """What is called for the operator, not for an object."""

    STARTUP = "startup"
    SHUTDOWN = "shutdown"
    LOGIN = "login"
    PROBE = "probe"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A function that was decorated. All options are what the author gave, of whatever type."""

    function: Any
    place: Place


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDeclaration(Declaration):
    """One that names a resource, by the positional arguments of its decorator."""

    resource: tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileDeclaration(ResourceDeclaration):
    controller: Any = None
    label_selector: Any = None
    field_selector: Any = None
    on_add: Any = None
    on_update: Any = None
    on_delete: Any = None
    generic: Any = None
    when: Any = None
    default_filters: Any = True
    strategy: Any = None
    owns: Any = ()
    retry: Any = None
    timeout: Any = None
    timeout_set: bool = False
    resync: Any = None
    resync_set: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeleteDeclaration(ResourceDeclaration):
    controller: Any = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FinalizerDeclaration(ResourceDeclaration):
    name: Any = None
    when: Any = None
    order: Any = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilterDeclaration(ResourceDeclaration):
    kind: FilterKind
    controller: Any = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SecondaryDeclaration(ResourceDeclaration):
    of: Any = None
    on_add: Any = None
    on_update: Any = None
    on_delete: Any = None
    generic: Any = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PollDeclaration(Declaration):
    of: Any = None
    interval: Any = None
    each: Any = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ActivityDeclaration(Declaration):
    activity: Activity
    id: Any = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A decorator called in a way that it does not know: found at once, told with all other problems."""

    message: str
    place: Place
