"""Blind question sets: questions by authors who knew README and data but not the code, with what an answer must hold."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

FOLDER = Path(__file__).parent / "questions"
Kind = Literal["fact", "multi_step", "vague", "unanswerable", "follow_up", "report"]


class Closed(BaseModel):
    """Immutable, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Value(Closed):
    """A number that a right answer holds."""

    name: str
    any_of: tuple[float, ...] = Field(min_length=1)
    """One number for each convention that is acceptable, as a reader would see it: 82.3 for 82.3 %."""
    unit: str = ""
    tolerance: float = Field(ge=0)
    """Absolute, in the same unit."""


class Question(Closed):
    """One question, with the conversation before it."""

    id: str
    kind: Kind
    language: Literal["en", "zh"]
    turns: tuple[str, ...] = ()
    question: str = Field(min_length=1)
    values: tuple[Value, ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    """Of each inner tuple one must stand in the answer."""
    missing: tuple[tuple[str, ...], ...] = ()
    """What the answer must name as not available; of each inner tuple one."""
    answerable: bool
    note: str = ""


def load_questions(path: Path) -> list[Question]:
    """Return the questions of a file in JSON Lines; raise ``ValidationError`` with the place of a mistake."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Question.model_validate_json(line) for line in lines if line.strip()]
