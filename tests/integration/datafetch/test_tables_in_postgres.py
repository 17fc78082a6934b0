"""Tables that lie in a PostgreSQL answer the questions that the same tables in files answer, with the same rows."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest
import pytest_asyncio

from fathom.core.errors import DependencyFailed, InvalidField
from fathom.domain import frames
from fathom.services.datafetch import engine as engines
from fathom.services.datafetch.catalog.layer import Layer, load
from fathom.services.datafetch.config import Config, SemanticFolder
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query.model import Combination, Filter, Frequency, Query, Result, Statistic, Transform
from fathom.services.datafetch.warehouse import elsewhere
from fathom.services.datafetch.warehouse.database import Warehouse
from tests.golden.datafetch.schema import Question, load_questions
from tests.support.postgres import serve_postgres

psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
GOLD = load_questions()[::3]
REPORTS = """
create schema books;
create table books.reports (code text, "year" int, told date, "net profit of the whole group, as it was told" numeric, audited text);
insert into books.reports values
  ('AAPL', 2019, '2020-02-01', 55.25, 'yes'), ('AAPL', 2020, '2021-02-01', 57.41, 'yes'),
  ('AAPL', 2020, '2022-02-01', 57.5, 'no'), ('MSFT', 2019, '2020-03-01', 39.24, 'yes'), ('MSFT', 2020, null, 44.28, 'no');
create table books.words (code text, year int, profit text);
insert into books.words values ('AAPL', 2019, 'much');
"""
YAML = """version: 1
indicators:
  - {id: told_profit, name: told profit, unit: USD, kinds: [stock], frequency: annual}
  - {id: audited, name: audit, kinds: [stock], frequency: annual, text: true}
  - {id: margin, name: profit per price, unit: x, kinds: [stock], frequency: annual, formula: told_profit / close_adj}
tables:
  - id: reports
    database: house
    relation: books.reports
    entity: code
    period: year
    period_kind: year
    published: {column: told}
    columns: {"net profit of the whole group, as it was told": told_profit, audited: audited}
"""
BROKEN = """version: 1
indicators:
  - {id: told_profit, name: told profit, unit: USD, kinds: [stock], frequency: annual}
tables:
  - {id: words, database: house, relation: books.words, entity: code, period: year, period_kind: year, columns: {profit: told_profit}}
  - {id: nowhere, database: barn, relation: a.b, columns: {profit: told_profit}}
  - {id: absent, database: house, relation: books.gone, columns: {profit: told_profit}}
