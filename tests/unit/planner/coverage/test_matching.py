"""Test when a slot of a question is filled, open or unsure, by what the used material offers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from types import SimpleNamespace

import pytest

from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.answering.verification.dates import find_moments
from fathom.services.planner.coverage.facts import Facts, Used, find_frequencies, find_orders, list_lacks, measure_step
from fathom.services.planner.coverage.matching import SlotChecker
from fathom.services.planner.model.episode import Material, MaterialKind, ToolResult, ToolStatus
from fathom.services.planner.model.slots import Slot, SlotKind, SlotState

FILLED, OPEN, UNSURE = SlotState.FILLED, SlotState.OPEN, SlotState.UNSURE


def table(first: date, last: date, step: int = 1, entity: str = "AAPL", number: int = 1) -> Facts:
    days = frozenset(first + timedelta(days=step * at) for at in range((last - first).days // step + 1))
    own = measure_step(days)  # type: ignore[arg-type]
    return Facts(
        number, MaterialKind.SHEET, frozenset([entity]), frozenset(["close_adj"]), first, max(days), days, own,
        find_frequencies(own), labels=(f"{entity}.close_adj",), units=frozenset(["USD"]), rows=len(days),
    )  # fmt: skip


def cell(number: int = 2, **facts: object) -> Facts:
    return replace(Facts(number, MaterialKind.CODE), **facts)  # type: ignore[arg-type]


def judge(slot: Slot, *facts: Facts, entities: tuple[Slot, ...] = (), markdown: str = "") -> Slot:
    used = Used(facts, markdown, has_figure=any(item.has_figure for item in facts))
    return SlotChecker(used).check([*entities, slot])[-1]


YEAR = table(date(2020, 1, 2), date(2020, 12, 31))
ASKED = Slot(SlotKind.PERIOD, "2020", "2020-01-01/2020-12-31")
MONTHLY = Slot(SlotKind.FREQUENCY, "monthly", "monthly")


def test_a_measure_is_not_missing_in_a_cell_that_could_not_be_read() -> None:
    asked = Slot(SlotKind.MEASURE, "price performance", "performance")
    chart = cell(3, measures=frozenset(["max_drawdown"]))
    assert judge(asked, cell(labels=("holding_return",)), chart).state is OPEN
    found = judge(asked, cell(labels=("holding_return",), has_unread_names=True), chart)
    assert (found.state, found.detail) == (UNSURE, "what the calculations give could not be read")


@pytest.mark.parametrize(("confidence", "state"), [(1.0, OPEN), (0.65, UNSURE)])
def test_what_is_only_likely_to_be_asked_for_is_not_missing(confidence: float, state: SlotState) -> None:
    """The encoder read 无风险利率取3% (a risk-free rate of 3 %) as the ten-year yield."""
    assert judge(Slot(SlotKind.INDICATOR, "无风险利率", "gs10", confidence=confidence), YEAR).state is state


def test_monthly_asked_and_daily_given_is_open() -> None:
    found = judge(MONTHLY, YEAR)
    assert (found.state, found.detail) == (OPEN, "the values are daily")


def test_monthly_asked_and_resampled_in_a_cell_is_filled() -> None:
    found = judge(MONTHLY, YEAR, cell(frequencies=frozenset(["monthly"])))
    assert (found.state, found.material) == (FILLED, (2,))


@pytest.mark.parametrize(
    ("facts", "state", "detail"),
    [
        (YEAR, FILLED, ""),
        (table(date(2020, 1, 2), date(2020, 6, 30)), OPEN, "the data end on 2020-06-30"),
        (table(date(2020, 3, 2), date(2020, 12, 31)), OPEN, "the data begin on 2020-03-02"),
        # All of the year is there: whether the answer kept to it, a table alone does not show.
        (table(date(2015, 1, 2), date(2022, 12, 30)), UNSURE, "the data run from 2015-01-02 to 2022-12-30"),
    ],
)
def test_the_dates_of_a_table_decide_about_the_period(facts: Facts, state: SlotState, detail: str) -> None:
    found = judge(ASKED, facts)
    assert (found.state, found.detail) == (state, detail)


def test_a_wider_table_is_enough_where_a_cell_names_the_period() -> None:
    wide = table(date(2015, 1, 2), date(2022, 12, 30))
    named = cell(moments=tuple(find_moments("price.loc['2020-01-01':'2020-12-31']")))
    assert judge(ASKED, wide, named).state is FILLED


def test_what_was_asked_after_a_day_is_not_answered_by_that_day() -> None:
    # Monthly values are dated at the month's end: one value of October is where the period begins, not what was asked.
    after = Slot(SlotKind.PERIOD, "since October 2009", "2009-10-01/..")
    assert judge(after, table(date(2009, 10, 31), date(2009, 10, 31))).state is OPEN
    assert judge(after, table(date(2009, 10, 1), date(2016, 6, 30))).state is FILLED


def test_a_shorter_table_of_one_of_several_entities_is_unsure() -> None:
    entities = (Slot(SlotKind.ENTITY, "Apple", "AAPL"), Slot(SlotKind.ENTITY, "Microsoft", "MSFT"))
    short = table(date(2020, 7, 1), date(2020, 12, 31), entity="MSFT", number=3)
    assert judge(ASKED, YEAR, short, entities=entities).state is UNSURE
    assert judge(Slot(SlotKind.ENTITY, "Merck", "MRK"), YEAR, short).state is OPEN


# Code says three percent either way.
@pytest.mark.parametrize("value", [0.03, 3.0])
def test_a_risk_free_rate_in_the_code_is_used(value: float) -> None:
    rate = Slot(SlotKind.PARAMETER, "risk-free rate of 3%", "3 %")
    assert judge(rate, YEAR, cell(numbers=frozenset([value, 252.0]))).state is FILLED


def test_a_risk_free_rate_that_no_cell_uses_is_open() -> None:
    rate = Slot(SlotKind.PARAMETER, "risk-free rate of 3%", "3 %")
    found = judge(rate, YEAR, cell(numbers=frozenset([252.0, 0.5])))
    assert (found.state, found.detail) == (OPEN, "no calculation uses it")


def test_a_measure_is_filled_by_its_name_and_open_beside_another_one() -> None:
    asked = Slot(SlotKind.MEASURE, "maximum drawdown", "max_drawdown")
    assert judge(asked, YEAR, cell(measures=frozenset(["max_drawdown"]))).state is FILLED
    assert judge(asked, YEAR, cell(labels=("find_drawdown",))).state is FILLED
    assert judge(asked, YEAR, cell(measures=frozenset(["return"]))).state is OPEN
    # Names that say nothing: the cell may well compute it.
    assert judge(asked, YEAR, cell(labels=("f", "x"))).state is UNSURE
    assert judge(asked, YEAR).state is OPEN


@pytest.mark.parametrize(
    ("arguments", "held"),
    [
        ({"order_by": "close_adj", "descending": True, "limit": 1}, {"rank", "max"}),
        ({"order_by": "close_adj", "limit": 3}, {"rank", "min"}),
        # Without a limit the table has both ends.
        ({"order_by": "close_adj"}, {"rank", "max", "min"}),
        ({"indicators": ["close_adj"], "limit": 3}, set()),
    ],
)
def test_a_ranked_table_supports_what_its_order_shows(arguments: dict[str, object], held: set[str]) -> None:
    call = ToolCall("c1", "data", json.dumps({"intent": "Rank", **arguments}))
    result = ToolResult(call, "", "", ToolStatus.OK, material=(Material(1, MaterialKind.SHEET, Sheet()),))
    step = SimpleNamespace(results=(result,))
    ranked = replace(YEAR, orders=find_orders(SimpleNamespace(steps=[step])).get(1, frozenset()))  # type: ignore[arg-type]
    for measure in ("rank", "max", "min"):
        expected = FILLED if measure in held else OPEN
        assert judge(Slot(SlotKind.MEASURE, measure, measure), ranked).state is expected
        assert judge(Slot(SlotKind.CONDITION, "highest", measure), ranked).state is expected


@pytest.mark.parametrize("computed", ["return", "cagr", "change"])
def test_performance_is_filled_by_any_figure_of_how_far_a_value_moved(computed: str) -> None:
    asked = Slot(SlotKind.MEASURE, "price performance", "performance")
    assert judge(asked, YEAR, cell(measures=frozenset([computed]))).state is FILLED
    assert judge(asked, YEAR, cell(measures=frozenset(["max_drawdown"]))).state is OPEN


def test_a_chart_that_was_asked_for_must_be_there() -> None:
    chart = Slot(SlotKind.OUTPUT, "Plot", "chart")
    assert judge(chart, YEAR).state is OPEN
    assert judge(chart, YEAR, cell(has_figure=True)).state is FILLED


def test_a_word_that_nothing_consumed_is_unsure_unless_the_material_has_it() -> None:
    word = Slot(SlotKind.UNKNOWN, "seasonality")
    assert judge(word, YEAR).state is UNSURE
    assert judge(word, YEAR, cell(text="print('seasonality by month')")).state is FILLED


def test_a_name_that_nothing_consumed_is_open() -> None:
    name = Slot(SlotKind.UNKNOWN, "Amazon", start=8, end=14)
    assert judge(name, YEAR).state is OPEN
    # The answer speaks of it, in whichever way: that is for a reader to judge.
    assert judge(name, YEAR, markdown="There are no data on Amazon.").state is UNSURE


def test_an_unknown_word_that_a_source_lacks_is_open() -> None:
    slot = Slot(SlotKind.UNKNOWN, "贵州茅台")
    [found] = SlotChecker(Used(lacks=("贵州茅台 not among the known names",))).check([slot])
    assert found.state is OPEN


def test_an_indicator_that_a_source_lacks_is_open_though_the_answer_names_it() -> None:
    """The answer says that it is missing; without a source's word it may be another name of what was computed."""
    slot = Slot(SlotKind.INDICATOR, "毛利率", "gross_margin")
    used = Used((Facts(2, MaterialKind.CODE),), markdown="缺失：苹果 毛利率。")
    states = [
        SlotChecker(replace(used, lacks=lacks)).check([slot])[0].state
        for lacks in ((), ("Apple gross_margin no source here keeps it",))
    ]
    assert states == [UNSURE, OPEN]


