"""A question that asks for a calculation is answered by it, or refused by name: never by the series below it."""

from __future__ import annotations

from datetime import date

import pytest

from fathom.domain import frames
from fathom.services.datafetch.engine import Engine

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    "question",
    ["How many jobs were lost in April 2020?", "jobs lost in April 2020", "How many jobs were shed in April 2020?"],
)
async def test_lost_jobs_are_counted_in_jobs(engine: Engine, question: str) -> None:
    (sheet,) = (await engine.ask(question, None)).sheets
    (column,) = [column for column in sheet.columns if column.indicator]
    assert column.unit == "Thous. of Persons (SA)"
    assert frames.from_arrow(sheet.arrow)[column.name].tolist() == [-20493.0]


@pytest.mark.parametrize(
    ("question", "indicators"),
    [
        # By its name where it has one.
        ("苹果2020年净利润占营收比率", ("net_margin",)),
        ("苹果2020年投资收益占营业收入总共比率", ("investment_income_share",)),
        ("苹果2020年研发费用与营收的比值", ("rd_to_revenue",)),
        ("苹果2020年财务费用占管理费用的比重", ("100 * financial_expense / admin_expense",)),
        ("Apple's net profit as a share of total assets in 2020", ("100 * net_profit / total_assets",)),
        # Of different units there is no quotient, and "and" asks for both.
        ("苹果2020年净利润占职工人数的比重", ("net_profit", "employees")),
        ("苹果2020年净利润和营业收入", ("net_profit", "operating_revenue")),
    ],
)
async def test_a_quotient_is_made_of_the_figures_that_it_names(
    engine: Engine, question: str, indicators: tuple[str, ...]
) -> None:
    assert (await engine.read(question, None)).query.indicators == indicators


@pytest.mark.parametrize(
    ("question", "is_read"),
    [
        ("苹果2020年营业收入总共是多少元？", True),
        ("苹果2020年的营业收入总共和营业外收入", True),
        # The total of two figures and that of two companies is none of these values.
        ("苹果2020年营业收入和营业外收入总共是多少元？", False),
        ("苹果和微软2020年营业收入总共是多少元？", False),
    ],
)
async def test_the_total_of_the_one_value_of_a_year_is_that_value(engine: Engine, question: str, is_read: bool) -> None:
    seen = await engine.read(question, None)
    assert bool(seen.query.indicators) == is_read
    assert ("总共" in "".join(item.subject for item in seen.missing)) != is_read


async def test_a_fall_of_an_index_stays_in_per_cent(engine: Engine) -> None:
    (sheet,) = (await engine.ask("How much did the CPI fall in December 2008?", None)).sheets
    assert [column.unit for column in sheet.columns if column.indicator] == ["%"]


@pytest.mark.parametrize(
    ("question", "indicator"), [("US GDP growth in 2019", "real_gdp_growth"), ("2019年美国GDP增长了多少", "gdp")]
)
async def test_the_growth_of_output_is_no_level(engine: Engine, question: str, indicator: str) -> None:
    (sheet,) = (await engine.ask(question, None)).sheets
    asked = next(column for column in sheet.columns if column.indicator == indicator)
    assert asked.unit == "%"
    assert all(abs(value) < 10 for value in frames.from_arrow(sheet.arrow)[asked.name])


@pytest.mark.parametrize(
    ("question", "phrase"),
    [
        ("correlation between Apple and Microsoft daily returns in 2020", "correlation"),
        ("What did the S&P 500 return from the peak in 2000 to the trough in 2002?", "peak"),
        ("Compare the return of Apple in 2019 with Microsoft in 2020", "2020"),
        ("Apple in 2019 versus Microsoft in 2020: returns", "2020"),
        ("苹果2019年和微软2020年的涨幅", "2020年"),
        ("AAPL H1 2020 return minus MSFT H2 2020 return", "H2 2020"),
        ("Was inflation above fed funds in 1975?", "above"),
        ("How many days has the VIX closed above 40 since 1990?", "above 40"),
    ],
)
async def test_what_no_query_computes_gives_no_figures(engine: Engine, question: str, phrase: str) -> None:
    result = await engine.ask(question, None)
    assert result.sheets == ()
    assert phrase in [item.subject for item in result.missing]


@pytest.mark.parametrize(
    "question",
    ["What is the national animal of Canada?", "the national animal of Canada in 2019", "2020年3月发生了什么"],
)
async def test_what_is_no_figure_here_is_not_answered_with_one_of_the_same_country(
    engine: Engine, question: str
) -> None:
    result = await engine.ask(question, None)
    assert result.sheets == ()
    assert "NO_MATCH" in [item.reason for item in result.missing]


async def test_a_drawdown_is_of_the_months_that_are_named(engine: Engine) -> None:
    result = await engine.ask("Apple's drawdown from November 2021 to October 2022", None)
    assert (result.understood.start, result.understood.end) == (date(2021, 11, 1), date(2022, 10, 31))