"""


@dataclass
class Pair:
    """Engines over the same tables, in files and in the database."""

    files: Engine
    database: Engine


@pytest.fixture(scope="module")
def url(tables_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_postgres() as found, psycopg.connect(found, autocommit=True) as connection:
        connection.execute("create schema market")
        for name in ("observations", "series"):
            copy_table(connection, tables_dir / f"{name}.parquet", f"market.{name}", tmp_path_factory.mktemp("csv"))
        connection.execute("create index on market.observations (indicator, entity, date)")
        connection.execute(REPORTS)
        yield found


def copy_table(connection: Any, path: Path, relation: str, folder: Path) -> None:
    """Copy a bundled table into the database, without the rates of exchange, which stay in the file."""
    chosen, text = f"select * from '{path}' where indicator <> 'eur_rate'", folder / "rows.csv"
    kinds = {"VARCHAR": "text", "DOUBLE": "float8", "DATE": "date", "BIGINT": "int8"}
    with duckdb.connect() as local:
        columns = local.execute(f"describe {chosen}").fetchall()
        local.execute(f"copy ({chosen}) to '{text}' (format csv, header false)")
    listed = ", ".join(f'"{name}" {kinds[kind]}' for name, kind, *_ in columns)
    connection.execute(f"create table {relation} ({listed})")
    statement = f"copy {relation} from stdin (format csv)"
    with text.open("rb") as rows, connection.cursor() as cursor, cursor.copy(statement) as copy:
        while piece := rows.read(1 << 20):
            copy.write(piece)


def load_from_database(*given: Any) -> Layer:
    """Load the layer with the bundled tables in the database, before those in files."""
    layer = load(*given)
    spec, root = layer.tables[0]
    there = {"database": "house", "path": "", "relation": "market.observations", "series": "market.series"}
    layer.tables.insert(0, (spec.model_copy(update={**there, "id": "market"}), root))
    return layer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tables_dir: Path, url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    folder = tmp_path_factory.mktemp("semantic")
    (folder / "reports.yaml").write_text(YAML, encoding="utf-8")
    settings: dict[str, Any] = {"data_dir": tables_dir, "embedding": "off"}
    files = Engine(Config(**settings))
    await files.start()
    house = {"databases": {"house": url}, "semantic": [SemanticFolder(folder=folder)]}
    database = Engine(Config(**settings, **house))  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "load", load_from_database)
        await database.start()
    yield Pair(files, database)
    await files.close()
    await database.close()


def assert_same(expected: Result, found: Result) -> None:
    assert [(item.subject, item.reason) for item in found.missing] == [
        (item.subject, item.reason) for item in expected.missing
    ]
    assert len(found.sheets) == len(expected.sheets)
    for one, other in zip(expected.sheets, found.sheets, strict=True):
        assert [(column.name, column.unit, column.nulls) for column in other.columns] == [
            (column.name, column.unit, column.nulls) for column in one.columns
        ]
        left, right = frames.read_table(one.arrow, "a"), frames.read_table(other.arrow, "b")
        assert right.schema.types == left.schema.types
        for name in left.column_names:
            for a, b in zip(left[name].to_pylist(), right[name].to_pylist(), strict=True):
                # Sums are taken in another order.
                same = (
                    math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
                    if isinstance(a, float) and b is not None
                    else a == b
                )
                assert same, (name, a, b)


@pytest.mark.parametrize("question", GOLD, ids=[question.id for question in GOLD])
async def test_a_gold_question_has_the_same_rows(pair: Pair, question: Question) -> None:
    assert_same(
        await pair.files.ask(question.ask, question.as_of), await pair.database.ask(question.ask, question.as_of)
    )


PRICES: dict[str, Any] = {"entities": ("AAPL", "MSFT"), "indicators": ("close_adj",)}
YEARS: dict[str, Any] = {"start": date(2015, 1, 1), "end": date(2020, 12, 31)}
TYPED = {
    "statistics": Query(**PRICES, **YEARS, statistics=tuple(s for s in Statistic if s != Statistic.COUNT)),
    "per month": Query(**PRICES, **YEARS, statistics=(Statistic.RETURN, Statistic.VOLATILITY), every=Frequency.MONTHLY),
    "worst month": Query(
        **PRICES, **YEARS, statistics=(Statistic.RETURN,), every=Frequency.MONTHLY, outer=Statistic.MIN, limit=3
    ),
    "counted days": Query(**PRICES, **YEARS, statistics=(Statistic.COUNT,), filters=(Filter("close_adj", ">", 100.0),)),
    "ratio": Query(**PRICES, **YEARS, combination=Combination.RATIO),
    "spread above": Query(**PRICES, **YEARS, combination=Combination.SPREAD, filters=(Filter("close_adj", ">", 50.0),)),
    "last rows": Query(**PRICES, **YEARS, tail=5),
    "with the row before": Query(("US",), ("unrate",), **YEARS, previous=True),
    "year over year": Query(("US",), ("cpiaucsl", "unrate"), **YEARS, transform=Transform.YOY),
    "over daily values": Query(**PRICES, **YEARS, transform=Transform.YOY),
    "by quarter": Query(("US",), ("cpiaucsl",), **YEARS, frequency=Frequency.QUARTERLY),
    "open": Query(("US",), ("unrate",)),
    "running": Query(("US",), ("running(unrate)",), **YEARS),
    "in another currency": Query(("AAPL",), ("close_adj",), **YEARS, currency="CNY"),
    "a rate and a price": Query(("USD",), ("eur_rate",), **YEARS),
    "ranked": Query(kind="stock", indicators=("close_adj",), **YEARS, order="close_adj", descending=True, limit=7),
    "listed periods": Query(
        **PRICES, periods=((date(2015, 1, 1), date(2015, 3, 31)), (date(2019, 1, 1), date(2019, 2, 28)))
    ),
}


@pytest.mark.parametrize("name", TYPED)
async def test_a_typed_query_has_the_same_rows(pair: Pair, name: str) -> None:
    for as_of in (None, date(2018, 6, 30)):
        expected = await pair.files.run(TYPED[name], as_of)
        assert expected.sheets
        assert_same(expected, await pair.database.run(TYPED[name], as_of))


async def list_profits(engine: Engine, as_of: date | None, **asked: Any) -> list[tuple[Any, ...]]:
    result = await engine.run(Query(("AAPL", "MSFT"), ("told_profit",), **asked), as_of)
    table = frames.read_table(result.sheets[0].arrow, "profits")
    return list(zip(*(column.to_pylist() for column in table.columns[1:]), strict=True))


async def test_a_wide_table_gives_the_version_of_the_day(pair: Pair) -> None:
    assert await list_profits(pair.database, None) == [(55.25, 39.24), (57.5, 44.28)]
    # Without a day of publication the usual delay holds; the correction of 2022 is not known yet.
    assert await list_profits(pair.database, date(2021, 6, 1)) == [(55.25, 39.24), (57.41, 44.28)]
    assert await list_profits(pair.database, date(2020, 2, 15)) == [(55.25, None)]


async def test_a_formula_over_a_database_and_a_file_is_computed_here(pair: Pair) -> None:
    """The file has the rates of exchange, the database the profits."""
    result = await pair.database.run(Query(("AAPL",), ("told_profit",), currency="EUR"), None)
    table = frames.read_table(result.sheets[0].arrow, "profits")
    rates = await pair.files.run(Query(("USD",), ("eur_rate",), date(2019, 12, 25), date(2019, 12, 31)), None)
    rate = frames.read_table(rates.sheets[0].arrow, "rates")["USD.eur_rate"].to_pylist()[-1]
    assert table["AAPL.told_profit"].to_pylist()[0] == pytest.approx(55.25 / rate)


async def test_texts_of_a_database_are_texts(pair: Pair) -> None:
    result = await pair.database.run(Query(("AAPL",), ("audited",)), None)
    assert frames.read_table(result.sheets[0].arrow, "t")["AAPL.audited"].to_pylist() == ["yes", "no"]


async def test_what_cannot_be_read_is_named_by_its_table(url: str, tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text(BROKEN, encoding="utf-8")
    layer = load([(tmp_path, tmp_path)])
    warehouse = Warehouse(layer, 2, {"house": elsewhere.Database("house", url, 1, 30.0)})
    warehouse.close()
    failed = {failure.source: failure.message for failure in layer.failures}
    assert "'profit' is no column of numbers" in failed["words"]
    assert "'barn' is not in datafetch.databases" in failed["nowhere"]
    assert "refused a statement" in failed["absent"]


async def test_more_rows_than_are_taken_are_refused(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "MOST_ROWS", 100)
    with pytest.raises(InvalidField, match="more than 100 rows of house"):
        await pair.database.run(Query(("AAPL",), ("close_adj",), date(2001, 1, 1), date(2010, 1, 1)), None)


async def test_the_session_cannot_write(url: str) -> None:
    connections = elsewhere.Database("house", url, 1, 30.0)._connections
    with pytest.raises(DependencyFailed, match="ReadOnlySqlTransaction"):
        connections.run(lambda connection: connection.execute("create table t (a int)"))
    connections.close()


async def test_a_server_that_is_away_is_named_and_its_address_is_not() -> None:
    database = elsewhere.Database("house", "postgresql://reader:secret@127.0.0.1:1/x", 1, 30.0)
    with pytest.raises(DependencyFailed, match="the database 'house'") as failure:
        database.run("select 1 as a", [])
    assert "secret" not in str(failure.value)


async def test_another_kind_of_database_is_refused_by_its_field() -> None:
    with pytest.raises(InvalidField, match=r"datafetch\.databases\.house"):
        elsewhere.Database("house", "mysql://reader@localhost/x", 1, 30.0)
