"""Questions and typed queries over the bundled tables: understood exactly, compiled to DuckDB, never guessed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from fathom.bundle.manifest import Manifest, verify
from fathom.errors import InvalidField
from services.datafetch.model import Frequency, Missing, Plan, Query, Result, Series, Sheet
from services.datafetch.periods import find_period
from services.datafetch.tables import Tables
from services.datafetch.vocabulary import EntitySpec, IndicatorSpec, Vocabulary

MAX_QUESTION_CHARS = 2_000


class Engine:
    """Ready after ``start``."""

    def __init__(self, data_dir: Path, max_columns: int) -> None:
        self._data_dir, self._max_columns = data_dir, max_columns
        self.manifest: Manifest
        self.vocabulary: Vocabulary
        self._tables: Tables
        self._series: dict[tuple[str, str], Series] = {}

    async def start(self) -> None:
        """Verifies and opens the data; raises ``CorruptData`` naming the file and the remedy."""
        self.manifest = await asyncio.to_thread(verify, self._data_dir)
        self._tables = await asyncio.to_thread(Tables, self._data_dir)
        series = await self._tables.series()
        self._series = {(item.entity, item.indicator): item for item in series}
        self.vocabulary = Vocabulary.load((item.indicator, item.name) for item in series if item.entity == "US")

    async def close(self) -> None:
        await asyncio.to_thread(self._tables.close)

    async def ask(self, question: str, as_of: date | None) -> Result:
        """Answers a question of 1 to 2,000 characters."""
        question = question.strip()
        if not 1 <= len(question) <= MAX_QUESTION_CHARS:
            raise InvalidField("question", f"must have 1 to {MAX_QUESTION_CHARS:,} characters")
        query, unknown = self.understand(question, as_of)
        missing = [self._unknown_entity(name) for name in unknown]
        result = await self.run(query, as_of)
        if not query.entities and not query.indicators and not missing:
            missing.append(Missing(question[:80], "NO_MATCH", "the question names nothing that has data here"))
        return replace(result, missing=(*missing, *result.missing))

    def understand(self, question: str, as_of: date | None) -> tuple[Query, list[str]]:
        """The typed query of a question, and names in it that stand for nothing here."""
        words = self.vocabulary
        entities = unique(mention.id for mention in words.entity_names.find(question))
        indicators = unique(mention.id for mention in words.indicator_names.find(question))
        if entities and not indicators:
            # A name alone asks for the one indicator that its kind has.
            kinds = {words.entities[entity].kind for entity in entities}
            indicators = unique(spec.id for spec in words.indicators.values() if kinds & set(spec.kinds) - {"economy"})
        period = find_period(question, as_of or self._latest(entities))
        query = Query(tuple(entities), tuple(indicators), period.start, period.end)
        return query, words.unknown_names(question)

    def _latest(self, entities: Sequence[str]) -> date:
        """Last day with data of the entities, or of all: "today" for relative periods."""
        days = [series.last for series in self._series.values() if series.entity in entities]
        return min(days) if days else max(series.last for series in self._series.values())

    async def run(self, query: Query, as_of: date | None) -> Result:
        """Runs a typed query; raises ``InvalidField`` for a start after the end or too many columns."""
        if query.start and query.end and query.start > query.end:
            raise InvalidField("typed.start_date", "is after end_date")
        end = min(filter(None, (query.end, as_of)), default=None)
        plan = self._plan(query, as_of)
        if len(plan.series) > self._max_columns:
            raise InvalidField("typed", f"asks for {len(plan.series)} columns; at most {self._max_columns} are allowed")
        groups: dict[str, list[Series]] = defaultdict(list)
        for series in plan.series:
            groups[query.frequency or series.frequency].append(series)
        bounded = replace(query, end=end)
        sheets = [await self._tables.sheet(group, bounded, self._title(group, bounded)) for group in groups.values()]
        found, missing = [], plan.missing
        for sheet, group in zip(sheets, groups.values(), strict=True):
            missing += no_data(sheet, group, bounded, as_of)
            if sheet.rows:
                found.append(sheet)
        return Result(tuple(found), tuple(missing), query, self.manifest.snapshot)

    def _plan(self, query: Query, as_of: date | None) -> Plan:
        """Every entity × indicator that exists, and the rest as missing."""
        plan, words = Plan(), self.vocabulary
        entities = [self._entity(name, plan) for name in query.entities]
        indicators = [self._indicator(name, plan) for name in query.indicators]
        known = [entity for entity in entities if entity is not None]
        for indicator in filter(None, indicators):
            # A macro indicator belongs to the economy, named or not.
            owners = [entity for entity in known if entity.kind in indicator.kinds]
            if "economy" in indicator.kinds:
                owners = [words.entities["US"]]
            if not owners:
                plan.missing.append(self._unmatched(indicator, known))
            plan.series += [s for owner in owners if (s := self._stored(owner, indicator, plan)) is not None]
        used = {series.entity for series in plan.series}
        for entity in known:
            if entity.id not in used and entity.kind != "economy" and any(indicators):
                plan.missing.append(self._no_series(entity, [item for item in indicators if item]))
        return plan

    def _entity(self, name: str, plan: Plan) -> EntitySpec | None:
        ident = self.vocabulary.entity_names.exact(name)
        if ident is None:
            plan.missing.append(self._unknown_entity(name))
            return None
        return self.vocabulary.entities[ident]

    def _indicator(self, name: str, plan: Plan) -> IndicatorSpec | None:
        words = self.vocabulary
        ident = name if name in words.indicators else words.indicator_names.exact(name)
        if ident is None:
            nearest = tuple(words.indicator_names.nearest(name))
            detail = f"no indicator is called {name!r}"
            plan.missing.append(Missing(name, "UNKNOWN_INDICATOR", detail, aspect=name, nearest=nearest))
            return None
        return words.indicators[ident]

    def _unknown_entity(self, name: str) -> Missing:
        nearest = tuple(self.vocabulary.entity_names.nearest(name))
        return Missing(name, "UNKNOWN_ENTITY", f"{name} is not in the bundled data", nearest=nearest)

    def _unmatched(self, indicator: IndicatorSpec, entities: Sequence[EntitySpec]) -> Missing:
        who = ", ".join(entity.name for entity in entities) or "no entity"
        return Missing(who, "NO_MATCH", f"{indicator.name} is not kept for {who}", aspect=indicator.id)

    def _no_series(self, entity: EntitySpec, indicators: Sequence[IndicatorSpec]) -> Missing:
        names = ", ".join(indicator.name for indicator in indicators)
        return Missing(entity.name, "NO_MATCH", f"{entity.name} has no {names}", aspect=names)

    def _stored(self, entity: EntitySpec, indicator: IndicatorSpec, plan: Plan) -> Series | None:
        series = self._series.get((entity.id, indicator.id))
        if series is None:
            detail = f"{indicator.name} of {entity.name} is not in the bundled data; its source may have been skipped"
            plan.missing.append(Missing(entity.name, "NO_DATA_IN_PERIOD", detail, aspect=indicator.id))
        return series

    def _title(self, group: Sequence[Series], query: Query) -> str:
        """What the sheet holds, for a person."""
        words = self.vocabulary
        names = ", ".join(unique(words.entities[series.entity].name for series in group))
        measures = ", ".join(unique(words.indicators[series.indicator].name for series in group))
        start, end = query.start or min(s.first for s in group), query.end or max(s.last for s in group)
        return f"{names}: {measures}, {query.frequency or group[0].frequency}, {start} to {end}"

    async def sql(self, statement: str, sheets: dict[str, bytes], rows: int, seconds: float) -> Sheet:
        """A read-only SELECT over sheets by their ids."""
        return await self._tables.sql(statement, sheets, rows, seconds)


def no_data(sheet: Sheet, group: Sequence[Series], query: Query, as_of: date | None) -> list[Missing]:
    """A missing item for each series without a value in the period, or cut off before its end."""
    missing = []
    period = f"{query.start or ''}..{query.end or ''}"
    for series in group:
        name = f"{series.entity}.{series.indicator}"
        column = next((column for column in sheet.columns if column.name == name), None)
        if column is None or not sheet.rows or column.nulls == sheet.rows:
            future = as_of is not None and (query.start or series.first) > as_of
            reason = "NOT_YET_PUBLISHED" if future else "NO_DATA_IN_PERIOD"
            detail = f"{name} has values from {series.first} to {series.last} only"
            missing.append(Missing(series.entity, reason, detail, aspect=series.indicator, period=period))
        elif query.end and query.end > series.last and query.end.year > series.last.year:
            detail = f"{name} ends on {series.last}"
            missing.append(
                Missing(series.entity, "NO_DATA_IN_PERIOD", detail, series.indicator, f"{series.last}..{query.end}")
            )
    return missing


def unique(items: object) -> list[str]:
    """In order, once each."""
    return list(dict.fromkeys(items))  # type: ignore[call-overload]


def frequency(text: str) -> Frequency:
    """Raises ``InvalidField`` for an unknown one."""
    try:
        return Frequency(text)
    except ValueError as error:
        raise InvalidField("typed.frequency", f"must be one of {', '.join(filter(None, Frequency))}") from error
