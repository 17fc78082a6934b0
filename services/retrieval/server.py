"""Retrieval's RPCs: proto ⇄ engine, no logic."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.call import Call
from fathom.errors import FathomError, InvalidField, NotImplementedYet
from fathom.rpc.service import Deps, Service
from fathom.rpc.status import OK, to_status
from services.retrieval.config import Config
from services.retrieval.corpus import Document, Filter
from services.retrieval.engine import Engine, Hit
from services.retrieval.paging import only_page


def build(config: Config, deps: Deps) -> Service:
    """Retrieval; the only constructor."""
    engine = Engine(config)
    return Service("retrieval", RetrievalServicer(engine), engine.start)


class RetrievalServicer:
    """Answers retrieval's RPCs."""

    unimplemented: ClassVar = {
        name: "the retrieval issue builds ingestion and snapshots"
        for name in ("Ingest", "CreateSnapshot", "ActivateSnapshot")
    }

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def Search(self, request: pb.SearchRequest, call: Call) -> pb.SearchResponse:
        self._engine.corpus(request.corpus)
        response = pb.SearchResponse(snapshot=self._engine.snapshot(request.snapshot))
        found = await self._engine.search(
            request.queries, request.top_k, filter_from_proto(request), request.recency_half_life_days
        )
        for result in found:
            if isinstance(result, FathomError):
                response.results.add(status=to_status(result))
            else:
                response.results.add(status=OK, hits=[hit_to_proto(hit) for hit in result])
        return response

    async def Fetch(self, request: pb.FetchRequest, call: Call) -> pb.FetchResponse:
        self._engine.corpus(request.corpus)
        if request.enforce_seen_by_run:
            # Search does not say for which run it is, so what a run was shown cannot be known here.
            raise NotImplementedYet("retrieval.Fetch.enforce_seen_by_run", "the retrieval issue")
        as_of = time_from_proto(request, "as_of")
        response = pb.FetchResponse(snapshot=self._engine.snapshot(""))
        for page in await self._engine.fetch(request.ids, request.page_size, request.page_token, as_of):
            if isinstance(page, FathomError):
                response.results.add(status=to_status(page))
            else:
                document = document_to_proto(page.document, page.text)
                response.results.add(status=OK, document=document, next_page_token=page.next_token)
        return response

    async def ListCorpora(self, request: pb.ListCorporaRequest, call: Call) -> pb.ListCorporaResponse:
        only_page(request.page_size, request.page_token)
        documents = self._engine.documents
        newest = max((document.published for document in documents if document.published), default=None)
        corpus = pb.Corpus(
            name=self._engine.corpus(""),
            description="News and notes that come with Fathom",
            documents=len(documents),
            snapshot=self._engine.snapshot(""),
            as_of=time_to_proto(newest),
        )
        return pb.ListCorporaResponse(corpora=[corpus])

    async def ListSnapshots(self, request: pb.ListSnapshotsRequest, call: Call) -> pb.ListSnapshotsResponse:
        self._engine.corpus(request.corpus)
        only_page(request.page_size, request.page_token)
        snapshot = pb.Snapshot(
            id=self._engine.snapshot(""),
            create_time=time_to_proto(self._engine.built),
            documents=len(self._engine.documents),
        )
        return pb.ListSnapshotsResponse(snapshots=[snapshot])


def filter_from_proto(request: pb.SearchRequest) -> Filter:
    """Raises ``InvalidField`` for a time out of range and for an empty period."""
    wanted = request.filter
    after = time_from_proto(wanted.published, "start_time", "filter.published.start_time")
    before = time_from_proto(wanted.published, "end_time", "filter.published.end_time")
    if after and before and before <= after:
        raise InvalidField("filter.published", "ends before it starts")
    return Filter(
        frozenset(wanted.sources),
        frozenset(wanted.types),
        frozenset(wanted.entities),
        after,
        before,
        time_from_proto(request, "as_of"),
    )


def time_from_proto(message: Message, name: str, path: str = "") -> datetime | None:
    """A timestamp field as UTC; None when unset; raises ``InvalidField`` for one outside years 1 to 9999."""
    if not message.HasField(name):
        return None
    time: Timestamp = getattr(message, name)
    try:
        return time.ToDatetime(UTC)
    except ValueError as error:
        raise InvalidField(path or name, "must be between the years 1 and 9999") from error


def time_to_proto(time: datetime | None) -> Timestamp | None:
    if time is None:
        return None
    timestamp = Timestamp()
    timestamp.FromDatetime(time)
    return timestamp


def hit_to_proto(hit: Hit) -> pb.SearchHit:
    document = hit.document
    return pb.SearchHit(
        id=document.id,
        publish_time=time_to_proto(document.published),
        title=document.title,
        summary=hit.summary,
        score=hit.score,
        source=document.source,
    )


def document_to_proto(document: Document, text: str) -> pb.Document:
    return pb.Document(
        id=document.id,
        title=document.title,
        text=text,
        publish_time=time_to_proto(document.published),
        source=document.source,
        type=document.type,
        entities=document.entities,
        total_chars=len(document.text),
    )
