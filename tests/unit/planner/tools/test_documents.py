"""Search of documents: what a run gets when nothing is found, and of several corpora."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, ClassVar

from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.model.episode import MaterialKind, ToolStatus
from fathom.services.planner.tools.documents import Fetch, Search, ShownDocuments
from fathom.services.planner.tools.registry import Registry
from fathom.transport.status import OK


class EmptyRetrieval:
    """A corpus without a single fitting document."""

    async def search(self, request: pb.SearchRequest, timeout_s: float) -> pb.SearchResponse:
        return pb.SearchResponse(results=[pb.SearchResult(status=OK)])


async def test_a_search_that_finds_nothing_is_material_that_an_answer_can_cite() -> None:
    clients: Any = SimpleNamespace(retrieval=EmptyRetrieval())
    tools = Registry([Search(clients, ("",), None, 1.0, ShownDocuments("run_1"))], 4)
    result = await tools.call("id", ToolCall("c", "search", '{"intent": "look", "query": "tin mines"}'))
    assert result.status is ToolStatus.EMPTY
    [missing] = json.loads(result.content)["missing"]
    assert (missing["material"], missing["detail"]) == (5, "no document found for 'tin mines'")
    assert [(item.number, item.kind) for item in result.material] == [(5, MaterialKind.MISSING)]


class TwoCorpora:
    """Retrieval with a corpus of two memos and one of a lease; it notes which corpora are asked."""

    HITS: ClassVar = {
        "docs_1": [
            pb.SearchHit(id="memo-1", title="memo", source="memo.pdf", page=1, parent="memo"),
            pb.SearchHit(id="memo-2", title="memo", source="memo.pdf", page=2, parent="memo", ocr_confidence=0.971),
        ],
        "docs_2": [pb.SearchHit(id="lease", title="Lease of Oslo", source="lease.docx")],
    }

    def __init__(self) -> None:
        self.fetched: list[tuple[str, str]] = []

    async def search(self, request: pb.SearchRequest, timeout_s: float) -> pb.SearchResponse:
        return pb.SearchResponse(results=[pb.SearchResult(status=OK, hits=self.HITS[request.corpus])])

    async def fetch(self, request: pb.FetchRequest, timeout_s: float) -> pb.FetchResponse:
        self.fetched.append((request.corpus, request.enforce_seen_by_run))
        hit = next(hit for hit in self.HITS[request.corpus] if hit.id == request.ids[0])
        document = pb.Document(
            id=hit.id,
            title=hit.title,
            source=hit.source,
            page=hit.page,
            parent=hit.parent,
            text="x",
            ocr_confidence=hit.ocr_confidence,
        )
        return pb.FetchResponse(results=[pb.FetchResult(status=OK, document=document)])


class OneHit:
    """Retrieval whose hit has all that a hit can have."""

    async def search(self, request: pb.SearchRequest, timeout_s: float) -> pb.SearchResponse:
        hit = pb.SearchHit(id="d1", title="Rates", summary="They fell.", score=0.7, source="wire")
        return pb.SearchResponse(results=[pb.SearchResult(status=OK, hits=[hit])], is_cached=request.corpus == "held")


async def test_a_search_is_cached_when_every_corpus_held_its_hits() -> None:
    clients: Any = SimpleNamespace(retrieval=OneHit())
    for corpora, is_cached in ((("held",), True), (("held", "new"), False), (("new",), False)):
        tools = Registry([Search(clients, corpora, None, 1.0, ShownDocuments("run_1"))], 4)
        found = await tools.call("id", ToolCall("c", "search", '{"intent": "look", "query": "rates"}'))
        assert (found.status, found.is_cached) == (ToolStatus.OK, is_cached)


async def test_a_hit_shows_a_model_id_time_title_and_summary_alone() -> None:
    clients: Any = SimpleNamespace(retrieval=OneHit())
    tools = Registry([Search(clients, ("",), None, 1.0, ShownDocuments("run_1"))], 4)
    found = await tools.call("id", ToolCall("c", "search", '{"intent": "look", "query": "rates"}'))
    [hit] = json.loads(found.content)["hits"]
    assert hit == {"id": "d1", "time": "", "title": "Rates", "summary": "They fell."}


async def test_several_corpora_give_their_best_in_turn_and_citations_name_file_page_and_ocr() -> None:
    clients: Any = SimpleNamespace(retrieval=TwoCorpora())
    shown, corpora = ShownDocuments("run_1"), ("docs_1", "docs_2")
    tools = Registry([Search(clients, corpora, None, 1.0, shown), Fetch(clients, corpora, None, 1.0, shown)], 4)
    found = await tools.call("id", ToolCall("c", "search", '{"intent": "look", "query": "rent"}'))
    hits = json.loads(found.content)["hits"]
    assert [(hit["id"], hit["corpus"], hit["place"]) for hit in hits] == [
        ("memo-1", "docs_1", "memo.pdf p. 1"), ("lease", "docs_2", "lease.docx"), ("memo-2", "docs_1", "memo.pdf p. 2 (OCR 97 %)"),
    ]  # fmt: skip
    titles = []
    for ident in ("lease", "memo-2"):
        read = await tools.call("id", ToolCall("c", "fetch", json.dumps({"intent": "read", "id": ident})))
        titles += [item.item.title for item in read.material]
    assert titles == ["Lease of Oslo, lease.docx", "memo.pdf p. 2 (OCR 97 %)"]
    assert clients.retrieval.fetched == [("docs_2", ""), ("docs_1", "")]
    step: Any = SimpleNamespace(results=(found,))
    assert ShownDocuments.from_steps("run_1", [step]).ids == {"memo-1": "docs_1", "lease": "docs_2", "memo-2": "docs_1"}


class OneReport:
    """Retrieval with one analysts' report; it notes the filter that it is asked with."""

    REPORT: ClassVar[dict[str, Any]] = {"id": "r1", "title": "Still early", "house": "North Harbour", "rating": "Buy"}
    DAY: ClassVar = Timestamp(seconds=1_709_251_200)

    def __init__(self) -> None:
        self.asked: list[pb.SearchFilter] = []

    async def search(self, request: pb.SearchRequest, timeout_s: float) -> pb.SearchResponse:
        self.asked.append(request.filter)
        hits = [] if "Sell" in request.filter.ratings else [pb.SearchHit(**self.REPORT, publish_time=self.DAY)]
        return pb.SearchResponse(results=[pb.SearchResult(status=OK, hits=hits)])

    async def fetch(self, request: pb.FetchRequest, timeout_s: float) -> pb.FetchResponse:
        document = pb.Document(**self.REPORT, publish_time=self.DAY, text="Margins rise.")
        return pb.FetchResponse(results=[pb.FetchResult(status=OK, document=document)])


