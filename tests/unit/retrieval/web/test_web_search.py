"""The four engines against local servers that answer in the vendors' published forms."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from fathom.core.errors import DeadlineExceeded, InvalidField, NotFound
from fathom.services.retrieval.web import (
    NotConfigured,
    TimeRange,
    WebConfig,
    WebSearch,
    make_configured_engines,
    make_engine,
)
from fathom.services.retrieval.web.base import parse_time
from fathom.transport.http import MalformedAnswer, UpstreamRefused
from tests.servers import Servers

MAY = TimeRange(datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC))

SEARXNG = {
    "query": "q",
    "results": [
        {
            "url": "https://a.example/1",
            "title": "One",
            "content": "First <b>hit</b>",
            "publishedDate": "2024-05-20T08:00:00",
        },
        {"url": "https://a.example/1", "title": "One again", "content": "", "publishedDate": None},
        {"url": "https://a.example/2", "title": "Two", "content": "Undated", "publishedDate": None},
        {"url": "ftp://a.example/3", "title": "No page", "content": ""},
    ],
    "unresponsive_engines": [["some", "timeout"]],
}
TAVILY = {
    "query": "q",
    "results": [
        {
            "title": "One",
            "url": "https://a.example/1",
            "content": "First &amp; best",
            "score": 0.9,
            "published_date": "Mon, 20 May 2024 12:00:00 GMT",
        },
        {
            "title": "Two",
            "url": "https://a.example/2",
            "content": "June",
            "score": 0.8,
            "published_date": "Sat, 01 Jun 2024 00:00:00 GMT",
        },
    ],
}
BRAVE = {
    "type": "search",
    "web": {
        "results": [
            {"title": "One", "url": "https://a.example/1", "description": "First", "page_age": "2024-05-20T12:00:00"},
            {"title": "Two", "url": "https://a.example/2", "description": "Undated"},
        ]
    },
}
SERPER = {
    "searchParameters": {"q": "q"},
    "organic": [
        {"title": "One", "link": "https://a.example/1", "snippet": "First", "date": "May 20, 2024", "position": 1},
        {"title": "Two", "link": "https://a.example/2", "snippet": "Old", "date": "Apr 30, 2024", "position": 2},
    ],
}


class Vendor:
    """Serves one answer and keeps what it was asked."""

    def __init__(self, answer: Any, status: int = 200) -> None:
        self.answer, self.status = answer, status
        self.query: dict[str, str] = {}
        self.headers: dict[str, str] = {}
        self.body: dict[str, Any] = {}

    async def handle(self, request: web.Request) -> web.Response:
        self.query, self.headers = dict(request.query), {name.lower(): value for name, value in request.headers.items()}
        self.body = await request.json() if request.can_read_body else {}
        return web.json_response(self.answer, status=self.status)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TAVILY", "BRAVE", "SERPER"):
        monkeypatch.setenv(f"{name}_API_KEY", f"{name.lower()}-secret")


async def make_search(serve: Servers, name: str, vendor: Vendor) -> WebSearch:
    path = "/res/v1/web/search" if name == "brave" else "/search"
    url = await serve({path: vendor.handle})
    return serve.close_after(make_engine(name, WebConfig.model_validate({f"{name}_url": url})))


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("name", "answer"), [("searxng", SEARXNG), ("tavily", TAVILY), ("brave", BRAVE), ("serper", SERPER)]
)
async def test_results_of_each_engine(serve: Servers, name: str, answer: Any) -> None:
    search = await make_search(serve, name, Vendor(answer))
    found = await search.search("profit", 5)
    assert [result.url for result in found] == ["https://a.example/1", "https://a.example/2"]
    assert found[0].title == "One"
    assert found[0].summary.startswith("First")
    assert "<" not in found[0].summary
    assert "&amp;" not in found[0].summary
    assert found[0].published is not None
    assert found[0].published.date().isoformat() == "2024-05-20"
    assert found[0].engine == name
    assert len(await search.search("profit", 1)) == 1
    within = await search.search("profit", 5, MAY)
    assert [result.url for result in within] == ["https://a.example/1"], "undated results and others pass no range"
    await search.aclose()


@pytest.mark.usefixtures("keys")
async def test_what_each_engine_is_sent(serve: Servers) -> None:
    vendor = Vendor(TAVILY)
    await (await make_search(serve, "tavily", vendor)).search("贵州茅台 profit", 30, MAY)
    assert vendor.headers["authorization"] == "Bearer tavily-secret"
    assert vendor.body == {
        "query": "贵州茅台 profit",
        "max_results": 20,
        "search_depth": "basic",
        "topic": "news",
        "start_date": "2024-05-01",
        "end_date": "2024-05-31",
    }
    vendor = Vendor(BRAVE)
    await (await make_search(serve, "brave", vendor)).search("word " * 200, 5, MAY)
    assert vendor.headers["x-subscription-token"] == "brave-secret"
    assert vendor.query["freshness"] == "2024-05-01to2024-05-31"
    assert len(vendor.query["q"]) <= 400
    vendor = Vendor(SERPER)
    await (await make_search(serve, "serper", vendor)).search("q", 5, TimeRange(before=MAY.before))
    assert vendor.headers["x-api-key"] == "serper-secret"
    assert vendor.body == {"q": "q", "num": 5, "tbs": "cdr:1,cd_max:05/31/2024"}
    vendor = Vendor(SEARXNG)
    await (await make_search(serve, "searxng", vendor)).search(
        "q", 5, TimeRange(datetime.now(UTC) - timedelta(days=20))
    )
    assert vendor.query == {"q": "q", "format": "json", "safesearch": "1", "time_range": "month"}


@pytest.mark.parametrize("name", ["tavily", "brave", "serper", "searxng"])
def test_an_engine_without_its_key_is_off_and_says_what_to_set(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"{name.upper()}_API_KEY", raising=False)
    with pytest.raises(NotConfigured, match=rf"retrieval\.web\.{name}_(key_env|url)"):
        make_engine(name, WebConfig())


@pytest.mark.usefixtures("keys")
def test_the_configured_engines() -> None:
    assert [search.name for search in make_configured_engines(WebConfig(brave_key_env=""))] == ["tavily", "serper"]
    with pytest.raises(NotFound, match="brave"):
        make_engine("bravo", WebConfig())


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("answer", [[], {"organic": {"no": "list"}}, "text", 7])
async def test_an_answer_of_another_shape(serve: Servers, answer: Any) -> None:
    search = await make_search(serve, "serper", Vendor(answer))
    with pytest.raises(MalformedAnswer, match="serper"):
        await search.search("q", 5)
    await search.aclose()


@pytest.mark.usefixtures("keys")
async def test_rows_of_another_shape_are_left_out(serve: Servers) -> None:
    rows = {"organic": [None, "x", {}, {"link": 5}, {"link": "https://a.example/9", "title": None, "date": ["x"]}]}
    found = await (await make_search(serve, "serper", Vendor(rows))).search("q", 5)
    assert [(result.url, result.title, result.published) for result in found] == [
        ("https://a.example/9", "https://a.example/9", None)
    ]
    assert await (await make_search(serve, "serper", Vendor({}))).search("q", 5) == []


@pytest.mark.usefixtures("keys")
async def test_refusals_and_bad_input(serve: Servers) -> None:
    search = await make_search(serve, "searxng", Vendor({}, status=403))
    with pytest.raises(UpstreamRefused, match=r"search\.formats"):
        await search.search("q", 5)
    search = await make_search(serve, "brave", Vendor({"error": "bad key brave-secret"}, status=401))
    with pytest.raises(UpstreamRefused) as refused:
        await search.search("q", 5)
    assert "brave-secret" not in str(refused.value)
    for query, limit, field in (("  ", 5, "query"), ("q" * 2_001, 5, "query"), ("q", 0, "limit"), ("q", 51, "limit")):
        with pytest.raises(InvalidField) as invalid:
            await search.search(query, limit)
        assert invalid.value.field == field
    with pytest.raises(DeadlineExceeded):
        await search.search("q", 5, deadline=time.monotonic() - 1)


def test_times_as_engines_write_them() -> None:
    now = datetime(2024, 5, 20, 12, tzinfo=UTC)
    assert parse_time("3 days ago", now) == datetime(2024, 5, 17, 12, tzinfo=UTC)
    assert parse_time("1 hour ago", now) == datetime(2024, 5, 20, 11, tzinfo=UTC)
    assert parse_time("2024年5月20日") == datetime(2024, 5, 20, tzinfo=UTC)
    assert parse_time("2024-05-20T08:00:00+08:00") == datetime(2024, 5, 20, tzinfo=UTC)
    for nonsense in ("", "yesterday-ish", None, 5, "99 months"):
        assert parse_time(nonsense) is None
