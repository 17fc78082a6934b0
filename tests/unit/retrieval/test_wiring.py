"""Test what the settings join: parsers to ingest, remote encoders to recipes, rerankers to HTTP, engines to "web"."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from fathom.core import errors
from fathom.core.config import load
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.corpus.ingest import Chunk
from fathom.services.retrieval.corpus.rows import list_parsers
from fathom.services.retrieval.documents.model import Document, Filter
from fathom.services.retrieval.engine import Engine, Page
from fathom.services.retrieval.http.api import HttpApi
from fathom.services.retrieval.http.server import load_reranker
from fathom.services.retrieval.web.base import NotConfigured
from fathom.transport.store.memory import MemoryStore
from tests.unit.retrieval.corpus.test_snapshots import items

HTML = """<html><head><title>Copper market</title><meta name="date" content="2020-03-01"></head><body><article>
<h1>Copper market</h1><p>Copper rose because mines were closed, and buyers in Asia looked for metal everywhere they
could find it, which is why inventories at the exchanges fell to the lowest level in many years.</p></article></body>
</html>"""


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine(Config(corpus_dir=None, corpus_name="main"), MemoryStore(), list_parsers())
    await engine.start()
    yield engine
    await engine.close()


async def test_a_page_and_text_are_ingested_beside_lines(engine: Engine) -> None:
    done = await engine.ingest(
        "main",
        items(
            Chunk(HTML[:200].encode(), "text/html", "page.html"),
            Chunk(HTML[200:].encode(), "text/html", "page.html"),
            Chunk("Tin fell in London.\n".encode("gbk"), "text/plain; charset=gbk", "note.txt"),
            Chunk(b'{"text": "Zinc held."}\n{', "application/x-ndjson", "x.ndjson"),
            Chunk(b"not a pdf", "application/pdf", "broken.pdf"),
        ),
    )
    assert (done.added, done.rejected) == (3, 2), done.issues
    assert {issue.source for issue in done.issues} == {"x.ndjson", "broken.pdf"}
    found = await engine.rank(["copper mines", "tin", "zinc"], 1)
    titles = [hits[0][0].text[:6] if not isinstance(hits, errors.FathomError) else "" for hits in found.results]
    assert titles[1:] == ["Tin fe", "Zinc h"]
    assert "Copper" in found.results[0][0][0].text  # type: ignore[index]


async def test_an_unknown_type_names_the_known_ones(engine: Engine) -> None:
    with pytest.raises(errors.InvalidField, match="application/pdf"):
        await engine.ingest("main", items(Chunk(b"x", "image/png", "x.png")))


async def test_the_web_is_off_until_it_is_configured(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TAVILY_API_KEY", "BRAVE_API_KEY", "SERPER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    found = await engine.rank(["gold", ""], corpus="web")
    assert isinstance(found.results[0], NotConfigured)
    assert isinstance(found.results[1], errors.InvalidField)
    with pytest.raises(errors.InvalidField, match="corpus"):
        await engine.ingest("web", items())


class Answers(BaseHTTPRequestHandler):
    """SearXNG's search, TEI's embed and rerank."""

    def do_GET(self) -> None:
        results = [
            {"url": "https://example.com/a", "title": "A", "content": "Gold rose.", "publishedDate": "2020-01-01T00:00:00"},
            {"url": "https://example.com/b", "title": "B", "content": "Gold fell.", "publishedDate": "2024-01-01T00:00:00"},
        ]  # fmt: skip
        self.answer({"query": "gold", "results": results})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/embed":
            self.answer([[float(len(text)), 1.0, 0.0] for text in body["inputs"]])
        else:
            self.answer([{"index": at, "score": float(len(text))} for at, text in enumerate(body["texts"])])

    def answer(self, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as served:
        thread = Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


def load_settings(**fields: Any) -> Config:
    return load(Config, "retrieval", environ={}, overrides={"corpus_dir": None, "corpus_name": "main", **fields})


async def test_the_web_is_searched_and_only_what_was_shown_is_read(server: str) -> None:
    engine = Engine(load_settings(web={"searxng_url": server}), MemoryStore())
    await engine.start()
    snapshot, (hits,) = await engine.search(["gold"], corpus="web", run="run_1")
    assert not isinstance(hits, errors.FathomError), hits
    assert (snapshot, [hit.document.title for hit in hits]) == ("", ["A", "B"])
    assert all(hit.summary for hit in hits)
    early = Filter(as_of=datetime(2021, 1, 1, tzinfo=UTC))
    _, (known,) = await engine.search(["gold"], 5, early, corpus="web")
    assert [hit.document.title for hit in known if not isinstance(known, errors.FathomError)] == ["A"]  # type: ignore[union-attr]
    late = hits[1].document.id
    _, pages = await engine.fetch([late], corpus="web", as_of=datetime(2021, 1, 1, tzinfo=UTC))
    assert isinstance(pages[0], errors.NotFound), "younger than as_of"
    _, pages = await engine.fetch(["web-0"], corpus="web")
    assert isinstance(pages[0], errors.NotFound)
    _, pages = await engine.fetch([late], corpus="web", seen_by="run_2")
    assert isinstance(pages[0], errors.NotFound)
    assert not any(isinstance(page, Page) for page in pages)
    await engine.close()


async def test_a_remote_encoder_by_its_name(server: str) -> None:
    remote = {"far": {"kind": "tei", "url": server, "dim": 3}}
    engine = Engine(load_settings(remote_encoders=remote, recipe={"encoder": "far"}), MemoryStore())
    await engine.start()
    texts = ["x" * 3, "x" * 30]
    documents = [Document(f"d{len(text)}", "", text, None, "", "", ()) for text in texts]
    await engine.ingest("main", items(*documents))
    found = await engine.rank(["y" * 29], 1, ranking="dense")
    assert found.results[0][0][0].id == "d30"  # type: ignore[index]
    await engine.close()


async def test_a_remote_reranker_behind_the_door(server: str, engine: Engine) -> None:
    app = HttpApi(Config(), engine, scorer=load_reranker(Config(reranker=server))).make_app()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        body = {"queries": ["q"], "documents": [["a", "ccc", "bb"]], "return_scores": True}
        (hits,) = (await client.post("/rerank", json=body)).json()["result"]
    assert [hit["document"] for hit in hits] == ["ccc", "bb", "a"]
    assert load_reranker(Config()) is None


def test_vectors_of_the_settings_are_named_when_wrong() -> None:
    with pytest.raises(errors.FathomError, match="remote_encoders"):
        load_settings(remote_encoders={"far": {"url": "http://x"}})
