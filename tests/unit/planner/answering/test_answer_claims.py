"""Claims that numbers alone do not support: another unit, a cause, a comparison that the tables contradict."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pytest

from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.evidence import Series, Source, index_line, index_lines
from fathom.services.planner.answering.verification.verifier import Verifier
from fathom.services.planner.model.episode import MaterialKind

DAYS = tuple(date(year, month, 28) for year in (2019, 2020, 2021) for month in (1, 6, 12))
# Apple ahead of Microsoft in 2019 and 2020, behind it in 2021.
APPLE = np.array([40.0, 45.0, 70.0, 75.0, 90.0, 130.0, 131.0, 135.0, 140.0])
MICROSOFT = np.array([100.0, 120.0, 150.0, 160.0, 190.0, 215.0, 216.0, 260.0, 330.0])


def make_sheet() -> Source:
    """Return a sheet of prices, material 1."""
    series = (
        Series("AAPL.close_adj", "AAPL", "USD", 1.0, APPLE, DAYS),
        Series("MSFT.close_adj", "MSFT", "USD", 1.0, MICROSOFT, DAYS),
    )
    about = index_line("sheet_1; Apple, Microsoft: adjusted close; close_adj USD")
    names = {"AAPL": ("AAPL", "Apple", "苹果"), "MSFT": ("MSFT", "Microsoft", "微软")}
    moments = tuple(Moment(0, 0, day.isoformat(), day, day) for day in DAYS)
    return Source(1, MaterialKind.SHEET, about, series=series, moments=moments, aliases=names, rows=len(DAYS))


def make_cell() -> Source:
    """Return a calculation, material 2."""
    # A calculation says how much and never why: a cause that cites it is cited wrongly.
    lines = index_lines('{"label": "AAPL", "return_pct": 225.0}\n{"label": "MSFT", "return_pct": 105.6}')
    return Source(2, MaterialKind.CODE, index_line(""), lines)


def make_passage() -> Source:
    """Return a document, material 3."""
    lines = index_lines("Apple shares rose as demand for services and for the new iPhone grew strongly.")
    return Source(3, MaterialKind.PASSAGE, index_line(f"Apple {datetime(2020, 12, 1, tzinfo=UTC):%Y-%m-%d}"), lines)


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return Verifier("Apple against Microsoft?", [make_sheet(), make_cell(), make_passage()])


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("Apple had a margin of 45% [1].", "in USD, which is another unit"),
        ("Apple closed at €130 [1].", "in USD, which is another unit"),
        ("苹果的利润率为45%[1]。", "in USD, which is another unit"),
        ("Apple beat Microsoft because of the iPhone 12 launch [2].", "cannot show a cause"),
        ("苹果涨幅更大，因为新款手机大卖[2]。", "cannot show a cause"),
        ("The pandemic led to higher prices of Apple [1].", "cannot show a cause"),
        ("Apple rose because of a lower corporate tax [3].", "does not give this cause"),
        # Material 2 has totals alone; the years are in the table that the answer did not cite.
        ("Apple returned more in every year [2].", "the tables say otherwise"),
        ("Apple returned more than Microsoft in every year [1].", "the tables say otherwise"),
        ("Microsoft (105.6%) returned more than Apple (225.0%) [2].", "the numbers say the opposite"),
        ("微软(105.6%)的收益率比苹果(225.0%)高[2]。", "the numbers say the opposite"),
    ],
)
def test_a_claim_needs_material_that_can_support_it(verifier: Verifier, text: str, detail: str) -> None:
    assert [detail in finding.detail for finding in verifier.verify(text)] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "Apple closed at $130 on 2020-12-28 [1].",
        "Apple closed at 130 dollars on 2020-12-28 [1].",
        "Apple gained 85.7% in 2020 [1].",
        "Apple's return was 119.4 percentage points above Microsoft's [2].",
        # 225.0 over 105.6: what two cited numbers give together needs no line of its own.
        "Apple returned 2.13 times as much as Microsoft [2].",
        "Apple rose as demand grew, thanks to the new iPhone [3].",
        "Apple (225.0%) returned more than Microsoft (105.6%) [2].",
        "Apple returned more than Microsoft in 2020 [1].",
        "Apple returned less than Microsoft in 2021 [1].",
        "Prices were higher in 2021 [1].",
    ],
)
def test_what_the_material_supports_is_not_marked(verifier: Verifier, text: str) -> None:
    assert [finding.detail for finding in verifier.verify(text)] == []
