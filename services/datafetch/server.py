"""Datafetch's RPCs: proto ⇄ engine, no logic."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from datetime import date

from fathom import frames
from fathom.api.common.v1.common_pb2 import MissingItem
from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.call import Call
from fathom.errors import InvalidField, NotFound
from fathom.ids import checked_id
from fathom.rpc.service import Deps, Service
from fathom.store import ObjectStore
from fathom.store.refs import read_ref, to_ref
from services.datafetch.config import Config
from services.datafetch.engine import Engine
from services.datafetch.frameworks.rpc import FrameworkLibrary
from services.datafetch.model import Frequency, Missing, Query, Sheet
from services.datafetch.tables import described, make_sheet
from services.datafetch.vocabulary import EntitySpec, IndicatorSpec

CHUNK_BYTES = 256 * 1024
MAX_MENTIONS = 256
FREQUENCIES = {f"FREQUENCY_{item.name}" if item else "FREQUENCY_UNSPECIFIED": item for item in Frequency}
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def build(config: Config, deps: Deps) -> Service:
    """Datafetch; the only constructor."""
    engine = Engine(config.data_dir, config.max_columns)
    frameworks = FrameworkLibrary(config.frameworks_dir)

    async def start() -> None:
        await engine.start()
        await frameworks.start()

    return Service("datafetch", DatafetchServicer(engine, frameworks, deps.store, config), start, engine.close)


class DatafetchServicer:
    """Answers datafetch's RPCs. Sheets are objects in the store, so that any replica can serve them."""

    def __init__(self, engine: Engine, frameworks: FrameworkLibrary, store: ObjectStore, config: Config) -> None:
        self._engine, self._frameworks, self._store, self._config = engine, frameworks, store, config

    async def Query(self, request: pb.QueryRequest, call: Call) -> pb.QueryResponse:
        if request.snapshot not in ("", self._engine.manifest.snapshot):
            raise NotFound("snapshot", request.snapshot, [self._engine.manifest.snapshot])
        as_of = request.as_of.ToDatetime().date() if request.HasField("as_of") else None
        kind = request.WhichOneof("query")
        if kind == "question":
            result = await self._engine.ask(request.question, as_of)
        elif kind == "typed":
            result = await self._engine.run(query_from_proto(request.typed), as_of)
        else:
            raise InvalidField("query", "give a question or a typed query")
        return pb.QueryResponse(
            sheets=[await self._keep(sheet) for sheet in result.sheets],
            missing=[missing_to_proto(item) for item in result.missing],
            understood=query_to_proto(result.understood),
            snapshot=result.snapshot,
        )

    async def _keep(self, sheet: Sheet) -> pb.Sheet:
        """Puts the sheet's data and description into the store."""
        stored = await self._store.put(f"tables/{sheet.id}.arrow", sheet.arrow, frames.ARROW_STREAM)
        message = sheet_to_proto(sheet)
        message.data.CopyFrom(to_ref(stored))
        await self._store.put(f"tables/{sheet.id}.pb", message.SerializeToString(), "application/x-protobuf")
        return message

    async def _arrow(self, sheet_id: str) -> bytes:
        try:
            return await self._store.get(f"tables/{checked_id('sheet_id', sheet_id)}.arrow")
        except NotFound:
            raise NotFound("sheet", sheet_id) from None

    async def GetTable(self, request: pb.GetTableRequest, call: Call) -> AsyncIterator[pb.GetTableResponse]:
        arrow = await self._arrow(request.sheet_id)
        for start in range(0, len(arrow), CHUNK_BYTES):
            yield pb.GetTableResponse(chunk=arrow[start : start + CHUNK_BYTES])

    async def RunSql(self, request: pb.RunSqlRequest, call: Call) -> pb.RunSqlResponse:
        if request.row_limit < 0:
            raise InvalidField("row_limit", "must not be negative")
        sheets = {sheet_id: await self._arrow(sheet_id) for sheet_id in request.sheet_ids}
        rows = min(request.row_limit or self._config.sql_rows, self._config.sql_rows)
        sheet = await self._engine.sql(request.sql, sheets, rows, self._config.sql_seconds)
        return pb.RunSqlResponse(sheet=await self._keep(sheet))

    async def ExportTable(self, request: pb.ExportTableRequest, call: Call) -> pb.ExportTableResponse:
        arrow = await self._arrow(request.sheet_id)
        xlsx = request.format == pb.EXPORT_FORMAT_XLSX
        data = await asyncio.to_thread(as_xlsx if xlsx else as_csv, arrow)
        key = f"exports/{request.sheet_id}.{'xlsx' if xlsx else 'csv'}"
        stored = await self._store.put(key, data, XLSX if xlsx else "text/csv; charset=utf-8")
        return pb.ExportTableResponse(file=to_ref(stored))

    async def ImportTable(self, request: pb.ImportTableRequest, call: Call) -> pb.ImportTableResponse:
        table = await asyncio.to_thread(frames.read_table, await read_ref(self._store, request.data), "data")
        columns = [described(table, name, None) for name in table.column_names]
        sheet = await asyncio.to_thread(make_sheet, table, request.title or "imported table", columns)
        return pb.ImportTableResponse(sheet=await self._keep(sheet))

    async def ResolveEntities(self, request: pb.ResolveEntitiesRequest, call: Call) -> pb.ResolveEntitiesResponse:
        words, response = self._engine.vocabulary, pb.ResolveEntitiesResponse()
        for mention in mentions(request.mentions):
            ident = words.entity_names.exact(mention)
            idents = (
                [ident] if ident else [words.entity_names.exact(near) for near in words.entity_names.nearest(mention)]
            )
            found = [entity_to_proto(words.entities[item]) for item in dict.fromkeys(idents) if item]
            response.results.add(entities=found, exact=ident is not None)
        return response

    async def MatchIndicators(self, request: pb.MatchIndicatorsRequest, call: Call) -> pb.MatchIndicatorsResponse:
        words, response = self._engine.vocabulary, pb.MatchIndicatorsResponse()
        for mention in mentions(request.mentions):
            names = words.indicator_names
            ident = mention if mention in words.indicators else names.exact(mention)
            idents = [ident] if ident else [names.exact(near) for near in names.nearest(mention)]
            found = [indicator_to_proto(words.indicators[item]) for item in dict.fromkeys(idents) if item]
            response.results.add(indicators=found, exact=ident is not None)
        return response

    async def ListSources(self, request: pb.ListSourcesRequest, call: Call) -> pb.ListSourcesResponse:
        sources = self._engine.manifest.sources
        return pb.ListSourcesResponse(
            sources=[
                pb.Source(
                    id=source.id,
                    package=source.package,
                    version=source.version,
                    licence=source.licence,
                    sha256=source.sha256,
                    as_of=source.as_of,
                    description=source.description if not source.skipped else f"SKIPPED: {source.skipped}",
                )
                for source in sources
            ]
        )

    async def ListFrameworks(self, request: pb.ListFrameworksRequest, call: Call) -> pb.ListFrameworksResponse:
        return self._frameworks.list(request)


