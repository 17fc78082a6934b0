"""Settings of the judge; section ``reward.judge``."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from fathom.config import Settings


class Style(StrEnum):
    """How a judge works; the names of its prompts."""

    PAIRWISE = "pairwise"
    """Both answers are scored against each other."""
    RUBRIC = "rubric"
    """Principles that fit the question come first, then critiques and scores."""


class JudgeSettings(Settings):
    """Which model judges, how often, and what its votes make."""

    model: str = "judge"
    """Model, or role of policy's settings."""
    style: Style = Style.PAIRWISE
    """Unless the request says another."""
    prompt_version: int = Field(default=0, ge=0)
    """Version of the prompt; 0 is the newest."""
    votes: int = Field(default=1, ge=1, le=8)
    """Votes per order."""
    temperature: float = Field(default=0.7, ge=0, le=2)
    """Of several votes; a single one is greedy."""
    inconsistent: Literal["neutral", "loss"] = "neutral"
    """What votes make that do not all agree: an even grade, or one against the left answer."""
    even_margin: float = Field(default=0.05, ge=0, lt=1)
    """Margins up to this are even, as a share of the scale."""
    clear_margin: float = Field(default=0.3, gt=0, le=1)
    """Margins from this on are good or bad, not only rather so."""
    max_tokens: int = Field(default=1_200, ge=32)
    """Tokens per reply."""
    attempts: int = Field(default=3, ge=1, le=5)
    """Replies that are asked for until one can be read."""
    timeout_s: float = Field(default=60.0, gt=0)
    """Longest reply in seconds."""
    concurrent: int = Field(default=8, ge=1)
    """Replies that are waited for at once."""
    max_pairs: int = Field(default=256, ge=1, le=256)
    """Pairs of one request."""
    max_chars: int = Field(default=24_000, ge=100)
    """Longest question, reference or answer."""
    kept_votes: int = Field(default=20_000, ge=0)
    """Votes that are remembered by question, answers and judge version."""
