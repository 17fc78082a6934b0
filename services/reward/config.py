"""Settings of reward; section ``reward``, ``FATHOM_REWARD_*``."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, field_validator

from fathom.config import Settings
from fathom.grading.graders import GRADERS
from services.reward.composing import Composite, shipped
from services.reward.judging.settings import JudgeSettings
from services.reward.process.settings import ProcessSettings


class Config(Settings):
    """Limits of a request."""

    max_items: int = Field(default=4096, ge=1, le=4096)
    """Items of one Score request."""
    verify_workers: int = Field(default=2, ge=0, le=64)
    """Processes that grade side by side; 0 grades in a thread, where a grader that does not end cannot be ended."""
    verify_timeout_s: float = Field(default=10.0, gt=0)
    """Longest grading of one item in seconds; one that is late is worth 0."""
    frames_by_reference: bool = True
    """Whether sandboxes read tables from the object store; without, each table travels with its call (31 MiB)."""
    concurrent_cells: int = Field(default=4, ge=1)
    """Cells that run in the sandbox at once."""
    composites: Mapping[str, Composite] = Field(default_factory=shipped)
    """Weighted sums of graders, by the name that requests give."""
    process: ProcessSettings = ProcessSettings()
    """The implicit process reward model."""
    judge: JudgeSettings = JudgeSettings()
    """The pairwise judge."""

    @field_validator("composites")
    @classmethod
    def _names_are_free(cls, composites: Mapping[str, Composite]) -> Mapping[str, Composite]:
        taken = sorted(set(composites) & {*GRADERS, "code_run"})
        if taken:
            raise ValueError(f"{taken[0]!r} is a grader's name")
        return composites
