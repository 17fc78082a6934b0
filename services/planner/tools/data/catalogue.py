"""Tool ``catalogue``: which data there are, with the ids, units and dates that a query needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.clients import Clients
from fathom.core.errors import InvalidField
from fathom.services.planner.model.episode import MaterialKind, ToolStatus
from fathom.services.planner.tools.session import Session
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, Reply, make_schema

PAGE_ROWS = 10
# Later pages are worse matches; a model that reads this far should ask in other words.
MAX_PAGES = 20
SHOWN_ENTITIES = 8
# A conversation rarely has more tables; their columns can be looked up in Python.
SHOWN_TABLES, SHOWN_COLUMNS = 20, 20
WORD = re.compile(r"[^\W_\u3400-\u9fff]+|[\u3400-\u9fff]")
COLUMNS = "entities | indicator | name | unit | frequency | first..last date | source | basis"


@dataclass(frozen=True)
class DataCatalogue:
    """Search of the data's catalogue, without values; ``as_of`` lists only what was published by then."""

    clients: Clients
    as_of: Timestamp | None
    timeout_s: float
    session: Session | None = None
    """Session whose tables are listed: uploads, and what earlier turns and calls have brought; None lists none."""

    name: ClassVar[str] = "catalogue"
    reads: ClassVar[bool] = True
    description: ClassVar[str] = (
        "Says which data there are, without values: entities, indicators, units, frequencies, first and last dates,"
        " with the ids that `data` takes. Search by name, code or description in English or Chinese; without a query"
        " you get an overview, or all series of a `kind`. `unmatched` names words that no series has: what they ask for"
        " is probably not here. `tables` are at hand already, by their names in Python and `sql`."
    )
    parameters: ClassVar[Mapping[str, Any]] = make_schema(
        [],
        query={"type": "string", "maxLength": 500, "description": "What you look for, e.g. EURUSD or 失业率."},
        kind={"type": "string", "description": "Only a kind of the overview, e.g. stock; alone it lists all."},
        page={"type": "integer", "minimum": 1, "maximum": MAX_PAGES, "description": "Page of the result, from 1."},
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply:
        query, page = arguments.get("query", ""), arguments.get("page", 1)
        request = pb.SearchCatalogRequest(
            query=query, kind=arguments.get("kind", ""), page_size=PAGE_ROWS, as_of=self.as_of
        )
        try:
            response = await self.clients.datafetch.search_catalog(request, timeout_s=self.timeout_s)
            for number in range(2, page + 1):
                if not response.next_page_token:
                    raise InvalidField("catalogue.page", f"the last page is {number - 1}")
                request.page_token = response.next_page_token
                response = await self.clients.datafetch.search_catalog(request, timeout_s=self.timeout_s)
        except InvalidField as error:
            field = error.field.removeprefix("catalogue.")
            raise InvalidField(f"catalogue.{field}", error.message.removeprefix(f"{error.field}: ")) from error
        tables = list_tables(self.session.sheets if self.session is not None and page == 1 else {}, query)
        return lambda first: make_catalogue_reply(response, query, page, first, tables)


def list_tables(sheets: Mapping[str, pb.Sheet], query: str) -> list[dict[str, Any]]:
    """Return name, title, rows and columns of the newest tables that have a word of the query; all without a query."""
    words = set(split_words(query))
    found = []
    for name, sheet in sheets.items():
        columns = [f"{column.name} ({column.unit})" if column.unit else column.name for column in sheet.columns]
        if not words or words & set(split_words(" ".join([name, sheet.title, *columns]))):
            shown = [*columns[:SHOWN_COLUMNS], *(["…"] if len(columns) > SHOWN_COLUMNS else [])]
            found.append({"name": name, "title": sheet.title, "rows": sheet.rows, "columns": shown})
    return found[-SHOWN_TABLES:]


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case; a Chinese character is one."""
    return WORD.findall(text.casefold())


def make_catalogue_reply(
    response: pb.SearchCatalogResponse,
    query: str,
    page: int,
    first: int,
    tables: Sequence[Mapping[str, Any]] = (),
) -> Reply:
    """Return a page as lines for the model, which an answer may cite as material ``first``."""
    lines = [COLUMNS, *map(format_series, response.series)] if response.series else []
    lines += [format_kind(kind) for kind in response.kinds]
    if response.vendors:
        lines.append(f"outside sources asked for what is not listed: {', '.join(response.vendors)}")
    text = "\n".join(lines)
    pages = -(-response.total // PAGE_ROWS)
    head: dict[str, Any] = {"material": first, "rows": response.total, "page": page, "pages": pages}
    if response.kinds:
        head["kinds"] = [describe_kind(kind) for kind in response.kinds]
    if query:
        head["unmatched"] = list(response.unmatched)
    if tables:
        head["tables"] = tables
    title = f"Data catalogue: {query}" if query else "Data catalogue"
    document = Document(id=f"catalogue-{response.snapshot[:12]}", title=title, text=text)
    status = ToolStatus.OK if lines or tables else ToolStatus.EMPTY
    return Reply(status, head, text, (NewMaterial(MaterialKind.PASSAGE, document),))


def format_series(row: pb.CatalogSeries) -> str:
    """Return one row of the catalogue on a line, its ids as ``data`` takes them."""
    name = f"{row.entity_name}: {row.name}" if row.entity_name else row.name
    zh = " ".join(filter(None, (row.entity_name_zh, row.name_zh)))
    facts = [
        format_ids(row.entities, row.entity_count),
        row.indicator,
        f"{name} ({zh})" if zh else name,
        row.unit,
        format_frequency(row.frequency),
        f"{row.first_date}..{row.last_date}",
        row.source,
        row.basis,
    ]
    return " | ".join(facts).removesuffix(" | ")


def format_kind(kind: pb.CatalogKind) -> str:
    """Return what there is of one kind of entity on a line."""
    bases = f"; {'; '.join(kind.bases)}" if kind.bases else ""
    return (
        f"{kind.kind}: entities {format_ids(kind.entities, kind.entity_count)}; indicators"
        f" {format_ids(kind.indicators, kind.indicator_count)}; {', '.join(map(format_frequency, kind.frequencies))};"
        f" {format_dates(kind)}{bases}"
    )


def describe_kind(kind: pb.CatalogKind) -> dict[str, Any]:
    """Return what there is of one kind of entity as JSON: its first ids with the number of all, frequencies, dates."""
    return {
        "kind": kind.kind,
        "entities": list(kind.entities[:SHOWN_ENTITIES]),
        "entity_count": kind.entity_count,
        "indicators": list(kind.indicators[:SHOWN_ENTITIES]),
        "indicator_count": kind.indicator_count,
        "frequencies": [*map(format_frequency, kind.frequencies)],
        "first_date": kind.first_date,
        "last_date": kind.last_date,
        "until": format_dates(kind).partition(", ")[2],
    }


def format_dates(kind: pb.CatalogKind) -> str:
    """Return the first and the last date of a kind, and when most or the first of its series end."""
    whole = f"{kind.first_date}..{kind.last_date}"
    if kind.usual_last_date:
        return whole if kind.usual_last_date == kind.last_date else f"{whole}, most until {kind.usual_last_date}"
    early = kind.earliest_last_date
    return f"{whole}, some only until {early}" if early and early != kind.last_date else whole


def format_ids(ids: Any, count: int) -> str:
    shown = ", ".join(ids[:SHOWN_ENTITIES])
    return f"{shown}, … ({count})" if count > SHOWN_ENTITIES else shown


def format_frequency(frequency: pb.Frequency) -> str:
    return pb.Frequency.Name(frequency).removeprefix("FREQUENCY_").lower()
