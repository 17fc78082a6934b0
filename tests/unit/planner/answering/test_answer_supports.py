"""Test what a sentence can rest on: the unit and its denominator, neighbouring periods, pairs of columns, documents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np
import pytest

from fathom.services.planner.answering.verification.causes import measure_support
from fathom.services.planner.answering.verification.claims import parse_sentences
from fathom.services.planner.answering.verification.clauses import ClauseLabels
from fathom.services.planner.answering.verification.evidence import Series, Source, index_line, index_lines
from fathom.services.planner.answering.verification.units import find_column_denominator
from fathom.services.planner.answering.verification.verifier import Verifier
from fathom.services.planner.classification.classifier import Classifier, load_heads
from fathom.services.planner.classification.vectors import Encoded
from fathom.services.planner.model.episode import MaterialKind

YEARS = tuple(date(year, 12, 31) for year in range(2016, 2021))


def make_sheet() -> Source:
    """Return year-end values of several things in one table, material 1."""
    series = (
        Series("GOLD.close", "GOLD", "USD per ounce", 1.0, np.array([900.0, 870, 1100, 1400, 1520]), YEARS, False, "ounces"),
        Series("ACME.close", "ACME", "USD", 1.0, np.array([200.0, 175, 100, 45, 60]), YEARS),
        Series("BETA.close", "BETA", "USD", 1.0, np.array([50.0, 60, 70, 84, 63]), YEARS),
        Series("CODA.close", "CODA", "USD", 1.0, np.array([10.0, 11, 12, 13, 14]), YEARS),
        Series("US.services", "US", "Bil. of $", 1e9, np.array([68.0, 69, 70, 71, 72]), YEARS),
        Series("US.spending", "US", "Bil. of $", 1e9, np.array([100.0, 101, 102, 103, 104]), YEARS),
    )  # fmt: skip
    labels = {"US.services": "services", "US.spending": "spending"}
    names = {
        "GOLD": ("Gold",),
        "ACME": ("Acme", "顶点"),
        "BETA": ("Beta", "贝塔"),
        "CODA": ("Coda", "科达"),
        "US": ("US",),
    }
    moments = index_line(" ".join(day.isoformat() for day in YEARS)).moments
    about = index_line("sheet_1; Gold, Acme, Beta, Coda: close")
    return Source(1, MaterialKind.SHEET, about, series=series, moments=moments, aliases=names, labels=labels, rows=5)


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return Verifier("What happened?", [make_sheet()])


@pytest.mark.parametrize(
    ("text", "per"),
    [
        ("Gold closed at 1,520 dollars an ounce.", "ounces"),
        ("Gold closed at 1,520 dollars a gram.", "grams"),
        ("It paid 27.67 dollars a week on average.", "week"),
        ("金价报每盎司1,520美元。", "ounces"),
        ("员工平均每天工作41.4小时。", "day"),
        ("时薪为27.67美元/小时。", "hour"),
        ("The rate was 141.01 yen per euro.", "EUR"),
        # A distance in time, and words that an article merely begins.
        ("It was 5.0% a year earlier.", ""),
        ("It closed at 44.60 dollars a touch above the low.", ""),
    ],
)
def test_a_number_says_what_it_is_counted_per(text: str, per: str) -> None:
    assert [number.per for number in parse_sentences(text)[0].numbers if number.decimals or number.value > 1000] == [
        per
    ]


@pytest.mark.parametrize(
    ("unit", "label", "per"),
    [
        ("USD per barrel", "", "barrels"),
        ("$ per Hour (SA)", "", "hour"),
        ("Hours (SA)", "Average Weekly Hours", "week"),
        ("USD", "weekly close", ""),
    ],
)
def test_a_column_says_what_it_is_counted_per(unit: str, label: str, per: str) -> None:
    assert find_column_denominator(unit, label) == per


@pytest.mark.parametrize(
    "text",
    [
        "Gold ended 2020 at 1,520 dollars a gram [1].",
        # Only the fraction is wrong: 72 of 104 are more than two thirds.
        "Services took 69.2% of spending in 2020, less than two thirds of the total [1].",
        "Acme lost 55.0% in 2019, Coda gained 8.3% and Beta 20.0%, of which Coda did the worst [1].",
        "Beta's close of 70.00 dollars in 2018 was a mark that Acme surpassed with 45.00 in 2019 [1].",
        "贝塔2019年上涨20.0%，跑输同年下跌55.0%的顶点[1]。",
        "贝塔2019年收于84.00美元，较上年的70.00美元低了14.00美元[1]。",
        "Acme outsold Beta with 45.00 dollars against 84.00 in 2019 and closed higher than Beta in 2019 [1].",
    ],
)
def test_a_false_comparison_or_unit_is_found(verifier: Verifier, text: str) -> None:
    assert verifier.verify(text)


@pytest.mark.parametrize(
    "text",
    [
        "Gold ended 2020 at 1,520 dollars an ounce [1].",
        "Services took 69.2% of spending in 2020, more than two thirds of the total [1].",
        # A change of the year before the one that is named, told by a bare unit of time.
        "Acme lost 55.0% in 2019, the year after a loss of 42.9% [1].",
        "Beta closed 2018 at 70.00 dollars and, a year on, at 84.00 [1].",
        "Acme's close of 45.00 dollars in 2019 was a mark that Beta surpassed with 84.00 [1].",
        "贝塔2019年上涨20.0%，跑赢同年下跌55.0%的顶点[1]。",
        "贝塔2019年收于84.00美元，较上年的70.00美元高了14.00美元[1]。",
        "Acme, at 45.00 dollars against 84.00, closed lower than Beta in 2019 [1].",
    ],
)
def test_a_true_sentence_is_not_marked(verifier: Verifier, text: str) -> None:
    assert [(mark.text, mark.detail) for mark in verifier.verify(text)] == []


class TopicVectors:
    """Encoder of the tests: texts on closed shops point one way, all others the opposite one."""

    def __init__(self, name: str, size: int) -> None:
        self._name, self._size = name, size

    async def encode(self, texts: Sequence[str]) -> Encoded:
        """Return a vector per text, far longer than the mean that is taken off."""
        ways = [1.0 if "store" in text or "shop" in text else -1.0 for text in texts]
        return Encoded(self._name, np.outer(ways, np.full(self._size, 100.0)).astype(np.float32))


@pytest.mark.parametrize(
    ("cause", "is_marked"),
    [("because unprofitable shops had vanished", False), ("because raw materials had become cheaper", True)],
)
async def test_a_document_gives_a_cause_in_other_words(cause: str, is_marked: bool) -> None:
    lines = index_lines("Acme closed twelve stores that lost money.")
    document = Source(1, MaterialKind.PASSAGE, index_line("Acme"), lines)
    heads = load_heads()
    classifier = Classifier(TopicVectors(heads.encoder, len(heads.heads["clause"].mean)), heads)
    text = f"Acme earned more {cause} [1]."
    labels = ClauseLabels(told=await measure_support(text, ClauseLabels(), [document], classifier))
    details = [mark.detail for mark in Verifier("Why?", [document], labels).verify(text)]
    assert ("the cited document does not give this cause" in details) is is_marked
