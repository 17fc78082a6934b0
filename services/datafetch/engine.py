"""Query engine: parses questions, compiles queries to DuckDB SQL and runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from fathom.bundle.manifest import Manifest, verify
from fathom.encoders.choose import Encoders
from fathom.errors import DeadlineExceeded, InvalidField, NotReady
from fathom.ids import content_hash
from services.datafetch import formulas
from services.datafetch.compiler import Compiler
from services.datafetch.config import Config
from services.datafetch.flight import Flight
from services.datafetch.frameworks import BUNDLED, Frameworks, load_frameworks
from services.datafetch.freesql import LastResort
from services.datafetch.indicators import Matcher, Scored
from services.datafetch.leftovers import is_not_understood
from services.datafetch.meaning import Meaning, available
from services.datafetch.model import ROWS, Missing, Query, Result, Sheet
from services.datafetch.plan import NAMELESS, Part, Planner, bounded
from services.datafetch.question import Reader
from services.datafetch.rankings import first_columns
from services.datafetch.semantic.layer import LIBRARY, Layer, load
from services.datafetch.sheets import described, empty_cells, make_sheet, provenance
from services.datafetch.sql import run_sql
from services.datafetch.warehouse import Stored, Warehouse
from services.datafetch.widen import Associate, Parts, framework_names, widened

MAX_QUESTION_CHARS = 2_000
MAX_NAMES = 5_000
MOST_RANKED = 2_000
CACHE_BYTES = 64 << 20


class Engine:
    """The query engine of the service; ready after ``start``."""

    def __init__(self, config: Config, associate: Associate | None = None, resort: LastResort | None = None) -> None:
        self._config, self._associate, self._resort = config, associate, resort
        self._parts: Parts | None = None
        self._widens = asyncio.Lock()
        self.manifest: Manifest
        self.layer: Layer
        self.frameworks: Frameworks
        self._warehouse: Warehouse | None = None
        self.snapshot = ""
        self.flight: Flight[Result] = Flight(config.cache_entries, CACHE_BYTES, weight_of)
        self._planner: Planner
        self.matcher: Matcher
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
        users = [(item.folder, item.data or item.folder) for item in self._config.semantic]
        self.layer = load([*bundled, *users])
        self._warehouse = Warehouse(self.layer, self._config.threads)
        self.layer.named()
        self.snapshot = self.manifest.snapshot
        if users:
            self.snapshot = content_hash([self.snapshot, *(fingerprint(folder, data) for folder, data in users)])
        self._planner = Planner(self.layer, self.warehouse)
        own = self._config.frameworks_dir
        self.frameworks = load_frameworks(BUNDLED) if own is None else load_frameworks(BUNDLED, own)
        # Questions match only the catalog's own names; names from frameworks merely suggest candidates.
        self.matcher = Matcher(self.layer.indicators.values())
        self.reader = Reader(self.layer, self.matcher, self.latest)

    async def match(self, mention: str, limit: int = 20) -> list[Scored]:
        """Return indicators for free text, best first, from the sources that are switched on."""
        if mention in self.layer.indicators:
            return [Scored(mention, 1.0, mention, "exact")]
        async with self._widens:
            if self._parts is None:
                self._parts = await asyncio.to_thread(self._widening)
        return await widened(mention, self._parts, self.layer, limit)

    def _widening(self) -> Parts:
        """Build the sources of candidate indicators on the first match; questions with exact names need none."""
        config = self._config
        names = framework_names(self.frameworks, self.layer) if config.frameworks else []
        tables = {
            ident: spec.id for spec, _ in self.layer.tables if len(spec.columns) > 1 for ident in spec.columns.values()
        }
        finder = Matcher(self.layer.indicators.values(), names, tables)
        meaning = None
        if config.embedding == "on" or (config.embedding == "auto" and available(config.encoder, config.models_dir)):
            encoder = Encoders(config.models_dir, config.threads)(config.encoder)
            meaning = Meaning(encoder, finder.texts, config.models_dir / "vectors")
        frameworks = self.frameworks if config.frameworks else None
        return Parts(finder, frameworks, self._associate, meaning, config.embedding_wait_seconds)

    def latest(self, entities: Sequence[str], indicators: Sequence[str]) -> date:
        """Return the earliest last day with data of the requested series, or of the entities' series.

        It anchors relative periods. Without any such series, return the current date.
        """
        days = []
        for ident in indicators:
            spec = self.layer.indicators[ident]
            for leaf in formulas.leaves(formulas.expand(spec.id, self.layer.indicators)):
                for stored in self.warehouse.stored.get(leaf, ()):
                    days += [f.last for e, f in stored.members.items() if not entities or e in entities or e == "US"][
                        :100
                    ]
        if not days:
            for stored in (one for found in self.warehouse.stored.values() for one in found):
                days += [stored.members[e].last for e in entities if e in stored.members]
        return min(days, default=date.today())

    def listed(self, ident: str) -> bool:
        """Return whether an entity is a company on a US exchange."""
        spec = self.layer.entities.get(ident)
        return spec is not None and spec.kind == "stock" and spec.market == "US"

    async def ask(self, question: str, as_of: date | None) -> Result:
        """Answer a question of 1 to 2,000 characters; raises ``InvalidField`` for any other length.

        ``as_of`` limits the data to what was published by that day.
        """
        question = question.strip()
        if not 1 <= len(question) <= MAX_QUESTION_CHARS:
            raise InvalidField("question", f"must have 1 to {MAX_QUESTION_CHARS:,} characters")
        return await self.flight.get((question, as_of), lambda: self._ask(question, as_of))

    async def _ask(self, question: str, as_of: date | None) -> Result:
        seen = await asyncio.to_thread(self.reader.read, question, as_of)
        missing = seen.missing
        if not seen.query.entities and not seen.query.indicators and not any(map(is_not_understood, missing)):
            missing.append(Missing(question[:80], "NO_MATCH", "the question names nothing that has data here"))
        try:
            result = await self.run(seen.query, as_of)
        except InvalidField as error:
            # The caller set no such field, so the error is reported as a missing item.
            result = Result((), (Missing(question[:80], "NO_MATCH", error.message),), seen.query, self.snapshot)
        unknown = any(item.reason == "UNKNOWN_ENTITY" for item in missing)
        # An unknown name is reported already; do not also ask for a name.
        more = [item for item in result.missing if not (unknown and NAMELESS in item.detail)]
        result = replace(result, missing=tuple(dict.fromkeys((*missing, *more))), matches=tuple(seen.matches))
        if self._resort is None or result.sheets or unknown or as_of is not None:
            # Model-written SQL can neither respect as_of nor answer for unknown names.
            return result
        return await self._free(self._resort, question, result)

    async def _free(self, resort: LastResort, question: str, result: Result) -> Result:
        """Return the result with a sheet of model-written SQL, marked as unchecked; missing items are kept."""
        schema = self.warehouse.schema()
        try:
            written = await resort.statement(question, schema, self.warehouse.connection, self.warehouse.hints())
            if not written.statement:
                return result
            table = await self.warehouse.fetch_rows(written.statement, self._config.sql_rows, self._config.sql_seconds)
        except (InvalidField, DeadlineExceeded):
            return result
        source = f"free SQL written by {resort.model}, unchecked"
        columns = [
            replace(described(table, name), source=source, formula=written.statement) for name in table.column_names
        ]
        sheet = await asyncio.to_thread(make_sheet, table, f"Free SQL, unchecked: {question[:120]}", columns)
        return replace(result, sheets=(sheet,))

    async def encode_library(self) -> None:
        """Compute and cache the embeddings of all names now; raises what ``Meaning.load`` does."""
        parts = await asyncio.to_thread(self._widening)
        if parts.meaning is not None:
            await asyncio.to_thread(parts.meaning.load)

    async def close(self) -> None:
        """Release resources; safe after a failed start."""
        if self._parts is not None and self._parts.meaning is not None:
            await self._parts.meaning.close()
        if self._warehouse is not None:
            await asyncio.to_thread(self._warehouse.close)

    async def run(self, query: Query, as_of: date | None) -> Result:
        """Run a typed query; raises ``InvalidField`` for a start after the end or too many names or columns."""
        return await self.flight.get((query, as_of), lambda: self._run(query, as_of))

    async def _run(self, query: Query, as_of: date | None) -> Result:
        if len(query.entities) > MAX_NAMES or len(query.indicators) > self._config.max_columns:
            raise InvalidField(
                "typed", f"names more than {MAX_NAMES:,} entities or {self._config.max_columns} indicators"
            )
        plan = self._planner.plan(query)
        missing = list(plan.missing)
        sheets = []
        for part in plan.parts:
            for layout, limited in self._runs(part, bounded(query, as_of)):
                sheet, empty = await self._sheet(part, limited, as_of, layout)
                missing += empty
                if sheet is not None:
                    sheets.append(sheet)
        return Result(tuple(sheets), tuple(dict.fromkeys(missing)), query, self.snapshot)

    async def _sheet(
        self, part: Part, query: Query, as_of: date | None, layout: str
    ) -> tuple[Sheet | None, list[Missing]]:
        """Return the sheet of one part, or None when it is empty, and its missing items."""
        compiled = Compiler(self.layer, query, as_of).compile(part, layout, self._rates())
        table = await self.warehouse.fetch(compiled.sql, compiled.parameters, self._config.query_seconds)
        if layout == "summary" and query.kind and table.num_rows:
            table = first_columns(table, query)
            if table is None:
                return None, [self._nothing(part, query)]
        columns = provenance(table, part, self.layer, query, layout)
        missing = [] if layout == "long" else empty_cells(table, part, query, as_of, layout)
        values = [column for column in columns if column.indicator]
        if not table.num_rows or all(column.nulls == table.num_rows for column in values):
            unfit = query.filters and table.num_rows == 0
            return None, [self._nothing(part, query)] if unfit else missing or [self._nothing(part, query)]
        sheet = await asyncio.to_thread(make_sheet, table, self._title(part, query), columns)
        return sheet, missing

    def _runs(self, part: Part, query: Query) -> list[tuple[str, Query]]:
        """Return the layouts of a part with their queries; statistics of listed periods give one query per period."""
        if not (query.statistics and query.periods):
            return [(layout, query) for layout in self._layouts(part, query)]
        each = [replace(query, start=start, end=min(end, query.end or end), periods=()) for start, end in query.periods]
        return [(layout, one) for one in each for layout in self._layouts(part, one)]

    def _layouts(self, part: Part, query: Query) -> list[str]:
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
        if query.statistics and query.every:
            return ["summary"]
        found = [f"rows:{item}" for item in query.statistics if item in ROWS]
        found += ["summary"] if any(item not in ROWS for item in query.statistics) else []
        return found or ["wide"]

    def _rates(self) -> Stored | None:
        return next(iter(self.warehouse.stored.get("eur_rate", ())), None)

    def _nothing(self, part: Part, query: Query) -> Missing:
        names = ", ".join(measure.spec.name for measure in part.measures)
        period = f"{query.start or ''}..{query.end or ''}"
        return Missing(names, "NO_DATA_IN_PERIOD", f"no row of {names} fits the conditions", period=period)

    def _title(self, part: Part, query: Query) -> str:
        """Return a human-readable title of the sheet."""
        names = [entity.name for entity in part.entities]
        who = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        measures = ", ".join(measure.spec.name for measure in part.measures)
        facts = [where[1] for where in part.facts.values()]
        start, end = query.start or min(f.first for f in facts), query.end or max(f.last for f in facts)
        asked = ", ".join(filter(None, (query.transform, *query.statistics, query.combination)))
        shown = f" ({asked})" if asked else ""
        return f"{who}: {measures}{shown}, {part.frequency}, {start} to {end}"

    async def sql(self, statement: str, sheets: Mapping[str, bytes], rows: int, seconds: float) -> Sheet:
        """Run a read-only SELECT over sheets, named by their ids.

        ``rows`` limits the result, ``seconds`` the run time. Raises ``InvalidField("sql")`` and ``DeadlineExceeded``.
        """
        return await asyncio.to_thread(run_sql, statement, sheets, rows, seconds)


def weight_of(result: Result) -> int:
    """Return the approximate size of a result in bytes."""
    return 1_000 + sum(len(sheet.arrow) for sheet in result.sheets)


def fingerprint(folder: Path, data: Path) -> list[str]:
    """Return strings that change when a user's semantic folder or its tables change."""
    paths = sorted({*folder.glob("*.yaml"), *(path for path in data.iterdir() if path.is_file())})
    return [f"{path.name}:{path.stat().st_size}:{path.stat().st_mtime_ns}" for path in paths]
