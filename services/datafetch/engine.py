"""Query engine: parses questions, compiles queries to DuckDB SQL and runs them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from fathom.core.cache import LoadingCache
from fathom.core.errors import DeadlineExceeded, InvalidField, NotReady
from fathom.core.ids import content_hash
from fathom.domain.bundle.manifest import Manifest, verify
from fathom.domain.encoders.choose import Encoders
from fathom.domain.programs.asking import read_program
from fathom.domain.programs.language import Call
from fathom.services.datafetch.catalog.frameworks import BUNDLED, Frameworks, load_frameworks
from fathom.services.datafetch.catalog.layer import LIBRARY, Layer, load
from fathom.services.datafetch.catalog.matching import Matcher, Scored
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.discovery.candidates import Associate, Parts, find_candidates, framework_names
from fathom.services.datafetch.discovery.embeddings import Meaning, available
from fathom.services.datafetch.discovery.query_vectors import QueryVectors
from fathom.services.datafetch.discovery.search import CatalogSearch
from fathom.services.datafetch.filling.store import TABLES
from fathom.services.datafetch.parser.draft import NOT_UNDERSTOOD
from fathom.services.datafetch.parser.mention import Mention
from fathom.services.datafetch.parser.question import Reader, Understanding
from fathom.services.datafetch.programs.agreement import list_named
from fathom.services.datafetch.programs.loading import ProgramLoader
from fathom.services.datafetch.programs.own import OwnSeries
from fathom.services.datafetch.programs.reader import ProgramReading
from fathom.services.datafetch.programs.rows.reading import read_rows
from fathom.services.datafetch.programs.rows.table import RowTable
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.free_sql import SqlFallback
from fathom.services.datafetch.query.gaps import find_gaps
from fathom.services.datafetch.query.model import ROWS, Column, Missing, Query, Result, Sheet
from fathom.services.datafetch.query.placing import PartComputer
from fathom.services.datafetch.query.planner import NAMELESS, Part, Planner, limit_to_as_of
from fathom.services.datafetch.query.rankings import LeftOut, find_left_out, group_absent
from fathom.services.datafetch.query.result import (
    describe_column,
    describe_columns,
    is_cross_rate,
    make_sheet,
    select_columns,
)
from fathom.services.datafetch.query.sql.text import run_sql
from fathom.services.datafetch.warehouse.database import Warehouse
from fathom.services.datafetch.warehouse.elsewhere import Database

# Bounds of one request: parsing time grows with the length, memory and statement with names.
MAX_QUESTION_CHARS = 2_000
MAX_NAMES = 5_000
# A statistic is one column per series until it is ranked: more would be a statement of thousands of columns.
MOST_RANKED = 2_000
# Results hold whole sheets; the number of entries alone would not bound them.
CACHE_BYTES = 64 << 20
READING_BYTES, MENTION_BYTES = 8 << 20, 512
# Programs of questions, each with its steps and words.
PROGRAM_BYTES = 4 << 20
# What a database has may change while the service runs; results are shared by those who ask together.
DATABASE_TTL_S = 30.0
# Words for periods ("last year") may count from today.
READING_S = 600.0


def find_today() -> date:
    """Return the current day (UTC)."""
    return datetime.now(UTC).date()


@dataclass(frozen=True)
class Translation:
    """Cached program of a conversation, or None; one that is not final was asked for before the reader was there."""

    program: ProgramReading | None
    is_final: bool


def measure_translation(translation: Translation) -> int:
    """Return about how many bytes a program takes."""
    program = translation.program
    return MENTION_BYTES * (1 + (len(program.steps) + len(program.series) + len(program.words) if program else 0))


def measure_reading(seen: Understanding) -> int:
    """Return about how many bytes the reading of a question takes."""
    held: tuple[Sequence[object], ...] = (
        seen.missing,
        seen.matches,
        seen.mentions,
        seen.query.entities,
        seen.query.indicators,
    )
    return MENTION_BYTES * (4 + sum(len(part) for part in held))


class Engine:
    """The query engine of the service; ready after ``start``."""

    def __init__(
        self,
        config: Config,
        associate: Associate | None = None,
        resort: SqlFallback | None = None,
        today: Callable[[], date] = find_today,
    ) -> None:
        """Take the settings, the sources of last resort, and the clock from whose day relative periods count."""
        self._config, self._associate, self._resort, self._today = config, associate, resort, today
        # One for names and for callers' texts: the weights take 400 MB.
        self.encoders = Encoders(config.models_dir, config.threads)
        self._parts: Parts | None = None
        self._warming: asyncio.Task[None] | None = None
        self._programs: ProgramLoader | None = None
        # One builder at a time: concurrent first matches would each index all names.
        self._widens = asyncio.Lock()
        self.manifest: Manifest
        self.layer: Layer
        self.frameworks: Frameworks
        self._warehouse: Warehouse | None = None
        self.snapshot = ""
        self._queries: QueryVectors | None = None
        # Many runs at once ask the same, and their answers' tables have the same labels: each text is read once.
        self._readings = LoadingCache[Hashable, Understanding](
            max_entries=config.cache_entries, max_bytes=READING_BYTES, size_of=measure_reading, ttl_s=READING_S
        )
        self._translations = LoadingCache[Hashable, Translation](
            max_entries=config.cache_entries, max_bytes=PROGRAM_BYTES, size_of=measure_translation, ttl_s=READING_S
        )
        self.results = LoadingCache[Hashable, Result](
            max_entries=config.cache_entries,
            max_bytes=CACHE_BYTES,
            size_of=measure_bytes,
            # One large result must not displace everything else.
            max_entry_bytes=CACHE_BYTES // 4,
            # Files have the content of the start; a database goes on.
            ttl_s=DATABASE_TTL_S if config.databases else math.inf,
        )
        self._planner: Planner
        self._computer: PartComputer
        self.matcher: Matcher
        self.catalog: CatalogSearch
        self.reader: Reader

    @property
    def warehouse(self) -> Warehouse:
        """Return the tables; raises ``NotReady`` before ``start``."""
        if self._warehouse is None:
            raise NotReady("the data are being opened")
        return self._warehouse

    async def start(self) -> None:
        """Verify and open the data; raises ``CorruptData`` with the file and the remedy."""
        self.manifest = await asyncio.to_thread(verify, self._config.data_dir)
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        bundled = [(LIBRARY, self._config.data_dir)]
        fetched = self._config.fetched_dir
        filled = [(fetched, fetched)] if fetched is not None and (fetched / TABLES).is_file() else []
        # A user's own tables override what was fetched.
        users = [*filled, *((item.folder, item.data or item.folder) for item in self._config.semantic)]
        self.layer = load([*bundled, *users])
        # Before the names: the warehouse adds the indicators that only the tables know.
        self._warehouse = Warehouse(self.layer, self._config.threads, self._open_databases())
        self.layer.index_names()
        self.snapshot = self.manifest.snapshot
        if users:
            # The bundled manifest says nothing of a user's files, whose change must give another snapshot.
            self.snapshot = content_hash([self.snapshot, *(fingerprint_folder(folder, data) for folder, data in users)])
        self._planner = Planner(self.layer, self.warehouse)
        self._computer = PartComputer(self.layer, self.warehouse, self._config.query_seconds)
        own = self._config.frameworks_dir
        self.frameworks = load_frameworks(BUNDLED) if own is None else load_frameworks(BUNDLED, own)
        # Questions match only the catalog's own names; names from frameworks merely suggest candidates.
        self.matcher = Matcher(self.layer.indicators.values())
        self.reader = Reader(self.layer, self.matcher, self.find_latest_day)
        self.catalog = CatalogSearch(self.layer, self.match)

    def _open_databases(self) -> dict[str, Database]:
        """Return the databases that have tables; they are connected to when something is asked of them."""
        config = self._config
        return {
            name: Database(name, url.get_secret_value(), config.database_connections, config.query_seconds)
            for name, url in config.databases.items()
        }

    async def warm_up(self) -> None:
        """Begin to load the encoder and what is made with it, so that the first question need not wait for it."""
        if self._config.embedding != "off":
            self._warming = asyncio.create_task(self._load_names())
            await self._share_loader().get(0.0)

    async def _load_names(self) -> None:
        parts = await self._get_parts()
        if parts.meaning is not None:
            await parts.meaning.ready(None)

    async def match(self, mention: str, limit: int = 20) -> list[Scored]:
        """Return indicators for free text, best first, from the sources that are switched on."""
        # An id is exact without any index.
        if mention in self.layer.indicators:
            return [Scored(mention, 1.0, mention, "exact")]
        return await find_candidates(mention, await self._get_parts(), self.layer, limit)

    async def _get_parts(self) -> Parts:
        async with self._widens:
            if self._parts is None:
                self._parts = await asyncio.to_thread(self._build_matchers)
            return self._parts

    def _share_queries(self) -> QueryVectors:
        """Return the vectors of asked words, shared by all who compare them."""
        if self._queries is None:
            self._queries = QueryVectors(self.encoders(self._config.encoder))
        return self._queries

    @property
    def has_meaning(self) -> bool:
        """Return whether the encoder takes part in matches by now."""
        return self._parts is not None and self._parts.meaning is not None and self._parts.meaning.is_loaded

    def _build_matchers(self) -> Parts:
        """Build the sources of candidate indicators on the first match; questions with exact names need none."""
        config = self._config
        names = framework_names(self.frameworks, self.layer) if config.frameworks else []
        # A table of one column has no neighbours that could support a match.
        tables = {
            ident: spec.id for spec, _ in self.layer.tables if len(spec.columns) > 1 for ident in spec.columns.values()
        }
        finder = Matcher(self.layer.indicators.values(), names, tables)
        meaning = None
        if config.embedding == "on" or (config.embedding == "auto" and available(config.encoder, config.models_dir)):
            vectors, queries = config.models_dir / "vectors", self._share_queries()
            meaning = Meaning(self.encoders(config.encoder), finder.texts, vectors, queries)
        frameworks = self.frameworks if config.frameworks else None
        return Parts(finder, frameworks, self._associate, meaning, config.embedding_wait_seconds)

    def find_latest_day(self, entities: Sequence[str], indicators: Sequence[str]) -> date:
        """Return the earliest last day with data of the requested series, or of the entities' series.

        Words for the newest value count from it. Without any such series, return the current date.
        """
        days = []
        for ident in indicators:
            spec = self.layer.indicators[ident]
            for leaf in formulas.list_leaves(formulas.expand(spec.id, self.layer.indicators)):
                for stored in self.warehouse.stored.get(leaf, ()):
                    days += [f.last for e, f in stored.members.items() if not entities or e in entities or e == "US"][
                        # A bound on the work for indicators that thousands of companies have.
                        :100
                    ]
        if not days:
            for stored in (one for found in self.warehouse.stored.values() for one in found):
                days += [stored.members[e].last for e in entities if e in stored.members]
        return min(days, default=self._today())

    def is_us_company(self, ident: str) -> bool:
        """Return whether an entity is a company on a US exchange."""
        spec = self.layer.entities.get(ident)
        return spec is not None and spec.kind == "stock" and spec.market == "US"

    async def ask(self, question: str, as_of: date | None) -> Result:
        """Answer a question of 1 to 2,000 characters; raises ``InvalidField`` for any other length.

        ``as_of`` limits the data to what was published by that day; relative periods count from it, else from today.
        """
        question = check_question(question).strip()
        # Eight rollouts of one prompt ask the same: equal calls in flight share one computation.
        # In the key, for "last year" may be another one tomorrow.
        today = as_of or self._today()
        return await self.results.get((question, as_of, today), lambda: self._ask(question, as_of, today))

    async def read(self, question: str, as_of: date | None) -> Understanding:
        """Read a question of 1 to 2,000 characters without running its query; raises ``InvalidField``."""
        return await self._read(check_question(question), as_of or self._today())

    async def read_program(
        self, texts: Sequence[str], as_of: date | None, own: tuple[OwnSeries, ...] = (), program: str = ""
    ) -> ProgramReading | None:
        """Translate the last of some questions into a program; the earlier ones complete it.

        ``own`` are columns of the user's tables that it may name. A given ``program`` without ids is resolved instead.

        None without an encoder, until the reader is loaded, and where no program was found. Raises ``InvalidField``.
        """
        asked, given = tuple(map(check_question, texts)), read_program(program) if program else ()
        today = as_of or self._today()
        translation = await self._translations.get(
            (asked, today, own, program),
            lambda: self._translate(asked, today, own, given),
            lambda translation: math.inf if translation.is_final else 0.0,
        )
        return translation.program

    async def _translate(
        self, texts: Sequence[str], today: date, own: Sequence[OwnSeries], given: Sequence[Call]
    ) -> Translation:
        loader = self._share_loader()
        reader = await loader.get(self._config.embedding_wait_seconds)
        if reader is None:
            return Translation(None, loader.is_done)
        if given:
            return Translation(await asyncio.to_thread(reader.follow, given, texts, today, own), True)
        seen = await self._read(texts[-1], today)
        named = list_named(texts[-1], seen.mentions)
        program = await asyncio.to_thread(reader.read, texts, today, own, named)
        if program is not None and not own and loader.completer is not None:
            program = await asyncio.to_thread(loader.completer.complete, program, texts, seen.mentions, today)
        return Translation(program, True)

    async def read_rows(
        self, question: str, mentions: Sequence[Mention], tables: Sequence[RowTable], as_of: date | None
    ) -> ProgramReading | None:
        """Read a question about rows of the user's own tables; by their words alone without an encoder."""
        compare = self._compare_names if self.has_meaning else None
        return await asyncio.to_thread(read_rows, question, mentions, tables, as_of or self._today(), compare)

    def _compare_names(self, text: str, names: Sequence[str]) -> list[float]:
        """Return how like a text is to each of some names, by the encoder."""
        asked, *known = self._share_queries().encode([text, *names])
        return [float(asked @ one) for one in known]

    def _share_loader(self) -> ProgramLoader:
        """Return the loader of the reader of programs."""
        if self._programs is None:
            self._programs = ProgramLoader(
                self._config, self.encoders, self.layer, self.warehouse, self._share_queries()
            )
        return self._programs

    async def _read(self, question: str, today: date) -> Understanding:
        """Read a question once for all who ask it; nobody may change what is returned."""
        return await self._readings.get((question, today), lambda: asyncio.to_thread(self.reader.read, question, today))

    async def _ask(self, question: str, as_of: date | None, today: date) -> Result:
        seen = await self._read(question, today)
        missing = list(seen.missing)
        if (
            not seen.query.entities
            and not seen.query.indicators
            and not any(item.reason == NOT_UNDERSTOOD for item in missing)
        ):
            missing.append(Missing(question[:80], "NO_MATCH", "the question names nothing that has data here"))
        try:
            result = await self.run(seen.query, as_of)
        except InvalidField as error:
            # The caller set no such field, so the error is reported as a missing item.
            result = Result((), (Missing(question[:80], "NO_MATCH", error.message),), seen.query, self.snapshot)
        unknown = any(item.reason == "UNKNOWN_ENTITY" for item in missing)
        # An unknown name is reported already; do not also ask for a name.
        more = [item for item in result.missing if not (unknown and NAMELESS in item.detail)]
        more = [name_relative(item, seen.relative_words) for item in more]
        result = replace(result, missing=tuple(dict.fromkeys((*missing, *more))), matches=tuple(seen.matches))
        if self._resort is None or result.sheets or unknown or as_of is not None:
            # Model-written SQL can neither respect as_of nor answer for unknown names.
            return result
        return await self._answer_with_sql(self._resort, question, result)

    async def _answer_with_sql(self, resort: SqlFallback, question: str, result: Result) -> Result:
        """Return the result with a sheet of model-written SQL, marked as unchecked; missing items are kept."""
        schema = self.warehouse.list_columns()
        try:
            written = await resort.write_statement(
                question, schema, self.warehouse.connection, self.warehouse.describe_indicators()
            )
            if not written.statement:
                return result
            table = await self.warehouse.fetch_rows(written.statement, self._config.sql_rows, self._config.sql_seconds)
        # The fallback is an extra: without it the answer is the list of what is missing.
        except (InvalidField, DeadlineExceeded):
            return result
        source = f"free SQL written by {resort.model}, unchecked"
        columns = [
            replace(describe_column(table, name), source=source, formula=written.statement)
            for name in table.column_names
        ]
        sheet = await asyncio.to_thread(make_sheet, table, f"Free SQL, unchecked: {question[:120]}", columns)
        return replace(result, sheets=(sheet,))

    async def encode_library(self) -> None:
        """Compute and cache the embeddings of all names now; raises what ``Meaning.load`` does."""
        parts = await asyncio.to_thread(self._build_matchers)
        if parts.meaning is not None:
            await asyncio.to_thread(parts.meaning.load)
        await asyncio.to_thread(self._share_loader().load)

    async def close(self) -> None:
        """Release resources; safe after a failed start."""
        if self._parts is not None and self._parts.meaning is not None:
            await self._parts.meaning.close()
        if self._warming is not None:
            await asyncio.wait([self._warming])
        if self._programs is not None:
            await self._programs.close()
        if self._warehouse is not None:
            await asyncio.to_thread(self._warehouse.close)

    async def run(self, query: Query, as_of: date | None) -> Result:
        """Run a typed query; raises ``InvalidField`` for a start after the end or too many names or columns."""
        return await self.results.get((query, as_of), lambda: self._run(query, as_of))

    async def _run(self, query: Query, as_of: date | None) -> Result:
        if len(query.entities) > MAX_NAMES or len(query.indicators) > self._config.max_columns:
            raise InvalidField(
                "typed", f"names more than {MAX_NAMES:,} entities or {self._config.max_columns} indicators"
            )
        plan = self._planner.plan(query)
        members = sum(one.kind == query.kind for one in self.layer.entities.values()) if query.kind else 0
        missing = [await self._suggest(item) for item in group_absent(plan.missing, query, members)]
        sheets = []
        for part in plan.parts:
            for layout, limited in self._list_runs(part, limit_to_as_of(plan.query, as_of)):
                sheet, empty = await self._compute_sheet(part, limited, as_of, layout)
                missing += empty
                if sheet is not None:
                    sheets.append(sheet)
        return Result(tuple(sheets), tuple(dict.fromkeys(missing)), query, self.snapshot)

    async def run_with_defaults(self, query: Query, as_of: date | None) -> Result:
        """Run a caller's typed query; entities without an indicator are asked for their default one.

        Raises what ``run`` does, and ``InvalidField("typed.indicators")`` when there is no default.
        """
        return await self.run(await asyncio.to_thread(self._planner.add_defaults, query), as_of)

    async def _suggest(self, item: Missing) -> Missing:
        """Return the missing item with the indicators nearest in meaning, when none is near in spelling."""
        if item.reason != "UNKNOWN_INDICATOR" or item.nearest:
            return item
        found = await self.match(item.subject, limit=3)
        return replace(item, nearest=tuple(f"{one.id} ({self.layer.indicators[one.id].name})" for one in found))

    async def _compute_sheet(
        self, part: Part, query: Query, as_of: date | None, layout: str
    ) -> tuple[Sheet | None, list[Missing]]:
        """Return the sheet of one part, or None when it is empty, and its missing items."""
        table = await self._computer.compute(part, query, as_of, layout)
        left_out = LeftOut()
        if layout == "summary" and query.kind and table.num_rows:
            left_out = find_left_out(table, part, query)
            table = None if left_out.is_most else select_columns(table, query)
            if table is None:
                return None, [*left_out.missing] or [self._report_no_rows(part, query)]
        columns = describe_columns(table, part, self.layer, query, layout)
        # A ranking lists what there is; its gaps would be every entity that did not make it.
        missing = [] if layout == "long" else [*left_out.missing, *find_gaps(table, part, query, as_of, layout)]
        values = [column for column in columns if column.indicator]
        if not table.num_rows or all(column.nulls == table.num_rows for column in values):
            unfit = query.filters and table.num_rows == 0
            return None, [self._report_no_rows(part, query)] if unfit else missing or [
                self._report_no_rows(part, query)
            ]
        # Hashing and encoding a large table must not hold up the event loop.
        sheet = await asyncio.to_thread(make_sheet, table, self._format_title(part, query), columns)
        return sheet, missing

    def _list_runs(self, part: Part, query: Query) -> list[tuple[str, Query]]:
        """Return the layouts of a part with their queries; statistics of listed periods give one query per period."""
        if not (query.statistics and query.periods):
            return [(layout, query) for layout in self._choose_layouts(part, query)]
        each = [replace(query, start=start, end=min(end, query.end or end), periods=()) for start, end in query.periods]
        return [(layout, one) for one in each for layout in self._choose_layouts(part, one)]

    def _choose_layouts(self, part: Part, query: Query) -> list[str]:
        """Choose the layouts: wide for series, summary and rows for statistics, long for rankings.

        Filters over several entities are long too. Raises ``InvalidField`` for too many columns.
        """
        if query.statistics and query.kind and len(part.cells) <= MOST_RANKED:
            return ["summary"]
        if query.order or query.kind or (query.filters and not query.statistics and len(part.entities) > 1):
            return ["long"]
        if 1 + len(part.cells) > self._config.max_columns:
            asked, most = len(part.cells), self._config.max_columns
            raise InvalidField("typed", f"asks for {asked} columns; at most {most} are allowed")
        # Columns of ``summary`` for groups hold the extremes too, so no rows are needed besides.
        if query.statistics and query.every:
            return ["summary"]
        found = [f"rows:{item}" for item in query.statistics if item in ROWS]
        found += ["summary"] if any(item not in ROWS for item in query.statistics) else []
        return found or ["wide"]

    def _report_no_rows(self, part: Part, query: Query) -> Missing:
        names = ", ".join(measure.spec.name for measure in part.measures)
        period = f"{query.start or ''}..{query.end or ''}"
        return Missing(names, "NO_DATA_IN_PERIOD", f"no row of {names} fits the conditions", period=period)

    def _format_title(self, part: Part, query: Query) -> str:
        """Return a human-readable title of the sheet."""
        names = [entity.name for entity in part.entities]
        who = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        crossed = f"units per {query.currency.upper()} (by the ECB reference rates of the day)"
        measures = ", ".join(crossed if is_cross_rate(one) else one.spec.name for one in part.measures)
        facts = [where[1] for where in part.facts.values()]
        start, end = query.start or min(f.first for f in facts), query.end or max(f.last for f in facts)
        asked = ", ".join(filter(None, (query.transform, *query.statistics, query.combination)))
        shown = f" ({asked})" if asked else ""
        before = " with the row before" if query.previous else ""
        return f"{who}: {measures}{shown}, {part.frequency}, {start} to {end}{before}"

    async def run_sql(
        self,
        statement: str,
        sheets: Mapping[str, bytes],
        rows: int,
        seconds: float,
        columns: Mapping[str, Sequence[Column]] | None = None,
    ) -> Sheet:
        """Run a read-only SELECT over sheets, named by the keys of ``sheets``; ``columns`` describes their columns.

        ``rows`` limits the result, ``seconds`` the run time. Raises ``InvalidField("sql")`` and ``DeadlineExceeded``.
        """
        return await asyncio.to_thread(run_sql, statement, sheets, rows, seconds, columns)


def check_question(question: str) -> str:
    """Return the question; raises ``InvalidField`` when it is empty or too long."""
    if not 1 <= len(question.strip()) <= MAX_QUESTION_CHARS:
        raise InvalidField("question", f"must have 1 to {MAX_QUESTION_CHARS:,} characters")
    return question


def name_relative(item: Missing, relative_words: Sequence[tuple[str, str]]) -> Missing:
    """Return a missing item that says which days the relative words of the question mean, where the data end early."""
    if not item.nearest or item.reason != "NO_DATA_IN_PERIOD":
        return item
    said = "".join(f"; {words.strip()!r} is {days}" for words, days in relative_words)
    return replace(item, detail=f"{item.detail}{said}")


def measure_bytes(result: Result) -> int:
    """Return the approximate size of a result in bytes."""
    return 1_000 + sum(len(sheet.arrow) for sheet in result.sheets)


def fingerprint_folder(folder: Path, data: Path) -> list[str]:
    """Return strings that change when a user's semantic folder or its tables change."""
    paths = sorted({*folder.glob("*.yaml"), *(path for path in data.iterdir() if path.is_file())})
    return [f"{path.name}:{path.stat().st_size}:{path.stat().st_mtime_ns}" for path in paths]