def mentions(values: Sequence[str]) -> Sequence[str]:
    if not 1 <= len(values) <= MAX_MENTIONS:
        raise InvalidField("mentions", f"must be 1 to {MAX_MENTIONS}")
    return values


def day(text: str, field: str) -> date | None:
    """An ISO date; None for ""."""
    try:
        return date.fromisoformat(text) if text else None
    except ValueError as error:
        raise InvalidField(field, f"{text!r} is no ISO date") from error


def query_from_proto(typed: pb.TypedQuery) -> Query:
    if not typed.entities and not typed.indicators:
        raise InvalidField("typed", "name at least one entity or indicator")
    if typed.limit < 0:
        raise InvalidField("typed.limit", "must not be negative")
    return Query(
        tuple(typed.entities),
        tuple(typed.indicators) or ("close_adj",),
        day(typed.start_date, "typed.start_date"),
        day(typed.end_date, "typed.end_date"),
        FREQUENCIES[pb.Frequency.Name(typed.frequency)],
        typed.limit,
    )


def query_to_proto(query: Query) -> pb.TypedQuery:
    names = {item: name for name, item in FREQUENCIES.items()}
    return pb.TypedQuery(
        entities=query.entities,
        indicators=query.indicators,
        start_date=query.start.isoformat() if query.start else "",
        end_date=query.end.isoformat() if query.end else "",
        frequency=names[query.frequency],
        limit=query.limit,
    )


def missing_to_proto(item: Missing) -> MissingItem:
    return MissingItem(
        subject=item.subject,
        aspect=item.aspect,
        period=item.period,
        reason=f"MISSING_REASON_{item.reason}",
        nearest=item.nearest,
        detail=item.detail,
    )


def sheet_to_proto(sheet: Sheet) -> pb.Sheet:
    columns = [
        pb.Column(
            name=column.name,
            type=column.type,
            unit=column.unit,
            indicator=column.indicator,
            entity=column.entity,
            source=column.source,
            nulls=column.nulls,
            as_of=column.as_of,
        )
        for column in sheet.columns
    ]
    return pb.Sheet(id=sheet.id, title=sheet.title, columns=columns, rows=sheet.rows, digest=sheet.digest)


def entity_to_proto(spec: EntitySpec) -> pb.Entity:
    return pb.Entity(id=spec.id, name=spec.name, name_zh=spec.name_zh, kind=spec.kind, aliases=spec.aliases)


def indicator_to_proto(spec: IndicatorSpec) -> pb.Indicator:
    return pb.Indicator(
        id=spec.id,
        name=spec.name,
        name_zh=spec.name_zh,
        unit=spec.unit,
        frequency=f"FREQUENCY_{spec.frequency.upper()}",
        synonyms=spec.synonyms,
    )


def as_csv(arrow: bytes) -> bytes:
    """UTF-8 with byte-order mark, so that spreadsheet programs read it rightly."""
    return frames.from_arrow(arrow).to_csv(index=False).encode("utf-8-sig")


def as_xlsx(arrow: bytes) -> bytes:
    """An Office Open XML workbook with one sheet."""
    buffer = io.BytesIO()
    frames.from_arrow(arrow).to_excel(buffer, index=False, sheet_name="data")
    return buffer.getvalue()
