"""The RPC servicer of datafetch: conversion between messages and the engine, without logic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.cache import observe_cache
from fathom.core.call import DEFAULT_TENANT, Call, calling
from fathom.core.errors import InvalidField, NotFound
from fathom.core.ids import checked_id
from fathom.domain import frames
from fathom.domain.decoding import Decoder, DecodingLimits
from fathom.hosting.deps import Deps
from fathom.services.datafetch.catalog.frameworks.rpc import check_framework, get_framework_file, list_frameworks
from fathom.services.datafetch.catalog.naming import find_catalog_ids
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.convert import (
    column_from_proto,
    entity_to_proto,
    indicator_to_proto,
    match_to_proto,
    mention_to_proto,
    missing_to_proto,
    program_to_proto,
    query_from_proto,
    query_to_proto,
    sheet_to_proto,
)
from fathom.services.datafetch.discovery.association import Association
from fathom.services.datafetch.discovery.connectors import list_connectors
from fathom.services.datafetch.discovery.probing import probe_connector
from fathom.services.datafetch.discovery.rpc import search_catalog
from fathom.services.datafetch.encoding import TextEncoder
from fathom.services.datafetch.engine import MAX_QUESTION_CHARS, Engine
from fathom.services.datafetch.lifetimes import make_lifetimes
from fathom.services.datafetch.parser.mention import Mention
from fathom.services.datafetch.policy_model import PolicyModel
from fathom.services.datafetch.programs.own import OwnMeaning, OwnSeries, list_own_series
from fathom.services.datafetch.programs.reader import ProgramReading
from fathom.services.datafetch.programs.rows.reading import is_better
from fathom.services.datafetch.programs.rows.table import is_of_rows, make_row_table
from fathom.services.datafetch.programs.wording.unused import find_unused
from fathom.services.datafetch.query.export import XLSX, as_arrow, as_csv, as_parquet, as_xlsx
from fathom.services.datafetch.query.free_sql import SqlFallback
from fathom.services.datafetch.query.model import Column, Sheet
from fathom.services.datafetch.semantics.applying import apply_meaning
from fathom.services.datafetch.semantics.proposing import list_units, propose_meaning
from fathom.services.datafetch.semantics.rpc import list_own_meanings, meaning_from_proto, meaning_to_proto
from fathom.services.datafetch.sources import connect
from fathom.services.datafetch.sources.base import RowIssue
from fathom.services.datafetch.sources.gap_filler import GapFiller
from fathom.services.datafetch.sources.sheet import MOST_FURTHER, RefusedWorksheet, import_tables
from fathom.transport.bus.quotas import Quotas
from fathom.transport.rpc.service import Service
from fathom.transport.store import ObjectStore
from fathom.transport.store.refs import read_ref, to_ref
from fathom.transport.store.startup import wait_for_store
from fathom.transport.store.tenant import TenantStore, list_tenants

# Far below gRPC's limit of a message (4 MiB), and large enough that its overhead does not count.
CHUNK_BYTES = 256 * 1024
MAX_MENTIONS = 256
# Earlier questions that a follow-up may lean on.
MAX_EARLIER = 3
# The longest example of a program has 700.
MAX_PROGRAM_CHARS = 2_000
# Each is loaded whole into memory for the statement.
MAX_SQL_SHEETS = 16
# Sheets whose columns a program may name, and up to which decoded size: their dates are read for each new question.
MAX_SHEETS, MAX_OWN_BYTES = 16, 64 << 20
# A file has 64 MiB at most, an Arrow table as much as this.
MAX_IMPORT_BYTES = 256 << 20
# A file of 64 MiB is many times larger as cells, and as large again as the table that is written of it.
IMPORT_LIMITS = DecodingLimits(memory_bytes=2 << 30, processor_s=60)


def build(config: Config, deps: Deps) -> Service:
    """Build the datafetch service; this is its only constructor."""
    asks, writes = config.association, config.sql_model
    associate = Association(PolicyModel(deps.clients, asks, config.association_seconds)) if asks else None
    coder = PolicyModel(deps.clients, writes, config.sql_model_seconds) if writes else None
    engine = Engine(config, associate, SqlFallback(coder, writes) if coder else None)
    quotas = Quotas(deps.bus, deps.telemetry.log, deps.quotas)
    vendors = connect(config.connectors, quotas) if config.connectors.enabled else None
    outside = GapFiller(vendors, config.connectors, engine.is_us_company)

    servicer = DatafetchServicer(engine, TenantStore(deps.store), config, outside)

    async def close() -> None:
        servicer.close()
        # The vendors first: their calls ask the engine which companies are listed.
        await outside.close()
        await quotas.close()
        await engine.close()

    async def start() -> None:
        await wait_for_store(deps.store, deps.telemetry.log)
        await engine.start()
        await engine.warm_up()
        quotas.start()
        for tenant in (DEFAULT_TENANT, *await list_tenants(deps.store)):
            with calling(Call.new(tenant=tenant)):
                await servicer.sweep()

    return Service("datafetch", servicer, start, close)


def find_last_whole_day(moment: datetime) -> date:
    """Return the last complete day at a moment; from its last second on, a day counts as complete."""
    return (moment + timedelta(seconds=1)).date() - timedelta(days=1)


def read_as_of(request: pb.QueryRequest | pb.ReadQuestionRequest | pb.SearchCatalogRequest) -> date | None:
    """Return the last day that a request may know, or None for all."""
    return find_last_whole_day(request.as_of.ToDatetime()) if request.HasField("as_of") else None


class DatafetchServicer:
    """Servicer of datafetch's RPCs; sheets live in the object store, so that any replica can serve them."""

    def __init__(
        self,
        engine: Engine,
        store: ObjectStore,
        config: Config,
        outside: GapFiller | None = None,
    ) -> None:
        self._engine, self._store, self._config = engine, store, config
        self._outside = outside or GapFiller(None, config.connectors)
        self._texts = TextEncoder(config, engine.encoders)
        self._lifetimes = make_lifetimes(store, config.max_imported_bytes)
        self._decoder = Decoder(IMPORT_LIMITS)

    def close(self) -> None:
        """End the processes that read imported files."""
        self._decoder.close()

    async def sweep(self) -> None:
        """Delete the imported sheets whose lifetime is over."""
        await self._lifetimes.sweep()

    async def Query(self, request: pb.QueryRequest, call: Call) -> pb.QueryResponse:
        # A caller that pins a snapshot gets its data or an error, never those of another one.
        if request.snapshot not in ("", self._engine.snapshot):
            raise NotFound("snapshot", request.snapshot, [self._engine.snapshot])
        as_of = read_as_of(request)
        kind = request.WhichOneof("query")
        with observe_cache() as use:
            if kind == "question":
                result = await self._engine.ask(request.question, as_of)
            elif kind == "typed":
                result = await self._engine.run_with_defaults(query_from_proto(request.typed), as_of)
            else:
                raise InvalidField("query", "give a question or a typed query")
            result = await self._outside.fill(result, as_of, call.deadline, frozenset(request.vendors_off))
        return pb.QueryResponse(
            sheets=[await self._store_sheet(sheet) for sheet in result.sheets],
            missing=[missing_to_proto(item) for item in result.missing],
            understood=query_to_proto(result.understood),
            snapshot=result.snapshot,
            matches=[match_to_proto(item) for item in result.matches],
            is_cached=use.is_cached,
        )

    async def _store_sheet(self, sheet: Sheet) -> pb.Sheet:
        """Write the sheet's data and description to the store and return the sheet's message."""
        kept = await asyncio.to_thread(as_parquet, sheet.arrow)
        stored = await self._store.put(f"tables/{sheet.id}.parquet", kept, frames.PARQUET)
        message = sheet_to_proto(sheet)
        message.data.CopyFrom(to_ref(stored))
        # The description last: whoever finds it finds the data too.
        await self._store.put(f"tables/{sheet.id}.pb", message.SerializeToString(), "application/x-protobuf")
        return message

    async def _load_arrow(self, sheet_id: str) -> bytes:
        """Return a sheet as an Arrow stream; raises ``NotFound``.

        Sheets stored by older versions are Arrow streams, newer ones are parquet.
        """
        key = f"tables/{checked_id('sheet_id', sheet_id)}"
        try:
            return await asyncio.to_thread(as_arrow, await self._store.get(f"{key}.parquet"), sheet_id)
        except NotFound:
            pass
        try:
            return await self._store.get(f"{key}.arrow")
        except NotFound:
            raise NotFound("sheet", sheet_id) from None

    async def _load_sheet(self, sheet_id: str) -> pb.Sheet:
        """Return the description of a sheet; raises ``NotFound``."""
        try:
            return pb.Sheet.FromString(await self._store.get(f"tables/{checked_id('sheet_id', sheet_id)}.pb"))
        except NotFound:
            raise NotFound("sheet", sheet_id) from None

    async def _load_columns(self, sheet_id: str) -> list[Column]:
        """Return the description of a sheet's columns; [] for a sheet without one, as older versions stored."""
        try:
            message = await self._load_sheet(sheet_id)
        except NotFound:
            return []
        return [column_from_proto(column) for column in message.columns]

    async def GetTable(self, request: pb.GetTableRequest, call: Call) -> AsyncIterator[pb.GetTableResponse]:
        arrow = await self._load_arrow(request.sheet_id)
        for start in range(0, len(arrow), CHUNK_BYTES):
            yield pb.GetTableResponse(chunk=arrow[start : start + CHUNK_BYTES])

    async def GetSheet(self, request: pb.GetSheetRequest, call: Call) -> pb.GetSheetResponse:
        return pb.GetSheetResponse(sheet=await self._load_sheet(request.sheet_id))

    async def RunSql(self, request: pb.RunSqlRequest, call: Call) -> pb.RunSqlResponse:
        if request.row_limit < 0:
            raise InvalidField("row_limit", "must not be negative")
        names = {**{sheet_id: sheet_id for sheet_id in request.sheet_ids}, **request.tables}
        if len(names) > MAX_SQL_SHEETS:
            raise InvalidField("tables", f"must be at most {MAX_SQL_SHEETS} with sheet_ids")
        sheets = {name: await self._load_arrow(sheet_id) for name, sheet_id in sorted(names.items())}
        columns = {
            name: list(map(column_from_proto, request.columns[name].columns))
            if name in request.columns
            else await self._load_columns(sheet_id)
            for name, sheet_id in sorted(names.items())
        }
        # A caller may lower the limit of the service, not raise it.
        rows = min(request.row_limit or self._config.sql_rows, self._config.sql_rows)
        sheet = await self._engine.run_sql(request.sql, sheets, rows, self._config.sql_seconds, columns)
        return pb.RunSqlResponse(sheet=await self._store_sheet(sheet))

    async def ExportTable(self, request: pb.ExportTableRequest, call: Call) -> pb.ExportTableResponse:
        arrow = await self._load_arrow(request.sheet_id)
        xlsx = request.format == pb.EXPORT_FORMAT_XLSX
        columns = await self._load_columns(request.sheet_id) if xlsx else []
        has_parentheses = request.negatives == pb.NEGATIVE_STYLE_PARENTHESES
        write = partial(as_xlsx, arrow, columns) if xlsx else partial(as_csv, arrow)
        data = await asyncio.to_thread(write, has_parentheses=has_parentheses)
        # Both forms may be asked for at once.
        style = ".parentheses" if has_parentheses else ""
        key = f"exports/{request.sheet_id}{style}.{'xlsx' if xlsx else 'csv'}"
        stored = await self._store.put(key, data, XLSX if xlsx else "text/csv; charset=utf-8")
        return pb.ExportTableResponse(file=to_ref(stored))

    async def ImportTable(self, request: pb.ImportTableRequest, call: Call) -> pb.ImportTableResponse:
        if request.lifetime_s < 0:
            raise InvalidField("lifetime_s", "must not be negative")
        if request.lifetime_s:
            await self._lifetimes.admit(request.data.size_bytes)
        check_further(request)
        data = await read_ref(self._store, request.data, MAX_IMPORT_BYTES)
        kind, title, more = request.data.content_type, request.title, request.further_worksheets
        found, further = await self._decoder.run("data", import_tables, data, kind, title, request.worksheet, more)
        response = pb.ImportTableResponse(
            sheet=await self._keep_imported(found.sheet, len(data), request.lifetime_s),
            issues=list(map(issue_to_proto, found.issues)),
            worksheets=found.worksheets,
        )
        for one in further:
            if isinstance(one, RefusedWorksheet):
                response.further.add(worksheet=one.worksheet, reason=one.reason)
                continue
            name, (sheet, issues, _) = one
            kept = await self._keep_imported(sheet, len(sheet.arrow), request.lifetime_s)
            response.further.add(worksheet=name, sheet=kept, issues=map(issue_to_proto, issues))
        return response

    async def _keep_imported(self, sheet: Sheet, size: int, lifetime_s: int) -> pb.Sheet:
        if lifetime_s:
            # Before the sheet: one that is written and never noted would stay for ever.
            await self._lifetimes.note(sheet.id, size, lifetime_s)
        return await self._store_sheet(sheet)

    async def ProposeMeaning(self, request: pb.ProposeMeaningRequest, call: Call) -> pb.ProposeMeaningResponse:
        sheet, table = await self._load_sheet(request.sheet_id), await self._load_table(request.sheet_id)
        engine = self._engine
        units = list_units(sheet.columns)
        found = await propose_meaning(table, units, sheet.title, engine.match, engine.layer.indicators)
        meaning = meaning_to_proto(found.meaning)
        return pb.ProposeMeaningResponse(meaning=meaning, adds=found.adds, has_encoder=engine.has_meaning)

    async def ApplyMeaning(self, request: pb.ApplyMeaningRequest, call: Call) -> pb.ApplyMeaningResponse:
        if request.lifetime_s < 0:
            raise InvalidField("lifetime_s", "must not be negative")
        meaning = meaning_from_proto(request.meaning)
        imported, table = await self._load_sheet(request.sheet_id), await self._load_table(request.sheet_id)
        if request.lifetime_s:
            await self._lifetimes.admit(imported.data.size_bytes)
        sources = {column.name: column.source for column in imported.columns}
        sheet, issues = await asyncio.to_thread(apply_meaning, table, imported.title, meaning, sources)
        if request.lifetime_s:
            await self._lifetimes.note(sheet.id, len(sheet.arrow), request.lifetime_s)
        # Before the description: whoever finds that finds the meaning too.
        kept = meaning_to_proto(meaning).SerializeToString()
        await self._store.put(f"tables/{sheet.id}.meaning", kept, "application/x-protobuf")
        return pb.ApplyMeaningResponse(sheet=await self._store_sheet(sheet), issues=list(map(issue_to_proto, issues)))

    async def _load_table(self, sheet_id: str) -> Any:
        """Return the rows of a sheet; raises ``NotFound``, and ``TableTooLarge`` for one over 64 MiB of cells."""
        try:
            kept = await self._store.get(f"tables/{checked_id('sheet_id', sheet_id)}.parquet")
        except NotFound:
            raise NotFound("sheet", sheet_id) from None
        return await asyncio.to_thread(frames.read_parquet, kept, "sheet_id", MAX_OWN_BYTES)

    async def _load_meanings(self, sheet: pb.Sheet) -> dict[str, OwnMeaning]:
        """Return what the columns of a sheet mean, which a meaning was applied to; {} for any other."""
        if not any(column.indicator_names for column in sheet.columns):
            return {}
        try:
            kept = await self._store.get(f"tables/{sheet.id}.meaning")
        except NotFound:
            return {}
        return list_own_meanings(sheet, meaning_from_proto(pb.TableMeaning.FromString(kept)))

    async def ResolveEntities(self, request: pb.ResolveEntitiesRequest, call: Call) -> pb.ResolveEntitiesResponse:
        layer, response = self._engine.layer, pb.ResolveEntitiesResponse()
        resolver = self._engine.reader.resolver
        read = resolver.complete if request.beginnings else resolver.resolve
        for mention in check_mentions(request.mentions):
            found = await asyncio.to_thread(read, mention)
            response.results.add(
                entities=[entity_to_proto(layer.entities[item.ids[0]]) for item in found],
                exact=bool(found) and found[0].how == "exact",
                scores=[item.confidence for item in found],
                how=found[0].how if found else "",
                ambiguous=len(found) > 1 and found[0].how not in ("near", "beginning"),
            )
        return response

    async def MatchIndicators(self, request: pb.MatchIndicatorsRequest, call: Call) -> pb.MatchIndicatorsResponse:
        indicators, response = self._engine.layer.indicators, pb.MatchIndicatorsResponse()
        # Concurrently, as each match may wait for the encoder to load.
        matched = await asyncio.gather(*map(self._engine.match, check_mentions(request.mentions)))
        for found in matched:
            response.results.add(
                indicators=[indicator_to_proto(indicators[item.id]) for item in found],
                exact=bool(found) and found[0].how == "exact",
                scores=[item.score for item in found],
                surfaces=[item.surface for item in found],
            )
        return response

    async def ListSources(self, request: pb.ListSourcesRequest, call: Call) -> pb.ListSourcesResponse:
        sources = [
            pb.Source(
                id=source.id,
                package=source.package,
                version=source.version,
                licence=source.licence,
                sha256=source.sha256,
                as_of=source.as_of,
                description=source.description,
                failure=source.skipped,
            )
            for source in self._engine.manifest.sources
        ]
        failed = {failure.source: failure.message for failure in self._engine.layer.failures}
        for table, _ in self._engine.layer.tables[1:]:
            described, failure = table.description or table.source, failed.get(table.id, "")
            sources.append(
                pb.Source(
                    id=table.id, package=table.vendor, licence=table.licence, description=described, failure=failure
                )
            )
        return pb.ListSourcesResponse(sources=sources)

    async def ListConnectors(self, request: pb.ListConnectorsRequest, call: Call) -> pb.ListConnectorsResponse:
        return list_connectors(self._config, self._outside.vendors)

    async def ProbeConnector(self, request: pb.ProbeConnectorRequest, call: Call) -> pb.ProbeConnectorResponse:
        databases = self._engine.warehouse.databases
        return await probe_connector(request, self._outside.vendors, databases, call.deadline)

    async def ListFrameworks(self, request: pb.ListFrameworksRequest, call: Call) -> pb.ListFrameworksResponse:
        return list_frameworks(self._engine.frameworks, request)

    async def GetFrameworkFile(self, request: pb.GetFrameworkFileRequest, call: Call) -> pb.GetFrameworkFileResponse:
        return get_framework_file(self._engine.frameworks, request)

    async def CheckFramework(self, request: pb.CheckFrameworkRequest, call: Call) -> pb.CheckFrameworkResponse:
        known = self._engine.warehouse.stored.keys()
        # A file of 256 KB takes a second to parse.
        return await asyncio.to_thread(check_framework, self._engine.frameworks, known, request)

    async def ReadQuestion(self, request: pb.ReadQuestionRequest, call: Call) -> pb.ReadQuestionResponse:
        as_of, earlier = read_as_of(request), check_earlier(request.earlier)
        sheets = check_sheets(request.sheet_ids)
        seen = await self._engine.read(request.question, as_of)
        response = pb.ReadQuestionResponse(
            understood=query_to_proto(seen.query),
            mentions=[mention_to_proto(item, request.question) for item in seen.mentions],
        )
        if request.with_program or request.program:
            own = tuple([one for sheet_id in sheets for one in await self._list_own_series(sheet_id)])
            given = check_program(request.program)
            program = await self._engine.read_program([*earlier, request.question], as_of, own, given)
            unused = find_unused(request.question, seen.mentions, program, self._engine.layer) if program else []
            # What is asked behind other questions, or written by whoever asks, is no question of its own words.
            if sheets and not (earlier or given):
                rows = await self._read_rows(request.question, seen.mentions, sheets, as_of)
                if rows is not None and is_better(rows, program, unused, sheets):
                    program, unused = rows, []
            if program is not None:
                response.program.CopyFrom(program_to_proto(program, sheets, unused))
        return response

    async def _read_rows(
        self, question: str, mentions: Sequence[Mention], sheets: Sequence[str], as_of: date | None
    ) -> ProgramReading | None:
        """Return the program of a question about rows of imported sheets as they stand in their files."""
        tables = []
        for one in [await self._load_sheet(sheet_id) for sheet_id in sheets]:
            # Cells may be long where rows are few.
            with suppress(frames.TableTooLarge):
                tables += [make_row_table(one, await self._load_table(one.id))] if is_of_rows(one) else []
        return await self._engine.read_rows(question, mentions, tables, as_of) if tables else None

    async def _list_own_series(self, sheet_id: str) -> list[OwnSeries]:
        """Return the columns of an imported sheet that programs may name; none of one that is too large to be read."""
        sheet = await self._load_sheet(sheet_id)
        try:
            table = await self._load_table(sheet_id)
        except frames.TableTooLarge:
            return []
        return list_own_series(sheet_id, sheet.title, table, await self._load_meanings(sheet))

    async def SearchCatalog(self, request: pb.SearchCatalogRequest, call: Call) -> pb.SearchCatalogResponse:
        engine = self._engine
        response = await search_catalog(engine.catalog, engine.layer, engine.warehouse, request, read_as_of(request))
        response.snapshot, response.has_meaning = engine.snapshot, engine.has_meaning
        response.vendors.extend(self._config.connectors.enabled)
        return response

    async def EncodeTexts(self, request: pb.EncodeTextsRequest, call: Call) -> pb.EncodeTextsResponse:
        encoder, vectors = await self._texts.encode(request.texts)
        response = pb.EncodeTextsResponse(
            encoder=encoder, dim=vectors.shape[1], vectors=vectors.astype("<f4", copy=False).tobytes()
        )
        if request.with_names:
            layer, texts = self._engine.layer, list(request.texts)
            # In a thread: 64 texts of the greatest length take tenths of a second.
            named = await asyncio.to_thread(lambda: [find_catalog_ids(layer, text) for text in texts])
            response.names.extend(pb.TextNames(ids=ids) for ids in named)
        return response


