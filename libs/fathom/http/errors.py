"""What can go wrong with a server of somebody else's, beside the general errors.

A server that is out of reach, slow or failing is ``DependencyFailed`` (tried again within the bounds), one
that asks for patience ``Overloaded``, spent time ``DeadlineExceeded``. The classes here are not tried again.
"""

from __future__ import annotations

from fathom.errors import CorruptData, FathomError, UpstreamRefused

__all__ = ["AnswerTooLarge", "MalformedAnswer", "UpstreamRefused"]


class AnswerTooLarge(FathomError):
    """The answer is larger than allowed, in bytes after unpacking; nothing of it was kept."""

    code, reason = "FAILED_PRECONDITION", "PAYLOAD_TOO_LARGE"

    def __init__(self, culprit: str, limit: int) -> None:
        super().__init__(
            f"{culprit} answered with more than {limit:,} bytes",
            metadata={"culprit": culprit, "limit_bytes": str(limit)},
        )


class MalformedAnswer(CorruptData):
    """The answer is not what the server's contract says."""

    def __init__(self, culprit: str, message: str) -> None:
        super().__init__(f"answer of {culprit}", message)
        self.culprit = culprit
