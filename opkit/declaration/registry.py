"""
The registry: the declarations in the order in which they were made.

Takes declarations, gives them back, or a plan of them. Never judges, never calls a handler, never touches
the network.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from opkit.declaration.declarations import Declaration, Mistake
from opkit.settings import Settings

if TYPE_CHECKING:
    from opkit.plan.plan import Plan


class Registry:
    """
    A set of declarations that make one operator.

    Decorators use the process-wide default one unless they are given `registry=`.
    """

    def __init__(self) -> None:
        self._declarations: list[Declaration] = []
        self._mistakes: list[Mistake] = []

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        """All declarations, in the order in which they were made."""
        return tuple(self._declarations)

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """What the decorators could not make a declaration of."""
        return tuple(self._mistakes)

    def add(self, declaration: Declaration) -> None:
        """Take a declaration as it is."""
        self._declarations.append(declaration)

    def add_mistake(self, mistake: Mistake) -> None:
        """Take note of a mistake, to be told at compile time with all others."""
        self._mistakes.append(mistake)

    def compile(self, settings: Settings | None = None) -> Plan:
        """
        Make the plan of all declarations.

        Raises `RegistrationError` with every problem at once. Changes nothing: may be called again, also
        after more declarations were made.
        """
        # The plan stands above the declarations; only this door leads up.
        from opkit.plan.compiler import compile_plan

        return compile_plan(self, settings)

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Registry]:
        """Be the process-wide registry for a block: what is imported in it declares into this one."""
        global _default
        previous, _default = _default, self
        try:
            yield self
        finally:
            _default = previous

    def __repr__(self) -> str:
        return f"<Registry of {len(self._declarations)} declarations>"


_default = Registry()


def default_registry() -> Registry:
    """The registry that decorators use when they are given none."""
    return _default
