"""Questions of which a part of the planner has to add something: a second look-up, or what is remembered of the user."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import Field, model_validator

from tests.golden.blind.schema import Closed, Question

FOLDER = Path(__file__).parent
Row = TypeVar("Row", bound=Question)


class Observation(Closed):
    """The figure of the bundled tables that is the answer; ``day`` is the last one of its period."""

    entity: str
    indicator: str
    day: date


class Bridge(Question):
    """A question with how somebody looks it up who knows the tools and not the answer.

    The documents are searched for ``search``; what stands near ``clue`` in them is read as a company or a date, and
    takes the place of "{}" in ``then``, which is asked of the data.
    """

    search: str = Field(min_length=1)
    clue: str = Field(min_length=1)
    gap: Literal["company", "date"]
    then: str = Field(min_length=1)
    answer: Observation

    @model_validator(mode="after")
    def is_bridge(self) -> Self:
        """Refuse a question whose way knows more than the question says."""
        # Otherwise the way would bring along what the first look-up has to find.
        if self.clue.casefold() not in self.question.casefold():
            raise ValueError(f"the clue {self.clue!r} is not in the question")
        if self.then.count("{}") != 1:
            raise ValueError("the second look-up needs one gap")
        return self


class Watched(Question):
    """A question about a watch-list that the user has stated before; ``watched`` are its entities, with commas."""

    watched: str = Field(pattern=r"^[A-Z]+(,[A-Z]+)*$")
    first: date
    last: date
    """The answers are the returns of the entities from the close of ``first`` to that of ``last``."""


def load_bridges() -> list[Bridge]:
    """Return the questions of two look-ups."""
    return load_rows(FOLDER / "bridges.jsonl", Bridge)


def load_watched() -> list[Watched]:
    """Return the questions about a watch-list."""
    return load_rows(FOLDER / "watched.jsonl", Watched)


def load_rows(path: Path, schema: type[Row]) -> list[Row]:
    """Return the questions of a file in JSON Lines; raise ``ValidationError`` with the place of a mistake."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [schema.model_validate_json(line) for line in lines if line.strip()]
