"""``search`` and ``fetch``: titles and summaries first, full text on request (rows M02, M03, R10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, ClassVar

from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.common.v1.common_pb2 import TimeRange
from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.clients import Clients
from fathom.errors import InvalidField
from fathom.rpc.status import from_status
from services.planner.model import Kind, ToolState
from services.planner.tools.tool import Finding, Reply, schema

PAGE_CHARS = 6_000
DATE = {"type": "string", "description": "ISO date, e.g. 2020-01-31."}


@dataclass(frozen=True)
class Search:
    """Searches the corpus."""

    clients: Clients
    corpus: str
    as_of: Timestamp | None
    timeout_s: float

    name: ClassVar[str] = "search"
    description: ClassVar[str] = (
        "Finds documents: news, notes, explanations. Gives id, time, title and a summary, never the full text."
    )
    parameters: ClassVar[Mapping[str, Any]] = schema(
        ["query"],
        query={"type": "string", "minLength": 1, "maxLength": 2000, "description": "What to look for."},
        top_k={"type": "integer", "minimum": 1, "maximum": 20, "description": "How many results; default 5."},
        entities={"type": "array", "items": {"type": "string"}, "description": "Only documents that name one."},
        after=DATE,
        before=DATE,
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any], first_number: int) -> Reply:
        published = TimeRange(start_time=instant(arguments, "after"), end_time=instant(arguments, "before"))
        request = pb.SearchRequest(
            queries=[arguments["query"]],
            top_k=arguments.get("top_k", 5),
            corpus=self.corpus,
            filter=pb.SearchFilter(entities=arguments.get("entities", ()), published=published),
            as_of=self.as_of,
        )
        response = await self.clients.retrieval.search(request, timeout_s=self.timeout_s)
        result = response.results[0]
        if result.status.code:
            raise from_status(result.status)
        hits = [
            {"id": hit.id, "time": day(hit.publish_time), "title": hit.title, "summary": hit.summary}
            for hit in result.hits
        ]
        if not hits:
            return missing(arguments["query"], "no document matches", "NO_MATCH", {"hits": []})
        return Reply(ToolState.OK, {"hits": hits})


@dataclass(frozen=True)
class Fetch:
    """Reads one document, page by page."""

    clients: Clients
    corpus: str
    as_of: Timestamp | None
    timeout_s: float

    name: ClassVar[str] = "fetch"
    description: ClassVar[str] = "Reads the full text of a document that a search found, by its id."
    parameters: ClassVar[Mapping[str, Any]] = schema(
        ["id"],
        id={"type": "string", "minLength": 1, "description": "Id from a search result."},
        page={"type": "string", "description": "Value of `more` in an earlier result, to read on."},
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any], first_number: int) -> Reply:
        request = pb.FetchRequest(
            ids=[arguments["id"]],
            corpus=self.corpus,
            page_size=PAGE_CHARS,
            page_token=arguments.get("page", ""),
            as_of=self.as_of,
        )
        response = await self.clients.retrieval.fetch(request, timeout_s=self.timeout_s)
        result = response.results[0]
        if result.status.code:
            raise from_status(result.status)
        document = result.document
        head = {
            "id": document.id,
            "material": first_number,
            "title": document.title,
            "time": day(document.publish_time),
            "more": result.next_page_token,
        }
        return Reply(ToolState.OK, head, document.text, (Finding(Kind.PASSAGE, document),))


def missing(subject: str, detail: str, reason: str, head: Mapping[str, Any]) -> Reply:
    """An empty result: missing is a value that reaches answer and page."""
    item = {"subject": subject, "reason": reason, "detail": detail}
    return Reply(ToolState.EMPTY, {**head, "missing": [item]}, findings=(Finding(Kind.MISSING, item),))


def day(time: Timestamp) -> str:
    """ISO date, or "" for an unset time."""
    return time.ToDatetime(UTC).date().isoformat() if time.seconds else ""


def instant(arguments: Mapping[str, Any], name: str) -> Timestamp | None:
    """Midnight UTC of an ISO date; None when absent; raises ``InvalidField``."""
    text = arguments.get(name)
    if text is None:
        return None
    try:
        parsed = date.fromisoformat(text)
    except ValueError as error:
        raise InvalidField(f"search.{name}", f"{text!r} is no ISO date") from error
    time = Timestamp()
    time.FromDatetime(datetime(parsed.year, parsed.month, parsed.day, tzinfo=UTC))
    return time
