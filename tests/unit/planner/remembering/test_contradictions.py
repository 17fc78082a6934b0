"""Answers that say otherwise than earlier ones of the same thing say so, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fathom.services.planner.model.memory import View
from fathom.services.planner.model.programs import ReadProgram
from fathom.services.planner.model.slots import ReadText, Slot, SlotKind
from fathom.services.planner.remembering.comparing import DIRECTION
from fathom.services.planner.remembering.contradictions import find_contradictions, write_notes
from fathom.services.planner.remembering.views import ViewReader

THEN = View(
    "AAPL", "close_adj/return", "2020-01-01", "2020-12-31", 82.31, "%", "Apple returned 82.31% in 2020.", "2022-12-28",
    "2026-03-05", "run_1", 0.005,
)  # fmt: skip
NOW = replace(THEN, value=75.1, text="Apple returned 75.1% in 2020.", as_of="2026-10-30", run="run_2", tolerance=0.05)


@pytest.mark.parametrize(
    "now",
    [
        NOW,
        replace(NOW, value=-82.31),
        replace(NOW, value=-1.0, unit=DIRECTION),
        replace(NOW, first="2020-01-02", last="2020-12-30"),
    ],
)
def test_another_value_or_sign_of_the_same_thing_is_a_contradiction(now: View) -> None:
    assert [one.then for one in find_contradictions([now], [THEN])] == [THEN]


@pytest.mark.parametrize(
    "now",
    [
        replace(NOW, value=82.3, tolerance=0.05),
        replace(NOW, value=83.0, tolerance=0.5),
        replace(NOW, entity="MSFT"),
        replace(NOW, measure="close_adj/max_drawdown"),
        replace(NOW, first="2019-01-01", last="2019-12-31"),
        replace(NOW, last="2020-06-30"),
        replace(NOW, first="", last=""),
        replace(NOW, unit="EUR"),
        replace(NOW, value=1.0, unit=DIRECTION),
    ],
)
def test_another_thing_or_a_rounding_is_none(now: View) -> None:
    assert find_contradictions([now], [THEN]) == []


def test_the_newest_earlier_view_counts() -> None:
    assert find_contradictions([NOW], [replace(NOW, run="run_3"), THEN]) == []


def test_the_note_says_when_what_was_told_what_now_and_why() -> None:
    found = find_contradictions([NOW], [THEN])
    note = write_notes(found, "en")
    for part in ("from memory, not a source", "2026-03-05", "82.31%", "75.1%", "2026-10-30", "2022-12-28"):
        assert part in note
    same = write_notes(find_contradictions([replace(NOW, as_of=THEN.as_of)], [THEN]), "zh")
    assert "其中之一有误" in same
    assert write_notes([], "en") == ""


class FixedReader:
    """Reads texts as they were given."""

    def __init__(self, readings: dict[str, Sequence[Slot]]) -> None:
        self._readings = readings

    async def read(self, text: str, as_of: Any = None) -> ReadText | None:
        slots = next((found for part, found in self._readings.items() if part in text), ())
        placed = [replace(one, start=text.find(one.text), end=text.find(one.text) + len(one.text)) for one in slots]
        return ReadText(text, tuple(placed))

    async def read_program(self, text: str, earlier: Sequence[str] = (), as_of: Any = None) -> ReadProgram | None:
        return None


APPLE, MICROSOFT = Slot(SlotKind.ENTITY, "Apple", "AAPL"), Slot(SlotKind.ENTITY, "Microsoft", "MSFT")
RETURN = Slot(SlotKind.MEASURE, "returned", "return")
YEAR = Slot(SlotKind.PERIOD, "2020", "2020-01-01/2020-12-31")


async def read(text: str, *slots: Slot, question: ReadText | None = None) -> list[View]:
    return await ViewReader(FixedReader({text[:10]: slots})).read(text, question)


async def test_a_cited_sentence_gives_a_view_per_entity() -> None:
    text = "Apple returned 82.31% and Microsoft returned 42.5% in 2020 [1]."
    found = await read(text, APPLE, RETURN, MICROSOFT, YEAR)
    assert [(one.entity, one.measure, one.first, one.last, one.value, one.unit) for one in found] == [
        ("AAPL", "close_adj/return", "2020-01-01", "2020-12-31", 82.31, "%"),
        ("MSFT", "close_adj/return", "2020-01-01", "2020-12-31", 42.5, "%"),
    ]


async def test_what_a_sentence_leaves_out_is_that_of_its_question() -> None:
    question = ReadText("How did Apple do in 2020?", (APPLE, Slot(SlotKind.MEASURE, "do", "return"), YEAR))
    (view,) = await read("The result was 82.31% [1].", question=question)
    assert (view.entity, view.first, view.value) == ("AAPL", "2020-01-01", 82.31)


async def test_uncited_sentences_and_several_values_of_one_thing_give_no_view() -> None:
    assert await read("Apple returned 82.31% in 2020.", APPLE, RETURN, YEAR) == []
    assert await read("Apple returned 82.31%, or 12.2% a quarter, in 2020 [1].", APPLE, RETURN, YEAR) == []
    assert await read("It was 82.31% [1].") == []


async def test_a_return_in_another_currency_is_another_thing() -> None:
    found = []
    for name, value in (("dollars", "82.31"), ("euros", "67.1")):
        output = Slot(SlotKind.OUTPUT, f"in {name}", name)
        found += await read(f"Apple returned {value}% in 2020 in {name} [1].", APPLE, RETURN, YEAR, output)
    assert [one.measure for one in found] == ["close_adj/return;dollars", "close_adj/return;euros"]
    assert find_contradictions(found[:1], found[1:]) == []


async def test_a_unit_behind_a_number_is_no_basis() -> None:
    points = Slot(SlotKind.OUTPUT, "percentage points", "percentage points")
    (view,) = await read("Apple returned 82.31 percentage points in 2020 [1].", APPLE, RETURN, YEAR, points)
    assert view.measure == "close_adj/return"


async def test_another_assumption_of_the_question_is_another_thing() -> None:
    views = []
    for rate, value in (("0 %", 1.95), ("2 %", 1.92)):
        sharpe = Slot(SlotKind.MEASURE, "Sharpe", "sharpe")
        assumed = (Slot(SlotKind.PARAMETER, rate, rate), Slot(SlotKind.UNKNOWN, "riskless"))
        question = ReadText("Apple's Sharpe ratio?", (APPLE, sharpe, YEAR, *assumed))
        views += await read(f"The result was {value} [1].", question=question)
    assert [one.measure for one in views] == ["close_adj/sharpe;0 %,riskless", "close_adj/sharpe;2 %,riskless"]
    assert find_contradictions(views[:1], views[1:]) == []
    same = replace(views[0], value=1.5)
    assert find_contradictions([same], views), "under the same assumption it is one"


async def test_one_value_in_another_scale_is_no_contradiction() -> None:
    gdp, country = Slot(SlotKind.INDICATOR, "GDP", "gdp"), Slot(SlotKind.ENTITY, "US", "US")
    usual = await read("US GDP was 26,902.5 Bil. of $ in 2020 [1].", gdp, country, YEAR)
    (view,) = await read("US GDP stood at 269,025 亿美元 in 2020 [1].", gdp, country, YEAR)
    assert [one.value for one in usual] == [view.value]
    assert find_contradictions([view], usual) == []
