"""Settings of the judge; section ``reward.judge``."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from fathom.core.config import Settings


class Style(StrEnum):
    """Judging method; also the name of its prompts."""

    PAIRWISE = "pairwise"
    """Score both answers against each other."""
    RUBRIC = "rubric"
    """Derive principles for the question first, then critiques and scores."""
    DIRECT = "direct"
    """Score each answer by itself, without the other one."""


class JudgeSettings(Settings):
    """Model, number of votes, and how votes become a grade."""

    model: str = "judge"
    """Model, or role from policy's settings."""
    style: Style = Style.PAIRWISE
    """Default style; a request may choose another."""
    prompt_version: int = Field(default=0, ge=0)
    """Version of the prompt; 0 is the newest."""
    votes: int = Field(default=1, ge=1, le=8)
    """Votes per order."""
    temperature: float = Field(default=0.7, ge=0, le=2)
    """Sampling temperature with several votes; a single vote is greedy."""
    inconsistent: Literal["neutral", "loss"] = "neutral"
    """Result of votes that disagree: an even grade, or one against the left answer."""
    even_margin: float = Field(default=0.05, ge=0, lt=1)
    """Margins up to this are even, as a share of the scale."""
    # 0.3 of the scale is three points of ten.
    clear_margin: float = Field(default=0.3, gt=0, le=1)
    """Margins from this on are good or bad; smaller ones are rather good or rather bad."""
    max_tokens: int = Field(default=1_200, ge=32)
    """Maximum tokens per reply."""
    attempts: int = Field(default=3, ge=1, le=5)
    """Maximum attempts to get a readable reply."""
    timeout_s: float = Field(default=60.0, gt=0)
    """Timeout of one reply in seconds."""
    concurrent: int = Field(default=8, ge=1)
    """Maximum concurrent requests to the judge model."""
    max_pairs: int = Field(default=256, ge=1, le=256)
    """Maximum pairs per request."""
    max_chars: int = Field(default=24_000, ge=100)
    """Maximum characters of a question, reference or answer."""
    kept_votes: int = Field(default=20_000, ge=0)
    """Number of votes cached by question, answers and judge version."""
