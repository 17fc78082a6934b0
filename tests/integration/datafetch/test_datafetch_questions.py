"""Questions that choose, count and group values of the bundled tables; what they must give is computed by plain DuckDB."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from datetime import date
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest
import pytest_asyncio

from fathom.domain import frames
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.engine import Engine

pytestmark = pytest.mark.asyncio(loop_scope="module")
CELL = (
    "select date, value from observations where entity = '{0}' and indicator = '{1}' and date between '{2}' and '{3}'"
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tables_dir: Path) -> AsyncIterator[Engine]:
    engine = Engine(Config(data_dir=tables_dir))
    await engine.start()
    yield engine
    await engine.close()


def rows(tables: Path, sql: str) -> list[tuple[date | None, float]]:
    """(day, value) of a statement over the parquet file."""
    with duckdb.connect() as connection:
        connection.execute(
            f"create view observations as select * from read_parquet('{tables / 'observations.parquet'}')"
        )
        return [(day, float(value)) for day, value in connection.execute(sql).fetchall()]


async def column(
    engine: Engine, question: str, name: str, as_of: date | None = None
) -> list[tuple[date | None, float]]:
    """(day, value) of the column of the one sheet of an answer."""
    result = await engine.ask(question, as_of)
    assert result.missing == ()
    (sheet,) = result.sheets
    frame = frames.from_arrow(sheet.arrow)
    days = [day.date() for day in frame["date"]] if "date" in frame else [None] * len(frame)
    assert next(item for item in sheet.columns if item.name == name).source
    return list(zip(days, [float(value) for value in frame[name]], strict=True))


@pytest.mark.parametrize(
    ("question", "name", "series", "condition"),
    [
        ("失业率高于10%的月份有哪些", "US.unrate", ("US", "unrate", "1900-01-01", "2100-01-01"), "value > 10"),
        (
            "months in which unemployment exceeded 8% between 2008 and 2014",
            "US.unrate",
            ("US", "unrate", "2008-01-01", "2014-12-31"),
            "value > 8",
        ),
        (
            "2-year Treasury yield between 1% and 2% in which months of 2018-2022",
            "US.gs2",
            ("US", "gs2", "2018-01-01", "2022-12-31"),
            "value between 1 and 2",
        ),
    ],
)
async def test_only_the_rows_that_fit_come_back(
    engine: Engine, tables_dir: Path, question: str, name: str, series: tuple[str, ...], condition: str
) -> None:
    wanted = rows(tables_dir, f"{CELL.format(*series)} and {condition} order by date")
    assert wanted
    assert await column(engine, question, name) == wanted


@pytest.mark.parametrize(
    "question",
    ["标普500在2020年有多少天收在3000点以下", "how many days of 2020 did the S&P 500 close at or below 3,000"],
)
async def test_days_that_fit_are_counted(engine: Engine, tables_dir: Path, question: str) -> None:
    fitting = rows(tables_dir, CELL.format("SP500", "close_adj", "2020-01-01", "2020-12-31") + " and value <= 3000")
    assert await column(engine, question, "SP500.count(close_adj)") == [(None, float(len(fitting)))]


async def test_the_first_and_the_last_day_that_fit(engine: Engine, tables_dir: Path) -> None:
    all_days = CELL.format("US", "gs10", "1900-01-01", "2100-01-01")
    first = rows(tables_dir, f"{all_days} and value < 1 order by date limit 1")
    assert await column(engine, "when did the 10-year Treasury yield first fall below 1%?", "US.gs10") == first
    last = rows(tables_dir, CELL.format("US", "fedfunds", "1900-01-01", "2100-01-01") + " and value > 5 order by date desc limit 1")  # fmt: skip
    assert await column(engine, "when was the fed funds rate last above 5%", "US.fedfunds") == last


async def test_companies_are_chosen_by_their_return(engine: Engine, tables_dir: Path) -> None:
    result = await engine.ask("2019年涨幅超过50%的股票有哪些", None)
    (sheet,) = result.sheets
    frame = frames.from_arrow(sheet.arrow)
    given = {c.entity: float(frame[c.name].iloc[0]) for c in sheet.columns if c.indicator}
    assert min(given.values()) > 50
    for entity, value in given.items():
        one, other = (
            rows(tables_dir, CELL.format(entity, "close_adj", f"{year}-01-01", f"{year}-12-31") + " order by date desc limit 1")[0][1]
            for year in (2018, 2019)
        )  # fmt: skip
        assert math.isclose(value, 100 * (other / one - 1), rel_tol=1e-9)


async def test_a_statistic_of_each_period_and_of_those(engine: Engine, tables_dir: Path) -> None:
    ends = rows(
        tables_dir,
        "select last_day(max(date)), arg_max(value, date) from observations where entity = 'SP500' and indicator = 'close_adj'"
        " and date between '2019-12-01' and '2020-12-31' group by date_trunc('month', date) order by 1",
    )
    returns = [(later[0], 100 * (later[1] / one[1] - 1)) for one, later in pairwise(ends)]
    given = await column(engine, "标普500 2020年各月涨跌幅", "SP500.return(close_adj)")
    assert [day for day, _ in given] == [day for day, _ in returns]
    assert [value for _, value in given] == pytest.approx([value for _, value in returns])
    worst = await column(engine, "worst month for the S&P 500 in 2020", "SP500.return(close_adj)")
    assert worst == [pytest.approx(min(returns, key=lambda row: row[1]))]
    mean = await column(engine, "average monthly return of the S&P 500 in 2020", "SP500.mean(return(close_adj))")
    assert mean[0][1] == pytest.approx(sum(value for _, value in returns) / 12)
    falls = await column(engine, "how many months of 2020 did the S&P 500 fall more than 5%", "SP500.count(return(close_adj))")  # fmt: skip
    assert falls[0][1] == sum(value < -5 for _, value in returns)


async def test_two_series_together_have_statistics(engine: Engine, tables_dir: Path) -> None:
    sql = (
        "select null, avg(a.value - b.value) from observations a join observations b using (date) where a.entity = 'US' and b.entity = 'US'"
        " and a.indicator = 'baa' and b.indicator = 'gs10' and date between '2008-01-01' and '2008-12-31'"
    )
    given = await column(engine, "average of the Baa minus 10-year Treasury spread in 2008", "mean(US.baa - US.gs10)")
    assert given[0][1] == pytest.approx(rows(tables_dir, sql)[0][1])


async def test_a_rate_of_change_has_a_peak(engine: Engine, tables_dir: Path) -> None:
    sql = (
        "select a.date, 100 * (a.value / b.value - 1) from observations a join observations b on b.date = last_day(a.date - interval 1 year)"
        " and b.entity = 'US' and b.indicator = 'cpiaucsl' where a.entity = 'US' and a.indicator = 'cpiaucsl' and a.date > '2000-01-01'"
        " order by 2 desc limit 1"
    )
    ((day, value),) = await column(engine, "peak yoy CPI inflation since 2000", "US.cpi_inflation")
    assert (day, value) == pytest.approx(rows(tables_dir, sql)[0])


async def test_the_move_of_one_day_is_that_from_the_day_before(engine: Engine, tables_dir: Path) -> None:
    two = rows(tables_dir, CELL.format("SP500", "close_adj", "2020-03-13", "2020-03-16") + " order by date")
    ((day, value),) = await column(engine, "S&P 500 change on 2020-03-16", "SP500.return(close_adj)")
    assert day == date(2020, 3, 16)
    assert value == pytest.approx(100 * (two[1][1] / two[0][1] - 1))


@pytest.mark.parametrize(
    ("question", "reason", "said"),
    [
        ("difference between the unemployment rate and nominal GDP in 2021Q4", "NO_MATCH", "different units"),
        ("2020年CPI超过5%的月份", "NO_MATCH", "no rate"),
        ("P/E of Microsoft", "UNKNOWN_INDICATOR", "P/E"),
        ("natural gas price 2021", "UNKNOWN_INDICATOR", "natural gas price"),
        ("consumer sentiment lowest ever", "NO_MATCH", "names nothing"),
        ("durable goods orders in May 2021", "UNKNOWN_INDICATOR", "orders"),
        ("days of 2015 when the VIX closed above 90", "NO_DATA_IN_PERIOD", "no row"),
    ],
)
async def test_what_cannot_be_answered_is_said(engine: Engine, question: str, reason: str, said: str) -> None:
    result = await engine.ask(question, None)
    assert any(item.reason == reason and said in item.detail + item.subject for item in result.missing)


async def test_a_return_states_the_day_that_it_is_measured_from(engine: Engine, tables_dir: Path) -> None:
    result = await engine.ask("Chevron's return from 2011 to 2020", None)
    frame = frames.from_arrow(result.sheets[0].arrow)
    first, last = frame["from"].iloc[0].date(), frame["to"].iloc[0].date()
    assert (first, last) == (date(2010, 12, 31), date(2020, 12, 31))
    prices = dict(rows(tables_dir, CELL.format("CVX", "close_adj", first, last)))
    assert math.isclose(frame["CVX.return(close_adj)"].iloc[0], 100 * (prices[last] / prices[first] - 1), rel_tol=1e-9)
