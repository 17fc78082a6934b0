"""The corpus "web": searched by a web search engine and read page by page; off until an engine is configured."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from fathom.core.call import current_call
from fathom.core.errors import FathomError, InvalidField
from fathom.services.retrieval.documents.model import Document, Filter
from fathom.services.retrieval.web.config import WebConfig

if TYPE_CHECKING:
    from fathom.services.retrieval.web.corpus import WebCorpus

# Twice an engine's own concurrency: its queue stays short and no slot idles.
MOST_AT_ONCE = 8


class LazyWebCorpus:
    """Creates its engines on first use; without a key or an address it raises ``NotConfigured``."""

    def __init__(self, config: WebConfig) -> None:
        self._config = config
        self._corpus: WebCorpus | None = None

    def get_corpus(self) -> WebCorpus:
        """Return the web as a corpus; raise ``MissingExtra`` without httpx."""
        if self._corpus is None:
            from fathom.services.retrieval.web import PageFetcher, make_configured_engines
            from fathom.services.retrieval.web.corpus import WebCorpus

            self._corpus = WebCorpus(make_configured_engines(self._config), PageFetcher(self._config))
        return self._corpus

    async def rank(
        self, queries: Sequence[str], top_k: int, allowed: Filter, most_chars: int
    ) -> list[list[tuple[Document, float]] | FathomError]:
        """Return per query pages with 1/rank as score, or the query's error."""
        corpus, gate = self.get_corpus(), asyncio.Semaphore(MOST_AT_ONCE)

        async def one(number: int, query: str) -> list[tuple[Document, float]] | FathomError:
            if not query.strip() or len(query) > most_chars:
                return InvalidField(f"queries[{number}]", f"must have 1 to {most_chars:,} characters")
            async with gate:
                try:
                    found = await corpus.search(query.strip(), top_k, allowed, get_deadline())
                except FathomError as error:
                    return error
            # Engines give no scores that could be compared.
            return [(document, 1 / (rank + 1)) for rank, document in enumerate(found)]

        return list(await asyncio.gather(*(one(number, query) for number, query in enumerate(queries))))

    async def fetch_document(self, ident: str, as_of: datetime | None) -> Document | FathomError:
        """Return the page of an id that a search has shown, or the error of reading it."""
        try:
            return await self.get_corpus().fetch(ident, as_of, get_deadline())
        except FathomError as error:
            return error

    async def close(self) -> None:
        """Close the engines."""
        if self._corpus is not None:
            await self._corpus.aclose()


def get_deadline() -> float | None:
    """Return the deadline of the call being handled, None without one."""
    call = current_call()
    return None if call is None else call.deadline
