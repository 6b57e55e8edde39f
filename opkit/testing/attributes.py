"""
Attributes of modules: which of them a test has set (its patches), and which the module itself.

A module is watched from when handlers run in it. Run again, it has new attributes, and the patches that are in force
stay; whoever undoes one of them then, with what stood there before the module was run again, gets the new one.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Collection, Iterator
from types import ModuleType
from typing import Any

from opkit.testing.suspects import is_mock, suspects, vars_of

_GONE: Any = object()
_PLAIN = (type(None), bool, int, float, complex, str, bytes, tuple, frozenset, ModuleType, types.FunctionType)

_watched: weakref.WeakKeyDictionary[ModuleType, Attributes] = weakref.WeakKeyDictionary()


class _Watched(ModuleType):
    """Tells what is set from outside. What the module itself does by `global` goes past this."""

    def __setattr__(self, name: str, value: Any) -> None:
        _watched[self].set(name, value, sys._getframe(1))

    def __delattr__(self, name: str) -> None:
        _watched[self].set(name, _GONE, sys._getframe(1))


class Attributes:
    """What one module holds: by itself, and by patches."""

    def __init__(self, module: ModuleType, patches: dict[str, Any]) -> None:
        self.module = module
        self._patches = dict(patches)
        self._own = {name: value for name, value in vars(module).items() if name not in patches}
        # What was a name's own value at any time; with nothing known of it, what comes next is taken for it.
        self._known: dict[str, list[Any]] = {name: [value] for name, value in self._own.items()}
        self.learned: dict[str, Any] = {}
        """What a name held before the module was watched, told by the end of a patch."""
        module.__class__ = _Watched

    def set(self, name: str, value: Any, setter: types.FrameType) -> None:
        """Somebody sets an attribute: a test, another one of the operator's modules, or the import system."""
        if setter.f_code.co_filename.startswith("<frozen importlib") or _is_of_operator(setter.f_globals):
            self._patches.pop(name, None)
        elif name in self._patches and self._is_own(name, value):
            del self._patches[name]
            if name not in self._known:
                self.learned[name] = value
                self._remember(name, self._own.get(name, value))
            value = self._own.get(name, _GONE)
        else:
            if name not in self._patches:
                self._remember(name, vars(self.module).get(name, _GONE))
            self._patches[name] = value
        self._put(name, value)

    def _is_own(self, name: str, value: Any) -> bool:
        return name not in self._known or any(value is one for one in self._known[name])

    def _remember(self, name: str, value: Any) -> None:
        self._known.setdefault(name, []).append(value)
        if value is _GONE:
            self._own.pop(name, None)
        else:
            self._own[name] = value

    def _put(self, name: str, value: Any) -> None:
        if value is not _GONE:
            vars(self.module)[name] = value
        elif name in vars(self.module):
            del vars(self.module)[name]
        else:
            raise AttributeError(f"module {self.module.__name__!r} has no attribute {name!r}")

    def patches(self) -> dict[str, Any]:
        """The patches that nobody has undone, nor the module itself written over."""
        now = vars(self.module)
        return {name: value for name, value in self._patches.items() if now.get(name, _GONE) is value}

    def own(self) -> dict[str, Any]:
        """What the module holds without patches."""
        patched = self.patches()
        now = {name: value for name, value in vars(self.module).items() if name not in patched}
        return now | {name: self._own[name] for name in patched if name in self._own}

    def become(self, own: dict[str, Any], patches: dict[str, Any]) -> None:
        """Hold this as the module's own, with the patches over it."""
        for name, value in own.items():
            if name in self._known or name not in patches:
                known = self._known.setdefault(name, [])
                known.append(value)
                del known[1:-2]
        self._own, self._patches = dict(own), dict(patches)
        now = vars(self.module)
        now.clear()
        now.update(own)
        for name, value in patches.items():
            now.pop(name, None)
            if value is not _GONE:
                now[name] = value


def watch(modules: Collection[ModuleType], fresh: Collection[ModuleType]) -> list[Attributes]:
    """Watch modules that are plain ones. Of the `fresh` ones nobody can have patched anything yet."""
    for module in modules:
        if module not in _watched and type(module) is ModuleType:
            _watched[module] = Attributes(module, {} if module in fresh else suspects(module))
    return [_watched[module] for module in modules if module in _watched]


def carry_over(old: dict[str, Any], new: dict[str, Any], patches: Collection[Any]) -> Iterator[str]:
    """
    What a test had put elsewhere than into the module itself: gives the imported names that were bound to a patch, and
    sets the mocks that stand in classes and objects in what has come instead of these.
    """
    for name, value in old.items():
        if name not in new or new[name] is value:
            continue
        if any(value is patch for patch in patches) and (is_mock(value) or not isinstance(value, _PLAIN[:-1])):
            yield name
        elif type(new[name]) is type(value) and not isinstance(value, _PLAIN):
            for attribute, inner in vars_of(value).items():
                if is_mock(inner):
                    try:
                        setattr(new[name], attribute, inner)
                    except (AttributeError, TypeError):  # frozen: the test has got around that somehow
                        pass


def _is_of_operator(scope: dict[str, Any]) -> bool:
    module = sys.modules.get(scope.get("__name__", ""))
    return isinstance(module, ModuleType) and module in _watched and vars(module) is scope
