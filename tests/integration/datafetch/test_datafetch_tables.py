"""A user's own tables: quarterly statements, two vintages, dirty files; transforms, provenance and what is missing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import pytest_asyncio
import yaml

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core import errors
from fathom.core.call import Call
from fathom.domain import frames
from fathom.services.datafetch.config import Config, SemanticFolder
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query.model import Filter, Frequency, Query, Result, Statistic, Transform
from fathom.services.datafetch.server import DatafetchServicer
from fathom.transport.store.memory import MemoryStore

pytestmark = pytest.mark.asyncio(loop_scope="module")

INDICATORS = [
    {"id": "rev", "name": "revenue of mine", "unit": "元", "frequency": "quarterly", "kinds": ["mine"], "flow": True, "cumulative": True},
    {"id": "cash", "name": "cash of mine", "unit": "元", "frequency": "quarterly", "kinds": ["mine"]},
    {"id": "note", "name": "auditor of mine", "frequency": "quarterly", "kinds": ["mine"], "text": True},
    {"id": "rev_to_cash", "name": "revenue to cash of mine", "frequency": "quarterly", "kinds": ["mine"], "formula": "rev / cash"},
]  # fmt: skip
ENTITIES = [{"id": "M1", "name": "First Mine", "name_zh": "第一矿业", "kind": "mine", "currency": "CNY"},
            {"id": "M2", "name": "Second Mine", "name_zh": "第二矿业", "kind": "mine", "currency": "CNY"}]  # fmt: skip
CSV = """code,day,published,rev,cash,note
M1,2020-03-31,2020-04-20,10,5,Ann
M1,2020/6/30,2020-08-20,30,-1,Ann
M1,20200930,2020-10-20,60,5,Ann
M1,2020-12-31,2021-03-30,100,0,Ben
M1,2020-12-31,2021-09-01,110,0,Ben
M1,2021-03-31,2021-04-20,20,8,Ben
M1,2021-09-30,2021-10-20,80,8,Ben
M1,2021-12-31,2022-03-30,120,8,Ben
M2,2021-12-31,2022-03-30,50,2,Cy
"""
TABLE: dict[str, Any] = {
    "id": "statements", "path": "statements.csv", "entity": "code", "period": "day", "frequency": "quarterly", "sentinels": [-1],
    "published": {"column": "published"}, "source": "my statements", "vendor": "me", "columns": {"rev": "rev", "cash": "cash", "note": "note"},
}  # fmt: skip


def folder(root: Path, csv: str = CSV, **table: Any) -> SemanticFolder:
    (root / "statements.csv").write_text(csv, encoding="utf-8")
    content = {"version": 1, "entities": ENTITIES, "indicators": INDICATORS, "tables": [{**TABLE, **table}]}
    (root / "mine.yaml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    return SemanticFolder(folder=root)


@asynccontextmanager
async def open_own_engine(tables_dir: Path, own: SemanticFolder, **settings: Any) -> AsyncIterator[Engine]:
    engine = Engine(Config(data_dir=tables_dir, semantic=[own], **settings))
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tables_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    async with open_own_engine(tables_dir, folder(tmp_path_factory.mktemp("mine"))) as engine:
        yield engine


def values(result: Result, name: str) -> dict[str, Any]:
    """A column by its dates."""
    frame = frames.from_arrow(result.sheets[0].arrow)
    return {
        f"{day:%Y-%m-%d}": None if pd.isna(value) else value
        for day, value in zip(frame["date"], frame[name], strict=True)
    }


def ask(*indicators: str, **fields: Any) -> Query:
    return Query(("M1",), indicators, **fields)


YEAR = {"start": date(2021, 1, 1), "end": date(2021, 12, 31)}


async def test_a_missing_period_is_a_null_row_and_a_missing_item(engine: Engine) -> None:
    result = await engine.run(ask("rev", **YEAR), None)
    assert values(result, "M1.rev") == {"2021-03-31": 20, "2021-06-30": None, "2021-09-30": 80, "2021-12-31": 120}
    assert [(item.subject, item.aspect, item.period, item.reason) for item in result.missing] == [
        ("M1", "rev", "2021Q2", "NO_DATA_IN_PERIOD")]  # fmt: skip
    column = result.sheets[0].columns[1]
    assert (column.unit, column.source, column.vendor, column.as_of) == ("元", "my statements", "me", "2021-12-31")


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (Transform.SINGLE, {"2020-03-31": 10, "2020-06-30": 20, "2020-09-30": 30, "2020-12-31": 50}),
        (Transform.YTD, {"2020-03-31": 10, "2020-06-30": 30, "2020-09-30": 60, "2020-12-31": 110}),
    ],
)
async def test_quarters_are_taken_from_cumulative_statements(
    transform: Transform, expected: dict[str, float], engine: Engine
) -> None:
    result = await engine.run(ask("rev", start=date(2020, 1, 1), end=date(2020, 12, 31), transform=transform), None)
    assert values(result, "M1.rev") == expected


async def test_trailing_twelve_months_and_changes_look_back_and_never_fill(engine: Engine) -> None:
    ttm = await engine.run(ask("rev", transform=Transform.TTM, **YEAR), None)
    yoy = await engine.run(ask("rev", transform=Transform.YOY, **YEAR), None)
    single = await engine.run(ask("rev", transform=Transform.SINGLE, **YEAR), None)
    annual = await engine.run(
        ask("rev", frequency=Frequency.ANNUAL, start=date(2020, 1, 1), end=date(2021, 12, 31)), None
    )
    # Annual of the year before, plus the year so far, minus the same span a year before: 110 + 20 - 10.
    assert values(ttm, "M1.rev") == {"2021-03-31": 120, "2021-06-30": None, "2021-09-30": 130, "2021-12-31": 120}
    assert values(yoy, "M1.rev")["2021-03-31"] == pytest.approx(1.0)
    assert values(yoy, "M1.rev")["2021-06-30"] is None
    assert values(single, "M1.rev")["2021-09-30"] is None, (
        "the second quarter is missing, so the third alone is unknown"
    )
    assert values(annual, "M1.rev") == {"2020-12-31": 110, "2021-12-31": 120}
    assert ttm.sheets[0].columns[1].formula == "ttm(rev)"


async def test_sentinels_and_division_by_zero_are_null_and_inputs_stand_beside_the_quotient(engine: Engine) -> None:
    result = await engine.run(ask("rev_to_cash", start=date(2020, 1, 1), end=date(2020, 12, 31)), None)
    assert values(result, "M1.rev_to_cash") == {
        "2020-03-31": 2,
        "2020-06-30": None,
        "2020-09-30": 12,
        "2020-12-31": None,
    }
    assert values(result, "M1.cash")["2020-06-30"] is None
    column = result.sheets[0].columns[1]
    assert (column.formula, column.inputs) == ("rev / cash", ("rev", "cash"))
    assert {item.period for item in result.missing} == {"2020Q2", "2020Q4"}


async def test_nothing_is_seen_before_it_was_published_and_vintages_are_kept(engine: Engine) -> None:
    query = ask("rev", start=date(2020, 10, 1), end=date(2020, 12, 31))
    seen = {}
    for day in (date(2021, 3, 29), date(2021, 3, 30), date(2021, 9, 1)):
        result = await engine.run(query, day)
        seen[day.isoformat()] = values(result, "M1.rev")["2020-12-31"] if result.sheets else result.missing[0].reason
    first = await engine.run(ask("rev", start=date(2020, 10, 1), end=date(2020, 12, 31), vintage="first"), None)
    assert seen == {"2021-03-29": "NOT_YET_PUBLISHED", "2021-03-30": 100, "2021-09-01": 110}
    assert values(first, "M1.rev")["2020-12-31"] == 100


async def test_no_source_of_the_bundle_shows_the_future(engine: Engine) -> None:
    """Every kind of series at several dates: no value is of a day after as_of or out later than its source's delay."""
    asked = [Query(("AAPL", "SP500", "GOLD"), ("close_adj",)), Query(("CNY",), ("eur_rate",)),
             Query((), ("unrate", "cpiaucsl", "gdpc1", "fygfd", "gdppot")), ask("rev", "cash")]  # fmt: skip
    for as_of in (date(1999, 6, 30), date(2010, 1, 31), date(2020, 3, 31)):
        for query in asked:
            for sheet in (await engine.run(query, as_of)).sheets:
                frame = frames.from_arrow(sheet.arrow)
                filled = frame.dropna(how="all", subset=[name for name in frame.columns if name != "date"])
                assert filled["date"].max().date() <= as_of
    payrolls = values(await engine.run(Query((), ("unrate",)), date(2020, 4, 5)), "US.unrate")
    assert "2020-02-29" in payrolls
    assert payrolls.get("2020-03-31") is None, "March is out ten days after it ended"


