"""
Logs: the formats of the command line, which are kopf's, with the object and the controller in each line of a handler.

Any logger that is used inside a handler, in its threads too, is enriched: the run is found by a context variable.
"""

from __future__ import annotations

import copy
import enum
import logging
import sys
from typing import Any

from opkit.flow.invocation import current_run, object_reference

_FULL = "[%(asctime)s] %(name)-20.20s [%(levelname)-8.8s] %(message)s"
_NOISY = ("aiohttp", "kopf", "urllib3", "kubernetes")

# All loggers of opkit's. They are made beforehand, since what an author configures later may disable those that exist.
_OURS = (
    "opkit", "opkit.activities", "opkit.apiserver", "opkit.apiserver.server", "opkit.apiserver.state", "opkit.cluster",
    "opkit.cluster.requests", "opkit.coordinator", "opkit.discovery", "opkit.events", "opkit.finalizers",
    "opkit.health", "opkit.objects", "opkit.operator", "opkit.polling", "opkit.run", "opkit.secondary", "opkit.sieve",
    "opkit.store", "opkit.stream", "opkit.testing", "opkit.triggers", "opkit.watchdog", "opkit.watches",
)  # fmt: skip


class LogFormat(enum.StrEnum):
    PLAIN = "plain"
    FULL = "full"
    JSON = "json"


class RunFilter(logging.Filter):
    """Puts the object and the controller of the current run on each record."""

    def filter(self, record: logging.LogRecord) -> bool:
        run = current_run.get()
        if run is not None:
            if not hasattr(record, "k8s_ref"):
                record.k8s_ref = object_reference(run.raw)
            if not hasattr(record, "controller"):
                record.controller = run.controller
        return True


class PrefixFormatter(logging.Formatter):
    """Puts `[namespace/name]` and the controller before the message."""

    def format(self, record: logging.LogRecord) -> str:
        reference = getattr(record, "k8s_ref", None)
        if reference:
            namespace, name = reference.get("namespace"), reference.get("name")
            where = f"{namespace}/{name}" if namespace else str(name)
            controller = getattr(record, "controller", None)
            record = copy.copy(record)
            record.msg = f"[{where}] {f'{controller}: ' if controller else ''}{record.getMessage()}"
            record.args = ()
        return super().format(record)


def configure(
    *,
    verbose: bool = False,
    debug: bool = False,
    quiet: bool = False,
    log_format: LogFormat = LogFormat.FULL,
    prefix: bool | None = None,
    reference_key: str | None = None,
) -> None:
    """Send all logs to the standard error, in this format. Replaces what an earlier call has set up."""
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(old)
    handler = _Handler(sys.stderr)
    handler.addFilter(RunFilter())
    handler.setFormatter(_formatter(log_format, prefix, reference_key or "object"))
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug or verbose else logging.WARNING if quiet else logging.INFO)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.NOTSET if debug else logging.CRITICAL)
    keep_switched_on()
    # Its errors are those of an author's forgotten tasks: nobody else would tell them.
    logging.getLogger("asyncio").setLevel(logging.NOTSET if debug else logging.ERROR)


def keep_switched_on() -> None:
    """
    Keep `logging.config` from disabling opkit's loggers, whenever an author calls it.

    It disables all loggers that exist unless it is told not to, which nobody means who configures the logs of an
    operator. Levels, handlers and a `disabled` of the author's own hold.
    """
    for name in _OURS:
        logger = logging.getLogger(name)
        if type(logger) is logging.Logger:
            logger.__class__ = _KeptLogger


class _KeptLogger(logging.Logger):
    """A logger that `logging.config` can't disable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "disabled" and sys._getframe(1).f_globals.get("__name__") == "logging.config":
            return
        super().__setattr__(name, value)


class _Handler(logging.StreamHandler[Any]):
    """Our own, to be found and replaced."""


def _formatter(log_format: LogFormat, prefix: bool | None, reference_key: str) -> logging.Formatter:
    if log_format is LogFormat.JSON:
        return _json_formatter(bool(prefix), reference_key)
    text = "%(message)s" if log_format is LogFormat.PLAIN else _FULL
    return logging.Formatter(text) if prefix is False else PrefixFormatter(text)


def _json_formatter(prefix: bool, reference_key: str) -> logging.Formatter:
    from pythonjsonlogger.core import RESERVED_ATTRS
    from pythonjsonlogger.json import JsonFormatter

    class Formatter(JsonFormatter):
        """kopf's keys: message, timestamp, severity, and the object under the reference key."""

        def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
            super().add_fields(log_data, record, message_dict)
            log_data["severity"] = _severity(record.levelno)
            reference = getattr(record, "k8s_ref", None)
            if reference:
                log_data[reference_key] = reference
                if prefix:
                    where = "/".join(filter(None, (reference.get("namespace"), reference.get("name"))))
                    log_data["message"] = f"[{where}] {log_data['message']}"

    return Formatter(reserved_attrs=[*RESERVED_ATTRS, "k8s_ref"], timestamp=True)


def _severity(level: int) -> str:
    for limit, name in ((logging.DEBUG, "debug"), (logging.INFO, "info"), (logging.WARNING, "warn"),
                        (logging.ERROR, "error")):  # fmt: skip
        if level <= limit:
            return name
    return "fatal"
