"""
Resources: what a server serves (`Resource`), and how an author names it (`ResourceSelector`).

The grammar of the names is that of kopf's decorators.
"""

from __future__ import annotations

import dataclasses
import re
import urllib.parse
from collections.abc import Iterable, Iterator

_WATCHED = frozenset({"list", "watch"})

_VERSION = re.compile(r"v\d+(?:(?:alpha|beta)\d+)?")

# What the parts of a resource's name may be on any server. A kind has capitals, everything else has none.
_NAME = re.compile(r"(?=.{1,63}\Z)[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?")
_VERSION_LABEL = re.compile(r"(?=.{1,63}\Z)[a-z]([-a-z0-9]*[a-z0-9])?")
_GROUP = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """One resource that a server serves in one version. Equal by group, version and plural."""

    group: str
    version: str
    plural: str
    kind: str = dataclasses.field(default="", compare=False)
    singular: str = dataclasses.field(default="", compare=False)
    shortcuts: frozenset[str] = dataclasses.field(default=frozenset(), compare=False)
    categories: frozenset[str] = dataclasses.field(default=frozenset(), compare=False)
    subresources: frozenset[str] = dataclasses.field(default=frozenset(), compare=False)
    namespaced: bool = dataclasses.field(default=True, compare=False)
    preferred: bool = dataclasses.field(default=True, compare=False)
    """Whether this is the version to take where an author names none."""
    verbs: frozenset[str] = dataclasses.field(default=frozenset(), compare=False)

    @property
    def kind_key(self) -> tuple[str, str]:
        """What all versions of it have in common: their objects are the same ones."""
        return (self.group, self.plural)

    @property
    def shape(self) -> tuple[object, ...]:
        """All that is known of it. Two resources that are equal may differ in how they are served."""
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __iter__(self) -> Iterator[str]:
        return iter((self.group, self.version, self.plural))

    def __str__(self) -> str:
        return f"{self.plural}.{self.version}.{self.group}".rstrip(".")

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """
        The path of its URL on a server. A namespace is ignored for what has none.

        Raises `ValueError` for a name or namespace that would lead elsewhere.
        """
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", path_segment(namespace, "namespace")]
        parts.append(self.plural)
        if name is not None:
            parts.append(path_segment(name, "name"))
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)


_PLAIN_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_{}-]*|{[a-z]+}")


def path_segment(text: str, what: str) -> str:
    """
    A name as one part of a path. Raises `ValueError`.

    Names often come from objects that others have written: with a slash, or two dots, they would mean another object,
    in another namespace even; an empty one means the whole collection, to be deleted perhaps.
    """
    if not isinstance(text, str) or text in ("", ".", "..") or "/" in text or "%" in text:
        raise ValueError(f"{text!r} can't be the {what} of an object")
    return text if _PLAIN_SEGMENT.fullmatch(text) else urllib.parse.quote(text, safe=":")


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceSelector:
    """
    How an author names a resource: any part but the name may be left open.

    `name` is a plural, singular, kind or short name. Without a version, the server's preferred one is meant.
    """

    name: str
    group: str | None = None
    version: str | None = None

    @classmethod
    def parse(cls, *args: str) -> ResourceSelector:
        """
        Read the positional arguments of a decorator.

        `("example.com", "v1", "webapps")`, `("example.com/v1", "webapps")`, `("v1", "configmaps")` or
        `("", "v1", "configmaps")` for the core group, `("example.com", "webapps")`, `("webapps.v1.example.com",)`,
        `("webapps.example.com",)`, or a bare name. Raises `TypeError` with one sentence for anything else.
        """
        words = args[1:] if len(args) == 3 and args[0] == "" else args  # the core group in kopf's long form
        if not words or not all(isinstance(word, str) and word for word in words):
            raise TypeError(
                'name the resource, as in ("example.com", "v1", "webapps"), ("v1", "configmaps") or ("webapps")'
            )
        if len(args) > 3:
            raise TypeError(f"at most group, version and name make a resource, not {len(args)} words: {args!r}")
        _refuse_swapped(words)
        if len(args) == 3:
            group, version, name = args
            selector = cls(name=name, group=group, version=version)
        elif len(args) == 2:
            selector = cls._of_two(*args)
        else:
            selector = cls._of_one(args[0])
        _refuse_impossible(selector)
        return selector

    @classmethod
    def _of_two(cls, first: str, name: str) -> ResourceSelector:
        if "/" in first:
            group, _, version = first.rpartition("/")
            return cls(name=name, group=group, version=version)
        if _VERSION.fullmatch(first):
            return cls(name=name, group="", version=first)
        return cls(name=name, group=first)

    @classmethod
    def _of_one(cls, text: str) -> ResourceSelector:
        if "/" in text and any(map(_VERSION.fullmatch, text.split("/"))):
            raise TypeError(f"give group/version and name as two words, not {text!r}")
        name, *rest = text.split(".")
        if not rest:
            return cls(name=name)
        if _VERSION.fullmatch(rest[0]):
            return cls(name=name, group=".".join(rest[1:]), version=rest[0])
        return cls(name=name, group=".".join(rest))

    def __str__(self) -> str:
        return ".".join(part for part in (self.name, self.version, self.group) if part)

    def matches(self, resource: Resource) -> bool:
        """Whether this names that resource (which may not be the only one: see `select`)."""
        return (
            (self.group is None or self.group == resource.group)
            and (resource.preferred if self.version is None else self.version == resource.version)
            and (self.name in (resource.plural, resource.kind, resource.singular) or self.name in resource.shortcuts)
        )

    def select(self, resources: Iterable[Resource]) -> list[Resource]:
        """
        All that it names; the core group hides namesakes in others, as in kubectl.

        A kind that the preferred version of its group does not serve is taken in the best version that does.
        """
        resources = list(resources)
        found = [resource for resource in resources if self.matches(resource)]
        if not found and self.version is None:
            found = self._in_other_versions(resources)
        core = [resource for resource in found if not resource.group]
        return core or found

    def follow(self, resources: Iterable[Resource], before: Resource) -> Resource | None:
        """
        What this names now, where it named `before`: the same kind, if that is still there.

        Names are for finding a kind once. A definition that takes other names, or a namesake that comes up elsewhere,
        does not take its objects away from those who work on them.
        """
        kind = [resource for resource in resources if resource.kind_key == before.kind_key]
        if self.version is not None:
            kind = [resource for resource in kind if resource.version == self.version]
        return max(
            kind, key=lambda one: (one.verbs >= _WATCHED, one.preferred, version_rank(one.version)), default=None
        )

    def _in_other_versions(self, resources: list[Resource]) -> list[Resource]:
        best: dict[tuple[str, str], Resource] = {}
        for resource in resources:
            if dataclasses.replace(self, version=resource.version).matches(resource):
                key = (resource.group, resource.plural)
                if key not in best or version_rank(resource.version) > version_rank(best[key].version):
                    best[key] = resource
        return list(best.values())

    def may_equal(self, other: ResourceSelector) -> bool:
        """Whether both can name one resource, as far as words alone can tell."""
        return (
            self.name.lower() == other.name.lower()
            and (self.group is None or other.group is None or self.group == other.group)
            and (self.version is None or other.version is None or self.version == other.version)
        )


