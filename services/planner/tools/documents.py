"""Tools ``search`` and ``fetch``: titles and summaries first, full text on request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, ClassVar

from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.status_pb2 import Status

from fathom.api.common.v1.common_pb2 import TimeRange
from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import DependencyFailed, FathomError, InvalidField, rebuild
from fathom.services.planner.model.episode import MaterialKind, Step, ToolStatus
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, Reply, SourceFailed, make_schema
from fathom.transport.status import from_status

# About 1,500 tokens: a sixteenth of the default window, so that several pages fit.
PAGE_CHARS = 6_000
DATE = {"type": "string", "description": "ISO date, e.g. 2020-01-31."}


@dataclass(frozen=True)
class ShownDocuments:
    """Ids of the documents shown to this run, derived from its recorded steps."""

    run_id: str
    ids: set[str] = field(default_factory=set)

    @classmethod
    def from_steps(cls, run_id: str, steps: Sequence[Step]) -> ShownDocuments:
        shown = cls(run_id)
        for step in steps:
            for result in step.results:
                if result.call.name == Search.name and result.status is ToolStatus.OK:
                    shown.ids.update(read_ids(result.content))
        return shown


def read_ids(content: str) -> list[str]:
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
    shown: ShownDocuments

    name: ClassVar[str] = "search"
    reads: ClassVar[bool] = True
    description: ClassVar[str] = (
        "Finds documents: news, notes, explanations. Gives id, time, title and a summary, never the full text."
    )
    parameters: ClassVar[Mapping[str, Any]] = make_schema(
        ["query"],
        query={"type": "string", "minLength": 1, "maxLength": 2000, "description": "What to look for."},
        top_k={"type": "integer", "minimum": 1, "maximum": 20, "description": "How many results; default 5."},
        entities={"type": "array", "items": {"type": "string"}, "description": "Only documents that name one."},
        after=DATE,
        before=DATE,
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | NumberedReply:
        published = TimeRange(start_time=parse_day(arguments, "after"), end_time=parse_day(arguments, "before"))
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
        # One query of several may fail in a response that is OK as a whole.
        if result.status.code:
            raise read_failure(result.status)
        hits = [
            {"id": hit.id, "time": format_day(hit.publish_time), "title": hit.title, "summary": hit.summary}
            for hit in result.hits
        ]
        if not hits:
            return lambda first: make_empty_reply(arguments["query"], first)
        # At once, so that a fetch in the next round finds them, before the step is recorded.
        self.shown.ids.update(hit.id for hit in result.hits)
        return Reply(ToolStatus.OK, {"hits": hits})


@dataclass(frozen=True)
class Fetch:
    """Retrieval of one document, page by page."""

    clients: Clients
    corpus: str
    as_of: Timestamp | None
    timeout_s: float
    shown: ShownDocuments

    name: ClassVar[str] = "fetch"
    reads: ClassVar[bool] = True
    description: ClassVar[str] = "Reads the full text of a document that a search found, by its id."
    parameters: ClassVar[Mapping[str, Any]] = make_schema(
        ["id"],
        id={"type": "string", "minLength": 1, "description": "Id from a search result."},
        page={"type": "string", "description": "Value of `more` in an earlier result, to read on."},
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply:
        request = pb.FetchRequest(
            ids=[arguments["id"]],
            corpus=self.corpus,
            page_size=PAGE_CHARS,
            page_token=arguments.get("page", ""),
            as_of=self.as_of,
            # Retrieval enforces that only shown documents are fetched, but its list does not survive its restarts;
            # documents that our own record shows need no check.
            enforce_seen_by_run="" if arguments["id"] in self.shown.ids else self.shown.run_id,
        )
        response = await self.clients.retrieval.fetch(request, timeout_s=self.timeout_s)
        result = response.results[0]
        if result.status.code:
            raise read_failure(result.status)
        document = result.document

        def make_reply(first: int) -> Reply:
            head = {
                "id": document.id,
                "material": first,
                "title": document.title,
                "time": format_day(document.publish_time),
                "more": result.next_page_token,
            }
            return Reply(ToolStatus.OK, head, document.text, (NewMaterial(MaterialKind.PASSAGE, document),))

        return make_reply


def read_failure(status: Status) -> FathomError:
    """Return the error of one query or document in a response that is OK as a whole."""
    error = from_status(status)
    # Retrieval answered: what failed is the source behind it, such as a website.
    if isinstance(error, DependencyFailed):
        return rebuild(SourceFailed, error.message, error.metadata, error.retry_after_s)
    return error


def make_empty_reply(query: str, first: int) -> Reply:
    """Return the reply of a search without hits: a missing item, which an answer cites as material ``first``."""
    item = {"subject": query, "reason": "NO_MATCH", "detail": f"no document found for {query!r}"}
    head = {"hits": [], "missing": [{**item, "material": first}]}
    return Reply(ToolStatus.EMPTY, head, material=(NewMaterial(MaterialKind.MISSING, item),))


def format_day(time: Timestamp) -> str:
    """Return the ISO date of a time; "" for an unset time."""
    return time.ToDatetime(UTC).date().isoformat() if time.seconds else ""


def parse_day(arguments: Mapping[str, Any], name: str) -> Timestamp | None:
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
