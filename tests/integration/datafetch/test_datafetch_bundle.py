"""Datafetch on the bundled tables: known values, names in two languages, typed missing items, refused SQL."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.core import errors
from fathom.domain import frames
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query.model import Frequency, Query

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tables_dir: Path) -> AsyncIterator[Engine]:
    engine = Engine(Config(data_dir=tables_dir))
    await engine.start()
    yield engine
    await engine.close()


QUESTIONS = [
    ("Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020",
     ["date", "AAPL.close_adj", "MSFT.close_adj"], 1511),
    ("比较苹果和微软2015年到2020年的股价表现和最大回撤", ["date", "AAPL.close_adj", "MSFT.close_adj"], 1511),
    ("What was AAPL's close on 2020-03-16?", ["date", "AAPL.close_adj"], 1),
    ("unemployment rate in 2020", ["date", "US.unrate"], 12),
    ("10-year Treasury yield and 2-year yield since 2019", ["date", "US.gs10", "US.gs2"], 45),
    ("人民币汇率2023年", ["date", "CNY.eur_rate"], 255),
]  # fmt: skip


@pytest.mark.parametrize(("question", "columns", "rows"), QUESTIONS)
async def test_questions_find_their_tables(engine: Engine, question: str, columns: list[str], rows: int) -> None:
    result = await engine.ask(question, None)
    assert [column.name for column in result.sheets[0].columns] == columns
    assert (len(result.sheets), result.sheets[0].rows, result.missing) == (1, rows, ())


async def test_values_are_those_of_the_source_and_sheets_are_content_addressed(engine: Engine) -> None:
    query = Query(("AAPL",), ("close_adj",), date(2022, 12, 28), date(2022, 12, 28))
    first, second = await engine.run(query, None), await engine.run(query, None)
    frame = frames.from_arrow(first.sheets[0].arrow)
    assert frame["AAPL.close_adj"].tolist() == [125.674]
    assert first.sheets[0].id == second.sheets[0].id
    column = first.sheets[0].columns[1]
    assert (column.unit, column.source, column.as_of) == ("USD", "skfolio", "2022-12-28")


async def test_resampling_takes_the_last_value_of_the_period(engine: Engine) -> None:
    query = Query(("Apple",), ("price",), date(2020, 1, 1), date(2020, 12, 31), Frequency.QUARTERLY)
    frame = frames.from_arrow((await engine.run(query, None)).sheets[0].arrow)
    assert [day.date().isoformat() for day in frame["date"]] == ["2020-03-31", "2020-06-30", "2020-09-30", "2020-12-31"]
    assert frame["AAPL.close_adj"].iloc[-1] == 130.735


async def test_a_name_beside_an_indicator_of_others_asks_for_its_own(engine: Engine) -> None:
    result = await engine.ask("unemployment rate and the S&P 500 since 2019", None)
    names = [column.name for sheet in result.sheets for column in sheet.columns if column.indicator]
    assert (sorted(names), result.missing) == (["SP500.close_adj", "US.unrate"], ())


async def test_what_belongs_to_the_country_is_not_told_of_a_company(engine: Engine) -> None:
    typed = Query(("AAPL",), ("unrate",), date(2020, 1, 1), date(2020, 12, 31))
    for result in (await engine.ask("Apple's unemployment rate in 2020", None), await engine.run(typed, None)):
        assert result.sheets == ()
        assert [(item.reason, item.subject) for item in result.missing] == [("NO_MATCH", "Apple")]


async def test_an_unknown_name_is_said_once(engine: Engine) -> None:
    result = await engine.ask("Tesla close in 2020", None)
    assert [(item.reason, item.subject, item.nearest) for item in result.missing] == [("UNKNOWN_ENTITY", "Tesla", ())]


async def test_as_of_hides_the_future(engine: Engine) -> None:
    result = await engine.ask("Apple price since 2015", date(2016, 6, 30))
    frame = frames.from_arrow(result.sheets[0].arrow)
    assert frame["date"].max().date() == date(2016, 6, 30)
    later = await engine.ask("Apple price in 2020", date(2016, 6, 30))
    assert later.sheets == ()
    assert [(item.subject, item.reason) for item in later.missing] == [("AAPL", "NOT_YET_PUBLISHED")]


@pytest.mark.parametrize(
    ("question", "subject", "reason"),
    [
        ("Compare Apple and Tencent since 2018", "Tencent", "UNKNOWN_ENTITY"),
        ("Microsoft price in 1985", "MSFT", "NO_DATA_IN_PERIOD"),
        ("hello there", "hello there", "NO_MATCH"),
    ],
)
async def test_what_is_not_there_is_missing_with_a_reason(
    engine: Engine, question: str, subject: str, reason: str
) -> None:
    missing = (await engine.ask(question, None)).missing
    assert (subject, reason) in [(item.subject, item.reason) for item in missing]


async def test_unknown_names_bring_the_nearest(engine: Engine) -> None:
    result = await engine.run(Query(("Aple",), ("closing prise",)), None)
    by_subject = {item.subject: item for item in result.missing}
    assert "Apple" in by_subject["Aple"].nearest
    assert "closing price" in by_subject["closing prise"].nearest
    assert result.sheets == ()


@pytest.mark.parametrize(
    "statement",
    ["drop table s", "select * from read_csv('/etc/passwd')", "copy s to '/tmp/x'", "select 1; select 2", "select nope from s",
     "attach 'x.db'", "select * from 's.parquet'"],
)  # fmt: skip
async def test_sql_may_only_read_its_sheets(engine: Engine, statement: str) -> None:
    sheet = (await engine.ask("Apple price in 2020", None)).sheets[0]
    with pytest.raises(errors.InvalidField):
        await engine.run_sql(statement, {"s": sheet.arrow}, 10, 5.0)


async def test_sql_counts_and_is_stopped_in_time(engine: Engine) -> None:
    sheet = (await engine.ask("Apple price in 2020", None)).sheets[0]
    counted = await engine.run_sql("select count(*) as n from s", {"s": sheet.arrow}, 10, 5.0)
    assert frames.from_arrow(counted.arrow)["n"].tolist() == [253]
    with pytest.raises(errors.DeadlineExceeded):
        await engine.run_sql("select sum(a.i * b.i) from range(1000000) a(i), range(1000000) b(i)", {}, 10, 0.2)


async def test_a_flipped_byte_is_named(tables_dir: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tables"
    shutil.copytree(tables_dir, copy)
    data = bytearray((copy / "observations.parquet").read_bytes())
    data[1000] ^= 1
    (copy / "observations.parquet").write_bytes(data)
    with pytest.raises(errors.CorruptData, match=r"observations\.parquet"):
        await Engine(Config(data_dir=copy)).start()
    missing = Engine(Config(data_dir=tmp_path / "nowhere"))
    with pytest.raises(errors.CorruptData, match="fathom data"):
        await missing.start()
    await missing.close()  # what a stack does after a start that failed: the first error is the one that is seen
