"""Quota of an upstream: limits that an operator changes while its services run."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass

from pydantic import Field

from fathom.core.config import Settings
from fathom.core.errors import InvalidField

MAX_RUNNING, MAX_PER_SECOND = 1_000_000, 1e6
KINDS = ("tool.", "model.", "source.", "tenant.")
"""Kinds of things that may have a quota: a quota's name is one of these and the name of the thing."""
NAME_PATTERN = rf"^({'|'.join(kind.rstrip('.') for kind in KINDS)})\..+$"


@dataclass(frozen=True)
class Quota:
    """Requests at once and per second, of all replicas together; None keeps to the settings, 0 at once refuses all."""

    running: int | None = None
    per_second: float | None = None

    def __post_init__(self) -> None:
        """Raise ``InvalidField`` for a number out of range."""
        if self.running is not None and not 0 <= self.running <= MAX_RUNNING:
            raise InvalidField("running", f"must be 0 to {MAX_RUNNING:,}")
        rate = self.per_second
        if rate is not None and not (math.isfinite(rate) and 0 < rate <= MAX_PER_SECOND):
            raise InvalidField("per_second", f"must be above 0 and at most {MAX_PER_SECOND:,.0f}")

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def parse(cls, value: bytes) -> Quota:
        """Return the quota of its JSON; raise ``InvalidField`` for anything else."""
        try:
            found = json.loads(value)
            running, rate = found.get("running"), found.get("per_second")
            return cls(None if running is None else int(running), None if rate is None else float(rate))
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidField("quota", "is no object with running and per_second") from error


class QuotaSetting(Settings):
    """A quota as settings name it; one that is set while services run replaces it whole."""

    running: int | None = Field(default=None, ge=0, le=MAX_RUNNING)
    """At once, over all replicas; 0 refuses all."""
    per_second: float | None = Field(default=None, gt=0, le=MAX_PER_SECOND)
    """Per second, over all replicas."""

    def to_quota(self) -> Quota:
        return Quota(self.running, self.per_second)