def test_a_number_of_names_is_no_parameter_of_a_calculation() -> None:
    entities = (Slot(SlotKind.ENTITY, "Apple", "AAPL"), Slot(SlotKind.ENTITY, "Microsoft", "MSFT"))
    assert judge(Slot(SlotKind.PARAMETER, "two", "2"), YEAR, entities=entities).state is FILLED


def test_without_any_material_all_that_is_asked_stays_open() -> None:
    slots = [Slot(SlotKind.ENTITY, "Tencent", "0700.HK"), MONTHLY, ASKED]
    assert [judge(slot).state for slot in slots] == [OPEN, OPEN, OPEN]


@pytest.mark.parametrize(("reason", "state"), [("NOT_UNDERSTOOD", UNSURE), ("UNKNOWN_ENTITY", OPEN)])
def test_a_word_that_one_wording_of_a_call_did_not_express_is_unsure(reason: str, state: SlotState) -> None:
    missing = Material(1, MaterialKind.MISSING, {"subject": "more", "reason": reason})
    lacks = list_lacks([missing])
    [found] = SlotChecker(Used(lacks=lacks)).check([Slot(SlotKind.UNKNOWN, "more", start=33, end=37)])
    assert found.state is state


def test_the_words_of_an_explanation_are_nothing_that_a_source_lacks() -> None:
    item = {"subject": "Tencent", "reason": "UNKNOWN_ENTITY", "detail": "no exchange here lists such a pattern"}
    lacks = list_lacks([Material(1, MaterialKind.MISSING, item)])
    words = [Slot(SlotKind.UNKNOWN, text, start=9) for text in ("Tencent", "pattern")]
    # "pattern" stands in the explanation alone; the source lacks Tencent.
    assert [slot.state for slot in SlotChecker(Used(lacks=lacks)).check(words)] == [OPEN, UNSURE]
