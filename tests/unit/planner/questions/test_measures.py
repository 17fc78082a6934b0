"""Clauses of a question without its names, and what they ask for."""

from __future__ import annotations

import pytest

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.services.planner.classification.classifier import Classifier, load_heads
from fathom.services.planner.questions.measures import join, mask, read_measures, split_clauses

KINDS = {"X": pb.MENTION_KIND_ENTITY, "Y": pb.MENTION_KIND_INDICATOR, "P": pb.MENTION_KIND_PERIOD}


def find_mentions(question: str, *words: tuple[str, str]) -> list[pb.Mention]:
    """Return mentions of words, each with its letter."""
    places = [(question.index(text), text, letter) for text, letter in words]
    return [pb.Mention(kind=KINDS[one], start=at, end=at + len(text), text=text) for at, text, one in places]


class Absent:
    """Vectors where no encoder answers."""

    async def encode(self, texts: object) -> None:
        return None


@pytest.mark.parametrize(
    ("question", "words", "clauses"),
    [
        (
            "How did Apple, Tesla and IBM do in 2019, and which was calmest?",
            [("Apple", "X"), ("Tesla", "X"), ("IBM", "X"), ("2019", "P")],
            ["How did X do in P", "which was calmest"],
        ),
        (
            "苹果和微软2019年谁涨得多？回撤呢？",
            [("苹果", "X"), ("微软", "X"), ("2019年", "P")],
            ["XP谁涨得多", "回撤呢"],
        ),
        ("Baa minus Aaa: the gap", [("Baa", "Y"), ("Aaa", "Y")], ["Y minus Y", "the gap"]),
        ("", [], []),
    ],
)
def test_clauses_without_names(question: str, words: list[tuple[str, str]], clauses: list[str]) -> None:
    spans = mask(question, find_mentions(question, *words))
    assert [join(part).strip() for part in split_clauses(spans) if join(part).strip(" ,and")] == clauses


async def test_nothing_is_asked_where_no_encoder_answers() -> None:
    assert await read_measures("How volatile was it?", [], Classifier(Absent(), load_heads())) == []