async def test_filters_order_and_limit_make_a_ranking(engine: Engine) -> None:
    query = Query(
        (), ("rev",), date(2021, 12, 31), date(2021, 12, 31), kind="mine", order="rev", descending=True, limit=1
    )
    best = frames.from_arrow((await engine.run(query, None)).sheets[0].arrow)
    kept = await engine.run(
        Query((), ("rev",), date(2021, 12, 31), date(2021, 12, 31), kind="mine", filters=(Filter("rev", "<", 60.0),)),
        None,
    )
    assert best[["entity", "rev"]].values.tolist() == [["M1", 120.0]]
    assert frames.from_arrow(kept.sheets[0].arrow)["entity"].tolist() == ["M2"]


async def test_statistics_expressions_and_conversions(engine: Engine) -> None:
    mean = await engine.run(ask("cash", statistics=(Statistic.MEAN,), **YEAR), None)
    asked = await engine.run(ask("yoy(rev)", **YEAR), None)
    scaled = await engine.run(ask("rev", unit="万元", **YEAR), None)
    dollars = await engine.run(ask("rev", currency="USD", start=date(2021, 12, 31), end=date(2021, 12, 31)), None)
    rates = await engine.run(Query(("USD", "CNY"), ("eur_rate",), date(2021, 12, 31), date(2021, 12, 31)), None)
    assert frames.from_arrow(mean.sheets[0].arrow)["M1.mean(cash)"].tolist() == [8.0]
    assert values(asked, "M1.yoy(rev)")["2021-03-31"] == pytest.approx(1.0)
    assert values(scaled, "M1.rev")["2021-12-31"] == pytest.approx(0.012)
    assert scaled.sheets[0].columns[1].unit == "万元"
    rate = frames.from_arrow(rates.sheets[0].arrow).iloc[0]
    assert values(dollars, "M1.rev")["2021-12-31"] == pytest.approx(120 * rate["USD.eur_rate"] / rate["CNY.eur_rate"])
    assert "ECB" in dollars.sheets[0].columns[1].formula


