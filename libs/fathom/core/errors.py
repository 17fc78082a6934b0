"""Typed errors, one class per reason of ``fathom.api.common.v1.ErrorReason``.

::

    FathomError
    ├── InvalidField        INVALID_ARGUMENT     contract: stops a run, names the field
    ├── PayloadTooLarge     INVALID_ARGUMENT
    ├── ContextTooLong      INVALID_ARGUMENT
    ├── NotFound            NOT_FOUND
    ├── Conflict            ABORTED
    ├── SessionLost         ABORTED
    ├── VersionMismatch     FAILED_PRECONDITION
    ├── MissingExtra        FAILED_PRECONDITION
    ├── UpstreamRefused     FAILED_PRECONDITION
    ├── UnreadableContent   FAILED_PRECONDITION
    ├── Unauthenticated     UNAUTHENTICATED
    ├── PermissionDenied    PERMISSION_DENIED
    ├── NotImplementedYet   UNIMPLEMENTED
    ├── CorruptData         DATA_LOSS
    ├── NotReady            UNAVAILABLE          transient: retried within the budget
    ├── DependencyFailed    UNAVAILABLE          transient
    ├── Overloaded          RESOURCE_EXHAUSTED   transient
    ├── DeadlineExceeded    DEADLINE_EXCEEDED
    ├── Cancelled           CANCELLED
    └── Internal            INTERNAL

This module knows no transport; ``fathom.transport.status`` turns an error into ``google.rpc.Status``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar


class FathomError(Exception):
    """Base of all errors that cross a service boundary.

    ``code`` is the canonical gRPC code, ``reason`` the ``ErrorReason`` without its prefix, ``metadata`` the content of
    ``ErrorInfo``, ``retry_after_s`` the delay a server asks for in seconds.
    """

    code: ClassVar[str] = "INTERNAL"
    reason: ClassVar[str] = "INTERNAL"
    transient: ClassVar[bool] = False

    def __init__(
        self, message: str, *, metadata: Mapping[str, str] | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        # A read-only copy: the same error may be raised to several waiting callers, and ends up in a status of the
        # contract, whose metadata are strings.
        self.metadata: Mapping[str, str] = MappingProxyType(dict(metadata or {}))
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Callable[..., FathomError], tuple[object, ...]]:
        """Return how to make a copy in another process; classes have constructors of their own."""
        return copy_error, (type(self), self.args, {**self.__dict__, "metadata": dict(self.metadata)})


def copy_error(kind: type[FathomError], args: tuple[object, ...], fields: dict[str, Any]) -> FathomError:
    """Return an error with the arguments and fields of one from another process."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields, metadata=MappingProxyType(fields["metadata"]))
    return error


class InvalidField(FathomError):
    """A field of the request is wrong; ``field`` is its path in the request."""

    code, reason = "INVALID_ARGUMENT", "INVALID_FIELD"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}", metadata={"field": field})
        self.field = field


class PayloadTooLarge(FathomError):
    """The payload is larger than the transport and the claim check allow, in bytes."""

    code, reason = "INVALID_ARGUMENT", "PAYLOAD_TOO_LARGE"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"payload of {size:,} bytes is over the limit of {limit:,}",
            metadata={"size_bytes": str(size), "limit_bytes": str(limit)},
        )


class ContextTooLong(FathomError):
    """The conversation does not fit into the window of model ``culprit``, of ``limit_tokens`` tokens; 0 is unknown."""

    code, reason = "INVALID_ARGUMENT", "CONTEXT_TOO_LONG"

    def __init__(self, culprit: str, limit_tokens: int, message: str) -> None:
        super().__init__(
            f"{culprit}: the conversation is too long: {message}",
            metadata={"culprit": culprit, "limit_tokens": str(limit_tokens)},
        )
        self.culprit, self.limit_tokens = culprit, limit_tokens


class NotFound(FathomError):
    """The named thing does not exist; ``nearest`` are names that do, ``field`` is where the request names it."""

    code, reason = "NOT_FOUND", "NOT_FOUND"

    def __init__(self, kind: str, name: str, nearest: Sequence[str] = (), *, field: str = "") -> None:
        hint = f"; nearest: {', '.join(nearest)}" if nearest else ""
        metadata = {"kind": kind, "name": name, "nearest": ",".join(nearest)}
        super().__init__(f"no {kind} {name!r}{hint}", metadata=metadata | ({"field": field} if field else {}))
        self.nearest = tuple(nearest)


class Conflict(FathomError):
    """The request contradicts the state of the resource or an earlier use of its request id."""

    code, reason = "ABORTED", "CONFLICT"


# ABORTED, not NOT_FOUND: the caller did nothing wrong, and what it has to do is to build the session anew.
class SessionLost(FathomError):
    """The sandbox session is gone with its state; ``cause`` says how."""

    code, reason = "ABORTED", "SESSION_LOST"

    def __init__(self, session_id: str, cause: str) -> None:
        super().__init__(f"session {session_id} is lost: {cause}", metadata={"session_id": session_id, "cause": cause})


class FailedPrecondition(FathomError):
    """The named thing is of a kind or in a state that does not allow this; ``field`` may say which field."""

    code, reason = "FAILED_PRECONDITION", "FAILED_PRECONDITION"


class VersionMismatch(FathomError):
    """The requested policy version is not the one being served."""

    code, reason = "FAILED_PRECONDITION", "VERSION_MISMATCH"

    def __init__(self, model: str, wanted: int, served: int) -> None:
        super().__init__(
            f"model {model!r} serves version {served}, not {wanted}",
            metadata={"model": model, "wanted": str(wanted), "served": str(served)},
        )


