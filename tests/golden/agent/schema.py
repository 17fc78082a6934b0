"""The question files as data; questions.yaml says what each field means."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

FOLDER = Path(__file__).parent
SEEN = FOLDER / "questions.yaml"
HELD = FOLDER / "questions_held.yaml"
KINDS = Literal[
    "compare", "risk", "growth", "extreme", "macro", "currency", "ranking", "event", "document", "missing", "hop",
    "strategy", "value",
]  # fmt: skip


class Closed(BaseModel):
    """Immutable, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Expected(Closed):
    """One thing that an answer must hold."""

    name: tuple[str, ...] = ()
    is_: str = Field("", alias="is")
    tol: float = 0.06
    says: str = ""
    order: str = ""
    figure: int = 0
    missing: tuple[str, ...] = ()

    @model_validator(mode="after")
    def one(self) -> Self:
        """Exactly one thing."""
        if sum(map(bool, (self.is_, self.says, self.order, self.figure, self.missing))) != 1:
            raise ValueError("exactly one of is, says, order, figure, missing")
        return self


class Question(Closed):
    """One question with what its answer must hold."""

    id: str
    kind: KINDS
    lang: Literal["en", "zh"]
    ask: str
    expected: tuple[Expected, ...] = Field(min_length=1)


def load_questions(path: Path = SEEN) -> list[Question]:
    """The questions of one file, in order; raises ``ValidationError`` with the place of a mistake."""
    return [Question.model_validate(item) for item in yaml.safe_load(path.read_text(encoding="utf-8"))["questions"]]
