"""Questions that name nothing to look at get the entities of the watch-list; others stay as they are."""

from __future__ import annotations

import pytest

from fathom.services.planner.model.slots import ReadText, Slot, SlotKind
from fathom.services.planner.remembering.watching import name_watched

PRICE = Slot(SlotKind.INDICATOR, "price", "close_adj")
RISE = Slot(SlotKind.MEASURE, "rise", "return")
LIST = "AAPL,NVDA"


@pytest.mark.parametrize(
    ("question", "slots", "expected"),
    [
        ("How did my watchlist do in 2020?", (RISE,), "How did AAPL, NVDA do in 2020?"),
        ("2020年我的自选股表现如何？", (RISE,), "2020年AAPL, NVDA表现如何？"),
        ("How much did the price rise in 2020?", (PRICE, RISE), "How much did the price rise in 2020? (AAPL, NVDA)"),
        ("股价涨了多少？", (PRICE, RISE), "股价涨了多少？（AAPL, NVDA）"),
        ("How much did Intel rise?", (Slot(SlotKind.ENTITY, "Intel", "INTC"), RISE), ""),
        ("What was unemployment?", (Slot(SlotKind.INDICATOR, "unemployment", "unrate"),), ""),
        ("How much did Frobnitz rise?", (Slot(SlotKind.UNKNOWN, "Frobnitz"), RISE), ""),
        ("Thank you!", (), ""),
    ],
)
def test_a_watch_list_stands_in_for_a_name_that_is_missing(
    question: str, slots: tuple[Slot, ...], expected: str
) -> None:
    assert name_watched(question, ReadText(question, slots), LIST) == expected


def test_without_a_reading_only_the_words_for_the_list_count() -> None:
    assert name_watched("How did my watch list do?", None, LIST) == "How did AAPL, NVDA do?"
    assert name_watched("How much did the price rise?", None, LIST) == ""
