"""Records of Python's ``logging``, which libraries write to, as lines of a service's own log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OWN_LOGGERS = "fathom"


class LibraryLogHandler(logging.Handler):
    """Handler that writes each record as a line of a structlog logger, with the name of its logger."""

    def __init__(self, log: Any) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; one that cannot be formatted is reported as ``logging`` does it."""
        try:
            more = {"exc_info": record.exc_info} if record.exc_info else {}
            self._log.log(record.levelno, record.getMessage(), logger=record.name, **more)
        # As every handler of the standard library does: a wrong message of a library must not break what it is about.
        except Exception:
            self.handleError(record)


@contextmanager
def library_logs(log: Any, level: str = "info") -> Iterator[None]:
    """Write warnings of libraries, and records of our own loggers from ``level`` on, to ``log`` within the block.

    Without it Python prints them as bare lines, which no collector of JSON lines reads. For a process with one service:
    the loggers are the process's.
    """
    handler, root, own = LibraryLogHandler(log), logging.getLogger(), logging.getLogger(OWN_LOGGERS)
    former = own.level
    root.addHandler(handler)
    own.setLevel(level.upper())
    try:
        yield
    finally:
        own.setLevel(former)
        root.removeHandler(handler)
