"""Replies of the judge: a JSON object per style, parsed tolerantly and validated strictly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from fathom.domain.chat.tolerant import read_reply
from fathom.services.reward.judging.settings import Style

# Reasons are shown to people and logged; a judge that rambles is cut.
MAX_REASON = 1_000


class Pairwise(BaseModel):
    """Scores from 0 to 10 after the reason for their difference."""

    model_config = ConfigDict(title="fathom.judge.pairwise")

    # The reason stands first, so that the model writes it before the scores that follow from it.
    reason: str = ""
    first: int = Field(ge=0, le=10)
    second: int = Field(ge=0, le=10)

    @property
    def margin(self) -> float:
        return (self.first - self.second) / 10

    @property
    def why(self) -> str:
        return self.reason


class Principle(BaseModel):
    """Criterion for this question, with its weight in percent."""

    principle: str = Field(min_length=1)
    weight: float = Field(gt=0, le=100)


class Critiques(BaseModel):
    """One or two sentences on each answer."""

    first: str = Field(min_length=1)
    second: str = Field(min_length=1)


class Rubric(BaseModel):
    """Principles, critiques by them, and scores from 1 to 10."""

    model_config = ConfigDict(title="fathom.judge.rubric")

    principles: list[Principle] = Field(min_length=1, max_length=12)
    critiques: Critiques
    first: int = Field(ge=1, le=10)
    second: int = Field(ge=1, le=10)

    @property
    def margin(self) -> float:
        # Scores of a rubric begin at 1, so that they differ by 9 at most.
        return (self.first - self.second) / 9

    @property
    def why(self) -> str:
        heaviest = max(self.principles, key=lambda one: one.weight)
        return f"{heaviest.principle} / {self.critiques.first} / {self.critiques.second}"


class Direct(BaseModel):
    """Scores from 0 to 10 of one answer in four dimensions, after the reason."""

    model_config = ConfigDict(title="fathom.judge.direct")

    reason: str = ""
    accuracy: int = Field(ge=0, le=10)
    logic: int = Field(ge=0, le=10)
    professionalism: int = Field(ge=0, le=10)
    citation: int = Field(ge=0, le=10)

    @property
    def margin(self) -> float:
        return sum(self._scores.values()) / (10 * len(self._scores))

    @property
    def why(self) -> str:
        shown = ", ".join(f"{name} {value}" for name, value in self._scores.items())
        return f"{shown}: {self.reason}" if self.reason else shown

    @property
    def _scores(self) -> Mapping[str, int]:
        return self.model_dump(exclude={"reason"})


REPLIES: Mapping[Style, type[Pairwise] | type[Rubric] | type[Direct]] = {
    Style.PAIRWISE: Pairwise,
    Style.RUBRIC: Rubric,
    Style.DIRECT: Direct,
}


@dataclass(frozen=True)
class Opinion:
    """One reply: ``margin`` of the answer that was shown first, in [-1, 1], and the reason.

    Of an answer that was shown alone the margin is its score, in [0, 1].
    """

    margin: float
    reason: str


def build_schema(style: Style) -> str:
    """Return the JSON schema of a reply, for engines with guided decoding."""
    # Sorted: engines may cache the compiled grammar by the text of the schema.
    return json.dumps(REPLIES[style].model_json_schema(), sort_keys=True)


def parse_reply(style: Style, text: str) -> Opinion | str:
    """Parse a reply; return the opinion, or a message saying what is wrong."""
    reply = read_reply(text, REPLIES[style])
    return reply if isinstance(reply, str) else Opinion(reply.margin, reply.why[:MAX_REASON])
