"""Place of a part's computation: in the database that has all its tables, or here, with the rows of others fetched."""

from __future__ import annotations

from datetime import date
from typing import Any

from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.query.model import Query
from fathom.services.datafetch.query.planner import Part
from fathom.services.datafetch.query.sql.compiler import Compiler, list_inputs
from fathom.services.datafetch.query.sql.source_rows import SourceRows, list_series_tables
from fathom.services.datafetch.warehouse.database import HERE, Placement, StoredIndicator, Warehouse


class PartComputer:
    """A runner of the parts of queries."""

    def __init__(self, layer: Layer, warehouse: Warehouse, seconds: float) -> None:
        self._layer, self._warehouse, self._seconds = layer, warehouse, seconds

    async def compute(self, part: Part, query: Query, as_of: date | None, layout: str) -> Any:
        """Return the Arrow table of a part in a layout; raises what ``Warehouse.fetch`` does."""
        stored = list_series_tables(part, list_inputs(part))
        homes = {one.table.database for one, _ in stored}
        if any(measure.conversion.target for measure in part.measures):
            # The rates of exchange are here.
            homes.add("")
        fetched: dict[int, str] = {}
        plan = HERE
        if len(homes) == 1:
            plan = Placement(next(iter(homes)))
        elif homes != {""}:
            source, rows = SourceRows(query, as_of), {}
            first = source.find_first_day(part, layout)
            for number, (one, entities) in enumerate(stored):
                if one.table.database:
                    fetched[id(one)] = f"fetched_{number}"
                    rows[fetched[id(one)]] = await self._fetch_rows(source, one, entities, first)
            plan = Placement(rows=rows)
        compiled = Compiler(self._layer, query, as_of, fetched).compile(part, layout, self._find_rates())
        return await self._warehouse.fetch(compiled.sql, compiled.parameters, self._seconds, plan)

    async def _fetch_rows(
        self, source: SourceRows, stored: StoredIndicator, entities: list[str], first: date | None
    ) -> Any:
        """Return the rows of an indicator from its database, chosen there by entity, period and publication."""
        parameters: list[Any] = []
        statement = source.compile_indicator(stored, entities, first, parameters)
        return await self._warehouse.fetch(statement, parameters, self._seconds, Placement(stored.table.database))

    def _find_rates(self) -> StoredIndicator | None:
        """Return the rates of exchange, of the tables that are here."""
        known = self._warehouse.stored.get("eur_rate", ())
        return next((one for one in known if not one.table.database), None)