async def test_a_report_is_searched_by_house_and_rating_and_cited_with_house_and_day() -> None:
    clients: Any = SimpleNamespace(retrieval=OneReport())
    shown = ShownDocuments("run_1")
    tools = Registry([Search(clients, ("",), None, 1.0, shown), Fetch(clients, ("",), None, 1.0, shown)], 4)
    wanted = {"intent": "look", "query": "apple", "house": "North Harbour", "rating": "Buy"}
    found = await tools.call("id", ToolCall("c", "search", json.dumps(wanted)))
    [hit] = json.loads(found.content)["hits"]
    assert (hit["house"], hit["rating"], hit["time"]) == ("North Harbour", "Buy", "2024-03-01")
    [asked] = clients.retrieval.asked
    assert (list(asked.houses), list(asked.ratings)) == (["North Harbour"], ["Buy"])
    read = await tools.call("id", ToolCall("c", "fetch", '{"intent": "read", "id": "r1"}'))
    assert [item.item.title for item in read.material] == ["Still early, North Harbour, 2024-03-01"]
    none = await tools.call("id", ToolCall("c", "search", json.dumps({**wanted, "rating": "Sell"})))
    [missing] = json.loads(none.content)["missing"]
    assert missing["detail"] == "no document found for 'apple; North Harbour; Sell'"
