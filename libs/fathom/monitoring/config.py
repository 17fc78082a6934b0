"""Settings of the watch over production; section ``grading``, ``FATHOM_GRADING_*``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from fathom.config import Settings


class Config(Settings):
    """What is graded, and how patiently."""

    graders: tuple[str, ...] = Field(default=("tool_steps", "code"), min_length=1, max_length=32)
    """Graders and composites of reward; those of cells grade each cell, those with references the questions that have
    one."""
    share: float = Field(default=1.0, gt=0, le=1)
    """Share of the runs that is drawn."""
    seed: int = 0
    """Which ones."""
    references: Path | None = None
    """JSON lines ``{"question": …, "references": […]}``."""
    attempts: int = Field(default=3, ge=1)
    """How often a run is tried while planner and reward answer; while they do not, it waits."""
    first_pause_s: float = Field(default=1.0, gt=0)
    """Pause after the first failure in seconds; each following one is twice as long."""
    max_pause_s: float = Field(default=60.0, gt=0)
    """Longest pause in seconds."""
    lease_s: float = Field(default=300.0, gt=0)
    """How long a run is left to the one that took it, in seconds; longer than a batch of grades may take."""
    look_s: float = Field(default=15.0, gt=0, le=300)
    """After how long an end that another copy has in hand is looked at again, in seconds."""
