"""Settings of BRPO; section ``brpo``. No torch here."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fathom.config import Settings


class BrpoConfig(Settings):
    """How the episodes of a prompt are compared with members of their own group (row F04)."""

    references: int = Field(default=1, ge=1)
    """Members of the group that the others are compared with; below ``rollout.n``."""
    style: Literal["pairwise", "rubric"] = "rubric"
    """The judge's template: scores at once, or principles for the question, critiques, then scores (SPCT)."""
    votes: int = Field(default=0, ge=0)
    """Votes per order of the two answers; 0 leaves it to reward."""
    tie: float = Field(default=0.0, ge=-1, le=0)
    """What an even judgement counts; the paper counts a loss, -1."""
    skew: float = Field(default=0.6, gt=0, le=1)
    """A group whose rewards sum to more than this share of its rows is left out: its reference was extreme."""
    max_failed: float = Field(default=0.2, ge=0, lt=1)
    """A group of which the judge fails on a larger share is left out."""
    timeout_s: float = Field(default=600.0, gt=0)
    """Longest judging of a batch in seconds."""
