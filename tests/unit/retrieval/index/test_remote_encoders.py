"""Encoders and rerankers: both HTTP contracts served here, and a tiny cross-encoder made here."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from aiohttp import web

from fathom.core.call import Call, calling
from fathom.core.config import ConfigError
from fathom.core.errors import CorruptData, DeadlineExceeded, InvalidField, NotFound
from fathom.domain.encoders.choose import Encoders
from fathom.domain.encoders.remote import (
    NamedRemoteConfig,
    RemoteEncoder,
    RemoteEncoderConfig,
    WrongDimension,
    openai_encoder,
    tei_encoder,
)
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.engine import Engine
from fathom.services.retrieval.http.api import HttpApi
from fathom.services.retrieval.index.rerank import CrossEncoder, Reranker, TeiReranker, rank_texts
from fathom.transport.http import MalformedAnswer, UpstreamRefused
from fathom.transport.store.memory import MemoryStore
from tests.servers import Servers


def vector(text: str, dim: int = 8) -> list[float]:
    # Vectors that anybody can compute from the text, so that a mixed-up order shows.
    digest = hashlib.sha256(text.encode()).digest()
    return [float(byte) - 127.0 for byte in digest[:dim]]


class Endpoint:
    """Answers both contracts, out of order where the contract allows it, and keeps what it was asked."""

    def __init__(self, fail_first: int = 0, dim: int = 8) -> None:
        self.batches: list[int] = []
        self.inputs: list[str] = []
        self.authorization = ""
        self.fail_first, self.dim = fail_first, dim

    async def openai(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert body["model"] == "small"
        if (refusal := self.record(body["input"], request)) is not None:
            return refusal
        rows = [
            {"object": "embedding", "index": i, "embedding": vector(t, self.dim)} for i, t in enumerate(body["input"])
        ]
        # The contract of OpenAI names an index per row and promises no order.
        return web.json_response({"object": "list", "data": rows[::-1], "model": "small"})

    async def tei(self, request: web.Request) -> web.Response:
        body = await request.json()
        refusal = self.record(body["inputs"], request)
        return (
            refusal if refusal is not None else web.json_response([vector(text, self.dim) for text in body["inputs"]])
        )

    def record(self, texts: list[str], request: web.Request) -> web.Response | None:
        self.batches.append(len(texts))
        self.inputs += texts
        self.authorization = request.headers.get("Authorization", "")
        if len(self.batches) <= self.fail_first:
            # "Too busy", to be tried again at once.
            return web.json_response({"error": "overloaded"}, status=429, headers={"Retry-After": "0"})
        return None


async def encoder(serve: Servers, kind: str, endpoint: Endpoint, **settings: Any) -> RemoteEncoder:
    url = await serve({"/v1/embeddings": endpoint.openai, "/embed": endpoint.tei})
    if kind == "openai":
        return serve.close_after(openai_encoder(RemoteEncoderConfig(url=f"{url}/v1", model="small", **settings)))
    return serve.close_after(tei_encoder(RemoteEncoderConfig(url=url, **settings)))


@pytest.mark.parametrize("kind", ["openai", "tei"])
async def test_vectors_are_unit_in_order_and_batched(serve: Servers, kind: str) -> None:
    endpoint = Endpoint(fail_first=1)
    remote = await encoder(serve, kind, endpoint, dim=8, batch=3, query_prefix="query: ", passage_prefix="passage: ")
    texts = [f"text {number}" for number in range(8)]
    found = await asyncio.to_thread(remote.encode, texts, "passage")
    assert found.shape == (8, 8)
    assert found.dtype == np.float32
    expected = np.array([vector(f"passage: {text}") for text in texts])
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-5)
    # Eight texts in threes and a repeated batch; which one was refused depends on which came first.
    assert sorted(endpoint.batches) in ([2, 3, 3, 3], [2, 2, 3, 3])
    await asyncio.to_thread(remote.encode, ["x"], "query")
    assert endpoint.inputs[-1] == "query: x"
    remote.close()


async def test_the_dimension_is_asked_for_once_when_it_is_not_set(serve: Servers) -> None:
    endpoint = Endpoint(dim=5)
    remote = await encoder(serve, "tei", endpoint)
    assert await asyncio.to_thread(lambda: (remote.dim, remote.dim)) == (5, 5)
    # One request with one text.
    assert endpoint.batches == [1]
    assert (await asyncio.to_thread(remote.encode, [], "query")).shape == (0, 5)


async def test_another_dimension_than_the_index_needs_is_typed(serve: Servers) -> None:
    remote = await encoder(serve, "openai", Endpoint(dim=7), dim=8)
    with pytest.raises(WrongDimension, match="have 7 numbers, not 8"):
        await asyncio.to_thread(remote.encode, ["x"], "query")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        # Too few, none, unequal lengths, a zero vector, a text, numbers for vectors, empty ones, no number.
        ([[1.0, 2.0]], MalformedAnswer), ({"data": []}, MalformedAnswer), ([[1.0, 2.0], [1.0]], WrongDimension),
        ([[0.0, 0.0], [1.0, 0.0]], CorruptData), ([[1.0, "x"], [1.0, 0.0]], MalformedAnswer), ([5, 6], MalformedAnswer),
        ([[], []], WrongDimension), ([[float("nan"), 0.0], [1.0, 0.0]], CorruptData),
    ],
)  # fmt: skip
async def test_bad_vectors_are_typed(serve: Servers, answer: Any, error: type[Exception]) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response(answer)

    remote = serve.close_after(tei_encoder(RemoteEncoderConfig(url=await serve({"/embed": handler}))))
    with pytest.raises(error):
        await asyncio.to_thread(remote.encode, ["a", "b"], "passage")


async def test_keys_refusals_and_empty_texts(serve: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="NO_SUCH_KEY"):
        tei_encoder(RemoteEncoderConfig(url="http://127.0.0.1:1", api_key_env="NO_SUCH_KEY"))
    with pytest.raises(ConfigError, match="model"):
        openai_encoder(RemoteEncoderConfig(url="http://127.0.0.1:1"))
    monkeypatch.setenv("ENCODER_KEY", "sesame-1")
    endpoint = Endpoint()
    remote = await encoder(serve, "tei", endpoint, api_key_env="ENCODER_KEY")
    await asyncio.to_thread(remote.encode, ["x"], "query")
    assert endpoint.authorization == "Bearer sesame-1"
    # An empty text has no meaning to encode: endpoints refuse it or make something up.
    with pytest.raises(InvalidField, match=r"texts\[1\]"):
        remote.encode(["x", " "], "query")

    async def refuse(_: web.Request) -> web.Response:
        return web.json_response({"error": "batch size 64 > maximum allowed batch size 32"}, status=413)

    remote = serve.close_after(tei_encoder(RemoteEncoderConfig(url=await serve({"/embed": refuse}))))
    with pytest.raises(UpstreamRefused, match="maximum allowed batch size"):
        await asyncio.to_thread(remote.encode, ["x"], "query")


async def test_the_callers_deadline_holds_in_all_batches(serve: Servers) -> None:
    release, asked = asyncio.Event(), 0

    async def never(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        await release.wait()
        return web.Response()

    remote = serve.close_after(tei_encoder(RemoteEncoderConfig(url=await serve({"/embed": never}), batch=1)))
    with calling(Call.new(timeout_s=0.3)), pytest.raises(DeadlineExceeded):
        await asyncio.to_thread(remote.encode, ["a", "b", "c", "d", "e"], "query")
    assert asked < 5, "the last batch waits for a place, and then the time is spent"
    release.set()


async def test_a_rerankers_endpoint(serve: Servers) -> None:
    sizes: list[int] = []

    async def rerank(request: web.Request) -> web.Response:
        body = await request.json()
        sizes.append(len(body["texts"]))
        rows = [
            {"index": index, "score": -abs(len(text) - len(body["query"]))} for index, text in enumerate(body["texts"])
        ]
        return web.json_response(sorted(rows, key=lambda row: -row["score"]))

    async def twice(_: web.Request) -> web.Response:
        return web.json_response([{"index": 0, "score": 1}, {"index": 0, "score": 2}])

    remote = serve.close_after(TeiReranker(await serve({"/rerank": rerank}), batch=2))
    assert isinstance(remote, Reranker)
    found = await asyncio.to_thread(rank_texts, remote, "four", ["a", "abcd", "abcdefgh", "abc", "wxyz"], 3)
    # By distance from the query's length: the two of four letters, then "abc".
    assert found == [(1, 0.0), (4, 0.0), (3, -1.0)]
    assert sizes == [2, 2, 1]
    broken = serve.close_after(TeiReranker(await serve({"/rerank": twice})))
    with pytest.raises(MalformedAnswer):
        await asyncio.to_thread(broken.score, "q", ["a", "b"])
    with pytest.raises(InvalidField):
        remote.score(" ", ["a"])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cross-encoder with random weights of a fixed seed, and a vocabulary of a few words."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("cross-encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "profit", "rose", "fell", "bank", "oil", "the", "##s"]
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(7)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        num_labels=1,
        initializer_range=0.5,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_scores_of_a_cross_encoder_do_not_depend_on_the_batch(tiny: Path) -> None:
    import torch
    import transformers

    texts = ["profit rose", "the oil fell " * 9, "bank", "profit fell the bank", "oil oil oil", ""]
    alone, together = CrossEncoder(tiny, batch=1), CrossEncoder(tiny, batch=4)
    scores = together.score("the banks profit", texts)
    np.testing.assert_allclose(scores, alone.score("the banks profit", texts), atol=1e-5)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tiny).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny)
    with torch.inference_mode():
        expected = [
            float(model(**tokenizer(["the banks profit"], [text], return_tensors="pt")).logits[0, 0]) for text in texts
        ]
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert len(set(np.round(scores, 4))) > 3
    assert [index for index, _ in rank_texts(together, "the banks profit", texts, 2)] == list(np.argsort(-scores)[:2])
    assert together.score("x", []).shape == (0,)


def test_long_texts_are_cut_and_folders_without_a_model_are_typed(tiny: Path, tmp_path: Path) -> None:
    short = CrossEncoder(tiny, window=16)
    scores = short.score("profit", ["bank " * 1_000, "bank " * 2_000])
    assert scores[0] == scores[1]
    with pytest.raises(NotFound):
        CrossEncoder(tmp_path / "none")
    with pytest.raises(CorruptData):
        CrossEncoder(tmp_path)


async def test_a_cross_encoder_behind_the_door(tiny: Path) -> None:
    """``POST /rerank`` scores with the reranker it is given."""
    scorer = CrossEncoder(tiny)
    config = Config(corpus_dir=None)
    app = HttpApi(config, Engine(config, MemoryStore()), scorer=scorer).make_app()
    texts = ["profit rose", "oil", "the bank fell"]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        response = await client.post(
            "/rerank", json={"queries": ["bank profit"], "documents": [texts], "rerank_topk": 3}
        )
    assert response.status_code == 200, response.text
    (ranked,) = response.json()["result"]
    assert ranked == [texts[index] for index, _ in rank_texts(scorer, "bank profit", texts, 3)]


async def test_closed_encoders_have_no_connection_and_connect_anew_when_asked_again(serve: Servers) -> None:
    url = await serve({"/embed": Endpoint().tei})
    encoders = Encoders(Path("nowhere"), remote={"far": NamedRemoteConfig(url=url, dim=8, kind="tei")})
    first = encoders("far")
    await asyncio.to_thread(first.encode, ["x"], "query")
    encoders.close()
    with pytest.raises(RuntimeError, match="closed"):
        await asyncio.to_thread(first.encode, ["x"], "query")
    assert (await asyncio.to_thread(encoders("far").encode, ["x"], "query")).shape == (1, 8)
    encoders.close()
