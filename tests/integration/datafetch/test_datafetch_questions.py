"""Questions and queries about the bundled tables; what they must give is computed by plain DuckDB."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import duckdb
import pytest
import pytest_asyncio

from fathom.domain import frames
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query.model import Filter, Query

pytestmark = pytest.mark.asyncio(loop_scope="module")
YEARS = date(2008, 1, 1), date(2014, 12, 31)
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
    ("query", "condition"),
    [
        (Query((), ("unrate",), filters=(Filter("unrate", ">", 10),)), "value > 10"),
        (Query((), ("unrate",), YEARS[0], YEARS[1], filters=(Filter("unrate", ">", 8),)), "value > 8"),
        (
            Query((), ("unrate",), filters=(Filter("unrate", ">=", 4), Filter("unrate", "<=", 5))),
            "value between 4 and 5",
        ),
    ],
)
async def test_only_the_rows_that_fit_come_back(engine: Engine, tables_dir: Path, query: Query, condition: str) -> None:
    first, last = query.start or date(1900, 1, 1), query.end or date(2100, 1, 1)
    wanted = rows(tables_dir, f"{CELL.format('US', 'unrate', first, last)} and {condition} order by date")
    (sheet,) = (await engine.run(query, None)).sheets
    frame = frames.from_arrow(sheet.arrow)
    assert wanted
    assert list(zip([day.date() for day in frame["date"]], frame["US.unrate"], strict=True)) == wanted


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
        ("2020年CPI超过5%的月份", "NOT_UNDERSTOOD", "超过5%"),
        ("P/E of Microsoft", "UNKNOWN_INDICATOR", "P/E"),
        ("natural gas price 2021", "UNKNOWN_INDICATOR", "natural gas price"),
        ("consumer sentiment lowest ever", "NO_MATCH", "names nothing"),
        ("durable goods orders in May 2021", "UNKNOWN_INDICATOR", "orders"),
        ("days of 2015 when the VIX closed above 90", "NOT_UNDERSTOOD", "above 90"),
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
