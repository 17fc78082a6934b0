"""Measures that the classifier reads in clauses, with and without words that the data tool knows."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.unit.policy.reference.conftest import sheet

TWO = [["entity", "Alpha", "AAA"], ["entity", "Beta", "BBB"], ["period", "2018 to 2021", "2018-01-01/2021-12-31"]]


@pytest.mark.parametrize(
    ("measure", "call"),
    [
        ("volatility", "finance.volatility("),
        ("cagr", "finance.holding_return("),
        ("mean", "levels="),
        ("extreme", "levels="),
        ("spread", "finance.holding_return("),
    ],
)
async def test_a_sure_clause_is_computed_without_a_known_word(
    drive: Any, two_companies: Any, measure: str, call: str
) -> None:
    two_companies.words = [*TWO, ["unknown", "jumpier", ""]]
    two_companies.asked = [[measure, "which of Alpha and Beta was jumpier", ""]]
    talk = await drive("Which of Alpha and Beta was jumpier, 2018 to 2021?", two_companies)
    assert call in next(arguments["code"] for name, arguments in talk.calls if name == "python")
    assert "difference:" in talk.answer


async def test_words_of_an_unsure_clause_count_beside_a_sure_one(drive: Any, two_companies: Any) -> None:
    two_companies.words = [*TWO, ["measure", "total return", "return"]]
    two_companies.asked = [["volatility", "how jumpy", ""], ["", "total return", ""]]
    talk = await drive("Alpha and Beta, 2018 to 2021: how jumpy, total return?", two_companies)
    assert "annualised volatility" in talk.answer
    assert "Alpha: return" in talk.answer


async def test_a_fall_that_was_none_is_corrected_in_words(drive: Any, two_companies: Any) -> None:
    two_companies.words = [*TWO, ["measure", "lose", "return"]]
    two_companies.asked = [["return", "how much did Alpha and Beta lose", "fall"]]
    talk = await drive("How much did Alpha and Beta lose, 2018 to 2021?", two_companies)
    assert talk.calls[-1][1]["reading"]["open"][0] == "The question presumes that it fell; by the values it rose"


async def test_the_mean_of_a_rate_is_computed_with_its_unit(drive: Any, one_rate: Any) -> None:
    one_rate.words = [*one_rate.words, ["period", "2019", "2019-01-01/2019-12-31"]]
    one_rate.asked = [["mean", "what was unemployment like on the whole", ""]]
    talk = await drive("What was the unemployment rate like on the whole in 2019?", one_rate)
    frame = one_rate.sheets[0][0]
    mean = frame.set_index("date")["US.unrate"].loc["2019"].mean()
    assert f"unemployment rate: mean {mean:.2f}% (2019-01-01 – 2019-12-31)" in talk.answer


async def test_the_highest_beside_the_mean_is_shown_too(drive: Any, one_rate: Any) -> None:
    one_rate.words = [*one_rate.words, ["measure", "highest", "max"], ["period", "2019", "2019-01-01/2019-12-31"]]
    one_rate.asked = [["mean", "how does the highest unemployment rate compare with its average in 2019", ""]]
    talk = await drive("How does the highest unemployment rate compare with its average in 2019?", one_rate)
    assert "highest" in talk.answer
    assert "mean" in talk.answer


async def test_a_beta_of_a_rate_is_refused(drive: Any, one_rate: Any) -> None:
    one_rate.words = [*one_rate.words, ["measure", "beta", "beta"]]
    talk = await drive("What is the beta of the unemployment rate?", one_rate)
    assert "python" not in talk.tools or "finance.beta" not in str(talk.calls)


async def test_more_clauses_than_tables_are_said_to_be_open(drive: Any, world: Any, one_rate: Any) -> None:
    frame, described = one_rate.sheets[0]
    short = world(sheets=[(frame.tail(1), {**described, "rows": 1})], words=one_rate.words)
    short.asked = [["", "how many months were bad", ""], ["", "which one was the worst", ""]]
    talk = await drive("How many months were bad for the unemployment rate, and which one was the worst?", short)
    assert "how many months were bad" in talk.calls[-1][1]["reading"]["open"]


@pytest.fixture
def two_rates(one_rate: Any) -> Any:
    """Return the world of one rate with a second one, always three points below it."""
    frame, described = one_rate.sheets[0]
    column = described["columns"][-1]
    other = {**column, "name": "US.u6rate", "indicator": "u6rate"}
    both = frame.assign(**{"US.u6rate": frame["US.unrate"] - 3})
    one_rate.sheets = [(both, {**described, "columns": [*described["columns"], other]})]
    one_rate.words = [*one_rate.words, ["indicator", "U-6", "u6rate"], ["period", "2019", "2019-01-01/2019-12-31"]]
    return one_rate


async def test_a_spread_of_rates_is_described_whatever_its_sign(drive: Any, two_rates: Any) -> None:
    two_rates.asked = [["spread", "how wide was it", ""]]
    talk = await drive("Unemployment rate over U-6 in 2019, how wide was it?", two_rates)
    assert "unemployment rate – U-6: 3.00% on 2019-01-31" in talk.answer
    assert "highest 3.00%" in talk.answer


async def test_a_clause_about_a_spread_asks_for_no_extremes_of_its_series(drive: Any, two_rates: Any) -> None:
    two_rates.asked = [["spread", "when was the spread of both lowest", ""], ["extreme", "how low was it", ""]]
    talk = await drive("Unemployment rate over U-6 in 2019: when was the spread lowest, how low was it?", two_rates)
    assert "lowest 3.00%" in talk.answer
    assert "- unemployment rate:" not in talk.answer
    assert "difference:" not in talk.answer


def make_computed(world: Any) -> Any:
    """Return a world whose data tool has itself counted the months of the question."""
    days = {"from": pd.to_datetime(["1948-01-31"]), "to": pd.to_datetime(["2022-09-30"])}
    frame, described = sheet(pd.DataFrame({**days, "US.count(unrate)": [15.0]}), "United States (count)", "months")
    described["columns"] = [{"name": "from", "type": "timestamp[us]", "unit": ""}, *described["columns"][1:]]
    described["columns"][1] |= {"type": "timestamp[us]", "unit": ""}
    words = [["indicator", "jobless rate", "unrate"], ["measure", "how many months", "count"]]
    return world(sheets=[(frame, described)], words=[*words, ["condition", "10 % or more", ">= 10 %"]])


async def test_what_the_data_tool_has_computed_is_not_computed_again(drive: Any, world: Any) -> None:
    counted = make_computed(world)
    talk = await drive("How many months was the jobless rate 10 % or more?", counted)
    assert talk.tools == ["data", "finish"]
    assert "15 months (1948-01-31 – 2022-09-30)" in talk.answer


async def test_words_that_the_data_tool_left_unread_keep_its_table_from_being_the_answer(
    drive: Any, world: Any
) -> None:
    counted = make_computed(world)
    counted.words.append(["unknown", "consecutive", ""])
    talk = await drive("How many consecutive months was the jobless rate 10 % or more?", counted)
    assert "consecutive" in talk.calls[-1][1]["reading"]["open"]


async def test_a_premise_is_held_against_a_calculation_and_not_against_a_table(drive: Any, world: Any) -> None:
    counted = make_computed(world)
    counted.asked = [["return", "how far did the jobless rate fall", "fall"]]
    talk = await drive("How far did the jobless rate fall?", counted)
    assert talk.tools[:2] == ["data", "data"]
