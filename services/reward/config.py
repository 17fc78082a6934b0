"""Settings of the reward service; section ``reward``, ``FATHOM_REWARD_*``."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, field_validator

from fathom.core.config import Settings
from fathom.domain.grading.graders import GRADERS
from fathom.services.reward.composite import Composite, build_default_composites
from fathom.services.reward.judging.settings import JudgeSettings
from fathom.services.reward.process.settings import ProcessSettings


class Config(Settings):
    """Limits and composites of the reward service, and the settings of its models."""

    max_items: int = Field(default=4096, ge=1, le=4096)
    """Maximum items of one Score request."""
    # Graders run expressions of models through symbolic mathematics, which may hang: only a process can be killed.
    verify_workers: int = Field(default=2, ge=0, le=64)
    """Number of grading processes; 0 grades in a thread, where a grader that hangs cannot be killed."""
    verify_timeout_s: float = Field(default=10.0, gt=0)
    """Maximum seconds for grading one item; an item over the limit scores 0."""
    frames_by_reference: bool = True
    """True if sandboxes read tables from the object store; otherwise each table is sent with its call (31 MiB)."""
    concurrent_cells: int = Field(default=4, ge=1)
    """Maximum number of cells running in the sandbox at once."""
    composites: Mapping[str, Composite] = Field(default_factory=build_default_composites)
    """Weighted sums of graders, by the name that requests use."""
    process: ProcessSettings = ProcessSettings()
    """The implicit process reward model."""
    judge: JudgeSettings = JudgeSettings()
    """The pairwise judge."""

    @field_validator("composites")
    @classmethod
    def _names_are_free(cls, composites: Mapping[str, Composite]) -> Mapping[str, Composite]:
        # A composite of a grader's name would hide it from requests that mean the grader.
        taken = sorted(set(composites) & {*GRADERS, "code_run", "code_tests"})
        if taken:
            raise ValueError(f"{taken[0]!r} is a grader's name")
        return composites
