"""SQL for the stored rows that a part reads, filtered by entity, period, publication date and vintage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Any

from fathom.domain.periods.period import shift_months
from fathom.services.datafetch.catalog.files import quote
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.model import Frequency, Query
from fathom.services.datafetch.query.planner import Part
from fathom.services.datafetch.query.sql.windows import MONTHS
from fathom.services.datafetch.warehouse.database import REGULAR, StoredIndicator

# Usual delays of publication in days, for sources without a date: statistics offices a month, reports two or three.
LAG_DAYS = {Frequency.MONTHLY: 30, Frequency.QUARTERLY: 60, Frequency.ANNUAL: 90}


class SourceRows:
    """A builder of the SELECT over the stored rows of one query."""

    def __init__(self, query: Query, as_of: date | None, fetched: Mapping[int, str] = MappingProxyType({})) -> None:
        """Store the query; ``fetched`` are relations with rows of other databases, by ``id`` of the indicator there."""
        self._query, self._as_of, self._fetched = query, as_of, fetched

    def find_first_day(self, part: Part, layout: str) -> date | None:
        """Return the first day to read: the query's start less the months that formulas and the layout look back.

        Return None for an open start.
        """
        if self._query.start is None:
            return None
        months = max(formulas.measure_lookback(m.node) for m in part.measures)
        # One period more, for the value before the start.
        if layout == "summary" or self._query.previous:
            months += MONTHS.get(part.frequency, 2)
        # A month more than the formulas look back: lags accept values some days before the exact date.
        return shift_months(self._query.start, months + 1) if months else self._query.start

    def compile(self, part: Part, inputs: Sequence[str], layout: str, parameters: list[Any]) -> str:
        selects = []
        for stored, entities in list_series_tables(part, inputs):
            fetched = self._fetched.get(id(stored))
            if fetched is not None:
                selects.append(f"select entity, indicator, date, number, text from {quote(fetched)}")
                continue
            selects.append(self.compile_indicator(stored, entities, self.find_first_day(part, layout), parameters))
        return " union all ".join(selects)

    def compile_indicator(
        self, stored: StoredIndicator, entities: list[str], start: date | None, parameters: list[Any]
    ) -> str:
        """Return SQL for the rows of one indicator in one table.

        They are limited to entities, period, publication date and vintage.
        """
        spec, table = stored.indicator, stored.table
        long = table.layout == "long"
        value = "value" if long else quote(spec.id)
        for sentinel in table.sentinels if not spec.text else ():
            value = f"nullif({value}, {float(sentinel)!r})"
        number, text = (
            # NaN is how files and data frames write a missing value. Databases that compare it at all take it for the
            # greatest number: it would lead every ranking.
            (f"nullif(try_cast({value} as double), 'NaN'::double)", "null::varchar")
            if not spec.text
            else ("null::double", f"{value}::varchar")
        )
        public = self._compile_publication(stored)
        parameters.append(spec.id)
        conditions = [f"entity in ({', '.join('?' for _ in entities)})"]
        bounds: list[Any] = [*entities]
        if long:
            conditions.append("indicator = ?")
            bounds.append(spec.id)
        for operator, day in ((">=", start), ("<=", self._query.end)):
            if day is not None:
                conditions.append(f"date {operator} ?")
                bounds.append(day)
        # The one place where the future is kept out: every stored row passes here.
        if self._as_of is not None:
            conditions.append(f"{public} <= ?")
            bounds.append(self._as_of)
        parameters += bounds
        latest = ""
        if stored.vintages:
            way = "desc" if self._query.vintage != "first" else "asc"
            # Of two rows published on one day the later one in the file is the newer version.
            ties = "" if long else f", n {way}"
            latest = (
                f" qualify row_number() over (partition by entity, date order by published {way} nulls last{ties}) = 1"
            )
        return (
            f"select entity, ? as indicator, date::date as date, {number} as number, {text} as text from"
            f" {stored.source} where {' and '.join(conditions)}{latest}"
        )

    def _compile_publication(self, stored: StoredIndicator) -> str:
        """Return SQL for the publication date of a row: its source's, else its date plus the usual lag."""
        table, days = stored.table, find_delay_days(stored)
        delayed = f"(date::date + {int(days)})" if days else "date::date"
        has = table.published is not None or table.layout == "wide"
        return f"coalesce(published, {delayed})" if has else delayed


def list_series_tables(part: Part, inputs: Sequence[str]) -> list[tuple[StoredIndicator, list[str]]]:
    """Return the stored indicators that inputs are read from, each with its entities."""
    found = []
    for ident in inputs:
        tables: dict[str, tuple[StoredIndicator, list[str]]] = {}
        for entity in part.entities:
            where = part.facts.get((entity.id, ident))
            if where is not None:
                tables.setdefault(where[0].table.id, (where[0], []))[1].append(entity.id)
        found += list(tables.values())
    return found


def find_delay_days(stored: StoredIndicator) -> int:
    """Return the usual days from a value's date to its publication, for sources without a date of publication."""
    spec, table = stored.indicator, stored.table
    density = next(iter(stored.members.values())).frequency
    # Prices are known on their day; the usual delays are those of statistics and reports.
    if density not in REGULAR and spec.lag_days is None:
        return table.lag_days
    return spec.lag_days if spec.lag_days is not None else table.lag_days or LAG_DAYS.get(density, 0)
