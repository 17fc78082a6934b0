"""Files through ``Ingest``, the web through ``Search`` and ``Fetch``, remote encoders by name: the RPCs themselves."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiohttp import web
from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.call import Call, calling
from fathom.config import load
from fathom.errors import InvalidField, NotFound
from fathom.rpc.status import from_status
from fathom.store.memory import MemoryStore
from services.retrieval.config import Config
from services.retrieval.encoders.choose import Encoders
from services.retrieval.engine import Engine
from services.retrieval.files import parsers
from services.retrieval.server import RetrievalServicer
from services.retrieval.web import WebConfig
from services.retrieval.web.door import WebDoor, web_door

Serve = Callable[..., Awaitable[str]]
CALL = Call("req_1")
PAGE = "<html><head><title>Chips</title></head><body><article><p>{}</p></article></body></html>"


@pytest.fixture
async def servicer() -> AsyncIterator[RetrievalServicer]:
    engine = Engine(Config(corpus_dir=None), MemoryStore(), parsers())
    await engine.start()
    yield RetrievalServicer(engine, web_door(WebConfig(), 5))
    await engine.close()


async def chunks(*parts: tuple[bytes, str, str]) -> AsyncIterator[pb.IngestRequest]:
    for data, media_type, source in parts:
        yield pb.IngestRequest(corpus="files", data=data, media_type=media_type, source=source)


async def test_files_are_ingested_and_found(servicer: RetrievalServicer) -> None:
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"id": ["p1", "p2"], "text": ["Wafer capacity doubled.", None], "date": ["2024-01-02", "2024-01-03"]}),
        sink,
    )
    page = PAGE.format("Lithography machines were delivered to the new factory this spring. " * 3).encode()
    done = await servicer.Ingest(
        chunks(
            (page[:50], "text/html; charset=utf-8", "fab.html"), (page[50:], "text/html; charset=utf-8", "fab.html"),
            (sink.getvalue(), "application/vnd.apache.parquet", "wafers.parquet"),
            (b"%PDF-1.4 broken", "application/pdf", "report.pdf"),
            ("# 备忘\n\n晶圆产能翻倍。".encode(), "text/markdown", "memo.md"),
        ), CALL,
    )  # fmt: skip
    assert (done.added, done.rejected) == (3, 2)
    assert [(issue.line, issue.source) for issue in done.issues] == [(2, "wafers.parquet"), (0, "report.pdf")]
    response = await servicer.Search(
        pb.SearchRequest(queries=["lithography", "wafer capacity", "晶圆"], corpus="files"), CALL
    )
    found = [[(hit.title, hit.source) for hit in result.hits] for result in response.results]
    assert found[0] == [("Chips", "fab.html")]
    assert found[1][0] == ("", "wafers.parquet")
    assert found[2] == [("备忘", "memo.md")]
    dated = await servicer.Search(
        pb.SearchRequest(queries=["wafer"], corpus="files", as_of=Timestamp(seconds=1_704_153_600)), CALL
    )
    assert [hit.id for hit in dated.results[0].hits] == ["p1"]


async def test_the_web_is_off_until_it_is_configured(servicer: RetrievalServicer) -> None:
    response = await servicer.Search(pb.SearchRequest(queries=["profit"], corpus="web"), CALL)
    assert "retrieval.web.searxng_url" in response.results[0].status.message
    fetched = await servicer.Fetch(pb.FetchRequest(ids=["web-1"], corpus="web"), CALL)
    assert isinstance(from_status(fetched.results[0].status), NotFound)


async def site(serve: Serve) -> str:
    """A search engine and a page that it finds."""
    place: list[str] = []

    async def search(request: web.Request) -> web.Response:
        rows = [
            {
                "url": f"{place[0]}/news",
                "title": "Profit up",
                "content": "It rose.",
                "publishedDate": "2024-05-20T00:00:00",
            }
        ]
        return web.json_response({"results": rows if request.query["q"] != "nothing" else []})

    async def news(_: web.Request) -> web.Response:
        return web.Response(text=PAGE.format("The profit rose by a third. " * 30), content_type="text/html")

    place.append(await serve({"/search": search, "/news": news}))
    return place[0]


async def test_the_web_is_searched_and_read_by_the_same_rpcs(servicer: RetrievalServicer, serve: Serve) -> None:
    config = WebConfig(searxng_url=await site(serve), fetch_ports=(), fetch_networks=("127.0.0.0/8",))
    online = RetrievalServicer(servicer._engine, web_door(config, 5))
    asked = pb.SearchRequest(queries=["profit", " ", "nothing"], corpus="web", run="run-1")
    found = (await online.Search(asked, CALL)).results
    (hit,) = found[0].hits
    assert (hit.title, hit.summary, hit.source, hit.publish_time.seconds) == (
        "Profit up",
        "It rose.",
        "127.0.0.1",
        1_716_163_200,
    )
    assert isinstance(from_status(found[1].status), InvalidField)
    assert (found[2].status.code, len(found[2].hits)) == (0, 0)
    (first,) = (
        await online.Fetch(
            pb.FetchRequest(ids=[hit.id], corpus="web", page_size=100, enforce_seen_by_run="run-1"), CALL
        )
    ).results
    assert (len(first.document.text), first.document.total_chars > 100) == (100, True)
    request = pb.FetchRequest(ids=[hit.id], corpus="web", page_token=first.next_page_token, page_size=100_000)
    (rest,) = (await online.Fetch(request, CALL)).results
    assert len(rest.document.text) == first.document.total_chars - 100
    (other,) = (
        await online.Fetch(pb.FetchRequest(ids=[hit.id], corpus="web", enforce_seen_by_run="run-2"), CALL)
    ).results
    assert isinstance(from_status(other.status), NotFound)
    early = pb.FetchRequest(ids=[hit.id], corpus="web", as_of=Timestamp(seconds=1_700_000_000))
    assert isinstance(from_status((await online.Fetch(early, CALL)).results[0].status), NotFound)
    with calling(Call("req_2", deadline=time.monotonic() - 1)):
        late = await online.Search(pb.SearchRequest(queries=["profit"], corpus="web"), CALL)
    assert "no time" in late.results[0].status.message


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.SearchRequest(queries=[]), "queries"), (pb.SearchRequest(queries=["q"], top_k=51), "top_k"),
        (pb.SearchRequest(queries=["q"], snapshot="s"), "snapshot"), (pb.SearchRequest(queries=["q"], ranking=pb.RANKING_DENSE), "ranking"),
        (pb.SearchRequest(queries=["q"], recency_half_life_days=3), "recency_half_life_days"),
        (pb.FetchRequest(ids=[]), "ids"), (pb.FetchRequest(ids=["a"], page_size=-1), "page_size"), (pb.FetchRequest(ids=["a", "b"], page_token="x"), "page_token"),
    ],
)  # fmt: skip
async def test_what_the_web_cannot_do_is_named(
    servicer: RetrievalServicer, request_: pb.SearchRequest | pb.FetchRequest, field: str
) -> None:
    request_.corpus = "web"
    search = isinstance(request_, pb.SearchRequest)
    answer = servicer.Search(request_, CALL) if search else servicer.Fetch(request_, CALL)  # type: ignore[arg-type]
    with pytest.raises(InvalidField) as invalid:
        await answer
    assert invalid.value.field == field


async def test_a_remote_encoder_by_its_name_in_the_settings(serve: Serve) -> None:
    async def embed(request: web.Request) -> web.Response:
        texts = (await request.json())["inputs"]
        return web.json_response([[float(len(text)), 1.0, 0.0] for text in texts])

    url = await serve({"/embed": embed})
    environ = {"FATHOM_RETRIEVAL_REMOTE_ENCODERS": f'{{"far": {{"contract": "tei", "url": "{url}", "dim": 3}}}}'}
    config = load(Config, "retrieval", environ=environ)
    encoder = Encoders(config)("far")
    assert (encoder.name, encoder.dim) == ("far", 3)
    vectors = await asyncio.to_thread(encoder.encode, ["abc", "a"], "passage")
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-6)


def test_the_door_of_the_web_is_light_while_it_is_off() -> None:
    assert isinstance(web_door(WebConfig(), 5), WebDoor)
