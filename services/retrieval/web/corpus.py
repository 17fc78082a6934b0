"""The web as a corpus: found by an engine, read by the fetcher, with ids like any other document's.

Only pages that a search has shown can be read, so that no text can make the system fetch an address of its choice. Live
access was not tried.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import urlsplit, urlunsplit

from fathom.core.cache import BoundedCache
from fathom.core.errors import DependencyFailed, FathomError, InvalidField, NotFound
from fathom.services.retrieval.documents.model import Document, Filter
from fathom.services.retrieval.web.base import NotConfigured, TimeRange, WebResult, WebSearch
from fathom.services.retrieval.web.fetcher import PageFetcher

TYPE = "page"
# Turns the inclusive as_of into an exclusive bound.
LEAST = timedelta(microseconds=1)


# A result that is dropped cannot be read any more, so that many more results than pages are held.
MAX_RESULTS, MAX_RESULT_BYTES = 50_000, 64 * 1024 * 1024
MAX_PAGES, MAX_PAGE_BYTES = 10_000, 64 * 1024 * 1024


class WebCorpus:
    """The web corpus of one event loop; caches results and pages within the given numbers and bytes of memory."""

    def __init__(
        self,
        engines: Sequence[WebSearch],
        fetcher: PageFetcher,
        *,
        max_results: int = MAX_RESULTS,
        max_result_bytes: int = MAX_RESULT_BYTES,
        max_page_bytes: int = MAX_PAGE_BYTES,
    ) -> None:
        self._engines, self._fetcher = tuple(engines), fetcher
        self._known: BoundedCache[str, WebResult] = BoundedCache(
            max_entries=max_results, max_bytes=max_result_bytes, ttl_s=math.inf
        )
        self._pages: BoundedCache[str, Document] = BoundedCache(
            max_entries=MAX_PAGES, max_bytes=max_page_bytes, ttl_s=math.inf
        )

    async def search(
        self, query: str, limit: int, allowed: Filter | None = None, deadline: float | None = None
    ) -> list[Document]:
        """Return at most ``limit`` pages, best first; ``text`` is the engine's summary, ``source`` the host.

        Uses the first engine that answers. Raises ``NotConfigured`` without any, ``InvalidField`` for the query and for
        filters that the web does not support, ``DependencyFailed`` with every engine's reason.
        """
        bounds = allowed or Filter()
        if bounds.entities:
            raise InvalidField("filter.entities", "the web's pages carry no entities")
        if bounds.houses or bounds.ratings:
            raise InvalidField("filter.houses", "the web's pages carry no house and no rating")
        if bounds.types and TYPE not in bounds.types:
            return []
        results = await self._ask(query, limit, to_time_range(bounds), deadline)
        found: dict[str, Document] = {}
        for result in results:
            document = to_document(result)
            # Engines filter by their own index's dates; the bounds are checked again.
            if bounds.allows(document):
                found.setdefault(document.id, document)
                size = size_in_memory(document.id, result.url, result.title, result.summary)
                self._known.put(document.id, result, size)
        return list(found.values())

    async def fetch(self, ident: str, as_of: datetime | None = None, deadline: float | None = None) -> Document:
        """Return the page's readable text; the engine's date is used where the page has none.

        Raises ``NotFound`` for an id that no search has shown or that is newer than ``as_of``, and the errors of
        ``PageFetcher.fetch``.
        """
        result = self._known.get(ident)
        if result is None:
            raise NotFound("document", ident)
        visible = Filter(as_of=as_of)
        # By the engine's date first, so that a page that is too new is not even fetched.
        if not visible.allows(to_document(result)):
            raise NotFound("document", ident)
        document = self._pages.get(ident) or await self._read(ident, result, deadline)
        if not visible.allows(document):
            raise NotFound("document", ident)
        return document

    async def aclose(self) -> None:
        """Close the engines and the fetcher."""
        for engine in self._engines:
            await engine.aclose()
        self._fetcher.close()

    async def _ask(self, query: str, limit: int, published: TimeRange, deadline: float | None) -> list[WebResult]:
        if not self._engines:
            raise NotConfigured("web", "retrieval.web.searxng_url, or the key of another engine")
        failed: list[FathomError] = []
        for engine in self._engines:
            try:
                return await engine.search(query, limit, published, deadline)
            # A fault of the query is the same at every engine.
            except InvalidField:
                raise
            except FathomError as error:
                failed.append(error)
        if len(failed) == 1:
            raise failed[0]
        names = "+".join(engine.name for engine in self._engines)
        raise DependencyFailed(names, "; ".join(error.message for error in failed))

    async def _read(self, ident: str, result: WebResult, deadline: float | None) -> Document:
        page = await self._fetcher.fetch(result.url, deadline)
        # The later of the two: a page may have been written anew since the engine saw it.
        dates = [when for when in (page.document.published, result.published) if when is not None]
        document = Document(
            id=ident,
            title=page.document.title or result.title,
            text=page.document.text,
            published=max(dates, default=None),
            source=get_host(page.url),
            type=TYPE,
            entities=(),
            language=page.document.language or "en",
        )
        self._pages.put(ident, document, size_in_memory(ident, document.title, document.text))
        return document


def to_document(result: WebResult) -> Document:
    """Convert a result to a document whose text is the summary."""
    return Document(make_id(result.url), result.title, result.summary, result.published, get_host(result.url), TYPE, ())


def size_in_memory(*texts: str) -> int:
    """Return the bytes that texts take in memory."""
    # Not their length: one character beyond Latin-1 doubles the bytes of the whole text, an emoji makes it fourfold.
    return sum(map(sys.getsizeof, texts))


def make_id(url: str) -> str:
    """Return ``web-`` and 24 hexadecimal digits; URLs that differ only in host case or fragment have the same id."""
    parts = urlsplit(url)
    plain = urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path or "/", parts.query, ""))
    return "web-" + hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:24]


def get_host(url: str) -> str:
    """Return the host without ``www.``."""
    return (urlsplit(url).hostname or "").removeprefix("www.")


def to_time_range(allowed: Filter) -> TimeRange:
    """Convert the times of a filter, of which ``as_of`` is inclusive and ``before`` exclusive."""
    ends = [end for end in (allowed.before, allowed.as_of + LEAST if allowed.as_of else None) if end is not None]
    return TimeRange(allowed.after, min(ends, default=None))
