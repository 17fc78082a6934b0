"""Record of contacts with something outside: last try, answer and failure, and whether its keys are here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from fathom.api.common.v1 import common_pb2 as common

# Enough for one sentence of a vendor; it is held for as long as the process lives.
MAX_FAILURE_CHARS = 300


def read_clock() -> datetime:
    return datetime.now(UTC)


@dataclass
class Contact:
    """The last moments of one thing outside, as this process has seen them; None for never."""

    clock: Callable[[], datetime] = read_clock
    tried: datetime | None = None
    answered: datetime | None = None
    failed: datetime | None = None
    failure: str = ""

    def note_try(self) -> None:
        """Record that it is asked now."""
        self.tried = self.clock()

    def note_answer(self) -> None:
        """Record that it has answered now, if only that there is nothing."""
        self.answered = self.clock()

    def note_failure(self, failure: str) -> None:
        """Record that it has failed now; ``failure`` holds no keys."""
        self.failed, self.failure = self.clock(), failure[:MAX_FAILURE_CHARS]

    def to_proto(self) -> common.Contact:
        """Return the contract's message."""
        message = common.Contact(failure=self.failure)
        for name in ("tried", "answered", "failed"):
            moment: datetime | None = getattr(self, name)
            if moment is not None:
                getattr(message, name).FromDatetime(moment)
        return message


def check_credential(variables: Iterable[str]) -> common.Credential:
    """Return whether all these environment variables have a value; none at all asks for no key."""
    names = [name for name in variables if name]
    if not names:
        return common.CREDENTIAL_UNSPECIFIED
    is_set = all(os.environ.get(name, "").strip() for name in names)
    return common.CREDENTIAL_SET if is_set else common.CREDENTIAL_MISSING
