"""Operations of the reference policy: what a question is read as, the cells it becomes, what is said of the result."""

from __future__ import annotations

import re
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from fathom.domain.grading.code_style import check
from fathom.services.policy.backends.rules.code import figure_cell, summary_cell
from fathom.services.policy.backends.rules.names import mentions
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.events import spans
from fathom.services.policy.backends.rules.operations.hops import parts_of
from fathom.services.policy.backends.rules.operations.measures import measure_cell
from fathom.services.policy.backends.rules.operations.periods import Period, periods
from fathom.services.policy.backends.rules.operations.series.changes import lags_of
from fathom.services.policy.backends.rules.operations.series.crossing import level_of
from fathom.services.policy.backends.rules.operations.sweep import fee_of
from fathom.services.policy.backends.rules.question import read_question
from fathom.services.policy.backends.rules.sheets import Series, is_price
from tests.unit.policy.backends.rules.conftest import World, prices, sheet
from tests.unit.policy.backends.rules.test_policy_rules import assert_cited, assert_grounded


def ask_of(text: str) -> Ask:
    return Ask(read_question(text))


@pytest.fixture
def market() -> World:
    """Two shares, an index, two rates, a price index and two currencies, under the ids that the policy knows."""
    daily = prices(("AAPL", "MSFT", "SP500"))
    months = pd.date_range("2016-01-31", "2021-12-31", freq="ME")
    steps = np.arange(len(months))
    macro = pd.DataFrame(
        {
            "date": months,
            "US.gs10": np.round(2.5 + np.sin(steps / 7), 2),
            "US.gs2": np.round(2.4 + np.cos(steps / 6), 2),
            "US.cpiaucsl": np.round(240 * 1.002**steps, 3),
            "US.unrate": np.round(5 + 2 * np.sin(steps / 9), 1),
        }
    )
    money = pd.DataFrame(
        {"date": daily["date"], "USD.eur_rate": 1.1 + 0.0001 * np.arange(len(daily)), "JPY.eur_rate": 120.0}
    )
    return World(
        sheets=[
            sheet(daily, "Apple, Microsoft, S&P 500: adjusted close, daily, 2018-01-01 to 2021-12-31", "USD"),
            sheet(macro, "United States: rates, monthly, 2016-01-31 to 2021-12-31", "% (SA)"),
            sheet(money, "US dollar, Japanese yen: units per euro, daily, 2018-01-01 to 2021-12-31", "per EUR"),
        ],
        documents={"m1": ("Beta", "Beta is the slope of a security's returns on the market's returns, over a period.")},
    )


QUESTIONS = [
    ("Compare the return and the volatility of Apple and Microsoft from 2018 to 2020", "volatility"),
    ("按2020年的最大回撤给苹果和微软排序", "最大回撤"),
    ("What was the Sharpe ratio of Apple from 2018 to 2021?", "Sharpe ratio"),
    ("What was the beta of Apple against the S&P 500 from 2018 to 2021?", "had a beta of"),
    ("苹果和微软2018年至2021年的相关系数是多少？", "的相关系数为"),
    ("What was the worst month of Apple between 2018 and 2021?", "The worst month"),
    ("微软2018年以来星期几的平均涨幅最高？", "平均涨幅最高的是星期"),
    ("On which three days was Apple's price highest from 2018 to 2021?", "The days on which"),
    ("How did the spread between the 10-year and the 2-year yield develop from 2017 to 2021, and when was it lowest?", "was lowest in"),
    ("2021年3月10年期美债的实际收益率是多少？", "个百分点"),
    ("What was year-over-year CPI inflation in June 2021?", "year on year in 2021-06"),
    ("What were the turning points of the unemployment rate between 2016 and 2021?", "Turning points"),
    ("When did the unemployment rate first exceed 6% after 2016?", "was first above 6%"),
    ("How many yen did one US dollar buy on 2020-03-02?", "bought"),
    ("What was Apple's close on 2020-03-02 in yen?", "closed at"),
    ("苹果以日元计算2019年到2020年的收益率是多少？", "以日元计的收益率"),
    ("How did Apple move in the 10 trading days before and after 2020-03-02?", "10 trading days before"),
    ("Backtest a dual moving average on Apple and Microsoft from January to June 2020", "best pair of windows"),
    ("How many months was the unemployment rate above 6% between 2016 and 2021?", "of the period"),
    ("Compare the return of Apple and Microsoft in 2019 and in 2020", "By total return in 2019"),
    ("What did Microsoft do in the year when Apple fell most since 2018?", "The worst year of **Apple**"),
    ("Find the worst year of Apple since 2018, then say what Microsoft did in that year", "**Microsoft**"),
    ("Which of Apple and Microsoft had the highest return in 2020, and what was that company's maximum drawdown in 2021?", "maximum drawdown"),
]  # fmt: skip


