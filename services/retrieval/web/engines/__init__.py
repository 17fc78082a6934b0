"""Four engines: SearXNG (self-hosted, no key), Tavily, Brave, Serper. Addresses are configurable for tests.

Requests follow the vendors' published contracts; none was tried against its vendor, so they are a distribution of their
own, outside Fathom's (``services/retrieval/web/records.yaml`` has the days).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from fathom.services.retrieval.web.base import (
    NotConfigured,
    TimeRange,
    WebResult,
    check_query,
    make_results,
    read_key,
    read_rows,
)
from fathom.services.retrieval.web.config import WebConfig
from fathom.transport.http import HttpClient, HttpPolicy, UpstreamRefused


class SearXNG:
    """A SearXNG instance; its settings must list ``json`` under ``search.formats``."""

    name: ClassVar[str] = "searxng"

    def __init__(self, config: WebConfig) -> None:
        """Create the client; raise ``NotConfigured`` without an address."""
        if not config.searxng_url:
            raise NotConfigured(self.name, "retrieval.web.searxng_url")
        self._url = config.searxng_url.rstrip("/") + "/search"
        self._client = HttpClient(self.name, make_policy(config))

    async def search(
        self, query: str, limit: int, published: TimeRange | None = None, deadline: float | None = None
    ) -> list[WebResult]:
        """Search, see ``WebSearch``."""
        text, limit = check_query(query, limit)
        params = {"q": text, "format": "json", "safesearch": "1"}
        if published and published.after:
            # SearXNG supports only ranges that end today; others are filtered in ``make_results``.
            params |= choose_range(datetime.now(UTC) - published.after)
        try:
            answer = (await self._client.get(self._url, params, deadline=deadline)).json()
        except UpstreamRefused as error:
            # SearXNG answers 403 for a format that its settings do not list.
            if error.status == 403:
                raise UpstreamRefused(self.name, 403, "its settings do not list json under search.formats") from error
            raise
        rows = read_rows(answer, self.name, "results")
        found = ((row.get("url"), row.get("title"), row.get("content"), row.get("publishedDate")) for row in rows)
        return make_results(found, self.name, limit, published)

    async def aclose(self) -> None:
        await self._client.aclose()


def choose_range(age: timedelta) -> dict[str, str]:
    """Return SearXNG's shortest range that covers ``age``; nothing beyond a year."""
    for word, days in (("day", 1), ("month", 30), ("year", 365)):
        if age <= timedelta(days=days):
            return {"time_range": word}
    return {}


class Tavily:
    """Tavily's search."""

    name: ClassVar[str] = "tavily"

    def __init__(self, config: WebConfig) -> None:
        """Create the client; raise ``NotConfigured`` without a key."""
        key = read_key(self.name, "retrieval.web.tavily_key_env", config.tavily_key_env)
        self._url = config.tavily_url.rstrip("/") + "/search"
        self._client = HttpClient(self.name, make_policy(config), {"authorization": f"Bearer {key}"})

    async def search(
        self, query: str, limit: int, published: TimeRange | None = None, deadline: float | None = None
    ) -> list[WebResult]:
        """Search, see ``WebSearch``. Only news carry a time here, so a range searches news."""
        text, limit = check_query(query, limit, most=20)
        body: dict[str, Any] = {"query": text, "max_results": limit, "search_depth": "basic"}
        if published and published.after:
            body |= {"topic": "news", "start_date": published.after.date().isoformat()}
        if published and (last := published.get_last_day()):
            body |= {"topic": "news", "end_date": last.date().isoformat()}
        answer = (await self._client.request("POST", self._url, json=body, deadline=deadline)).json()
        rows = read_rows(answer, self.name, "results")
        found = ((row.get("url"), row.get("title"), row.get("content"), row.get("published_date")) for row in rows)
        return make_results(found, self.name, limit, published)

    async def aclose(self) -> None:
        await self._client.aclose()


class Brave:
    """Brave's web search."""

    name: ClassVar[str] = "brave"

    def __init__(self, config: WebConfig) -> None:
        """Create the client; raise ``NotConfigured`` without a key."""
        key = read_key(self.name, "retrieval.web.brave_key_env", config.brave_key_env)
        self._url = config.brave_url.rstrip("/") + "/res/v1/web/search"
        self._client = HttpClient(self.name, make_policy(config), {"x-subscription-token": key})

    async def search(
        self, query: str, limit: int, published: TimeRange | None = None, deadline: float | None = None
    ) -> list[WebResult]:
        """Search, see ``WebSearch``."""
        text, limit = check_query(query, limit, most=20)
        # Brave refuses queries of more than 400 characters.
        params: dict[str, Any] = {"q": shorten(text, 400), "count": limit, "text_decorations": "false"}
        if published and (published.after or published.before):
            # Brave takes only ranges with both ends.
            first = published.after or datetime(1970, 1, 1, tzinfo=UTC)
            last = published.get_last_day() or datetime.now(UTC)
            params["freshness"] = f"{first.date().isoformat()}to{last.date().isoformat()}"
        answer = (await self._client.get(self._url, params, deadline=deadline)).json()
        rows = read_rows(answer, self.name, "web", "results")
        found = ((row.get("url"), row.get("title"), row.get("description"), row.get("page_age")) for row in rows)
        return make_results(found, self.name, limit, published)

    async def aclose(self) -> None:
        await self._client.aclose()


def shorten(text: str, limit: int) -> str:
    """Cut to at most ``limit`` characters, at a space if possible."""
    return text if len(text) <= limit else text[: limit + 1].rpartition(" ")[0] or text[:limit]


class Serper:
    """Google's results by Serper."""

    name: ClassVar[str] = "serper"

    def __init__(self, config: WebConfig) -> None:
        """Create the client; raise ``NotConfigured`` without a key."""
        key = read_key(self.name, "retrieval.web.serper_key_env", config.serper_key_env)
        self._url = config.serper_url.rstrip("/") + "/search"
        self._client = HttpClient(self.name, make_policy(config), {"x-api-key": key})

    async def search(
        self, query: str, limit: int, published: TimeRange | None = None, deadline: float | None = None
    ) -> list[WebResult]:
        """Search, see ``WebSearch``."""
        text, limit = check_query(query, limit)
        body: dict[str, Any] = {"q": text, "num": limit}
        if published and (published.after or published.before):
            ends = (("cd_min", published.after), ("cd_max", published.get_last_day()))
            # Google's own parameter for a range of dates, month first.
            body["tbs"] = ",".join(["cdr:1", *(f"{name}:{when:%m/%d/%Y}" for name, when in ends if when)])
        answer = (await self._client.request("POST", self._url, json=body, deadline=deadline)).json()
        rows = read_rows(answer, self.name, "organic")
        found = ((row.get("link"), row.get("title"), row.get("snippet"), row.get("date")) for row in rows)
        return make_results(found, self.name, limit, published)

    async def aclose(self) -> None:
        await self._client.aclose()


def make_policy(config: WebConfig) -> HttpPolicy:
    return HttpPolicy(concurrency=config.engine_concurrency, body_bytes=4 << 20, proxy=config.proxy)