def _refuse_swapped(words: tuple[str, ...]) -> None:
    """Raise `TypeError` for words in an order that can't be meant: a version is easily told from all else."""
    *before, last = words
    if not before:
        return
    if _VERSION.fullmatch(last.lower()) and not _VERSION.fullmatch(before[-1].lower()):
        ordered = [*before[:-1], last, before[-1]]
    elif "/" in last and _VERSION.fullmatch(last.rpartition("/")[2].lower()) and len(words) == 2:
        ordered = [last, words[0]]
    elif len(words) == 3 and _VERSION.fullmatch(words[0].lower()) and not _VERSION.fullmatch(words[1].lower()):
        name, group = sorted(words[1:], key=lambda word: "." in word)  # a name never has a dot; the order counts else
        ordered = [group, words[0], name] if "." in group else [words[1], words[0], words[2]]
    else:
        return
    example = ", ".join(f'"{word}"' for word in ordered)
    raise TypeError(f"{_listed(words)} are swapped: the order is group, version, name, as in ({example})")


def _refuse_impossible(selector: ResourceSelector) -> None:
    """Raise `TypeError` for what no server can have."""
    name, group, version = selector.name, selector.group, selector.version
    if "/" in name:
        raise TypeError(
            f"{name!r} names a subresource, which can't be watched: name the resource, {name.partition('/')[0]!r}"
        )
    if "*" in (name, group, version):
        raise TypeError('\'*\' names no resource: name each one, as in ("example.com", "v1", "webapps")')
    if _VERSION.fullmatch(name):
        raise TypeError(f"{name!r} is a version, not a resource: name its plural, singular or kind")
    if not _NAME.fullmatch(name):
        raise TypeError(
            f"{name!r} can't be the name of a resource: it is a plural, singular or kind of letters, digits and '-', as"
            ' in "webapps" or "WebApp"'
        )
    if group and not _GROUP.fullmatch(group):
        raise TypeError(
            f'{group!r} can\'t be an API group: it is of lower-case letters, digits, "-" and ".", as in "example.com"'
        )
    if version is not None and not _VERSION_LABEL.fullmatch(version):
        raise TypeError(f'{version!r} can\'t be an API version: it is of lower-case letters and digits, as in "v1"')


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(repr(word) for word in words)


def version_rank(version: str) -> tuple[int, int, int]:
    """Kubernetes' order of versions: stable before beta before alpha, then by number."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if not match:
        return (-1, 0, 0)
    major, stage, minor = match.groups()
    return ({None: 2, "beta": 1, "alpha": 0}[stage], int(major), int(minor or 0))