@pytest.mark.parametrize(("question", "said"), QUESTIONS)
async def test_an_operation_runs_clean_cells_and_writes_only_what_they_print(
    drive: Any, market: World, question: str, said: str
) -> None:
    talk = await drive(question, market)
    cells = [arguments["code"] for name, arguments in talk.calls if name == "python"]
    assert cells
    for code in cells:
        assert check(code).ok, check(code).problems
    assert said in talk.answer
    assert all(arguments["intent"] for _, arguments in talk.calls)
    assert_cited(talk)
    # Numbers that are part of a question or a name (6%, 500, 10-year) are not the policy's own either.
    talk.results.append(question)
    talk.results.append("S&P 500 标普500 10-year 2-year 10年期")
    assert_grounded(talk)


async def test_a_hop_asks_for_what_the_hop_before_it_found(drive: Any, market: World) -> None:
    talk = await drive("Find the worst year of Apple since 2018, then say what Microsoft did in that year", market)
    found = re.search(r"worst year of \*\*Apple\*\* was (\d{4})", talk.answer)
    assert found is not None
    asked = [arguments for name, arguments in talk.calls if name == "data"]
    assert asked[0]["entities"] == ["AAPL"]
    assert asked[1]["entities"] == ["MSFT"]
    assert asked[1]["end_date"] == f"{found[1]}-12-31"
    assert found[1] in next(a["content"] for n, a in talk.calls if n == "think" and a["kind"] == "data insight")


async def test_the_last_round_finishes_with_what_a_script_has_said(drive: Any, market: World) -> None:
    question = "Find the worst year of Apple since 2018, then say what Microsoft did in that year"
    talk = await drive(question, market, nudge_after=4)
    assert talk.tools == ["think", "data", "python", "think", "finish"]
    assert "worst year of **Apple**" in talk.answer
    assert "**Microsoft**" not in talk.answer


async def test_a_script_without_its_tools_ends_in_words(drive: Any, market: World) -> None:
    talk = await drive("What was the worst month of Apple in 2020?", market, tools=("think", "finish"))
    assert talk.tools == ["think", "finish"]
    assert not re.search(r"\d", talk.answer)


@pytest.mark.parametrize("failing", ["data", "python"])
async def test_a_failing_tool_is_named_and_no_number_is_given(drive: Any, market: World, failing: str) -> None:
    market.failures = {failing: ["failed"] * 9, "search": ["failed"] * 9}
    talk = await drive("What was the beta of Apple against the S&P 500 from 2018 to 2021?", market)
    assert f"{failing} is down" in talk.answer
    assert not re.search(r"\d\.\d", talk.answer)


async def test_a_result_that_was_shortened_is_asked_for_again(drive: Any, market: World) -> None:
    """The planner may cut old results out of the view; then the same call brings them back, once."""
    cut = ["cut"]
    market.call = lambda tool, arguments: (  # type: ignore[method-assign]
        ({"tool": tool, "status": "failed", "error": "the result is not in the agreed form"}, "")
        if tool == "python" and cut and cut.pop()
        else getattr(market, tool)(arguments)
    )
    talk = await drive("What was the worst month of Apple between 2018 and 2021?", market)
    assert talk.tools == ["think", "data", "python", "python", "finish"]
    assert "The worst month" in talk.answer


async def test_missing_names_and_measures_are_called_by_their_names(drive: Any, world: Any) -> None:
    lacks = [
        {"subject": "Tesla", "reason": "UNKNOWN_ENTITY", "nearest": []},
        {"subject": "US", "aspect": "gs10", "period": "2022-11", "reason": "NO_DATA_IN_PERIOD"},
        {"subject": "US", "aspect": "gs10", "period": "2022-12", "reason": "NO_DATA_IN_PERIOD"},
        {"subject": "Apple", "aspect": "net_profit", "reason": "NO_MATCH"},
    ]
    talk = await drive("比较特斯拉2021年的表现", world(missing=lacks[:3]))
    assert "特斯拉（不在已知名称之列）" in talk.answer
    assert "10年期美债收益率 2022-11、2022-12" in talk.answer
    talk = await drive("What was Apple's net profit in 2021?", world(missing=lacks[3:]))
    assert "Apple net profit" in talk.answer


