"""What front and supervisor say to each other: one frozen record per kind, read and written as strict JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import TypeAdapter

from fathom.errors import BY_REASON, FathomError, Internal, rebuild
from services.sandbox.events import Gap, Outcome, Output
from services.sandbox.isolation import Report


@dataclass(frozen=True)
class Start:
    """Builds the walls; ``settings`` are those of the configuration. Answered with a ``Report``."""

    settings: dict[str, Any]


@dataclass(frozen=True)
class Open:
    """Opens a session; answered with its id."""

    request_id: str
    limits: dict[str, int]
    tenant: str


@dataclass(frozen=True)
class Inject:
    """Puts the attached table into a session."""

    session_id: str
    name: str
    lazy: bool


@dataclass(frozen=True)
class Execute:
    """Runs a cell; answered with its events, one message each."""

    session_id: str
    request_id: str
    code: str
    wall_ms: int


@dataclass(frozen=True)
class Variables:
    """Lists a session's variables."""

    session_id: str


@dataclass(frozen=True)
class Interrupt:
    """Stops the running cell; answered with whether there was one."""

    session_id: str


@dataclass(frozen=True)
class Restart:
    """Replaces the worker; answered with the names of the frames that it has."""

    session_id: str


@dataclass(frozen=True)
class Close:
    """Ends a session."""

    session_id: str


@dataclass(frozen=True)
class PutFile:
    """Writes the attached content into the scratch folder; answered with its size in bytes."""

    session_id: str
    path: str


@dataclass(frozen=True)
class GetFile:
    """Reads a file of the scratch folder; answered with its content attached."""

    session_id: str
    path: str


@dataclass(frozen=True)
class ListFiles:
    """Lists the scratch folder."""

    session_id: str


@dataclass(frozen=True)
class Ping:
    """Answered at once, by a supervisor that still turns."""


@dataclass(frozen=True)
class Picture:
    """A ``Display`` whose data are attached."""

    media_type: str


@dataclass(frozen=True)
class Failure:
    """A ``FathomError``."""

    reason: str
    message: str
    metadata: dict[str, str]
    retry_after_s: float | None


@dataclass(frozen=True)
class Note:
    """One measurement for the front's metrics."""

    name: str
    label: str
    value: float


@dataclass(frozen=True)
class Line:
    """One line for the front's log."""

    level: str
    text: str
    fields: dict[str, Any]


Request = (
    Start | Open | Inject | Execute | Variables | Interrupt | Restart | Close | PutFile | GetFile | ListFiles | Ping
)
REQUESTS: dict[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind)
    for kind in (
        Start, Open, Inject, Execute, Variables, Interrupt, Restart, Close, PutFile, GetFile, ListFiles, Ping,
    )
}  # fmt: skip
REPLIES: dict[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind) for kind in (Output, Gap, Picture, Outcome, Failure, Note, Line, Report)
}
"""Besides these: ``Result``, of the type that the request asks for, and ``End`` after a cell's last event."""


class Log(Protocol):
    """What the engine needs of a log."""

    def info(self, text: str, **fields: Any) -> None: ...

    def warning(self, text: str, **fields: Any) -> None: ...

    def error(self, text: str, **fields: Any) -> None: ...


def failure(error: FathomError) -> Failure:
    """The error as a message."""
    return Failure(error.reason, error.message, dict(error.metadata), error.retry_after_s)


def raised(failed: Failure) -> FathomError:
    """The error that a message stands for."""
    kind = BY_REASON.get(failed.reason, Internal)
    return rebuild(kind, failed.message, failed.metadata, failed.retry_after_s)
