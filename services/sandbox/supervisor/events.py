"""Events of a cell, passed from supervisor to service front: output while it runs, displays, one outcome at the end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """End of a cell, as the supervisor saw it."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    OOM = "oom"
    OUTPUT_LIMIT = "output_limit"
    DISK_LIMIT = "disk_limit"
    KILLED = "killed"
    INTERRUPTED = "interrupted"
    INFRA_ERROR = "infra_error"


@dataclass(frozen=True)
class Output:
    """A piece of ``stdout`` or ``stderr``."""

    stream: str
    text: str


@dataclass(frozen=True)
class Gap:
    """Number of bytes dropped at this point of a stream, between its head and its tail."""

    stream: str
    size_bytes: int


@dataclass(frozen=True)
class Display:
    """A figure, an image or HTML."""

    media_type: str
    data: bytes


@dataclass(frozen=True)
class Variable:
    """Name, type and shape of a variable, without its value."""

    name: str
    type: str
    shape: str


@dataclass(frozen=True)
class Outcome:
    """The end of a cell. Status, duration, memory, drops and cause are measured outside the worker."""

    status: Status
    result: str = ""
    traceback: str = ""
    error_name: str = ""
    error_value: str = ""
    changed: tuple[Variable, ...] = ()
    duration_ms: int = 0
    peak_memory_bytes: int = 0
    dropped_output_bytes: int = 0
    cell: int = 0
    session_lost: bool = False
    cause: str = ""


Event = Output | Gap | Display | Outcome