async def test_missing_periods_cite_the_records_that_say_so(drive: Any, world: Any) -> None:
    lacks = [
        {"subject": "US", "aspect": "gs10", "period": month, "reason": "NO_DATA_IN_PERIOD", "material": number}
        for number, month in enumerate(("2022-10", "2022-11"), 2)
    ]
    talk = await drive("How did the 10-year yield change in 2022?", world(missing=lacks))
    assert "10-year Treasury yield 2022-10, 2022-11 (no data in that period) [2][3]" in talk.answer


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("from 2015 to 2020", [("2015-01-01", "2020-12-31", False)]),
        ("2010年至2019年", [("2010-01-01", "2019-12-31", False)]),
        ("2019年初到2021年末", [("2019-01-01", "2021-12-31", False)]),
        ("in 2008", [("2008-01-01", "2008-12-31", True)]),
        ("since 2000", [("2000-01-01", "", False)]),
        ("2010年以来", [("2010-01-01", "", False)]),
        ("April 2020", [("2020-04-01", "2020-04-30", True)]),
        ("2020年4月", [("2020-04-01", "2020-04-30", True)]),
        ("2020年二季度", [("2020-04-01", "2020-06-30", True)]),
        ("2020Q2", [("2020-04-01", "2020-06-30", True)]),
        ("from October to December 2022", [("2022-10-01", "2022-12-31", False)]),
        ("2022年7月至2022年12月", [("2022-07-01", "2022-12-31", False)]),
        ("2022年7月到12月", [("2022-07-01", "2022-12-31", False)]),
        ("on 2020-03-23", [("2020-03-23", "2020-03-23", False)]),
        ("2008年9月15日", [("2008-09-15", "2008-09-15", False)]),
        ("March 23, 2020", [("2020-03-23", "2020-03-23", False)]),
        ("in 2020 and then in 2022", [("2020-01-01", "2020-12-31", True), ("2022-01-01", "2022-12-31", True)]),
        ("no time at all, 500 of them", []),
    ],
)
def test_periods(text: str, wanted: list[tuple[str, str, bool]]) -> None:
    assert [(period.start, period.end, period.calendar) for period in periods(text)] == wanted


@pytest.mark.parametrize(("text", "months"), [("over the past three months", 3), ("过去五年", 60), ("最近六个月", 6), ("last 2 years", 24)])  # fmt: skip
def test_recent_periods_depend_on_where_the_data_end(text: str, months: int) -> None:
    assert [period.months for period in periods(text)] == [months]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("GE and gear, HD or hd", ["GE", "HD"]),
        ("苹果公司和微软", ["AAPL", "MSFT"]),
        ("the 10-year Treasury yield", ["gs10"]),
        ("S&P 500, WTI crude oil", ["SP500", "WTI"]),
        ("美元兑日元", ["USD", "JPY"]),
        ("nothing here", []),
    ],
)
def test_names(text: str, ids: list[str]) -> None:
    assert [mention.name.id for mention in mentions(text)] == ids


def test_cues_with_numbers() -> None:
    assert fee_of(ask_of("a 5 basis point fee")) == 0.0005
    assert fee_of(ask_of("手续费万分之三")) == 0.0003
    assert fee_of(ask_of("fee of 0.2%")) == 0.002
    assert fee_of(ask_of("no word of it")) == 0.0005
    assert level_of(ask_of("When did the unemployment rate first fall below 4%?")) == (4.0, False)
    assert level_of(ask_of("标普500首次突破3,000点是何时？")) == (3000.0, True)
    assert spans(ask_of("20 trading days before and 10 trading days after 2020-03-23")) == (20, 10)
    assert spans(ask_of("2008年9月15日前后各10个交易日")) == (10, 10)
    assert spans(ask_of("in the month after 2020-03-23")) == (0, 0)
    assert lags_of(ask_of("实际GDP 2020年二季度环比变化")) == [("qoq", 3)]
    assert lags_of(ask_of("CPI inflation in May 2020")) == [("yoy", 12)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Find the worst year of Apple, then say what Microsoft did in that year", 2),
        ("苹果最差的是哪一年？微软当年涨跌多少？该公司次年呢？", 3),
        ("What did Apple do in that year?", 1),
        ("Compare Apple and Microsoft in 2020", 1),
        ("What did Microsoft do in the year that Apple fell most?", 2),
    ],
)
def test_parts_of_a_chain(text: str, parts: int) -> None:
    assert len(parts_of(ask_of(text))) == parts


