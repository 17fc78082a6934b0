"""SQL for the stored rows that a part reads, filtered by entity, period, publication date and vintage."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from services.datafetch import formulas
from services.datafetch.levels import MONTHS
from services.datafetch.model import Frequency, Query
from services.datafetch.periods import back
from services.datafetch.plan import Part
from services.datafetch.semantic.files import quoted
from services.datafetch.warehouse import REGULAR, Stored

LAG_DAYS = {Frequency.MONTHLY: 30, Frequency.QUARTERLY: 60, Frequency.ANNUAL: 90}


class Observed:
    """A builder of the SELECT over the stored rows of one query."""

    def __init__(self, query: Query, as_of: date | None) -> None:
        self._query, self._as_of = query, as_of

    def start(self, part: Part, layout: str) -> date | None:
        """Return the first day to read: the query's start less the months that formulas and the layout look back.

        Return None for an open start.
        """
        if self._query.start is None:
            return None
        months = max(formulas.lookback(m.node) for m in part.measures)
        if layout == "summary":
            months += MONTHS.get(part.frequency, 2)
        return back(self._query.start, months + 1) if months else self._query.start

    def obs(self, part: Part, inputs: Sequence[str], layout: str, parameters: list[Any]) -> str:
        selects = []
        for ident in inputs:
            tables: dict[str, tuple[Stored, list[str]]] = {}
            for entity in part.entities:
                where = part.facts.get((entity.id, ident))
                if where is not None:
                    tables.setdefault(where[0].table.id, (where[0], []))[1].append(entity.id)
            for stored, entities in tables.values():
                selects.append(self._leaf(stored, entities, self.start(part, layout), parameters))
        return " union all ".join(selects)

    def _leaf(self, stored: Stored, entities: list[str], start: date | None, parameters: list[Any]) -> str:
        """Return SQL for the rows of one indicator in one table.

        They are limited to entities, period, publication date and vintage.
        """
        spec, table = stored.indicator, stored.table
        long = table.layout == "long"
        value = "value" if long else quoted(spec.id)
        for sentinel in table.sentinels if not spec.text else ():
            value = f"nullif({value}, {float(sentinel)!r})"
        number, text = (
            (f"try_cast({value} as double)", "null::varchar")
            if not spec.text
            else ("null::double", f"{value}::varchar")
        )
        public = self._published(stored)
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
        if self._as_of is not None:
            conditions.append(f"{public} <= ?")
            bounds.append(self._as_of)
        parameters += bounds
        latest = ""
        if stored.vintages:
            way = "desc" if self._query.vintage != "first" else "asc"
            ties = "" if long else f", n {way}"
            latest = (
                f" qualify row_number() over (partition by entity, date order by published {way} nulls last{ties}) = 1"
            )
        return (
            f"select entity, ? as indicator, date::date as date, {number} as number, {text} as text from"
            f" {quoted(stored.relation)} where {' and '.join(conditions)}{latest}"
        )

    def _published(self, stored: Stored) -> str:
        """Return SQL for the publication date of a row: its source's, else its date plus the usual lag."""
        spec, table = stored.indicator, stored.table
        density = next(iter(stored.members.values())).frequency
        days = spec.lag_days if spec.lag_days is not None else table.lag_days or LAG_DAYS.get(density, 0)
        if density not in REGULAR and spec.lag_days is None:
            days = table.lag_days
        delayed = f"(date::date + {int(days)})" if days else "date::date"
        has = table.published is not None or table.layout == "wide"
        return f"coalesce(published, {delayed})" if has else delayed
