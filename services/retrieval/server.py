"""RPCs of the retrieval service: proto to and from the engine, no logic."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from datetime import UTC, datetime

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.common.v1.common_pb2 import ObjectRef
from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.core.cache import observe_cache
from fathom.core.call import Call
from fathom.core.errors import Conflict, FathomError, InvalidField
from fathom.core.ids import new_id, sha256
from fathom.core.paging import page_of_list
from fathom.hosting.deps import Deps
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.corpus.ingest import Chunk, Deletion, Item
from fathom.services.retrieval.corpus.own import KIND, bind_corpus, is_own
from fathom.services.retrieval.corpus.registry import CorpusState
from fathom.services.retrieval.corpus.rows import Issue, list_parsers, split_version
from fathom.services.retrieval.corpus.snapshot import Manifest
from fathom.services.retrieval.corpus.store import make_manifest_key
from fathom.services.retrieval.documents.model import PLACE_FIELD, Document, Filter, parse_document
from fathom.services.retrieval.engine import Engine, Hit
from fathom.services.retrieval.http.server import HttpServer
from fathom.services.retrieval.metrics import register
from fathom.transport.bus.streams import SEEN
from fathom.transport.rpc.service import Service
from fathom.transport.status import OK, to_status
from fathom.transport.store import ObjectStore
from fathom.transport.store.refs import read_ref
from fathom.transport.store.startup import wait_for_store
from fathom.transport.store.tenant import TenantStore

MAX_SOURCE_CHARS = 200
# Of callers' own corpora: by default as long as their tables, a year at most.
LIFETIME_S, MAX_LIFETIME_S = 30 * 86_400, 366 * 86_400


def build(config: Config, deps: Deps) -> Service:
    """Build the retrieval service; the only constructor."""

    def report(error: FathomError) -> None:
        deps.telemetry.log.warning("corpora were not refreshed or swept, which is tried again", error=error.message)

    engine = Engine(config, deps.store, list_parsers(), deps.bus.bucket(SEEN), report)
    http_server = HttpServer(config, engine, deps)
    register(deps.telemetry.registry, engine.executor, lambda: engine.failed_rounds)

    async def start() -> None:
        await wait_for_store(deps.store, deps.telemetry.log)
        await engine.start()
        await http_server.open()

    # The HTTP server first, as its requests in flight still need the engine.
    async def close() -> None:
        await http_server.close()
        await engine.close()

    return Service("retrieval", RetrievalServicer(engine, TenantStore(deps.store)), start, close)


class RetrievalServicer:
    """Answers the RPCs of the retrieval service."""

    def __init__(self, engine: Engine, store: ObjectStore) -> None:
        """Create the servicer; ``store`` has the files of ``ImportDocument``, under the keys of the caller's tenant."""
        self._engine, self._store = engine, store

    async def Search(self, request: pb.SearchRequest, call: Call) -> pb.SearchResponse:
        with observe_cache() as use:
            snapshot, found = await self._engine.search(
                request.queries,
                request.top_k,
                filter_from_proto(request),
                request.recency_half_life_days,
                corpus=bind_corpus(request.corpus),
                snapshot=request.snapshot,
                ranking=ranking_from_proto(request.ranking),
                run=request.run,
            )
        response = pb.SearchResponse(snapshot=snapshot, is_cached=use.is_cached)
        for result in found:
            if isinstance(result, FathomError):
                # Each query has a status of its own, so that a batch keeps the answers it has.
                response.results.add(status=to_status(result))
            else:
                response.results.add(status=OK, hits=[hit_to_proto(hit) for hit in result])
        return response

    async def Fetch(self, request: pb.FetchRequest, call: Call) -> pb.FetchResponse:
        corpus = bind_corpus(request.corpus)
        snapshot, pages = await self._engine.fetch(
            request.ids,
            request.page_size,
            request.page_token,
            time_from_proto(request, "as_of"),
            corpus=corpus,
            snapshot=request.snapshot,
            seen_by=request.enforce_seen_by_run,
        )
        response = pb.FetchResponse(snapshot=snapshot)
        for page in pages:
            if isinstance(page, FathomError):
                response.results.add(status=to_status(page))
            else:
                document = document_to_proto(page.document, page.text)
                document.own = is_own(corpus)
                response.results.add(status=OK, document=document, next_page_token=page.next_token)
        return response

    async def Ingest(self, requests: AsyncIterator[pb.IngestRequest], call: Call) -> pb.IngestResponse:
        first = await anext(requests, None)
        if first is None:
            raise InvalidField("document", "the stream brings nothing")
        done = await self._engine.ingest(first.corpus, items_from_proto(first, requests))
        return pb.IngestResponse(
            added=done.added,
            duplicates=done.duplicates,
            rejected=done.rejected,
            snapshot=done.snapshot,
            issues=map(issue_to_proto, done.issues),
            deleted=done.deleted,
        )

    async def ImportDocument(self, request: pb.ImportDocumentRequest, call: Call) -> pb.ImportDocumentResponse:
        check_source("source", request.source)
        if not 0 <= request.lifetime_s <= MAX_LIFETIME_S:
            raise InvalidField("lifetime_s", f"must be 0 to {MAX_LIFETIME_S}")
        corpus = request.corpus or new_id(KIND)
        if not corpus.startswith(f"{KIND}_"):
            raise InvalidField("corpus", "must be one that an earlier call has returned, or empty")
        name = bind_corpus(corpus)
        if request.corpus:
            # Nobody chooses a name: the one that is named must be there.
            await self._engine.corpora.get_snapshot(name)
        data = await read_ref(self._store, request.data)
        published = time_from_proto(request, "publish_time")
        file = Chunk(data, request.data.content_type, request.source, published)
        done = await self._engine.import_document(name, file, request.lifetime_s or LIFETIME_S)
        return pb.ImportDocumentResponse(
            corpus=corpus, added=done.added, duplicates=done.duplicates, issues=map(issue_to_proto, done.issues)
        )

    async def DeleteDocument(self, request: pb.DeleteDocumentRequest, call: Call) -> pb.DeleteDocumentResponse:
        if not request.corpus.startswith(f"{KIND}_"):
            raise InvalidField("corpus", "must be one that ImportDocument has returned")
        check_source("source", request.source)
        snapshot = await self._engine.delete_document(
            bind_corpus(request.corpus), request.source, time_from_proto(request, "publish_time")
        )
        return pb.DeleteDocumentResponse(snapshot=snapshot)

    async def ListCorpora(self, request: pb.ListCorporaRequest, call: Call) -> pb.ListCorporaResponse:
        corpora = self._engine.corpora
        names, following = page_of_list(corpora.list_names(), "corpora", request.page_size, request.page_token)
        response = pb.ListCorporaResponse(next_page_token=following)
        for name in names:
            state = corpora.get_state(name)
            corpus = response.corpora.add(name=name, description=describe_corpus(state))
            if state.active is not None:
                corpus.documents, corpus.snapshot = state.active.manifest.documents, state.active.id
                if (newest := time_to_proto(state.active.table.newest)) is not None:
                    corpus.as_of.CopyFrom(newest)
        return response

    async def ListSnapshots(self, request: pb.ListSnapshotsRequest, call: Call) -> pb.ListSnapshotsResponse:
        known = await self._engine.corpora.list_snapshots(bind_corpus(request.corpus))
        by_id = {manifest.id: manifest for manifest in known}
        ids, following = page_of_list(list(by_id), f"snapshots {request.corpus}", request.page_size, request.page_token)
        snapshots = [snapshot_to_proto(by_id[ident]) for ident in ids]
        return pb.ListSnapshotsResponse(snapshots=snapshots, next_page_token=following)

    async def CreateSnapshot(self, request: pb.CreateSnapshotRequest, call: Call) -> pb.CreateSnapshotResponse:
        return pb.CreateSnapshotResponse(
            snapshot=snapshot_to_proto(await self._engine.corpora.freeze(bind_corpus(request.corpus)))
        )

    async def ActivateSnapshot(self, request: pb.ActivateSnapshotRequest, call: Call) -> pb.ActivateSnapshotResponse:
        active, previous = await self._engine.corpora.activate(bind_corpus(request.corpus), request.snapshot)
        return pb.ActivateSnapshotResponse(active=snapshot_to_proto(active), previous=previous)


