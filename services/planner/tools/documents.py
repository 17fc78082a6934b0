"""Tools ``search`` and ``fetch``: titles and summaries first, full text on request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, ClassVar

from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.common.v1.common_pb2 import TimeRange
from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.clients import Clients
from fathom.errors import InvalidField
from fathom.rpc.status import from_status
from services.planner.model import Kind, Step, ToolState
from services.planner.tools.tool import Finding, Numbered, Reply, schema

PAGE_CHARS = 6_000
DATE = {"type": "string", "description": "ISO date, e.g. 2020-01-31."}


@dataclass(frozen=True)
class Shown:
    """Ids of the documents shown to this run, derived from its recorded steps."""

    run_id: str
    ids: set[str] = field(default_factory=set)

    @classmethod
    def rebuilt(cls, run_id: str, steps: Sequence[Step]) -> Shown:
        shown = cls(run_id)
        for step in steps:
            for result in step.results:
                if result.call.name == Search.name and result.status is ToolState.OK:
                    shown.ids.update(ids_in(result.content))
        return shown


def ids_in(content: str) -> list[str]:
    """Return the ids of the hits in a ``search`` result; none when an older planner wrote it in another format."""
    try:
        return [str(hit["id"]) for hit in json.loads(content.split("\n", 1)[0])["hits"]]
    except (ValueError, TypeError, KeyError):
        return []


@dataclass(frozen=True)
class Search:
    """Search of the corpus."""

    clients: Clients
    corpus: str
    as_of: Timestamp | None
    timeout_s: float
    shown: Shown

    name: ClassVar[str] = "search"
    reads: ClassVar[bool] = True
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

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply:
        published = TimeRange(start_time=instant(arguments, "after"), end_time=instant(arguments, "before"))
        request = pb.SearchRequest(
            queries=[arguments["query"]],
            top_k=arguments.get("top_k", 5),
            corpus=self.corpus,
            filter=pb.SearchFilter(entities=arguments.get("entities", ()), published=published),
            as_of=self.as_of,
            run=self.shown.run_id,
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
        self.shown.ids.update(hit.id for hit in result.hits)
        return Reply(ToolState.OK, {"hits": hits})


@dataclass(frozen=True)
class Fetch:
    """Retrieval of one document, page by page."""

    clients: Clients
    corpus: str
    as_of: Timestamp | None
    timeout_s: float
    shown: Shown

    name: ClassVar[str] = "fetch"
    reads: ClassVar[bool] = True
    description: ClassVar[str] = "Reads the full text of a document that a search found, by its id."
    parameters: ClassVar[Mapping[str, Any]] = schema(
        ["id"],
        id={"type": "string", "minLength": 1, "description": "Id from a search result."},
        page={"type": "string", "description": "Value of `more` in an earlier result, to read on."},
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Numbered:
        request = pb.FetchRequest(
            ids=[arguments["id"]],
            corpus=self.corpus,
            page_size=PAGE_CHARS,
            page_token=arguments.get("page", ""),
            as_of=self.as_of,
            # Of what our own record shows we need not ask; of anything else retrieval knows best.
            # Retrieval's own list of shown documents, which it enforces, does not survive its restarts.
            enforce_seen_by_run="" if arguments["id"] in self.shown.ids else self.shown.run_id,
        )
        response = await self.clients.retrieval.fetch(request, timeout_s=self.timeout_s)
        result = response.results[0]
        if result.status.code:
            raise from_status(result.status)
        document = result.document

        def numbered(first: int) -> Reply:
            head = {
                "id": document.id,
                "material": first,
                "title": document.title,
                "time": day(document.publish_time),
                "more": result.next_page_token,
            }
            return Reply(ToolState.OK, head, document.text, (Finding(Kind.PASSAGE, document),))

        return numbered


def missing(subject: str, detail: str, reason: str, head: Mapping[str, Any]) -> Reply:
    """Return an empty result with a missing item, so that answer and page can show what was not found."""
    item = {"subject": subject, "reason": reason, "detail": detail}
    return Reply(ToolState.EMPTY, {**head, "missing": [item]}, findings=(Finding(Kind.MISSING, item),))


def day(time: Timestamp) -> str:
    """Return the ISO date of a time; "" for an unset time."""
    return time.ToDatetime(UTC).date().isoformat() if time.seconds else ""


def instant(arguments: Mapping[str, Any], name: str) -> Timestamp | None:
    """Return midnight UTC of an ISO date, or None when absent; raise ``InvalidField`` for an invalid one."""
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