# A precondition and not UNIMPLEMENTED: the operator can meet it by installing, and the message says how.
class MissingExtra(FathomError):
    """An optional dependency is not installed; ``extra`` is the extra that provides it."""

    code, reason = "FAILED_PRECONDITION", "MISSING_EXTRA"

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(
            f"{module} is not installed: pip install 'fathom[{extra}]'",
            metadata={"module": module, "extra": extra},
        )


# Not transient although it came over a network: a 4xx of a vendor is about the request or the key, and a retry would
# spend quota for the same answer.
class UpstreamRefused(FathomError):
    """A third-party server understood the request and refused it, with the HTTP ``status``; a retry gives the same."""

    code, reason = "FAILED_PRECONDITION", "UPSTREAM_REFUSED"

    def __init__(self, culprit: str, status: int, message: str) -> None:
        super().__init__(
            f"{culprit} answered {status}: {message}", metadata={"culprit": culprit, "http_status": str(status)}
        )
        self.culprit, self.status = culprit, status


class UnreadableContent(FathomError):
    """The content fetched from ``culprit`` has nothing that can be read as text."""

    code, reason = "FAILED_PRECONDITION", "UNREADABLE_CONTENT"

    def __init__(self, culprit: str, message: str, media_type: str = "") -> None:
        super().__init__(message, metadata={"culprit": culprit, "media_type": media_type})
        self.culprit = culprit


class Unauthenticated(FathomError):
    """The caller does not prove who it is: no token, or one that is malformed, expired or for somebody else."""

    code, reason = "UNAUTHENTICATED", "UNAUTHENTICATED"


class PermissionDenied(FathomError):
    """The caller is known and may not do this."""

    code, reason = "PERMISSION_DENIED", "PERMISSION_DENIED"


class NotImplementedYet(FathomError):
    """The RPC is in the contract but not built; ``plan`` says where it is planned."""

    code, reason = "UNIMPLEMENTED", "NOT_IMPLEMENTED"

    def __init__(self, method: str, plan: str) -> None:
        super().__init__(f"{method} is not implemented yet: {plan}", metadata={"method": method, "plan": plan})


class CorruptData(FathomError):
    """Stored bytes do not match their checksum or their schema."""

    code, reason = "DATA_LOSS", "CORRUPT_DATA"

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key} is corrupt: {message}", metadata={"key": key})


class NotReady(FathomError):
    """The service is starting, draining or unreachable."""

    # These three alone are retried by clients: the request was not worked on, or may be repeated under its request_id.
    code, reason, transient = "UNAVAILABLE", "NOT_READY", True


class DependencyFailed(FathomError):
    """A service that this call depends on failed; ``culprit`` names it."""

    code, reason, transient = "UNAVAILABLE", "DEPENDENCY_FAILED", True

    def __init__(self, culprit: str, message: str) -> None:
        super().__init__(f"{culprit}: {message}", metadata={"culprit": culprit})
        self.culprit = culprit


class Overloaded(FathomError):
    """Too many requests are in flight; retry after ``retry_after_s`` seconds."""

    code, reason, transient = "RESOURCE_EXHAUSTED", "OVERLOADED", True

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message, retry_after_s=retry_after_s)


class DeadlineExceeded(FathomError):
    """The caller's deadline has passed."""

    code, reason = "DEADLINE_EXCEEDED", "DEADLINE"


class Cancelled(FathomError):
    """The caller disconnected or asked to stop."""

    code, reason = "CANCELLED", "CANCELLED"


class Internal(FathomError):
    """An unexpected internal failure; the cause is in the log under the request id, not in the message."""


# Non-retryable status codes. ABORTED is excluded: the conflict may resolve.
NON_RETRYABLE = frozenset(
    {
        "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "UNIMPLEMENTED", "DATA_LOSS", "UNAUTHENTICATED",
        "PERMISSION_DENIED",
    }
)  # fmt: skip


def is_retryable(error: FathomError) -> bool:
    """Return True for transient errors and exceeded deadlines: a retry, or a longer one, may succeed."""
    return error.transient or isinstance(error, DeadlineExceeded)


# Error class by reason.
BY_REASON: Mapping[str, type[FathomError]] = MappingProxyType(
    {
        kind.reason: kind
        for kind in (
            InvalidField, PayloadTooLarge, ContextTooLong, NotFound, Conflict, SessionLost, FailedPrecondition,
            VersionMismatch, MissingExtra, UpstreamRefused, UnreadableContent, NotImplementedYet, CorruptData,
            Unauthenticated, PermissionDenied,
            NotReady, DependencyFailed, Overloaded, DeadlineExceeded, Cancelled, Internal,
        )
    }
)  # fmt: skip


def rebuild(
    kind: type[FathomError], message: str, metadata: Mapping[str, str], retry_after_s: float | None
) -> FathomError:
    """Create an instance of ``kind`` with exactly this message."""
    # Not kind(...): its constructor would compose another message.
    error = kind.__new__(kind)
    FathomError.__init__(error, message, metadata=metadata, retry_after_s=retry_after_s)
    for name in ("field", "culprit"):
        if name in metadata:
            setattr(error, name, metadata[name])
    if isinstance(error, InvalidField):
        # Other programs, and errors of settings, are refused with this status without naming a field.
        error.field = metadata.get("field", "")
    if isinstance(error, UpstreamRefused):
        said = metadata.get("http_status", "")
        error.status = int(said) if said.isdecimal() else 0
    if isinstance(error, ContextTooLong):
        limit = metadata.get("limit_tokens", "")
        error.limit_tokens = int(limit) if limit.isdecimal() else 0
    if isinstance(error, NotFound):
        error.nearest = tuple(filter(None, metadata.get("nearest", "").split(",")))
    return error
