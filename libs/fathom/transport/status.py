"""Conversion of ``FathomError`` to and from ``google.rpc.Status`` (``ErrorInfo``, ``BadRequest``, ``RetryInfo``).

The layout follows AIP-193.
"""

from __future__ import annotations

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from fathom.core import errors
from fathom.core.errors import FathomError, rebuild

DOMAIN = "fathom"
# Marks a reply over the bus that carries a status in place of a response.
STATUS_HEADER = "fathom-status"
OK = Status(code=Code.OK)

_BY_CODE: dict[str, type[FathomError]] = {
    "INVALID_ARGUMENT": errors.InvalidField, "NOT_FOUND": errors.NotFound, "ABORTED": errors.Conflict,
    "UNIMPLEMENTED": errors.NotImplementedYet, "DATA_LOSS": errors.CorruptData, "UNAVAILABLE": errors.NotReady,
    "RESOURCE_EXHAUSTED": errors.Overloaded, "DEADLINE_EXCEEDED": errors.DeadlineExceeded,
    "CANCELLED": errors.Cancelled, "FAILED_PRECONDITION": errors.FailedPrecondition,
    "UNAUTHENTICATED": errors.Unauthenticated, "PERMISSION_DENIED": errors.PermissionDenied,
}  # fmt: skip


def to_status(error: FathomError) -> Status:
    """Convert the error to a status that any gRPC client understands."""
    status = Status(code=Code.Value(error.code), message=error.message)
    status.details.add().Pack(ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=dict(error.metadata)))
    if isinstance(error, errors.InvalidField):
        violation = BadRequest.FieldViolation(field=error.field, description=error.message)
        status.details.add().Pack(BadRequest(field_violations=[violation]))
    if error.retry_after_s is not None:
        delay = Duration()
        delay.FromMicroseconds(int(error.retry_after_s * 1e6))
        status.details.add().Pack(RetryInfo(retry_delay=delay))
    return status


def from_status(status: Status) -> FathomError:
    """Convert a status to its typed error, keeping message, metadata and retry delay."""
    info, retry_after_s = ErrorInfo(), None
    for detail in status.details:
        if detail.Is(ErrorInfo.DESCRIPTOR):
            detail.Unpack(info)
        elif detail.Is(RetryInfo.DESCRIPTOR):
            retry = RetryInfo()
            detail.Unpack(retry)
            retry_after_s = retry.retry_delay.ToMicroseconds() / 1e6
    kind = errors.BY_REASON.get(info.reason) or _BY_CODE.get(Code.Name(status.code), errors.Internal)
    return rebuild(kind, status.message, dict(info.metadata), retry_after_s)


def from_grpc(error: grpc.aio.AioRpcError, service: str, method: str) -> FathomError:
    """Convert a failed gRPC call to its typed error; bare UNAVAILABLE and CANCELLED name the service as culprit."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return from_status(Status.FromString(value))
    code, details = error.code().name, error.details() or ""
    # A server that stops may answer a call at its door with a bare CANCELLED. It never means the caller: grpc.aio
    # raises asyncio.CancelledError for a call that its own side cancelled.
    if code in ("UNAVAILABLE", "CANCELLED"):
        return errors.DependencyFailed(service, f"cannot be reached ({details})")
    if code == "DEADLINE_EXCEEDED":
        return errors.DeadlineExceeded(f"{service}.{method} did not answer in time", metadata={"culprit": service})
    kind = _BY_CODE.get(code, errors.Internal)
    return rebuild(kind, f"{service}.{method}: {details}", {"culprit": service}, None)
