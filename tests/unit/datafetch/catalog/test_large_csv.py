"""A CSV too large for memory is scanned: the same rows as of a small one, and none of them held."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from fathom.services.datafetch.catalog import files
from fathom.services.datafetch.catalog.layer import load
from fathom.services.datafetch.query.model import Query
from fathom.services.datafetch.query.placing import PartComputer
from fathom.services.datafetch.query.planner import Planner
from fathom.services.datafetch.warehouse.database import Warehouse

YAML = """version: 1
entities: [{id: A, name: Alpha, kind: stock}, {id: B, name: Beta, kind: stock}]
indicators:
  - {id: sales, name: sales, unit: USD, kinds: [stock], frequency: annual}
  - {id: visits, name: visits, unit: '', kinds: [stock], frequency: daily}
tables:
  - {id: reports, path: reports.csv, entity: who, period: year, period_kind: year, columns: {sold: sales}, published: {column: told}}
  - {id: visits, path: visits.csv, layout: long, frequency: daily}
"""
# The second row of 2020 corrects the first one.
REPORTS = "who,year,told,sold\nB,2020,2021-02-01,7.5\nA,2019,2020-02-01,1\nA,2020,2021-02-01,2\nA,2020,2022-02-01,3\n"
VISITS = "entity,indicator,date,value\nA,visits,2020-01-01,10\nA,visits,2020-01-02,12\nB,visits,2020-01-01,8\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("tables.yaml", YAML), ("reports.csv", REPORTS), ("visits.csv", VISITS)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


async def list_rows(folder: Path, names: Sequence[str], as_of: date | None = None) -> tuple[list[Any], list[str]]:
    """Return the rows of each name for both entities, and the tables that are in memory."""
    layer = load([(folder, folder)])
    warehouse = Warehouse(layer)
    layer.index_names()
    planner, computer = Planner(layer, warehouse), PartComputer(layer, warehouse, 30.0)
    found = []
    for name in names:
        query = Query(("A", "B"), (name,))
        for part in planner.plan(query).parts:
            found.append((await computer.compute(part, query, as_of, "wide")).to_pydict())
    held = warehouse.connection.execute("select table_name from duckdb_tables()").fetchall()
    warehouse.close()
    assert not layer.failures
    return found, [name for (name,) in held]


@pytest.mark.parametrize("as_of", [None, date(2021, 6, 1)])
async def test_a_large_csv_gives_the_rows_of_a_small_one_and_is_not_held(
    folder: Path, monkeypatch: pytest.MonkeyPatch, as_of: date | None
) -> None:
    small, held = await list_rows(folder, ["sales", "visits"], as_of)
    assert held
    monkeypatch.setattr(files, "LARGE_BYTES", 1)
    large, held = await list_rows(folder, ["sales", "visits"], as_of)
    assert large == small
    assert large[0]["A.sales"] == ([1, 3] if as_of is None else [1, 2])
    assert not held


def test_the_copies_are_deleted_at_the_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGE_BYTES", 1)
    warehouse = Warehouse(load([(folder, folder)]))
    place = warehouse._scratch
    assert list(place.glob("*.parquet"))
    warehouse.close()
    assert not place.exists()


def test_a_broken_row_of_a_large_csv_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGE_BYTES", 1)
    (folder / "visits.csv").write_text(VISITS * 500 + "A,visits,2020-01-01,8,9\n", encoding="utf-8")
    layer = load([(folder, folder)])
    Warehouse(layer).close()
    assert [failure.source for failure in layer.failures] == ["visits"]
    assert "visits.csv" in layer.failures[0].message


def test_files_beside_a_warehouse_go_with_it_closed_or_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    warehouse = Warehouse(load([(folder, folder)]))
    assert len(list(tmp_path.glob("fathom-tables-*"))) == 1
    del warehouse
    gc.collect()
    assert not list(tmp_path.glob("fathom-tables-*"))