def check_source(field: str, source: str) -> None:
    """Raise ``InvalidField`` for a name of a source that is empty or too long."""
    if not 1 <= len(source) <= MAX_SOURCE_CHARS:
        raise InvalidField(field, f"must have 1 to {MAX_SOURCE_CHARS} characters")


def issue_to_proto(issue: Issue) -> pb.IngestIssue:
    return pb.IngestIssue(line=issue.line, message=issue.message, source=issue.source)


def ranking_from_proto(ranking: pb.Ranking) -> str:
    """Return the ranking's name, "" for unspecified; raise ``InvalidField("ranking")`` for an unknown number."""
    try:
        return pb.Ranking.Name(ranking).removeprefix("RANKING_").lower().replace("unspecified", "")
    except ValueError as error:
        raise InvalidField("ranking", f"{ranking} is none") from error


async def items_from_proto(
    first: pb.IngestRequest, rest: AsyncIterator[pb.IngestRequest]
) -> AsyncGenerator[Item, None]:
    """Yield the content of each message; raise ``Conflict`` when one names another corpus than the first."""
    for item in read_items(first):
        yield item
    async for request in rest:
        # The first message decides; the others may leave the name out.
        if request.corpus not in ("", first.corpus):
            raise Conflict(f"the stream is for corpus {first.corpus!r}, a message names {request.corpus!r}")
        for item in read_items(request):
            yield item


