"""True sentences that the check of answers once marked, each with a false one of the same form that it marks."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from fathom.services.planner.answering.verification.claims import parse_sentences
from fathom.services.planner.answering.verification.clauses import ClauseLabels, list_clauses
from fathom.services.planner.answering.verification.comparison.courses import find_way
from fathom.services.planner.answering.verification.comparison.parts import split_clauses
from fathom.services.planner.answering.verification.dates import find_moments
from fathom.services.planner.answering.verification.events import DIRECTIONS
from fathom.services.planner.answering.verification.evidence import Series, Source, index_line, index_lines
from fathom.services.planner.answering.verification.verifier import Verifier
from fathom.services.planner.classification.classifier import Verdict
from fathom.services.planner.model.episode import MaterialKind

YEARS = tuple(date(year, 12, 31) for year in range(2015, 2022))
PROFIT = np.array([30.0, 33.0, 36.5, 31.0, 39.5, 44.0, 48.2])


def make_table() -> Source:
    """Return the profits of a company by year, which fell in 2018 alone, material 1."""
    names = {"Pemberton": ("Pemberton Rail", "Pemberton")}
    about = index_line("Pemberton Rail: operating profit")
    moments = index_line(" ".join(day.isoformat() for day in YEARS)).moments
    series = (Series("Pemberton.profit", "Pemberton", "million GBP", 1e6, PROFIT, YEARS),)
    labels = {"Pemberton.profit": "operating profit 营业利润"}
    return Source(1, MaterialKind.SHEET, about, series=series, moments=moments, aliases=names, labels=labels, rows=7)


def make_passage(text: str) -> Source:
    """Return a document, material 1."""
    return Source(1, MaterialKind.PASSAGE, index_line("Port statistics"), index_lines(text))


@pytest.mark.parametrize(
    ("true", "wrong"),
    [
        # Only the year inside the years fell.
        ("From 2015 to 2021 operating profit fell only in 2018 [1].", "From 2015 to 2021 operating profit fell only in 2019 [1]."),
        ("2015至2021年，营业利润只在2018年下跌[1]。", "2015至2021年，营业利润只在2019年下跌[1]。"),
    ],
)  # fmt: skip
def test_a_direction_is_that_of_the_period_inside_the_other(true: str, wrong: str) -> None:
    verifier = Verifier("What happened?", [make_table()])
    assert [finding.detail for finding in verifier.verify(true)] == []
    assert verifier.verify(wrong)


def test_a_limit_of_time_is_no_rise() -> None:
    for text, word in (
        ("Up to 31 December 2018 profit was stable.", ""),
        ("Up to 31 December 2018 profit went up in 2017.", "up"),
        ("Profit was up to 31 million.", "up"),
    ):
        (clause,) = split_clauses(parse_sentences(text)[0])
        found = find_way(clause, DIRECTIONS[0])
        assert (found.group() if found else "") == word


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("Between 14 and 15 January 2015 the euro fell", ["2015-01-14", "2015-01-15"]),
        ("on 14–15 January 2015", ["2015-01-14", "2015-01-15"]),
        # A later number, a price and a year are no days before it.
        ("rose 5.14 and 15 January 2015 followed", ["2015-01-15"]),
        ("16 and 15 January 2015", ["2015-01-15"]),
        ("in 2014 and 15 January 2015", ["2014-01-01", "2015-01-15"]),
    ],
)
def test_two_days_share_their_month(text: str, days: list[str]) -> None:
    assert [str(moment.first) for moment in find_moments(text)] == days


def test_a_statement_of_what_a_table_holds_is_no_cause_though_the_classifier_takes_it_for_an_event() -> None:
    event = Verdict("explained", 0.97, True)

    def mark(text: str) -> list[str]:
        sentence = parse_sentences(text)[0]
        clauses = list_clauses(sentence)
        words = [
            *(one.text for one in clauses),
            *(sentence.text[slice(*part)] for one in clauses for part in one.parts),
        ]
        # A unit by itself tells nothing.
        labels = ClauseLabels(dict.fromkeys((one for one in words if " " in one), event))
        return [finding.text for finding in Verifier("", [make_table()], labels).verify(text)]

    assert mark("Pemberton Rail made an operating profit of 48.2 million pounds [1].") == []
    assert mark("A new line brought Pemberton Rail 48.2 million pounds [1].") == ["A new line brought Pemberton Rail"]


def test_a_name_that_is_derived_from_one_of_the_document_is_known() -> None:
    verifier = Verifier("", [make_passage("Brough, which had dredged its channel, gained two lines from Asia.")])
    assert verifier.verify("A deeper channel won Brough two Asian lines [1].") == ()
    marked = verifier.verify("A deeper channel won Brough two Indian lines [1].")
    assert [finding.text for finding in marked] == ["Indian"]
