"""Provenance of SQL over sheets: units and sources that follow, and none that were invented."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fathom.domain import frames
from fathom.services.datafetch.query.model import Column, Sheet
from fathom.services.datafetch.query.sql.text import run_sql

TOTAL = "total return"
COLUMNS = {
    "sheet_1": [
        Column("date", "string"),
        Column("AAPL.close", "double", "USD", "close", "AAPL", "one", "2022-12-28", basis=TOTAL),
        Column("MSFT.close", "double", "USD", "close", "MSFT", "two", "2022-12-27", basis=TOTAL),
    ],
    # A table that a cell has shown: units without indicators.
    "sheet_3": [Column("date", "string"), Column("return", "double", "%"), Column("n", "int64")],
    "sheet_2": [Column("date", "string"), Column("US.gs10", "double", "%", "gs10", "US", "three", "2022-09-30")],
}
DAYS = ["2020-01-01", "2020-01-02"]
TABLES = {
    "sheet_1": pa.table({"date": DAYS, "AAPL.close": [1.0, 2.0], "MSFT.close": [3.0, 4.0]}),
    "sheet_2": pa.table({"date": DAYS, "US.gs10": [1.0, 2.0]}),
    "sheet_3": pa.table({"date": DAYS, "return": [1.0, 2.0], "n": [1, 2]}),
}


def run(sql: str) -> Sheet:
    return run_sql(sql, {name: frames.write_table(table) for name, table in TABLES.items()}, 100, 5.0, COLUMNS)


def last(sql: str) -> Column:
    return run(sql).columns[-1]


@pytest.mark.parametrize(
    ("sql", "unit", "indicator", "entity"),
    [
        ('select date, "AAPL.close" as a from sheet_1', "USD", "close", "AAPL"),
        ('select max("AAPL.close") from sheet_1', "USD", "close", "AAPL"),
        ('select lag("AAPL.close") over (order by date) from sheet_1', "USD", "close", "AAPL"),
        ('with w as (select avg("AAPL.close") as m from sheet_1) select m from w', "USD", "close", "AAPL"),
        ('select s.x from (select "US.gs10" as x from sheet_2) s', "%", "gs10", "US"),
        ("select b.* from sheet_1 a join sheet_2 b using (date)", "%", "gs10", "US"),
        ('select "return" as r from sheet_3', "%", "", ""),
        ('select max("return") from sheet_3', "%", "", ""),
        ("select max(n) from sheet_3", "", "", ""),
        ('select "AAPL.close" - "MSFT.close" from sheet_1', "USD", "", ""),
        ('select "AAPL.close" / "MSFT.close" from sheet_1', "", "", ""),
        ('select "AAPL.close" + "US.gs10" from sheet_1 join sheet_2 using (date)', "", "", ""),
        ('select stddev("AAPL.close") from sheet_1', "USD", "", "AAPL"),
        ('select "AAPL.close" from sheet_1 union all select "MSFT.close" from sheet_1', "USD", "close", ""),
    ],
)
def test_units_and_names_follow_where_they_can_be_derived(sql: str, unit: str, indicator: str, entity: str) -> None:
    column = last(sql)
    assert (column.unit, column.indicator, column.entity) == (unit, indicator, entity)


def test_a_copied_column_is_described_as_before_and_a_computed_one_by_its_statement() -> None:
    sql = 'select "AAPL.close", "AAPL.close" - "MSFT.close" as gap from sheet_1'
    copied, computed = run(sql).columns
    assert (copied.formula, copied.source, copied.basis) == ("", "one", TOTAL)
    assert (computed.formula, computed.source, computed.as_of, computed.basis) == (sql, "one, two", "2022-12-27", "")


def test_a_count_has_no_source() -> None:
    assert last("select count(*) from sheet_1").source == ""


def test_what_cannot_be_followed_has_all_sources_and_no_unit() -> None:
    column = last('pivot sheet_1 on date using sum("AAPL.close")')
    assert (column.unit, column.source) == ("", "one, two, three")


def test_a_sheet_without_description_gives_bare_columns() -> None:
    sheet = run_sql("select * from t", {"t": frames.write_table(TABLES["sheet_2"])}, 10, 5.0)
    assert [(column.name, column.unit, column.source) for column in sheet.columns] == [
        ("date", "", ""),
        ("US.gs10", "", ""),
    ]
