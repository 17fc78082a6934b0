"""Expected cells read again from the bundled parquet with plain DuckDB, by none of Fathom's own code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import duckdb

from tests.golden.datafetch.schema import Cell, Computed, Measure, Range

MONTHS = {Measure.YOY: 12, Measure.QOQ: 3, Measure.MOM: 1}
AGGREGATES = {Measure.MAX: "max", Measure.MIN: "min", Measure.MEAN: "avg", Measure.SUM: "sum"}
TRADING_DAYS = 252
RETURNS = """select stddev_samp(r) from (
  select date, value / lag(value) over (order by date) - 1 as r from observations where entity = ? and indicator = ?
) where date between ? and ?"""
DRAWDOWN = """select min(value / peak - 1) from (
  select value, max(value) over (order by date rows unbounded preceding) as peak
  from observations where entity = ? and indicator = ? and date between ? and ?
)"""


@dataclass(frozen=True)
class Point:
    """A stored value and its day."""

    day: date
    value: float


class Oracle:
    """The tables of a bundle."""

    def __init__(self, folder: Path) -> None:
        self._connection = duckdb.connect(":memory:")
        path = folder / "observations.parquet"
        self._connection.execute(f"create table observations as select * from read_parquet('{path}')")
        self._connection.execute(f"create table series as select * from read_parquet('{folder / 'series.parquet'}')")

    def close(self) -> None:
        self._connection.close()

    def unit(self, series: str) -> str:
        """The unit of a series as it is stored."""
        row = self._one("select unit from series where entity = ? and indicator = ?", series)
        return str(row)

    def names(self) -> dict[str, str]:
        """The stored name of each indicator, by its id."""
        rows = self._connection.execute("select indicator, any_value(name) from series group by indicator").fetchall()
        return dict(rows)

    def value(self, cell: Cell) -> float:
        """Return what a cell must hold; raises ``LookupError`` where a value that it needs is not stored."""
        if cell.measure in AGGREGATES:
            function = AGGREGATES[cell.measure]
            sql = f"select {function}(value) from observations where entity = ? and indicator = ? and date between ? and ?"
            return float(self._one(sql, cell.of, cell.start, cell.end))
        if cell.measure == Measure.VOLATILITY:
            return float(self._one(RETURNS, cell.of, cell.start, cell.end)) * math.sqrt(TRADING_DAYS) * 100
        if cell.measure == Measure.MAX_DRAWDOWN:
            return float(self._one(DRAWDOWN, cell.of, cell.start, cell.end)) * 100
        return self._of_day(cell) if cell.start is None else self._of_period(cell)

    def _of_day(self, cell: Cell) -> float:
        assert cell.day is not None
        value = self.read_value(cell.of, cell.day)
        if cell.measure in MONTHS:
            return (value / self.read_value(cell.of, self._earlier(cell.day, MONTHS[cell.measure])) - 1) * 100
        if cell.measure in (Measure.RATIO, Measure.CROSS):
            return value / self.read_value(cell.against, cell.day)
        if cell.measure == Measure.SPREAD:
            return value - self.read_value(cell.against, cell.day)
        if cell.measure == Measure.CONVERT:
            euros = value / self.read_value("USD.eur_rate", cell.day)
            return euros if cell.currency == "EUR" else euros * self.read_value(f"{cell.currency}.eur_rate", cell.day)
        return value

    def _of_period(self, cell: Cell) -> float:
        assert cell.start is not None
        assert cell.end is not None
        first, last = self._base(cell.of, cell.start), self.column(cell.of, cell.start, cell.end)[-1]
        if cell.measure == Measure.CHANGE:
            return last.value - first.value
        growth = last.value / first.value
        if cell.measure == Measure.CAGR:
            growth = growth ** (365.25 / (last.day - first.day).days)
        return (growth - 1) * 100

    def _base(self, series: str, start: date) -> Point:
        """Return the start that a period is measured from: the last value before a month, or the value of the day."""
        if start.day != 1:
            return Point(start, self.read_value(series, start))
        sql = "select date, value from observations where entity = ? and indicator = ? and date < ? order by 1 desc limit 1"
        row = self._connection.execute(sql, [*series.split("."), start]).fetchone()
        if row is None:
            raise LookupError(f"{series} has nothing before {start}")
        return Point(*row)

    def read_value(self, series: str, day: date) -> float:
        """Return the value of a day."""
        sql = "select value from observations where entity = ? and indicator = ? and date = ?"
        return float(self._one(sql, series, day))

    def column(self, series: str, start: date, end: date, every: str = "") -> list[Point]:
        """Every value of a period, or the last of each week, month, quarter or year."""
        bucket = f"date_trunc('{every}', date)" if every else "date"
        sql = (
            f"select max(date), arg_max(value, date) from observations where entity = ? and indicator = ?"
            f" and date between ? and ? group by {bucket} order by 1"
        )
        rows = self._connection.execute(sql, [*series.split("."), start, end]).fetchall()
        return [Point(*row) for row in rows]

    def range(self, wanted: Range) -> list[Point]:
        """The column of a range."""
        return self.column(wanted.of, wanted.start, wanted.end, wanted.every)

    def compute(self, wanted: Computed) -> list[tuple[date | None, float]]:
        """Return the column that a statement makes."""
        return [(day, float(value)) for day, value in self._connection.execute(wanted.sql).fetchall()]

    def days_of(self, cell: Cell) -> list[date]:
        """The days on which a maximum or minimum is reached."""
        points = self.column(cell.of, cell.start or date.min, cell.end or date.max)
        return [point.day for point in points if math.isclose(point.value, cell.value, rel_tol=1e-8)]

    def _earlier(self, day: date, months: int) -> date:
        """The last day of the month some months before."""
        sql = "select last_day(?::date - to_months(?))"
        row = self._connection.execute(sql, [day.replace(day=1), months]).fetchone()
        assert row is not None
        found: date = row[0]
        return found

    def _one(self, sql: str, series: str, *parameters: Any) -> Any:
        row = self._connection.execute(sql, [*series.split("."), *parameters]).fetchone()
        if row is None or row[0] is None:
            raise LookupError(f"{series} has no value for {', '.join(map(str, parameters))}")
        return row[0]