@pytest.mark.parametrize(
    ("query", "reason", "said"),
    [
        (ask("rev_to_cash", transform=Transform.MOM), "NO_MATCH", "quarterly"),
        (ask("cash", transform=Transform.TTM), "NO_MATCH", "no amount of a period"),
        (ask("rev", frequency=Frequency.DAILY), "NO_MATCH", "no daily values"),
        (ask("nonsense"), "UNKNOWN_INDICATOR", "nonsense"),
        (ask("yoy(nonsense)"), "UNKNOWN_INDICATOR", "nonsense"),
        (ask("yoy(rev"), "UNKNOWN_INDICATOR", "yoy(rev"),
        (ask("unrate"), "NO_MATCH", "no unemployment rate"),
        (Query(("Nobody",), ("rev",)), "UNKNOWN_ENTITY", "Nobody"),
        (Query((), ("rev",), kind="moon"), "UNKNOWN_ENTITY", "moon"),
        (Query((), ("rev",)), "NO_MATCH", "needs a name"),
        (ask("rev", start=date(1990, 1, 1), end=date(1990, 12, 31)), "NO_DATA_IN_PERIOD", "2020-03-31"),
    ],
)  # fmt: skip
async def test_what_cannot_be_is_a_missing_item_with_its_reason(
    query: Query, reason: str, said: str, engine: Engine
) -> None:
    result = await engine.run(query, None)
    assert (reason, True) in [(item.reason, said in f"{item.subject} {item.detail}") for item in result.missing]
    assert not any("M1.rev" in [column.name for column in sheet.columns] for sheet in result.sheets)


