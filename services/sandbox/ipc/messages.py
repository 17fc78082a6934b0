"""Contents of the messages between service front and supervisor.

A request has the name of an RPC of the API, and its replies are ``RESPONSE`` messages with ``END`` after the last, or
``FAILURE``; their bodies are the API's own protobuf messages. What concerns the two processes alone has kinds of its
own, in lower case, and bodies in strict JSON: ``START`` carries the service's settings and is answered like
``GetIsolation``, ``CANCEL`` ends the request of its number, and the records of ``RECORDS`` come from the supervisor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from pydantic import TypeAdapter

from fathom.api.sandbox.v1 import sandbox_pb2
from fathom.core.errors import BY_REASON, FathomError, Internal, NotFound, rebuild

START, CANCEL = "start", "cancel"
RESPONSE, END, FAILURE, MEASUREMENT, LOG_LINE = "response", "end", "failure", "measurement", "log"
# Read from the descriptor, so that a new RPC needs no entry here. ``transport.rpc.contract`` has the same table, but
# the supervisor must not import the transports.
METHODS = sandbox_pb2.DESCRIPTOR.services_by_name["SandboxService"].methods_by_name


@dataclass(frozen=True)
class Failure:
    """A ``FathomError`` in place of a response."""

    reason: str
    message: str
    metadata: dict[str, str]
    retry_after_s: float | None


@dataclass(frozen=True)
class Measurement:
    """One measurement for the front's metrics."""

    name: str
    label: str
    value: float


@dataclass(frozen=True)
class LogLine:
    """One line for the front's log."""

    level: str
    text: str
    fields: dict[str, Any]


RECORDS: dict[str, TypeAdapter[Any]] = {
    FAILURE: TypeAdapter(Failure),
    MEASUREMENT: TypeAdapter(Measurement),
    LOG_LINE: TypeAdapter(LogLine),
}

RecordMetric = Callable[[str, str, float], None]
"""Callback for one measurement: the field of ``Metrics``, its label or "", and the value."""


class Log(Protocol):
    """Logger methods that the engine uses."""

    def info(self, text: str, **fields: Any) -> None: ...

    def warning(self, text: str, **fields: Any) -> None: ...

    def error(self, text: str, **fields: Any) -> None: ...


def parse_request(method: str, body: bytes) -> Message:
    """Return the request of an RPC; raise ``NotFound`` for an unknown one, ``DecodeError`` for other bytes."""
    if method not in METHODS:
        raise NotFound("method", method)
    return GetMessageClass(METHODS[method].input_type).FromString(body)


def to_failure(error: FathomError) -> Failure:
    """Return the error as a record."""
    return Failure(error.reason, error.message, dict(error.metadata), error.retry_after_s)


def to_error(failed: Failure) -> FathomError:
    """Return the error that a record stands for."""
    kind = BY_REASON.get(failed.reason, Internal)
    return rebuild(kind, failed.message, failed.metadata, failed.retry_after_s)
