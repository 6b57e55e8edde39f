"""The summary of a run: what was called for which object, how often, and how it ended last."""

from __future__ import annotations

from collections.abc import Iterator

from opkit.flow.onlooker import Onlooker
from opkit.flow.report import Call, Outcome


class Summary(Onlooker):
    """Collects calls, and prints them as a table."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str, str], list[Call]] = {}
        self.bugs = 0

    def on_call(self, call: Call) -> None:
        where = f"{call.namespace}/{call.name}" if call.namespace else str(call.name)
        self._calls.setdefault((call.controller, where, call.handler), []).append(call)

    def on_bug(self, error: BaseException) -> None:
        self.bugs += 1

    @property
    def failed(self) -> bool:
        """Whether anything failed last, or opkit itself did."""
        return bool(self.bugs) or any(calls[-1].outcome is Outcome.FAILURE for calls in self._calls.values())

    def keep_failing(self, attempts: int) -> set[str]:
        """The objects (UID) of which a handler's last so many calls failed."""
        return {
            calls[-1].uid
            for calls in self._calls.values()
            if len(calls) >= attempts and all(call.outcome is Outcome.FAILURE for call in calls[-attempts:])
        }

    def __str__(self) -> str:
        rows = [("CONTROLLER", "OBJECT", "HANDLER", "RUNS", "LAST", "MESSAGE"), *self._rows()]
        if len(rows) == 1:
            return "Nothing was called: there are no objects that the handlers are for."
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        return "\n".join(
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[5]]).rstrip()
            for row in rows
        )

    def _rows(self) -> Iterator[tuple[str, str, str, str, str, str]]:
        for (controller, where, handler), calls in sorted(self._calls.items()):
            last = calls[-1]
            message = str(last.error or "") or (last.result.message if last.result is not None else "")
            if last.outcome is Outcome.SUCCESS and last.result is not None and last.result.requeue_after is not None:
                message = f"again in {last.result.requeue_after:g} s"
            yield controller, where, handler, str(len(calls)), str(last.outcome or "running"), message
