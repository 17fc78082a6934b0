"""Records sent between service front and supervisor: one frozen class per kind, as strict JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import TypeAdapter

from fathom.errors import BY_REASON, FathomError, Internal, rebuild
from services.sandbox.events import Gap, Outcome, Output
from services.sandbox.isolation import Report


@dataclass(frozen=True)
class Start:
    """Request to build the walls with these settings of the service; the reply is a ``Report``."""

    settings: dict[str, Any]


@dataclass(frozen=True)
class Open:
    """Request to open a session; the reply is its id."""

    request_id: str
    limits: dict[str, int]
    tenant: str


@dataclass(frozen=True)
class Inject:
    """Request to put the attached table into a session."""

    session_id: str
    name: str
    lazy: bool


@dataclass(frozen=True)
class Execute:
    """Request to run a cell; the replies are its events, one message each."""

    session_id: str
    request_id: str
    code: str
    wall_ms: int


@dataclass(frozen=True)
class Variables:
    """Request for a session's variables."""

    session_id: str


@dataclass(frozen=True)
class Interrupt:
    """Request to stop the running cell; the reply is False when there was none."""

    session_id: str


@dataclass(frozen=True)
class Restart:
    """Request to replace the worker; the reply is the names of the frames that the new one has."""

    session_id: str


@dataclass(frozen=True)
class Close:
    """Request to end a session."""

    session_id: str


@dataclass(frozen=True)
class PutFile:
    """Request to write the attached content into the scratch folder; the reply is its size in bytes."""

    session_id: str
    path: str


@dataclass(frozen=True)
class GetFile:
    """Request for a file of the scratch folder; its content is attached to the reply."""

    session_id: str
    path: str


@dataclass(frozen=True)
class ListFiles:
    """Request for the list of files in the scratch folder."""

    session_id: str


@dataclass(frozen=True)
class Ping:
    """Request that a supervisor answers at once, as long as its event loop runs."""


@dataclass(frozen=True)
class Picture:
    """Reply with a ``Display`` whose data are attached."""

    media_type: str


@dataclass(frozen=True)
class Failure:
    """Reply with a ``FathomError``."""

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
"""Further replies are ``Result``, of the type that the request asks for, and ``End`` after a cell's last event."""


class Log(Protocol):
    """Logger methods that the engine uses."""

    def info(self, text: str, **fields: Any) -> None: ...

    def warning(self, text: str, **fields: Any) -> None: ...

    def error(self, text: str, **fields: Any) -> None: ...


def failure(error: FathomError) -> Failure:
    """Return the error as a record."""
    return Failure(error.reason, error.message, dict(error.metadata), error.retry_after_s)


def raised(failed: Failure) -> FathomError:
    """Return the error that a record stands for."""
    kind = BY_REASON.get(failed.reason, Internal)
    return rebuild(kind, failed.message, failed.metadata, failed.retry_after_s)
