"""Retrieval's RPCs on a small corpus: statuses, timestamps, lists, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from fathom import errors
from fathom.api.common.v1.common_pb2 import TimeRange
from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.call import Call
from fathom.rpc.contract import contract
from fathom.rpc.status import from_status
from services.retrieval.engine import Engine
from services.retrieval.server import RetrievalServicer

CALL = Call("req_1")
YEAR_2010, NEVER = Timestamp(seconds=1_262_304_000), Timestamp(seconds=10**13)


@pytest.fixture
def servicer(engine: Engine) -> RetrievalServicer:
    return RetrievalServicer(engine)


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


async def test_what_is_not_built_is_refused(servicer: RetrievalServicer) -> None:
    with pytest.raises(errors.NotImplementedYet, match="retrieval issue"):
        await servicer.Fetch(pb.FetchRequest(ids=["old"], enforce_seen_by_run="run_1"), CALL)
    with pytest.raises(errors.NotFound):
        await servicer.Search(pb.SearchRequest(queries=["bank"], snapshot="other"), CALL)
    built = {name for name in contract("retrieval").methods if hasattr(servicer, name)}
    assert built | set(servicer.unimplemented) == set(contract("retrieval").methods)


async def test_lists(servicer: RetrievalServicer) -> None:
    (corpus,) = (await servicer.ListCorpora(pb.ListCorporaRequest(), CALL)).corpora
    assert (corpus.name, corpus.documents, corpus.as_of.ToDatetime().year) == ("bundled", 6, 2021)
    (snapshot,) = (await servicer.ListSnapshots(pb.ListSnapshotsRequest(), CALL)).snapshots
    assert (snapshot.id, snapshot.documents, snapshot.create_time.seconds > 0) == (corpus.snapshot, 6, True)
    for fields in ({"page_size": -1}, {"page_token": "x"}):
        with pytest.raises(errors.InvalidField):
            await servicer.ListCorpora(pb.ListCorporaRequest(**fields), CALL)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidField):
            await servicer.ListSnapshots(pb.ListSnapshotsRequest(**fields), CALL)  # type: ignore[arg-type]
