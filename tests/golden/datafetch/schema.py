"""The gold files as data: questions with the cells that answer them."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

FOLDER = Path(__file__).parent
HELD = FOLDER / "questions_held.yaml"
LATE = FOLDER / "questions_late.yaml"
FRESH = tuple(FOLDER / f"questions_fresh_{name}.yaml" for name in "abcdef")
DAY_MEASURES = frozenset({"value", "yoy", "qoq", "mom", "ratio", "spread", "cross", "convert"})
SERIES = r"^[A-Z0-9]{2,6}\.[a-z0-9_]+$"


class Measure(StrEnum):
    """Name what is made of a series; ``questions.yaml`` defines each."""

    VALUE = "value"
    YOY = "yoy"
    QOQ = "qoq"
    MOM = "mom"
    CHANGE = "change"
    RETURN = "return"
    CAGR = "cagr"
    VOLATILITY = "volatility"
    MAX_DRAWDOWN = "max_drawdown"
    MAX = "max"
    MIN = "min"
    MEAN = "mean"
    SUM = "sum"
    RATIO = "ratio"
    SPREAD = "spread"
    CROSS = "cross"
    CONVERT = "convert"


class Closed(BaseModel):
    """Immutable, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Cell(Closed):
    """One expected number."""

    of: str = Field(pattern=SERIES)
    measure: Measure = Measure.VALUE
    day: date | None = None
    start: date | None = None
    end: date | None = None
    against: str = Field("", pattern=rf"{SERIES}|^$")
    currency: str = ""
    unit: str
    value: float

    @property
    def entity(self) -> str:
        return self.of.split(".")[0]

    @property
    def indicator(self) -> str:
        return self.of.split(".")[1]

    @model_validator(mode="after")
    def whole(self) -> Self:
        """A day or a period, as the measure needs it."""
        if self.measure in DAY_MEASURES and self.day is None:
            raise ValueError(f"{self.measure} needs day")
        if self.measure not in DAY_MEASURES and (self.start is None or self.end is None):
            raise ValueError(f"{self.measure} needs start and end")
        if (self.measure in ("ratio", "spread", "cross")) != bool(self.against):
            raise ValueError("ratio, spread and cross need against, the others have none")
        if (self.measure == Measure.CONVERT) != bool(self.currency):
            raise ValueError("convert needs currency, the others have none")
        return self


class Edge(Closed):
    """First or last cell of a range."""

    day: date
    value: float


class Range(Closed):
    """A whole column."""

    of: str = Field(pattern=SERIES)
    start: date
    end: date
    every: Literal["", "week", "month", "quarter", "year"] = ""
    unit: str
    rows: int = Field(gt=0)
    first: Edge
    last: Edge


class Computed(Closed):
    """A column that no other measure tells: what ``sql`` selects from ``observations``, as (day, value) in its order.

    ``day`` may be null, when the answer is one number of a period. ``of`` names a series that it is made of.
    """

    of: str = Field(pattern=SERIES)
    unit: str
    sql: str = Field(min_length=20)
    rows: int = Field(gt=0)
    first: float
    last: float


class Absent(Closed):
    """Something that must be reported as missing. An empty subject stands for any."""

    subject: str
    reasons: list[str] = Field(min_length=1)


class Question(Closed):
    """A question and its answer."""

    id: str
    kind: str = Field(alias="class")
    lang: Literal["zh", "en"]
    ask: str = Field(min_length=3)
    as_of: date | None = None
    cells: list[Cell] = Field(default_factory=list)
    ranges: list[Range] = Field(default_factory=list)
    computed: list[Computed] = Field(default_factory=list)
    missing: list[Absent] = Field(default_factory=list)

    @model_validator(mode="after")
    def check_expectations(self) -> Self:
        if not (self.cells or self.ranges or self.computed or self.missing):
            raise ValueError(f"{self.id} expects nothing")
        return self


class GoldFile(Closed):
    """``questions.yaml``."""

    version: Literal[1]
    questions: list[Question]


def load_questions(path: Path = FOLDER / "questions.yaml") -> list[Question]:
    """All gold questions; raises pydantic's ``ValidationError`` with the path of a wrong key."""
    return GoldFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))).questions


class Pair(Closed):
    """Pair what somebody says with the indicators that it can mean."""

    text: str = Field(min_length=2)
    lang: Literal["zh", "en"]
    ids: list[str] = Field(min_length=1)


class PairFile(Closed):
    """``indicator_pairs.yaml``."""

    version: Literal[1]
    pairs: list[Pair]


def load_pairs(path: Path = FOLDER / "indicator_pairs.yaml") -> list[Pair]:
    """All free-text pairs; raises pydantic's ``ValidationError`` with the path of a wrong key."""
    return PairFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))).pairs


class Labelled(Closed):
    """A question with the topic of its framework, and one that would do as well."""

    half: Literal["fit", "held"]
    topic: str
    ask: str = Field(min_length=3)
    also: str = ""


class TopicFile(Closed):
    """``topics.yaml``."""

    version: Literal[1]
    questions: list[Labelled]


def load_topics(path: Path = FOLDER / "topics.yaml") -> list[Labelled]:
    """All labelled questions; raises pydantic's ``ValidationError`` with the path of a wrong key."""
    return TopicFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))).questions


class Named(Closed):
    """A thing and the words for it."""

    id: str
    kind: str = ""
    names: list[str] = Field(min_length=1)

    @property
    def folded_names(self) -> set[str]:
        """Return the words, case-folded."""
        return {name.casefold() for name in self.names}


class NameFile(Closed):
    """``names.yaml``: what the baselines know."""

    entities: list[Named]
    indicators: list[Named]


def load_names(path: Path = FOLDER / "names.yaml") -> NameFile:
    """Raises pydantic's ``ValidationError`` with the path of a wrong key."""
    return NameFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
