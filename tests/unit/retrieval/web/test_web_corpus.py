"""The web as a corpus: engines in turn, ids, point in time, and that only what was shown can be read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest
from aiohttp import web

from fathom.core.errors import DependencyFailed, FathomError, InvalidField, NotFound, Overloaded
from fathom.services.retrieval.documents.model import Filter
from fathom.services.retrieval.web import NotConfigured, PageFetcher, TimeRange, WebConfig, WebCorpus, WebResult

Serve = Callable[..., Awaitable[str]]
MAY = datetime(2024, 5, 20, tzinfo=UTC)


class Engine:
    name: ClassVar[str] = "fake"

    def __init__(self, found: list[WebResult] | None = None, error: FathomError | None = None) -> None:
        self.found, self.error, self.asked = found or [], error, list[TimeRange | None]()

    async def search(
        self, query: str, limit: int, published: TimeRange | None = None, deadline: float | None = None
    ) -> list[WebResult]:
        self.asked.append(published)
        if self.error is not None:
            raise self.error
        return self.found[:limit]

    async def aclose(self) -> None:
        return None


class Site:
    """Serves an article and counts its readers."""

    def __init__(self, published: str = "") -> None:
        self.readers, self.published = 0, published

    async def page(self, _: web.Request) -> web.Response:
        self.readers += 1
        meta = f'<meta property="article:published_time" content="{self.published}">' if self.published else ""
        text = f"<html><head><title>T</title>{meta}</head><body><article><p>{'Profit rose by a third. ' * 9}</p></article></body></html>"
        return web.Response(text=text, content_type="text/html")


def fetcher() -> PageFetcher:
    return PageFetcher(WebConfig(fetch_ports=(), fetch_networks=("127.0.0.0/8",)))


def result(url: str, published: datetime | None = MAY) -> WebResult:
    return WebResult(url, "Profit up", "It rose.", published, "fake")


async def test_found_then_read_once(serve: Serve) -> None:
    site = Site()
    url = await serve({"/a": site.page})
    corpus = WebCorpus(
        [Engine([result(f"{url}/a"), result(f"{url.upper().replace('HTTP', 'http')}/a#top")])], fetcher()
    )
    (hit,) = await corpus.search("profit", 5)
    assert (hit.title, hit.text, hit.source, hit.type, hit.published) == (
        "Profit up",
        "It rose.",
        "127.0.0.1",
        "page",
        MAY,
    )
    for _ in range(2):
        document = await corpus.fetch(hit.id)
        assert document.text.startswith("Profit rose by a third.")
        assert (document.id, document.published) == (hit.id, MAY)
    # Two spellings of one address are one hit, and the second reading of it comes from memory.
    assert site.readers == 1
    with pytest.raises(NotFound):
        await corpus.fetch("web-000000000000000000000000")


async def test_the_next_engine_answers_and_all_reasons_are_told(serve: Serve) -> None:
    broken, busy, works = (
        Engine(error=DependencyFailed("a", "down")),
        Engine(error=Overloaded("b is busy", 1)),
        Engine([result("https://x.example/")]),
    )
    assert len(await WebCorpus([broken, busy, works], fetcher()).search("q", 5)) == 1
    with pytest.raises(DependencyFailed, match="down; b is busy"):
        await WebCorpus([broken, busy], fetcher()).search("q", 5)
    with pytest.raises(NotConfigured, match="searxng_url"):
        await WebCorpus([], fetcher()).search("q", 5)
    # The caller's mistake: the next engine would only be asked to repeat it.
    wrong = Engine(error=InvalidField("query", "is empty"))
    with pytest.raises(InvalidField):
        await WebCorpus([wrong, works], fetcher()).search("", 5)


async def test_point_in_time(serve: Serve) -> None:
    """Nothing younger than as_of is found or read, nor anything of unknown age, nor a page written anew."""
    site = Site("2024-07-01T00:00:00+00:00")
    url = await serve({"/a": site.page})
    engine = Engine(
        [
            result(f"{url}/a"),
            result("https://x.example/late", MAY + timedelta(days=9)),
            result("https://x.example/undated", None),
        ]
    )
    corpus = WebCorpus([engine], fetcher())
    found = await corpus.search("q", 5, Filter(as_of=MAY))
    assert [hit.published for hit in found] == [MAY]
    asked = engine.asked[0]
    assert asked is not None
    # Engines take a range without its end: a page of that very moment is still known then.
    assert asked.before == MAY + timedelta(microseconds=1)
    with pytest.raises(NotFound):
        await corpus.fetch(found[0].id, as_of=MAY - timedelta(days=1))
    assert site.readers == 0
    # Known by then, and written anew in July: nobody can tell what it said before.
    with pytest.raises(NotFound):
        await corpus.fetch(found[0].id, as_of=MAY + timedelta(days=5))
    assert (await corpus.fetch(found[0].id, as_of=datetime(2024, 7, 2, tzinfo=UTC))).published == datetime(
        2024, 7, 1, tzinfo=UTC
    )
    assert len(await corpus.search("q", 5)) == 3


async def test_filters_of_the_web() -> None:
    corpus = WebCorpus([Engine([result("https://www.x.example/1"), result("https://y.example/2")])], fetcher())
    assert [hit.source for hit in await corpus.search("q", 5, Filter(sources=frozenset({"x.example"})))] == [
        "x.example"
    ]
    assert await corpus.search("q", 5, Filter(types=frozenset({"news"}))) == []
    with pytest.raises(InvalidField, match=r"filter\.entities"):
        await corpus.search("q", 5, Filter(entities=frozenset({"AAPL"})))


async def test_memory_is_bounded(serve: Serve) -> None:
    site = Site()
    url = await serve({"/a": site.page, "/b": site.page})
    # Three results and room for two: the oldest is forgotten, and with it the leave to read its page.
    corpus = WebCorpus([Engine([result(f"{url}/a"), result(f"{url}/b"), result(f"{url}/c")])], fetcher(), max_results=2)
    hits = await corpus.search("q", 5)
    with pytest.raises(NotFound):
        await corpus.fetch(hits[0].id)
    for _ in range(2):
        await corpus.fetch(hits[1].id)
    assert site.readers == 1
    # The page is larger than all the room for pages: it is read anew each time.
    small = WebCorpus([Engine([result(f"{url}/a")])], fetcher(), max_page_bytes=300)
    (hit,) = await small.search("q", 5)
    for _ in range(2):
        await small.fetch(hit.id)
    assert site.readers == 3
    long = [replace(result(f"{url}/{name}"), summary="An emoji makes it fourfold \N{ROCKET}" * 100) for name in "ab"]
    narrow = WebCorpus([Engine(long)], fetcher(), max_result_bytes=20_000)
    first, second = await narrow.search("q", 5)
    assert (await narrow.fetch(second.id)).id == second.id
    with pytest.raises(NotFound):
        await narrow.fetch(first.id)
