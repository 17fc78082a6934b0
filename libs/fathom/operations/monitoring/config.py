"""Settings of production monitoring; section ``grading``, ``FATHOM_GRADING_*``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from fathom.core.config import Settings


class Config(Settings):
    """Graders, sampling, retries and leases of production monitoring."""

    graders: tuple[str, ...] = Field(default=("tool_steps", "code"), min_length=1, max_length=32)
    """Graders and composites of the reward service.

    Graders of cells grade each cell; those with references, only the questions that have one.
    """
    share: float = Field(default=1.0, gt=0, le=1)
    """Fraction of the runs that is sampled."""
    seed: int = 0
    """Seed of the sampling."""
    references: Path | None = None
    """JSON lines ``{"question": …, "references": […]}``."""
    attempts: int = Field(default=3, ge=1)
    """Maximum attempts per run while planner and reward respond; while they do not, the run waits."""
    first_pause_s: float = Field(default=1.0, gt=0)
    """Pause after the first failure in seconds; each following one is twice as long."""
    max_pause_s: float = Field(default=60.0, gt=0)
    """Maximum pause in seconds."""
    lease_s: float = Field(default=300.0, gt=0)
    """Lease of a claimed run in seconds; must be longer than grading one batch may take."""
    look_s: float = Field(default=15.0, gt=0, le=300)
    """Interval in seconds after which a run claimed by another copy is checked again."""
