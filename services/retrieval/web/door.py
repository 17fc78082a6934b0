"""The web behind ``Search`` and ``Fetch``, with the methods of the engine: it is the corpus named ``web``."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime

from fathom.call import current_call
from fathom.errors import FathomError, InvalidField, NotFound
from services.retrieval.corpus import Document, Filter, content_key
from services.retrieval.engine import (
    MAX_IDS,
    MAX_PAGE_CHARS,
    MAX_QUERY_CHARS,
    PAGE_CHARS,
    Hit,
    Page,
    bounded,
)
from services.retrieval.paging import read_token, write_token
from services.retrieval.web import PageFetcher, WebConfig, WebCorpus, configured
from services.retrieval.web.base import MOST_RESULTS

NAME = "web"
MAX_QUERIES = 16
MAX_RUNS, MAX_SEEN = 4_096, 10_000


class WebDoor:
    """Off, with a typed error per query, while no engine is configured."""

    def __init__(self, corpus: WebCorpus, top_k: int) -> None:
        self._corpus, self._top_k = corpus, top_k
        self._seen: OrderedDict[str, dict[str, None]] = OrderedDict()

    async def search(
        self,
        queries: Sequence[str],
        top_k: int = 0,
        allowed: Filter | None = None,
        half_life_days: float = 0.0,
        *,
        run: str = "",
        **where: str,
    ) -> tuple[str, list[list[Hit] | FathomError]]:
        """As ``Engine.search``; the web has no snapshots and ranks by itself, which ``where`` must not deny.

        A query fails alone, with the error of the engines. Scores are 1 / rank: engines give none that compare.
        """
        bounded(queries, MAX_QUERIES, "queries")
        if not 0 <= top_k <= MOST_RESULTS:
            raise InvalidField("top_k", f"must be 0 to {MOST_RESULTS}")
        if half_life_days:
            raise InvalidField("recency_half_life_days", "the web's engines rank by themselves")
        if where.get("snapshot") or where.get("ranking"):
            raise InvalidField("snapshot" if where.get("snapshot") else "ranking", "the web has none to choose from")
        limit = top_k or self._top_k
        results = await asyncio.gather(*(self._one(query, limit, allowed or Filter()) for query in queries))
        if run:
            self._show(run, [hit.document.id for hits in results if isinstance(hits, list) for hit in hits])
        return "", list(results)

    async def fetch(
        self,
        ids: Sequence[str],
        page_size: int = 0,
        page_token: str = "",
        as_of: datetime | None = None,
        *,
        seen_by: str = "",
        **where: str,
    ) -> tuple[str, list[Page | FathomError]]:
        """As ``Engine.fetch``; an id fails alone, with the fetcher's error."""
        bounded(ids, MAX_IDS, "ids")
        if not 0 <= page_size <= MAX_PAGE_CHARS:
            raise InvalidField("page_size", f"must be 0 to {MAX_PAGE_CHARS:,}")
        if page_token and len(ids) != 1:
            raise InvalidField("page_token", "goes with a single id")
        if where.get("snapshot"):
            raise InvalidField("snapshot", "the web has none to choose from")
        shown = self._seen.get(seen_by, {}) if seen_by else None
        pages = (self._page(ident, page_size or PAGE_CHARS, page_token, as_of, shown) for ident in ids)
        return "", list(await asyncio.gather(*pages))

    async def close(self) -> None:
        """Closes the engines."""
        await self._corpus.aclose()

    async def _one(self, query: str, limit: int, allowed: Filter) -> list[Hit] | FathomError:
        if not query.strip() or len(query) > MAX_QUERY_CHARS:
            return InvalidField("queries", f"must have 1 to {MAX_QUERY_CHARS:,} characters")
        try:
            found = await self._corpus.search(query, limit, allowed, deadline())
        except FathomError as error:
            return error
        return [Hit(document, 1.0 / rank, document.text) for rank, document in enumerate(found, start=1)]

    async def _page(
        self, ident: str, size: int, token: str, as_of: datetime | None, shown: dict[str, None] | None
    ) -> Page | FathomError:
        if shown is not None and ident not in shown:
            return NotFound("document", ident[:200])
        try:
            document = await self._corpus.fetch(ident, as_of, deadline())
        except FathomError as error:
            return error
        return cut(document, size, token)

    def _show(self, run: str, ids: Sequence[str]) -> None:
        shown = self._seen.setdefault(run, {})
        self._seen.move_to_end(run)
        shown.update(dict.fromkeys(ids))
        while len(shown) > MAX_SEEN:
            del shown[next(iter(shown))]
        while len(self._seen) > MAX_RUNS:
            self._seen.popitem(last=False)


def cut(document: Document, size: int, token: str) -> Page:
    """One page of a text; raises ``InvalidField("page_token")``."""
    key, length = content_key(document.title, document.text), len(document.text)
    start = read_token(token, key, document.id, length) if token else 0
    following = write_token(key, document.id, start + size) if start + size < length else ""
    return Page(document, document.text[start : start + size], following)


def deadline() -> float | None:
    """The current call's."""
    call = current_call()
    return None if call is None else call.deadline


def web_door(config: WebConfig, top_k: int) -> WebDoor:
    """Over all engines that are configured; raises ``MissingExtra`` when there are some, but no httpx."""
    engines = configured(config)
    return WebDoor(WebCorpus(engines, PageFetcher(config) if engines else None), top_k)
