"""Blind question sets: questions by authors who knew README and data but not the code, with what an answer must hold."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

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
    """Names that the answer must state as not available; of each inner tuple one."""
    answerable: bool
    note: str = ""


def load_questions(path: Path) -> list[Question]:
    """Return the questions of a file in JSON Lines; raise ``ValidationError`` with the place of a mistake."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Question.model_validate_json(line) for line in lines if line.strip()]


class ClaimColumn(Closed):
    """A series of the bundled data by its ids, over some dates; or one of the author's own, by its ``values``."""

    entity: str = Field(min_length=1)
    indicator: str = ""
    first: str = Field(default="", alias="from")
    last: str = Field(default="", alias="to")
    entity_names: tuple[str, ...] = ()
    measure_names: tuple[str, ...] = ()
    unit: str = ""
    values: dict[date, float] = {}
    adverse: bool = False

    @model_validator(mode="after")
    def check(self) -> ClaimColumn:
        if bool(self.indicator) == bool(self.values):
            raise ValueError("a column has either indicator or values")
        return self


class ClaimItem(Closed):
    """Hold what a sentence cites: a table of ``columns``, or a ``passage`` of a document."""

    title: str = ""
    columns: tuple[ClaimColumn, ...] = ()
    passage: str = ""
    published: str = ""

    @model_validator(mode="after")
    def check(self) -> ClaimItem:
        if bool(self.columns) == bool(self.passage):
            raise ValueError("an item has either columns or passage")
        return self


class Claim(Closed):
    """A true sentence, and the same with a planted error of a kind; without ``material``, of the common shelf."""

    id: str
    kind: Literal["cause", "comparison", "unit"]
    language: Literal["en", "zh"]
    true: str = Field(min_length=1)
    wrong: str = Field(min_length=1)
    material: tuple[ClaimItem, ...] = ()


def load_claims(path: Path) -> list[Claim]:
    """Return the claims of a file in JSON Lines; raise ``ValidationError`` with the place of a mistake."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Claim.model_validate_json(line) for line in lines if line.strip()]
