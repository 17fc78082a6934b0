"""Parts of a question for a report."""

from __future__ import annotations

import pytest

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.services.planner.questions.parts import list_parts

KINDS = {
    "X": pb.MENTION_KIND_ENTITY,
    "Y": pb.MENTION_KIND_INDICATOR,
    "P": pb.MENTION_KIND_PERIOD,
    "O": pb.MENTION_KIND_OUTPUT,
}
Words = list[tuple[str, str]]
EXXON: Words = [("report", "O"), ("Exxon Mobil", "X"), ("2014-2022", "P"), ("oil", "X")]


def find_mentions(question: str, words: Words) -> list[pb.Mention]:
    places = [(question.index(text), text, kind) for text, kind in words]
    return [
        pb.Mention(kind=KINDS[kind], start=at, end=at + len(text), text=text, value="report" if kind == "O" else text)
        for at, text, kind in places
    ]


@pytest.mark.parametrize(
    ("question", "words", "parts"),
    [
        (
            "Write a research report on Exxon Mobil 2014-2022: performance, risk, relation to the oil price",
            EXXON,
            [f"Exxon Mobil 2014-2022: {part}" for part in ("performance", "risk", "relation to the oil price")],
        ),
        (
            "写一份埃克森美孚2014年至2022年的研究报告：业绩表现、风险、与油价的关系",
            [("报告", "O"), ("埃克森美孚", "X"), ("2014年至2022年", "P"), ("油价", "X")],
            [f"埃克森美孚2014年至2022年：{part}" for part in ("业绩表现", "风险", "与油价的关系")],
        ),
        (
            "I need a report about US unemployment and inflation between 2010 and 2020",
            [("report", "O"), ("US", "X"), ("unemployment", "Y"), ("inflation", "Y"), ("between 2010 and 2020", "P")],
            ["between 2010 and 2020: about US unemployment", "US: inflation between 2010 and 2020"],
        ),
        (
            "Write a report on Apple and Microsoft in 2020. Cover returns, and the drawdown in 2019.",
            [("report", "O"), ("Apple", "X"), ("Microsoft", "X"), ("2020", "P"), ("2019", "P")],
            ["Apple, Microsoft 2020: Cover returns", "Apple, Microsoft: the drawdown in 2019"],
        ),
        (
            "Exxon Mobil, 2014-2022: a report with performance, risk",
            [("report", "O"), *EXXON[1:3]],
            [f"Exxon Mobil 2014-2022: {part}" for part in ("a report with performance", "risk")],
        ),
        ("Write a report: the performance of Exxon Mobil 2014-2022", EXXON[:3], []),
        ("Exxon Mobil 2014-2022: performance, risk, relation to the oil price", EXXON[1:], []),
        ("Write a report: performance, risk", EXXON[:1], []),
    ],
)
def test_parts_name_the_subject_of_the_question(question: str, words: Words, parts: list[str]) -> None:
    assert list_parts(question, find_mentions(question, words)) == parts