def issue_to_proto(issue: RowIssue) -> pb.ImportIssue:
    return pb.ImportIssue(row=issue.row, column=issue.column, message=issue.reason)


def check_further(request: pb.ImportTableRequest) -> None:
    """Raise ``InvalidField`` for a number of further sheets that is none, or beside one sheet by its name."""
    if not 0 <= request.further_worksheets <= MOST_FURTHER:
        raise InvalidField("further_worksheets", f"must be from 0 to {MOST_FURTHER}")
    if request.further_worksheets and request.worksheet:
        raise InvalidField("further_worksheets", "follow the first sheet; worksheet must be empty")


def check_mentions(values: Sequence[str]) -> Sequence[str]:
    if not 1 <= len(values) <= MAX_MENTIONS:
        raise InvalidField("mentions", f"must be 1 to {MAX_MENTIONS}")
    return values


def check_sheets(values: Sequence[str]) -> Sequence[str]:
    """Return the ids of sheets; raises ``InvalidField("sheet_ids")``."""
    if len(values) > MAX_SHEETS:
        raise InvalidField("sheet_ids", f"must be at most {MAX_SHEETS}")
    return values


def check_program(text: str) -> str:
    """Return a caller's program; raises ``InvalidField("program")`` for a text that is too long to be read."""
    if len(text) > MAX_PROGRAM_CHARS:
        raise InvalidField("program", f"must have at most {MAX_PROGRAM_CHARS:,} characters")
    return text


def check_earlier(values: Sequence[str]) -> Sequence[str]:
    """Return the earlier questions of a conversation; raises ``InvalidField("earlier")``."""
    if len(values) > MAX_EARLIER:
        raise InvalidField("earlier", f"must be at most {MAX_EARLIER}")
    for place, text in enumerate(values):
        if not text.strip() or len(text) > MAX_QUESTION_CHARS:
            raise InvalidField(f"earlier[{place}]", f"must have 1 to {MAX_QUESTION_CHARS:,} characters")
    return values
