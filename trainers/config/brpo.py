"""Settings of BRPO; section ``brpo``. Does not import torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fathom.core.config import Settings


class BrpoConfig(Settings):
    """Comparison of a prompt's episodes with reference members of their own group."""

    references: int = Field(default=1, ge=1)
    """Number of group members that the others are compared with; less than ``rollout.n``."""
    style: Literal["pairwise", "rubric"] = "rubric"
    """The judge's template: scores directly, or principles for the question, critiques, then scores (SPCT)."""
    votes: int = Field(default=0, ge=0)
    """Votes per order of the two answers; 0 uses the reward service's default."""
    tie: float = Field(default=0.0, ge=-1, le=0)
    """Value of a tie; the paper counts a tie as a loss, -1."""
    skew: float = Field(default=0.6, gt=0, le=1)
    """Leave out groups whose rewards sum to more than this share of their rows: their reference was extreme."""
    max_failed: float = Field(default=0.2, ge=0, lt=1)
    """Leave out groups for which the judge fails on a larger share of comparisons."""
    timeout_s: float = Field(default=600.0, gt=0)
    """Time limit for judging a batch, in seconds."""
