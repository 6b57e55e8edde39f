"""
Annotations that ask for a client of another library.

Takes the annotation of a parameter, as an object or as text, and tells which client it means. Never imports
a client library: an author who annotates with one has imported it, or wrote its name.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from typing import Any

# The class, where it lives, and how a person would write it.
_CLIENTS = {
    "kubernetes": ("ApiClient", "kubernetes.client.ApiClient"),
    "pykube": ("HTTPClient", "pykube.HTTPClient"),
}


def client_library(annotation: Any, function: Any) -> tuple[str | None, str | None]:
    """
    Tell the client library that an annotation asks for, as (`"kubernetes"` or `"pykube"`, None).

    (None, None) when it asks for none; (None, what is wrong) when it names another part of such a library.
    """
    for choice in _choices(_evaluated(annotation, function)):
        if isinstance(choice, str):
            library, name = _of_text(choice)
        elif inspect.isclass(choice):
            library, name = choice.__module__.partition(".")[0], choice.__name__
        else:
            continue
        if library in _CLIENTS:
            wanted, written = _CLIENTS[library]
            if name == wanted:
                return library, None
            return None, f"{library}'s {name}; the client that can be asked for is {written}"
    return None, None


def _evaluated(annotation: Any, function: Any) -> Any:
    text = getattr(annotation, "__forward_arg__", annotation)
    if not isinstance(text, str):
        return annotation
    try:
        # The author's own expression, in the author's own module, as `inspect.signature(eval_str=True)` does.
        return eval(text, getattr(inspect.unwrap(function), "__globals__", {}))
    except Exception:
        # Names imported for type checkers only, a docstring's prose, operators that a class lacks: annotations need
        # not run, and type checkers report those that don't. The name has to do.
        return text


def _choices(annotation: Any) -> list[Any]:
    """The parts of a union, or of text that looks like one; otherwise the annotation alone."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _choices(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return list(typing.get_args(annotation))
    if isinstance(annotation, str):
        return [part.strip() for part in re.split(r"[|\[\],]", annotation)]
    return [annotation]


def _of_text(text: str) -> tuple[str, str]:
    """The library and the class that a dotted name stands for, as far as words can tell."""
    first, _, name = text.strip("'\"").rpartition(".")
    for library, (wanted, _) in _CLIENTS.items():
        if first.partition(".")[0] == library or name == wanted:
            return library, name
    return "", name