@pytest.mark.parametrize(
    "question", ["苹果" * 900, "in that year, " * 200, "2020-" * 500, "the " * 900 + "Apple best year"]
)
async def test_odd_questions_end(drive: Any, market: World, question: str) -> None:
    talk = await drive(question, market)
    assert talk.tools[-1] == "finish"


async def test_returns_in_percent_are_never_summarised_as_prices(drive: Any) -> None:
    years = pd.date_range("2012-12-31", "2021-12-31", freq="YE")
    returns = [13.4, 29.6, 11.4, -0.7, 9.5, 19.4, -6.2, 28.9, 16.3, 26.9]
    frame = pd.DataFrame({"date": years, "SP500.return(close_adj)": returns})
    table = sheet(frame, "S&P 500: adjusted close (return), annual, 2012-12-31 to 2021-12-31", "%")
    table[1]["columns"][1].update(entity="SP500", indicator="return(close_adj)")
    talk = await drive("S&P yearly returns table 2012 2021", World(sheets=[table]))
    assert "drawdown" not in talk.answer
    assert "Annualised volatility" not in talk.answer
    assert "lowest -6.2 on 2018-12-31" in talk.answer


@pytest.mark.parametrize(
    ("unit", "indicator"), [("%", "close_adj"), ("USD", "return(close_adj)"), ("", "yoy(close_adj)")]
)
def test_percentages_and_what_is_derived_are_no_prices(unit: str, indicator: str) -> None:
    assert not is_price(indicator, unit)
    assert is_price("close_adj", "USD")


def test_a_drawdown_outside_its_range_stops_the_cell() -> None:
    frame = pd.DataFrame({"date": pd.date_range("2020-01-01", periods=4), "x": [13.4, 29.6, -6.2, 26.9]})
    series = Series("sheet_1", 1, "x", "X", "%", price=True, as_of="")
    for code in (summary_cell([series]), measure_cell([series], [Period("2020-01-01", "2020-12-31")])):
        with pytest.raises(ValueError, match=r"drawdown lies in \[-1, 0\]"):
            exec(code, {"sheet_1": frame})


async def test_after_a_month_is_open_to_the_end_of_the_data(drive: Any, market: World) -> None:
    frame = market.sheets[1][0]
    low = frame[(frame["date"] > "2016-03-31") & (frame["US.unrate"] < 4)].iloc[0]
    talk = await drive("When did the unemployment rate fall below 4% after March 2016?", market)
    assert f"first below 4% on {low['date'].date()}" in talk.answer
    talk = await drive("2016年3月之后失业率何时低于4%？", market)
    assert f"首次低于4%是在{low['date'].date()}" in talk.answer


async def test_a_period_of_one_value_answers_no_when_and_no_how_often(drive: Any, market: World) -> None:
    talk = await drive("When did the unemployment rate fall below 4% in March 2016?", market)
    assert "fewer than two values" in talk.answer
    assert "never" not in talk.answer


async def test_shares_beside_a_price_index_are_ranked_with_a_word_on_dividends(drive: Any, market: World) -> None:
    for column in market.sheets[0][1]["columns"]:
        column["unit"] = "points" if column["entity"] == "SP500" else "USD"
    talk = await drive("Compare the return of Apple and the S&P 500 from 2018 to 2020", market)
    assert "not like for like" in talk.answer
    talk = await drive("Compare the return of Apple and Microsoft from 2018 to 2020", market)
    assert "By total return" in talk.answer
    assert "not like for like" not in talk.answer


def test_rates_are_drawn_as_they_are_beside_rebased_prices() -> None:
    days = pd.date_range("2020-01-01", periods=3)
    sheets = {
        "sheet_1": pd.DataFrame({"date": days, "p": [50.0, 60.0, 75.0]}),
        "sheet_2": pd.DataFrame({"date": days, "r": [1.5, 1.0, 0.5]}),
    }
    price = Series("sheet_1", 1, "p", "Apple", "USD", price=True, as_of="")
    rate = Series("sheet_2", 2, "r", "fed funds", "%", price=False, as_of="")
    shown: list[Any] = []
    with mock.patch("plotly.basedatatypes.BaseFigure.show", lambda figure: shown.append(figure)):
        exec(figure_cell([price, rate], "title", False), sheets)
    drawn = {trace.name: (list(trace.y), trace.yaxis) for trace in shown[0].data}
    assert drawn["fed funds"][0] == [1.5, 1.0, 0.5]
    assert drawn["Apple"][0] == [100.0, 120.0, 150.0]
    assert drawn["Apple"][1] != drawn["fed funds"][1]
    assert check(figure_cell([price, rate], "title", False)).ok
