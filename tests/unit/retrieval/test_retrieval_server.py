"""Retrieval's RPCs on a small corpus: statuses, timestamps, lists, what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.common.v1.common_pb2 import TimeRange
from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.core import errors
from fathom.core.call import Call
from fathom.services.retrieval.engine import Engine
from fathom.services.retrieval.server import RetrievalServicer
from fathom.transport.rpc.contract import contract
from fathom.transport.status import from_status
from fathom.transport.store.memory import MemoryStore

CALL = Call("req_1")
YEAR_2010, NEVER = Timestamp(seconds=1_262_304_000), Timestamp(seconds=10**13)


@pytest.fixture
def servicer(engine: Engine) -> RetrievalServicer:
    return RetrievalServicer(engine, MemoryStore())


async def test_search_aligns_results_and_hides_the_text(servicer: RetrievalServicer) -> None:
    response = await servicer.Search(pb.SearchRequest(queries=["bank", "", "利率"], as_of=YEAR_2010), CALL)
    first, empty, later = response.results
    assert {hit.id for hit in first.hits} == {"old", "note"}
    assert all(hit.publish_time.seconds and hit.title and hit.summary and hit.source for hit in first.hits)
    assert (empty.status.code, isinstance(from_status(empty.status), errors.InvalidField)) == (3, True)
    assert (later.status.code, len(later.hits)) == (0, 0)
    assert response.snapshot
    assert {field.name for field in pb.SearchHit.DESCRIPTOR.fields} >= {"id", "publish_time", "title", "summary"}
    assert "text" not in {field.name for field in pb.SearchHit.DESCRIPTOR.fields}


async def test_a_search_says_whether_its_rankings_were_held(servicer: RetrievalServicer) -> None:
    first, again = [await servicer.Search(pb.SearchRequest(queries=["bank"]), CALL) for _ in range(2)]
    partly = await servicer.Search(pb.SearchRequest(queries=["bank", "lake"]), CALL)
    assert [one.is_cached for one in (first, again, partly)] == [False, True, False]
    assert [hit.id for hit in first.results[0].hits] == [hit.id for hit in again.results[0].hits]


async def test_fetch_aligns_results_and_pages(servicer: RetrievalServicer) -> None:
    response = await servicer.Fetch(pb.FetchRequest(ids=["long", "lang"], page_size=50), CALL)
    found, unknown = response.results
    assert (len(found.document.text), found.document.total_chars > 50) == (50, True)
    assert "long" in from_status(unknown.status).metadata["nearest"]
    request = pb.FetchRequest(ids=["long"], page_size=100_000, page_token=found.next_page_token)
    (rest,) = (await servicer.Fetch(request, CALL)).results
    assert len(rest.document.text) == found.document.total_chars - 50
    assert rest.next_page_token == ""


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"corpus": "other"}, "corpus"),
        ({"as_of": NEVER}, "as_of"),
        ({"filter": pb.SearchFilter(published=TimeRange(start_time=NEVER))}, "filter.published.start_time"),
        (
            {"filter": pb.SearchFilter(published=TimeRange(start_time=YEAR_2010, end_time=YEAR_2010))},
            "filter.published",
        ),
    ],
)
async def test_bad_searches_are_refused_by_field(
    servicer: RetrievalServicer, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(errors.InvalidField) as bad:
        await servicer.Search(pb.SearchRequest(queries=["bank"], **fields), CALL)
    assert bad.value.field == field


async def test_every_rpc_is_built(servicer: RetrievalServicer) -> None:
    assert {name for name in contract("retrieval").methods if hasattr(servicer, name)} == set(
        contract("retrieval").methods
    )


async def test_a_run_reads_only_what_it_was_shown(servicer: RetrievalServicer) -> None:
    shown = await servicer.Search(pb.SearchRequest(queries=["利率"], run="run_1"), CALL)
    assert [hit.id for hit in shown.results[0].hits] == ["zh"]
    request = pb.FetchRequest(ids=["zh", "old"], enforce_seen_by_run="run_1")
    mine, unseen = (await servicer.Fetch(request, CALL)).results
    assert (mine.status.code, mine.document.text) == (0, "银行股上涨。投资者关注利率。")
    refused = from_status(unseen.status)
    assert isinstance(refused, errors.NotFound)
    assert "new" not in refused.nearest, "no hint names what the run has not seen"
    other = pb.FetchRequest(ids=["zh"], enforce_seen_by_run="run_2")
    assert isinstance(from_status((await servicer.Fetch(other, CALL)).results[0].status), errors.NotFound)


async def test_rankings_need_their_index(servicer: RetrievalServicer) -> None:
    request = pb.SearchRequest(queries=["bank"], ranking=pb.RANKING_DENSE)
    with pytest.raises(errors.InvalidField, match="ranking"):
        await servicer.Search(request, CALL)
    words = await servicer.Search(pb.SearchRequest(queries=["bank"], ranking=pb.RANKING_LEXICAL), CALL)
    assert words.results[0].hits


async def send_requests(*requests: pb.IngestRequest) -> AsyncIterator[pb.IngestRequest]:
    for request in requests:
        yield request


async def test_ingest_takes_documents_and_files(servicer: RetrievalServicer) -> None:
    document = pb.Document(title="Copper", text="Copper rose.", publish_time=YEAR_2010, entities=["HG"], type="news")
    done = await servicer.Ingest(
        send_requests(
            pb.IngestRequest(corpus="metals", document=document),
            pb.IngestRequest(corpus="metals", document=pb.Document(id="empty")),
            pb.IngestRequest(data=b'{"id": "a", "contents": "\\"Tin\\"\\nTin fell."}\n{oops\n{"_id"', source="w.jsonl"),
            pb.IngestRequest(data=b': "b", "text": "Zinc held."}', source="w.jsonl"),
        ),
        CALL,
    )
    assert (done.added, done.duplicates, done.rejected) == (3, 0, 2)
    assert [(issue.line, issue.source) for issue in done.issues] == [(0, ""), (2, "w.jsonl")]
    assert "is not JSON" in done.issues[1].message
    corpora = {corpus.name: corpus for corpus in (await servicer.ListCorpora(pb.ListCorporaRequest(), CALL)).corpora}
    assert (corpora["metals"].documents, corpora["metals"].snapshot) == (3, done.snapshot)
    found = await servicer.Search(pb.SearchRequest(queries=["tin", "copper HG"], corpus="metals"), CALL)
    assert [[hit.title for hit in result.hits] for result in found.results] == [["Tin"], ["Copper"]]
    with pytest.raises(errors.Conflict):
        await servicer.Ingest(send_requests(pb.IngestRequest(corpus="a"), pb.IngestRequest(corpus="b")), CALL)
    with pytest.raises(errors.InvalidField, match="stream"):
        await servicer.Ingest(send_requests(), CALL)


async def test_snapshots_are_made_and_switched(servicer: RetrievalServicer) -> None:
    before = (await servicer.ListCorpora(pb.ListCorporaRequest(), CALL)).corpora[0].snapshot
    more = pb.IngestRequest(document=pb.Document(id="more", title="Bank merger", text="Two banks merged."))
    after = (await servicer.Ingest(send_requests(more), CALL)).snapshot
    made = (await servicer.CreateSnapshot(pb.CreateSnapshotRequest(), CALL)).snapshot
    assert (made.id, made.documents) == (after, 7)
    assert made.manifest.key.endswith(f"{after}.json")
    switched = await servicer.ActivateSnapshot(pb.ActivateSnapshotRequest(snapshot=after), CALL)
    assert (switched.active.id, switched.previous) == (after, before)
    listed = (await servicer.ListSnapshots(pb.ListSnapshotsRequest(), CALL)).snapshots
    assert [snapshot.id for snapshot in listed] == [after, before]
    back = await servicer.ActivateSnapshot(pb.ActivateSnapshotRequest(snapshot=before), CALL)
    assert (back.active.documents, back.previous) == (6, after)


async def test_lists(servicer: RetrievalServicer) -> None:
    (corpus,) = (await servicer.ListCorpora(pb.ListCorporaRequest(), CALL)).corpora
    assert (corpus.name, corpus.documents, corpus.as_of.ToDatetime().year) == ("bundled", 6, 2021)
    (snapshot,) = (await servicer.ListSnapshots(pb.ListSnapshotsRequest(), CALL)).snapshots
    assert (snapshot.id, snapshot.documents, snapshot.create_time.seconds > 0) == (corpus.snapshot, 6, True)
    for fields in ({"page_size": -1}, {"page_token": "x"}):
        with pytest.raises(errors.InvalidField):
            await servicer.ListCorpora(pb.ListCorporaRequest(**fields), CALL)
        with pytest.raises(errors.InvalidField):
            await servicer.ListSnapshots(pb.ListSnapshotsRequest(**fields), CALL)
