"""Errors of third-party servers, in addition to the general errors.

A server that is unreachable, slow or failing is ``DependencyFailed`` (retried within the limits), one that throttles is
``Overloaded``, a missed deadline ``DeadlineExceeded``. The classes here are not retried.
"""

from __future__ import annotations

from fathom.core.errors import CorruptData, FathomError, UpstreamRefused

__all__ = ["AnswerTooLarge", "MalformedAnswer", "UpstreamRefused"]


class AnswerTooLarge(FathomError):
    """The response is larger than allowed, in bytes after decompression; nothing of it was kept."""

    code, reason = "FAILED_PRECONDITION", "PAYLOAD_TOO_LARGE"

    def __init__(self, culprit: str, limit: int) -> None:
        super().__init__(
            f"{culprit} answered with more than {limit:,} bytes",
            metadata={"culprit": culprit, "limit_bytes": str(limit)},
        )


class MalformedAnswer(CorruptData):
    """The response does not match the server's contract."""

    def __init__(self, culprit: str, message: str) -> None:
        super().__init__(f"answer of {culprit}", message)
        self.culprit = culprit
