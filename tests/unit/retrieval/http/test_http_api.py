"""``/retrieve`` as the trainer's client calls it, and what the reference server gets wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from fathom.core.errors import Overloaded
from fathom.core.identity import SERVICE, Tokens, make_keys
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.engine import Engine
from fathom.services.retrieval.http.api import HttpApi

Connect = Callable[..., httpx.AsyncClient]


class Lengths:
    """Scores texts by their length."""

    name = "lengths"

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([len(text) for text in texts], dtype=np.float32)


@pytest.fixture
async def connect(engine: Engine) -> AsyncIterator[Connect]:
    opened: list[httpx.AsyncClient] = []

    def client(scorer: Lengths | None = None, tokens: Tokens | None = None, **settings: Any) -> httpx.AsyncClient:
        app = HttpApi(Config(**settings), engine, scorer=scorer, tokens=tokens).make_app()  # type: ignore[arg-type]
        opened.append(httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost"))
        return opened[-1]

    yield client
    for each in opened:
        await each.aclose()


async def post(client: httpx.AsyncClient, path: str = "/retrieve", **body: Any) -> Any:
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()["result"]


async def test_overload_has_a_status_that_trainers_retry(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any, **__: Any) -> Any:
        raise Overloaded("4,096 queries are waiting", 0.2)

    client = connect()
    monkeypatch.setattr(Engine, "rank", refuse)
    answer = await client.post("/retrieve", json={"queries": ["why?"]})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


async def test_with_scores_as_the_client_reads_it(connect: Connect) -> None:
    first, second = await post(connect(), queries=["bank profits 2001", "利率"], topk=2, return_scores=True)
    assert [hit["document"]["id"] for hit in first] == ["old", "new"]
    assert first[0]["score"] >= first[1]["score"] > 0
    assert second[0]["document"] == {"id": "zh", "contents": '"银行股"\n银行股上涨。投资者关注利率。'}
    title, _, text = first[0]["document"]["contents"].partition("\n")
    assert (title, text.startswith("Bank profits rose in 2001.")) == ('"Bank profits"', True)


@pytest.mark.parametrize("path", ["/retrieve", "/rerank"])
async def test_a_token_is_verified_when_it_is_shown_and_required_where_the_operator_says_so(
    connect: Connect, path: str
) -> None:
    tokens, strangers = Tokens(make_keys()[0]), Tokens(make_keys()[0])
    body = {"queries": ["bank"], "documents": [["a", "bb"]]}
    own = {"authorization": "Bearer " + tokens.sign("trainer", "retrieval", role=SERVICE)}
    wrong = {"authorization": "Bearer " + strangers.sign("trainer", "retrieval", role=SERVICE)}
    for required, without in ((False, 200), (True, 401)):
        client = connect(Lengths(), tokens=tokens, http_require_token=required)
        assert (await client.post(path, json=body)).status_code == without
        assert (await client.post(path, json=body, headers=own)).status_code == 200
        refused = await client.post(path, json=body, headers=wrong)
        assert (refused.status_code, refused.json()["reason"]) == (401, "UNAUTHENTICATED")
        assert (await client.get("/health")).status_code == 200
    # Without keys nobody is identified, and a token means nothing.
    assert (await connect(Lengths()).post(path, json=body, headers=wrong)).status_code == 200


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_without_scores_documents_stand_bare(connect: Connect, count: int) -> None:
    """The reference server fails here unless there are exactly two queries."""
    result = await post(connect(), queries=["bank"] * count)
    assert len(result) == count
    assert all(set(document) == {"id", "contents"} for documents in result for document in documents)


@pytest.mark.parametrize(("topk", "count"), [(None, 2), (0, 2), (1, 1), (4, 4), (100, 4)])
async def test_topk_null_and_zero_mean_the_default_and_fewer_hits_are_fewer(
    connect: Connect, topk: int | None, count: int
) -> None:
    (documents,) = await post(connect(http_top_k=2), queries=["bank"], topk=topk)
    assert len(documents) == len({document["id"] for document in documents}) == count


async def test_only_queries_will_do_and_extra_fields_do_no_harm(connect: Connect) -> None:
    assert len(await post(connect(), queries=["bank", "long"], extra=1)) == 2
    assert await post(connect(), queries=[]) == []


async def test_a_query_that_is_none_spoils_no_other(connect: Connect) -> None:
    found = await post(connect(), queries=["", "bank", "x" * 1_000_000, "qqqqq", "\u0000"])
    assert [bool(documents) for documents in found] == [False, True, False, False, False]


async def test_a_batch_is_what_its_queries_are_alone(connect: Connect) -> None:
    client, queries = connect(), [f"bank {n}" for n in range(600)]
    together = await post(client, queries=queries, return_scores=True)
    assert len(together) == 600
    for at in (0, 1, 255, 256, 599):
        assert await post(client, queries=[queries[at]], return_scores=True) == [together[at]]


async def test_the_other_shape_is_behind_a_switch(connect: Connect) -> None:
    client = connect(http_shape="parallel")
    (found,) = await post(client, queries=["利率"], return_scores=True)
    assert ([item["id"] for item in found["document"]], len(found["scores"])) == (["zh"], 1)
    (found,) = await post(client, queries=["利率"])
    assert found["scores"] is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{", "body"),
        (b"[]", "body"),
        (b"{}", "queries"),
        (b'{"queries": "bank"}', "queries"),
        (b'{"queries": [1]}', "queries.0"),
        (b'{"queries": ["a"], "topk": -1}', "topk"),
        (b'{"queries": ["a"], "topk": 101}', "topk"),
        (b'{"queries": ["a"], "topk": "x"}', "topk"),
        (b'{"queries": ["a"], "topk_rerank": 1}', None),
    ],
)
async def test_bad_bodies_are_refused_by_field(connect: Connect, body: bytes, field: str | None) -> None:
    response = await connect().post("/retrieve", content=body)
    assert response.status_code == (422 if field else 404)
    assert response.json().get("field") == field
    assert response.json()["detail"]


async def test_a_body_without_end_is_refused(connect: Connect) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * (1 << 20)

    response = await connect().post("/retrieve", content=endless())
    assert (response.status_code, response.json()["field"]) == (422, "body")


async def test_rerank_orders_given_documents(connect: Connect) -> None:
    client = connect(Lengths())
    documents: list[list[Any]] = [["a", "ccc", "bb", "dddd"], [{"contents": "x"}, {"contents": "yy", "id": "7"}]]
    first, second = await post(client, "/rerank", queries=["q", "r"], documents=documents, return_scores=True)
    assert first == [{"document": text, "score": float(len(text))} for text in ("dddd", "ccc", "bb")]
    assert second[0]["document"] == {"contents": "yy", "id": "7"}
    (bare,) = await post(client, "/rerank", queries=["q"], documents=[["a", "bb"]], rerank_topk=1)
    assert bare == ["bb"]
    (both,) = await post(client, queries=["bank"], topk_retrieval=4, topk_rerank=2, return_scores=True)
    assert len(both) == 2
    assert both[0]["score"] == max(len(hit["document"]["contents"]) for hit in both)
    for wrong in ({"queries": ["q"], "documents": []}, {"queries": ["q"], "documents": [["a"] * 101]},
                  {"queries": ["q"], "documents": [[{"id": "1"}]]}):  # fmt: skip
        response = await client.post("/rerank", json=wrong)
        assert (response.status_code, response.json()["field"]) == (422, "documents")
    assert (await connect().post("/rerank", json={"queries": ["q"], "documents": [["a"]]})).status_code == 404


async def test_health_and_contract(connect: Connect, engine: Engine) -> None:
    client = connect()
    health = (await client.get("/health")).json()
    assert (health["status"], health["documents"]) == ("ok", 6)
    contract = (await client.get("/openapi.json")).json()
    body = contract["paths"]["/retrieve"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"queries", "topk", "return_scores"} <= set(body["properties"])
    assert body["required"] == ["queries"]
    assert (await client.get("/retrieve")).status_code == 405


async def test_overload_is_answered_with_a_status_that_trainers_repeat(
    connect: Connect, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> Any:
        raise Overloaded("the queue is full", retry_after_s=0.2)

    monkeypatch.setattr(engine, "rank", refuse)
    refused = await connect().post("/retrieve", json={"queries": ["bank"]})
    # verl's client repeats 500, 502, 503 and 504, and no other.
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert refused.json()["reason"] == "OVERLOADED"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", ""])
async def test_only_known_host_names_are_answered(connect: Connect, host: str) -> None:
    refused = await connect().post("/retrieve", json={"queries": ["bank"]}, headers={"host": host})
    assert (refused.status_code, refused.json()["field"]) == (421, "host")
    for known in ("localhost:8000", "127.0.0.1", "[::1]:8000"):
        answered = await connect().post("/retrieve", json={"queries": ["bank"]}, headers={"host": known})
        assert answered.status_code == 200
    anywhere = connect(http_allowed_hosts=["*"])
    assert (await anywhere.post("/retrieve", json={"queries": ["bank"]}, headers={"host": host})).status_code == 200
