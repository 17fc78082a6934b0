"""Tools ``search`` and ``fetch``: titles and summaries first, full text on request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import Any, ClassVar

from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.status_pb2 import Status

from fathom.api.common.v1.common_pb2 import TimeRange
from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import DependencyFailed, FathomError, InvalidField, rebuild
from fathom.domain.text.places import name_page
from fathom.services.planner.model.episode import MaterialKind, Step, ToolStatus
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, Reply, SourceFailed, make_schema
from fathom.transport.status import from_status

# About 1,500 tokens: a sixteenth of the default window, so that several pages fit.
PAGE_CHARS = 6_000
DATE = {"type": "string", "description": "YYYY-MM-DD"}


@dataclass(frozen=True)
class ShownDocuments:
    """Ids of the documents shown to this run with their corpora, derived from its recorded steps."""

    run_id: str
    ids: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_steps(cls, run_id: str, steps: Sequence[Step]) -> ShownDocuments:
        shown = cls(run_id)
        for step in steps:
            for result in step.results:
                if result.call.name == Search.name and result.status is ToolStatus.OK:
                    shown.ids.update(read_ids(result.content))
        return shown


def read_ids(content: str) -> dict[str, str]:
    """Return the ids of the hits in a ``search`` result, and the corpora that they name.

    None when an older planner wrote it in another format.
    """
    try:
        hits = json.loads(content.split("\n", 1)[0])["hits"]
        return {str(hit["id"]): str(hit.get("corpus", "")) for hit in hits}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


@dataclass(frozen=True)
class CorpusHits:
    """Hits of one corpus in the form that the model receives."""

    hits: list[dict[str, str]]
    is_cached: bool


@dataclass(frozen=True)
class Search:
    """Search of the corpora: the best of each in turn, since scores of two corpora cannot be compared."""

    clients: Clients
    corpora: tuple[str, ...]
    as_of: Timestamp | None
    timeout_s: float
    shown: ShownDocuments

    name: ClassVar[str] = "search"
    reads: ClassVar[bool] = True
    description: ClassVar[str] = (
        "Finds documents: news, notes, analysts' reports by house and rating. "
        "Gives id, time, title and summary, not the full text."
    )
    parameters: ClassVar[Mapping[str, Any]] = make_schema(
        ["query"],
        query={"type": "string", "minLength": 1, "maxLength": 2000},
        top_k={"type": "integer", "minimum": 1, "maximum": 20, "description": "Default 5."},
        entities={"type": "array", "items": {"type": "string"}, "description": "Only documents that name one."},
        # Of analysts' reports. One of each, undescribed: every turn pays for the words of its tools.
        house={"type": "string"},
        rating={"type": "string"},
        after=DATE,
        before=DATE,
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | NumberedReply:
        published = TimeRange(start_time=parse_day(arguments, "after"), end_time=parse_day(arguments, "before"))
        request = pb.SearchRequest(
            queries=[arguments["query"]],
            top_k=arguments.get("top_k", 5),
            filter=pb.SearchFilter(
                entities=arguments.get("entities", ()),
                published=published,
                houses=[arguments["house"]] if arguments.get("house") else (),
                ratings=[arguments["rating"]] if arguments.get("rating") else (),
            ),
            as_of=self.as_of,
            run=self.shown.run_id,
        )
        found = await asyncio.gather(*(self._search_corpus(request, corpus) for corpus in self.corpora))
        hits = [hit for some in zip_longest(*(one.hits for one in found)) for hit in some if hit is not None]
        hits = hits[: request.top_k]
        is_cached = all(one.is_cached for one in found)
        if not hits:
            return lambda first: replace(make_empty_reply(describe_search(arguments), first), is_cached=is_cached)
        # At once, so that a fetch in the next round finds them, before the step is recorded.
        self.shown.ids.update((hit["id"], hit.get("corpus", "")) for hit in hits)
        return Reply(ToolStatus.OK, {"hits": hits}, is_cached=is_cached)

    async def _search_corpus(self, request: pb.SearchRequest, corpus: str) -> CorpusHits:
        asked = pb.SearchRequest()
        asked.CopyFrom(request)
        asked.corpus = corpus
        response = await self.clients.retrieval.search(asked, timeout_s=self.timeout_s)
        result = response.results[0]
        # One query of several may fail in a response that is OK as a whole.
        if result.status.code:
            raise read_failure(result.status)
        # Where there is one corpus, nobody needs its name.
        named = {"corpus": corpus} if len(self.corpora) > 1 else {}
        hits = [
            {
                "id": hit.id,
                "time": format_day(hit.publish_time),
                "title": hit.title,
                "summary": hit.summary,
                **name_place(hit, corpus),
                **name_report(hit),
                **named,
            }
            for hit in result.hits
        ]
        return CorpusHits(hits, response.is_cached)


def name_place(item: pb.SearchHit | pb.Document, corpus: str) -> dict[str, str]:
    """Return file and page of a passage, "file p. 3"; nothing for a whole document of the corpus of all."""
    if not (item.page or item.parent or corpus):
        return {}
    return {"place": name_page(item.source, item.page, item.ocr_confidence)}


def name_report(item: pb.SearchHit | pb.Document) -> dict[str, str]:
    """Return house and rating of an analysts' report; nothing for another document."""
    return {name: said for name, said in (("house", item.house), ("rating", item.rating)) if said}


