"""A tournament of answers to one question: each pair in both orders, four dimensions, the best and the worst."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fathom.domain.chat.quoting import write_sections
from fathom.trainers.data.instructions import instruction
from fathom.trainers.data.queries.asking import Asker

DIMENSIONS = ("accuracy", "logic", "professionalism", "citation")


class Scores(BaseModel):
    """Scores of two answers in one dimension."""

    model_config = ConfigDict(extra="forbid")

    first: int = Field(ge=0, le=10)
    second: int = Field(ge=0, le=10)


class Comparison(BaseModel):
    """A judge's reply: exactly the four dimensions, the verdict, and the reason for it."""

    model_config = ConfigDict(title="fathom.data.comparison", extra="forbid")

    # The reason stands first, so that scores and verdict follow from it.
    reason: str = Field(min_length=1)
    accuracy: Scores
    logic: Scores
    professionalism: Scores
    citation: Scores
    verdict: Literal["first", "second", "even"]

    def read(self, side: Literal["first", "second"]) -> dict[str, int]:
        """Return the scores of one side by dimension."""
        return {name: int(getattr(getattr(self, name), side)) for name in DIMENSIONS}

    @property
    def points(self) -> float:
        """Return the points of the first side: 1, a half or 0."""
        return {"first": 1.0, "even": 0.5, "second": 0.0}[self.verdict]


@dataclass(frozen=True)
class Candidate:
    """An answer and the model that wrote it."""

    writer: str
    answer: str


@dataclass(frozen=True)
class Place:
    """A candidate with its share of points and its mean scores by dimension."""

    candidate: Candidate
    share: float
    scores: Mapping[str, float]


@dataclass(frozen=True)
class Standings:
    """Candidates, the best first; ``contradicted`` are pairs of which the judge preferred the one shown first, or the
    one shown second, both times; ``unread`` are pairs without a readable judgement.
    """

    places: tuple[Place, ...]
    contradicted: int = 0
    unread: int = 0


async def play(question: str, material: str, candidates: Sequence[Candidate], judge: Asker) -> Standings:
    """Return the standings of all pairs, each judged in both orders.

    A pair whose orders contradict each other is a tie, and one that could not be judged both times counts for nothing:
    half a judgement has the bias of its order.
    """
    points: dict[int, list[float]] = {place: [] for place in range(len(candidates))}
    scores: dict[int, list[dict[str, int]]] = {place: [] for place in range(len(candidates))}
    contradicted = unread = 0
    # One pair after another: there are few candidates, and the tournaments of other questions run meanwhile.
    for left, right in itertools.combinations(range(len(candidates)), 2):
        one = await compare(question, material, candidates[left], candidates[right], judge)
        other = await compare(question, material, candidates[right], candidates[left], judge)
        if one is None or other is None:
            unread += 1
            continue
        # Both as points of the left candidate, which stood second in the other order.
        sides = (one.points, 1.0 - other.points)
        # Only opposite verdicts are a preference for a place; a tie in one of the orders is mere doubt.
        contradicted += set(sides) == {0.0, 1.0}
        points[left] += sides
        points[right] += [1.0 - value for value in sides]
        scores[left] += [one.read("first"), other.read("second")]
        scores[right] += [one.read("second"), other.read("first")]
    places = [
        Place(candidate, average(points[place]), average_scores(scores[place]))
        for place, candidate in enumerate(candidates)
    ]
    # By the scores among equals, then by the order in which the writers were named.
    places.sort(key=lambda place: (-place.share, -sum(place.scores.values())))
    return Standings(tuple(places), contradicted, unread)


async def compare(question: str, material: str, first: Candidate, second: Candidate, judge: Asker) -> Comparison | None:
    """Return a judge's comparison of two answers, which does not learn who wrote them."""
    shown = {
        "Question": question,
        "Material": material,
        "First answer": first.answer,
        "Second answer": second.answer,
    }
    return await judge.ask(instruction("comparison", "en"), write_sections(shown), Comparison, seed=0)


def average(values: Sequence[float]) -> float:
    """Return the mean; 0.5 without values, since nobody was better."""
    return sum(values) / len(values) if values else 0.5


def average_scores(rows: Sequence[Mapping[str, int]]) -> dict[str, float]:
    """Return the mean of each dimension; {} without scores."""
    return {name: sum(row[name] for row in rows) / len(rows) for name in DIMENSIONS} if rows else {}