def read_items(request: pb.IngestRequest) -> Iterator[Item]:
    """Yield what a message brings: a piece of a file, a deletion, a document, or the passages of one with a key."""
    published = time_from_proto(request, "publish_time")
    if request.delete_source:
        if request.HasField("document") or request.data:
            raise InvalidField("delete_source", "comes in a message of its own")
        yield Deletion(request.delete_source, published)
    elif not request.HasField("document"):
        yield Chunk(request.data, request.media_type, request.source, published)
    else:
        yield from read_document(request.document, request.source)


def read_document(wire: pb.Document, source: str) -> Iterator[Document | Issue]:
    published = time_from_proto(wire, "publish_time", "document.publish_time")
    row: dict[str, object] = {
        "title": wire.title, "text": wire.text, "source": wire.source, "type": wire.type,
        "entities": list(wire.entities), "published": published.isoformat() if published else "",
        PLACE_FIELD: {name: said for name, said in (("house", wire.house), ("rating", wire.rating)) if said},
    }  # fmt: skip
    try:
        if wire.key and wire.id:
            raise ValueError("has a key and an id: the ids of a version follow from its content")
        document = parse_document(row | ({"id": wire.id} if wire.id else {}))
    except ValueError as error:
        yield Issue(0, f"document {(wire.id or wire.key)[:80]!r}: {error}", source)
        return
    if wire.key:
        yield from split_version(document, wire.key)
    else:
        yield document


def describe_corpus(state: CorpusState) -> str:
    """Describe a corpus in one line."""
    if state.broken is not None:
        return f"cannot be opened: {state.broken.message}"
    if state.active is None:
        return "has no active snapshot"
    encoder = state.active.encoder
    vectors = f"vectors of {encoder} ({state.active.manifest.index})" if encoder else ""
    return " and ".join(filter(None, ("words" if state.active.index.has_words else "", vectors)))


def snapshot_to_proto(manifest: Manifest) -> pb.Snapshot:
    # The reference names the manifest as it is stored, byte for byte, so that its checksum holds.
    data = manifest.to_json()
    ref = ObjectRef(
        key=make_manifest_key(manifest), size_bytes=len(data), sha256=sha256(data), content_type="application/json"
    )
    return pb.Snapshot(
        id=manifest.id,
        create_time=time_to_proto(manifest.created_at),
        documents=manifest.documents,
        manifest=ref,
    )


def filter_from_proto(request: pb.SearchRequest) -> Filter:
    """Convert the filter; raise ``InvalidField`` for a time out of range and for an empty period."""
    wanted = request.filter
    after = time_from_proto(wanted.published, "start_time", "filter.published.start_time")
    before = time_from_proto(wanted.published, "end_time", "filter.published.end_time")
    # An empty period would look like a corpus without documents.
    if after and before and before <= after:
        raise InvalidField("filter.published", "ends before it starts")
    return Filter(
        frozenset(wanted.sources),
        frozenset(wanted.types),
        frozenset(wanted.entities),
        after,
        before,
        time_from_proto(request, "as_of"),
        frozenset(wanted.houses),
        frozenset(wanted.ratings),
    )


def time_from_proto(message: Message, name: str, path: str = "") -> datetime | None:
    """Return a timestamp field in UTC, None when unset; raise ``InvalidField`` outside years 1 to 9999."""
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
        page=document.page,
        parent=document.parent,
        house=document.house,
        rating=document.rating,
        ocr_confidence=document.ocr,
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
        page=document.page,
        parent=document.parent,
        offset=document.offset,
        key=document.key,
        house=document.house,
        rating=document.rating,
        ocr_confidence=document.ocr,
    )