def name_cited(document: pb.Document, place: str) -> str:
    """Return the title of a cited document, with its place; a title that only repeats the file's name is left out.

    A report is cited with its house and day.
    """
    is_repeated = bool(place) and document.title in (document.source, PurePosixPath(document.source).stem)
    day = format_day(document.publish_time) if document.house else ""
    return ", ".join(filter(None, ("" if is_repeated else document.title, document.house, day, place)))


def describe_search(arguments: Mapping[str, Any]) -> str:
    """Return the query with the filters of reports: what a search found nothing for."""
    wanted = [str(arguments[name]) for name in ("house", "rating") if arguments.get(name)]
    return "; ".join((arguments["query"], *wanted))


@dataclass(frozen=True)
class Fetch:
    """Retrieval of one document, page by page."""

    clients: Clients
    corpora: tuple[str, ...]
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
        ident, page = arguments["id"], arguments.get("page", "")
        is_shown = ident in self.shown.ids
        known = self.shown.ids.get(ident, "")
        # What this run has not seen, another replica may have shown it, from any of the corpora.
        result, corpus = pb.FetchResult(), ""
        for corpus in (known,) if known else self.corpora:
            result = await self._fetch_from(corpus, ident, page, is_shown)
            if not result.status.code:
                break
        if result.status.code:
            raise read_failure(result.status)
        document = result.document

        def make_reply(first: int) -> Reply:
            place = name_place(document, corpus)
            head = {
                "id": document.id,
                "material": first,
                "title": document.title,
                "time": format_day(document.publish_time),
                **place,
                **name_report(document),
                "more": result.next_page_token,
            }
            # What an answer cites is named with its page.
            cited = pb.Document()
            cited.CopyFrom(document)
            cited.title = name_cited(document, place.get("place", ""))
            return Reply(ToolStatus.OK, head, document.text, (NewMaterial(MaterialKind.PASSAGE, cited),))

        return make_reply

    async def _fetch_from(self, corpus: str, ident: str, page: str, is_shown: bool) -> pb.FetchResult:
        request = pb.FetchRequest(
            ids=[ident],
            corpus=corpus,
            page_size=PAGE_CHARS,
            page_token=page,
            as_of=self.as_of,
            # Retrieval enforces that only shown documents are fetched, but its list does not survive its restarts;
            # documents that our own record shows need no check.
            enforce_seen_by_run="" if is_shown else self.shown.run_id,
        )
        response = await self.clients.retrieval.fetch(request, timeout_s=self.timeout_s)
        return response.results[0]


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
