"""Retrieval's RPCs: proto ⇄ engine, no logic."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.call import Call
from fathom.errors import FathomError, InvalidField, NotFound, NotImplementedYet
from fathom.rpc.service import Deps, Service
from fathom.rpc.status import OK, to_status
from services.retrieval.config import Config
from services.retrieval.engine import MAX_IDS, MAX_QUERIES, Document, Engine, Filter, bounded


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
        self._snapshot(request.snapshot)
        top_k, allowed = self._engine.top_k(request.top_k), filter_from_proto(request)
        response = pb.SearchResponse(snapshot=self._engine.manifest.snapshot)
        for query in bounded(request.queries, MAX_QUERIES, "queries"):
            try:
                hits = self._engine.search(query, top_k, allowed, request.recency_half_life_days)
            except FathomError as error:
                response.results.add(status=to_status(error))
                continue
            found = [
                pb.SearchHit(
                    id=hit.document.id,
                    publish_time=to_timestamp(hit.document.published),
                    title=hit.document.title,
                    summary=hit.summary,
                    score=hit.score,
                    source=hit.document.source,
                )
                for hit in hits
            ]
            response.results.add(status=OK, hits=found)
        return response

    async def Fetch(self, request: pb.FetchRequest, call: Call) -> pb.FetchResponse:
        self._engine.corpus(request.corpus)
        if request.enforce_seen_by_run:
            raise NotImplementedYet("retrieval.Fetch.enforce_seen_by_run", "the retrieval issue")
        if request.page_token and len(request.ids) != 1:
            raise InvalidField("page_token", "goes with a single id")
        as_of = to_datetime(request.as_of) if request.HasField("as_of") else None
        response = pb.FetchResponse(snapshot=self._engine.manifest.snapshot)
        for ident in bounded(request.ids, MAX_IDS, "ids"):
            try:
                page = self._engine.fetch(ident, request.page_size, request.page_token, as_of)
            except FathomError as error:
                response.results.add(status=to_status(error))
                continue
            document = document_to_proto(page.document, page.text)
            response.results.add(status=OK, document=document, next_page_token=page.next_token)
        return response

    async def ListCorpora(self, request: pb.ListCorporaRequest, call: Call) -> pb.ListCorporaResponse:
        documents = self._engine.documents
        newest = max((document.published for document in documents if document.published), default=None)
        corpus = pb.Corpus(
            name=self._engine.corpus(""),
            description="News and notes that come with Fathom",
            documents=len(documents),
            snapshot=self._engine.manifest.snapshot,
            as_of=to_timestamp(newest),
        )
        return pb.ListCorporaResponse(corpora=[corpus])

    async def ListSnapshots(self, request: pb.ListSnapshotsRequest, call: Call) -> pb.ListSnapshotsResponse:
        self._engine.corpus(request.corpus)
        snapshot = pb.Snapshot(id=self._engine.manifest.snapshot, documents=len(self._engine.documents))
        return pb.ListSnapshotsResponse(snapshots=[snapshot])

    def _snapshot(self, name: str) -> None:
        if name not in ("", self._engine.manifest.snapshot):
            raise NotFound("snapshot", name, [self._engine.manifest.snapshot])


def to_timestamp(time: datetime | None) -> Timestamp | None:
    if time is None:
        return None
    timestamp = Timestamp()
    timestamp.FromDatetime(time)
    return timestamp


def to_datetime(time: Timestamp) -> datetime:
    return time.ToDatetime(UTC)


def filter_from_proto(request: pb.SearchRequest) -> Filter:
    wanted, published = request.filter, request.filter.published
    return Filter(
        frozenset(wanted.sources),
        frozenset(wanted.types),
        frozenset(wanted.entities),
        to_datetime(published.start_time) if published.HasField("start_time") else None,
        to_datetime(published.end_time) if published.HasField("end_time") else None,
        to_datetime(request.as_of) if request.HasField("as_of") else None,
    )


def document_to_proto(document: Document, text: str) -> pb.Document:
    return pb.Document(
        id=document.id,
        title=document.title,
        text=text,
        publish_time=to_timestamp(document.published),
        source=document.source,
        type=document.type,
        entities=document.entities,
        total_chars=len(document.text),
    )
