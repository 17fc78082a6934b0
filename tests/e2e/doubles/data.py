"""The services of tables and of documents, over one script: what is fetched, brought and exported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.retrieval.v1 import retrieval_pb2 as retrieval
from fathom.core.call import Call
from fathom.core.errors import FathomError, InvalidField, NotFound
from fathom.services.datafetch.catalog.frameworks import Frameworks, load_frameworks
from fathom.services.datafetch.catalog.frameworks.rpc import check_framework, get_framework_file, list_frameworks
from fathom.services.datafetch.query.export import XLSX, as_csv, as_xlsx
from fathom.transport.store.memory import MemoryStore
from fathom.transport.store.refs import to_ref
from tests.e2e.script import Script
from tests.e2e.settings.sources import ConnectorSources, CorpusSources

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "frameworks"


class ReplayDatafetch(ConnectorSources):
    """The script's sheet, in small chunks, and its exports."""

    def __init__(self, script: Script, store: MemoryStore) -> None:
        self._script, self._store = script, store
        self.lifetimes: list[int] = []
        self.meanings: list[data.TableMeaning] = []
        self.refusal: FathomError | None = None
        """Raised by an import and by an applied meaning."""
        self.library: Frameworks | None = None
        self.indicators: set[str] = set()
        self.import_ids: list[str] = []
        """Ids of the next imports' sheets, the first one first; the script's when there are none."""
        self._imported: dict[str, data.Sheet] = {}

    def _arrow(self, sheet_id: str) -> bytes:
        if sheet_id != self._script.sheet.id and sheet_id not in self._imported:
            raise NotFound("sheet", sheet_id)
        return self._script.arrow

    async def GetTable(self, request: data.GetTableRequest, call: Call) -> AsyncIterator[data.GetTableResponse]:
        arrow = self._arrow(request.sheet_id)
        # In several chunks, since a client that reads the first alone would pass with a small table.
        for start in range(0, len(arrow), 8192):
            yield data.GetTableResponse(chunk=arrow[start : start + 8192])

    async def GetSheet(self, request: data.GetSheetRequest, call: Call) -> data.GetSheetResponse:
        self._arrow(request.sheet_id)
        return data.GetSheetResponse(sheet=self._imported.get(request.sheet_id, self._script.sheet))

    async def ImportTable(self, request: data.ImportTableRequest, call: Call) -> data.ImportTableResponse:
        """Answer with the script's sheet under the file's name, and one row that could not be read."""
        self.lifetimes.append(request.lifetime_s)
        if self.refusal is not None:
            raise self.refusal
        sheet = data.Sheet()
        sheet.CopyFrom(self._script.sheet)
        sheet.title = request.title
        if self.import_ids:
            sheet.id = self.import_ids.pop(0)
        issue = data.ImportIssue(row=3, message="has 1 fields, not 3")
        response = data.ImportTableResponse(sheet=sheet, issues=[issue])
        if request.title.endswith(".xlsx"):
            # A workbook of four sheets, the second of which is no table.
            names = ("Sales", "Notes", "Costs", "Staff")
            response.worksheets.extend(names)
            response.further.add(worksheet=names[1], reason="is no table")
            for name in names[2 : 2 + request.further_worksheets]:
                further = response.further.add(worksheet=name)
                further.sheet.CopyFrom(sheet)
                further.sheet.id, further.sheet.title = self.import_ids.pop(0), f"{request.title} {name}"
        for made in (sheet, *(further.sheet for further in response.further if further.HasField("sheet"))):
            self._imported[made.id] = made
        return response

    async def ProposeMeaning(self, request: data.ProposeMeaningRequest, call: Call) -> data.ProposeMeaningResponse:
        """Propose that the script's sheet has days and values."""
        columns = [
            data.ColumnMeaning(column="date", role=data.COLUMN_ROLE_DATE),
            data.ColumnMeaning(
                column="AAA.close_adj", role=data.COLUMN_ROLE_VALUE, names=["AAA"], aggregation=data.AGGREGATION_LAST
            ),
        ]
        return data.ProposeMeaningResponse(meaning=data.TableMeaning(columns=columns), adds=True)

    async def ApplyMeaning(self, request: data.ApplyMeaningRequest, call: Call) -> data.ApplyMeaningResponse:
        """Answer with the script's sheet; ``meanings`` has what was said."""
        if self.refusal is not None:
            raise self.refusal
        self.meanings.append(request.meaning)
        self.lifetimes.append(request.lifetime_s)
        return data.ApplyMeaningResponse(sheet=self._script.sheet)

    async def ResolveEntities(self, request: data.ResolveEntitiesRequest, call: Call) -> data.ResolveEntitiesResponse:
        """Complete the names of two companies; nothing else is known."""
        known = [
            data.Entity(id="AAA", name="Alpha <b>Industries</b>", name_zh="阿尔法", kind="stock"),
            data.Entity(id="AAPL", name="Apple Inc.", name_zh="苹果", kind="stock"),
        ]
        typed = request.mentions[0].lower()
        found = [
            one for one in known if any(name.lower().startswith(typed) for name in (one.id, one.name, one.name_zh))
        ]
        return data.ResolveEntitiesResponse(results=[data.EntityMatches(entities=found)])

    async def ListFrameworks(self, request: data.ListFrameworksRequest, call: Call) -> data.ListFrameworksResponse:
        """List two names alone, or what ``library`` has."""
        if self.library is not None:
            return list_frameworks(self.library, request)
        frameworks = [
            data.Framework(topic="esg", name="ESG", name_zh="环境、社会与治理"),
            data.Framework(topic="value", name="Valuation", name_zh="估值"),
        ]
        return data.ListFrameworksResponse(frameworks=frameworks)

    async def GetFrameworkFile(
        self, request: data.GetFrameworkFileRequest, call: Call
    ) -> data.GetFrameworkFileResponse:
        """Return a file of ``library``."""
        if self.library is None:
            raise NotFound("topic", request.topic)
        return get_framework_file(self.library, request)

    async def CheckFramework(self, request: data.CheckFrameworkRequest, call: Call) -> data.CheckFrameworkResponse:
        """Check as datafetch does, beside what ``library`` has and for tables with ``indicators``."""
        library = self.library or load_frameworks(EXAMPLES)
        return check_framework(library, self.indicators, request)

    async def ExportTable(self, request: data.ExportTableRequest, call: Call) -> data.ExportTableResponse:
        arrow = self._arrow(request.sheet_id)
        has_parentheses = request.negatives == data.NEGATIVE_STYLE_PARENTHESES
        if request.format == data.EXPORT_FORMAT_XLSX:
            content = as_xlsx(arrow, [], has_parentheses=has_parentheses)
            stored = await self._store.put(f"exports/{request.sheet_id}.xlsx", content, XLSX)
        else:
            content = as_csv(arrow, has_parentheses=has_parentheses)
            stored = await self._store.put(f"exports/{request.sheet_id}.csv", content, "text/csv; charset=utf-8")
        return data.ExportTableResponse(file=to_ref(stored))


class ReplayRetrieval(CorpusSources):
    """Documents that were brought, by corpus; the text of a bad one cannot be read."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.corpora: dict[str, list[str]] = {}
        self.is_refusing = False
        self.free = asyncio.Event()
        """Imports wait until it is set."""
        self.free.set()
        self.searched = []

    async def ImportDocument(
        self, request: retrieval.ImportDocumentRequest, call: Call
    ) -> retrieval.ImportDocumentResponse:
        content = await self._store.get(request.data.key)
        await self.free.wait()
        if self.is_refusing or b"unreadable" in content:
            raise InvalidField("data", "holds no text that can be read")
        corpus = request.corpus or f"own_{len(self.corpora) + 1}"
        self.corpora.setdefault(corpus, []).append(request.source)
        return retrieval.ImportDocumentResponse(corpus=corpus, added=len(content.split(b"\f")))
