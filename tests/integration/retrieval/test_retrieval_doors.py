"""One index behind three doors: the same ids in the same order; the launcher from file to answer."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.clients import Clients
from fathom.core import errors
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting
from fathom.services.planner.tools.documents import Search, ShownDocuments
from fathom.services.retrieval.commands.upload import send
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.http.launch import ServeOptions, serve
from fathom.services.retrieval.server import build
from fathom.transport.bus import open_bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.sockets import reserved_port
from fathom.transport.store import open_store

ROOT = Path(__file__).resolve().parents[3]
MODELS = ROOT / ".fathom" / "models"
QUERIES = ["maximum drawdown", "Apple iPhone company", "最大回撤怎么计算", "insurance collapse", "negative oil price"]


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["", "minilm"])
async def test_three_doors_give_the_same(corpus_dir: Path, tmp_path: Path, encoder: str) -> None:
    async with AsyncExitStack() as stack:
        nats = await stack.enter_async_context(NatsServer(tmp_path / "nats"))
        store = open_store(f"file://{tmp_path / 'store'}")
        bus = await open_bus(nats.url, store)
        stack.push_async_callback(bus.close)
        telemetry = Telemetry("retrieval", stream=io.StringIO())
        port = stack.enter_context(reserved_port())
        config = Config(
            # No cache: the second and third door would be answered from the first one's result.
            corpus_dir=corpus_dir,
            model_dir=MODELS,
            recipe=Recipe(encoder=encoder),
            cache=0,
            http_port=port,
        )
        deps = Deps(Clients({}, telemetry), store, bus, telemetry)
        hosted = await stack.enter_async_context(hosting(build(config, deps), deps, Runtime()))
        await hosted.warm
        answers = []
        for url in (hosted.url, "nats://"):
            clients = Clients({"retrieval": url}, telemetry, bus=bus)
            stack.push_async_callback(clients.close)
            response = await clients.retrieval.search(pb.SearchRequest(queries=QUERIES, top_k=10))
            answers.append([[hit.id for hit in result.hits] for result in response.results])
        async with httpx.AsyncClient(timeout=60) as client:
            body = {"queries": QUERIES, "topk": 10, "return_scores": True}
            result = (await client.post(f"http://127.0.0.1:{port}/retrieve", json=body)).json()["result"]
        answers.append([[hit["document"]["id"] for hit in hits] for hits in result])
        # The agent's own tool is one more view of the same index.
        tool = Search(clients, ("",), None, 60.0, ShownDocuments(""))
        replies = [await tool("call", {"query": query, "top_k": 10}) for query in QUERIES[:2]]
        answers.append([[hit["id"] for hit in reply.head["hits"]] for reply in replies])
        assert answers[0] == answers[1] == answers[2]
        assert answers[3] == answers[0][:2]
        assert all(answers[0])


def corpus(folder: Path) -> Path:
    path = folder / "wiki.jsonl"
    rows = [{"id": str(n), "contents": f'"Title {n}"\nText number {n} about {word}.'}
            for n, word in enumerate(["gold", "silver", "copper", "zinc"] * 5)]  # fmt: skip
    # A broken line in the middle: rows are counted from 1, and the good ones behind it still count.
    path.write_text("\n".join([json.dumps(rows[0]), "{broken", *map(json.dumps, rows[1:])]))
    return path


async def answer(url: str, query: str) -> list[str]:
    async with httpx.AsyncClient(timeout=60) as client:
        response = await client.post(f"{url}/retrieve", json={"queries": [query], "return_scores": True})
    return [hit["document"]["contents"] for hit in response.json()["result"][0]]


@pytest.mark.parametrize("model", ["bm25", "minilm"])
async def test_a_launch_builds_once_and_answers(tmp_path: Path, model: str) -> None:
    path = corpus(tmp_path)
    said: list[str] = []
    launch = ServeOptions(path, tmp_path / "index", 2, model, port=0, model_dir=MODELS)
    for _ in range(2):
        async with serve(launch, said.append) as http_server:
            found = await answer(http_server.url, "text about copper")
            assert len(found) == 2
            assert all("copper" in contents for contents in found)
    assert [line for line in said if ":2 is left out" in line] == [said[0]], (
        "the second start opens what the first made"
    )
    assert "20 documents" in said[1]


async def test_a_launch_takes_an_index_that_was_made_elsewhere(tmp_path: Path) -> None:
    path = corpus(tmp_path)
    async with serve(
        ServeOptions(path, tmp_path / "index", 3, "minilm", port=0, model_dir=MODELS), print
    ) as http_server:
        expected = await answer(http_server.url, "copper")
    (made,) = (tmp_path / "index").rglob("vectors-*.faiss")
    given = ServeOptions(path, made, 3, "minilm", port=0, model_dir=MODELS)
    # Vectors made elsewhere belong to rows by their number: one that is left out would shift all behind it.
    with pytest.raises(errors.CorruptData, match=r"wiki\.jsonl:2"):
        async with serve(given, print):
            pass
    path.write_text("\n".join(line for line in path.read_text().split("\n") if line != "{broken"))
    async with serve(given, print) as http_server:
        assert await answer(http_server.url, "copper") == expected
    path.write_text(path.read_text() + '\n{"id": "more", "contents": "x"}')
    with pytest.raises(errors.CorruptData, match=r"20 vectors of dimension 384, not 21"):
        async with serve(given, print):
            pass


async def test_files_are_sent_to_a_running_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    telemetry = Telemetry("retrieval", stream=io.StringIO())
    store = open_store("memory://")
    deps = Deps(Clients({}, telemetry), store, await open_bus("memory://", store), telemetry)
    async with hosting(build(Config(corpus_dir=None), deps), deps, Runtime()) as hosted:
        await hosted.warm
        path = corpus(tmp_path)
        # The second time everything is known already.
        for _ in range(2):
            await send([path], "mine", activate=True, url=hosted.url, home=tmp_path)
        printed = capsys.readouterr()
        assert "20 added, 0 there already, 1 left out" in printed.out
        assert "0 added, 20 there already, 1 left out" in printed.out
        assert f"{path}:2 is left out: is not JSON" in printed.err
        clients = Clients({"retrieval": hosted.url}, telemetry)
        found = await clients.retrieval.search(pb.SearchRequest(queries=["copper"], corpus="mine"))
        assert len(found.results[0].hits) == 5
        await clients.close()
        with pytest.raises(errors.NotFound, match="nowhere"):
            await send([tmp_path / "nowhere.jsonl"], "mine", activate=False, url=hosted.url, home=tmp_path)
        with pytest.raises(errors.InvalidField, match="files"):
            await send([Path(__file__)], "mine", activate=False, url=hosted.url, home=tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--corpus-path", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--retriever-model", "no-such"], "no-such"),
        (["--index", "tree"], "index"),
    ],
)
def test_the_command_names_what_is_wrong(tmp_path: Path, options: list[str], message: str) -> None:
    given = {"--corpus-path": str(corpus(tmp_path)), "--index-path": str(tmp_path / "index"), "--port": "0"}
    given |= dict(zip(options[::2], options[1::2], strict=True))
    words = [word for pair in given.items() for word in pair]
    done = subprocess.run(
        [sys.executable, "-m", "fathom.cli.main", "retrieval", "serve", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