@pytest.mark.parametrize(
    "query", [ask("rev", start=date(2022, 1, 1), end=date(2021, 1, 1)), ask("rev", unit="parsec"), ask("rev_to_cash", currency="USD"),
              ask("note", transform=Transform.YOY), ask("rev", "cash", unit="%")]
)  # fmt: skip
async def test_bad_fields_are_named(query: Query, engine: Engine) -> None:
    with pytest.raises(errors.InvalidField, match=r"typed\."):
        await engine.run(query, None)


DIRTY = {
    "a broken row": (CSV + "M1,2022-03-31,2022-04-20,1,2,3,4,5,6\n", "statements.csv"),
    "a word for a number": (CSV + "M1,2022-03-31,2022-04-20,much,2,x\n", "'much'"),
    "no such day": (CSV + "M1,2022-13-45,2022-04-20,1,2,x\n", "2022-13-45"),
    "a renamed column": (CSV.replace("rev,", "revenue,", 1), "no column 'rev'"),
    "nothing": ("", "statements.csv"),
    "only a header": (CSV.splitlines()[0] + "\n", "no row"),
}


@pytest.mark.parametrize("name", DIRTY)
async def test_a_dirty_table_is_out_with_its_reason_and_the_rest_works(
    name: str, tables_dir: Path, tmp_path: Path
) -> None:
    csv, said = DIRTY[name]
    async with open_own_engine(tables_dir, folder(tmp_path, csv)) as engine:
        assert said in " ".join(failure.message for failure in engine.layer.failures)
        mine = await engine.run(ask("rev"), None)
        apple = await engine.run(Query(("AAPL",), ("close_adj",), date(2020, 3, 16), date(2020, 3, 16)), None)
    assert [(item.reason, item.subject) for item in mine.missing] == [("SOURCE_FAILED", "First Mine")]
    assert (mine.sheets, apple.sheets[0].rows) == ((), 1)


async def test_a_table_that_cannot_be_read_is_listed_with_its_failure_beside_what_it_holds(
    tables_dir: Path, tmp_path: Path
) -> None:
    csv, said = DIRTY["a word for a number"]
    async with open_own_engine(tables_dir, folder(tmp_path, csv)) as engine:
        servicer = DatafetchServicer(engine, MemoryStore(), Config())
        listed = (await servicer.ListSources(pb.ListSourcesRequest(), Call.new())).sources
        servicer.close()
    failed = [source for source in listed if source.failure]
    assert [said in source.failure for source in failed] == [True]
    assert said not in failed[0].description
    assert len(listed) > 1


@pytest.mark.parametrize("kind", ["parquet", "xlsx"])
async def test_parquet_and_workbooks_read_as_csv_does(kind: str, tables_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "statements.csv").write_text(CSV, encoding="utf-8")
    frame = pd.read_csv(tmp_path / "statements.csv", dtype={"day": str})
    own = folder(tmp_path, path=f"statements.{kind}")
    if kind == "parquet":
        frame.to_parquet(tmp_path / "statements.parquet", index=False)
    else:
        frame.to_excel(tmp_path / "statements.xlsx", index=False)
    async with open_own_engine(tables_dir, own) as engine:
        result = await engine.run(ask("rev", "note", **YEAR), None)
    assert values(result, "M1.rev")["2021-12-31"] == 120
    assert values(result, "M1.note")["2021-12-31"] == "Ben"


async def test_a_table_may_not_leave_its_folder(tables_dir: Path, tmp_path: Path) -> None:
    async with open_own_engine(tables_dir, folder(tmp_path, path="../statements.csv")) as engine:
        assert "leaves the folder" in engine.layer.failures[0].message
