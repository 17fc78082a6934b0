"""The web as a corpus: found by an engine, read by the fetcher, with ids like any other document's.

Only pages that a search has shown can be read, so that no text can make the system fetch an address of its choice. Live
access was not tried.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import urlsplit, urlunsplit

from fathom.errors import DependencyFailed, FathomError, InvalidField, NotFound
from services.retrieval.corpus import Document, Filter
from services.retrieval.web.base import NotConfigured, TimeRange, WebResult, WebSearch
from services.retrieval.web.fetcher import PageFetcher

TYPE = "page"
LEAST = timedelta(microseconds=1)


class WebCorpus:
    """The web corpus of one event loop; caches ``remembered`` results and ``kept_chars`` characters of pages."""

    def __init__(
        self,
        engines: Sequence[WebSearch],
        fetcher: PageFetcher,
        remembered: int = 50_000,
        kept_chars: int = 32_000_000,
    ) -> None:
        self._engines, self._fetcher, self._remembered, self._kept_chars = (
            tuple(engines),
            fetcher,
            remembered,
            kept_chars,
        )
        self._known: OrderedDict[str, WebResult] = OrderedDict()
        self._pages: OrderedDict[str, Document] = OrderedDict()
        self._chars = 0

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
        if bounds.types and TYPE not in bounds.types:
            return []
        results = await self._ask(query, limit, ranged(bounds), deadline)
        found: dict[str, Document] = {}
        for result in results:
            document = shown(result)
            if bounds.allows(document):
                found.setdefault(document.id, document)
                self._remember(document.id, result)
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
        if not visible.allows(shown(result)):
            raise NotFound("document", ident)
        document = self._pages.get(ident) or await self._read(ident, result, deadline)
        if not visible.allows(document):
            raise NotFound("document", ident)
        return document

    async def aclose(self) -> None:
        """Close the engines."""
        for engine in self._engines:
            await engine.aclose()

    async def _ask(self, query: str, limit: int, published: TimeRange, deadline: float | None) -> list[WebResult]:
        if not self._engines:
            raise NotConfigured("web", "retrieval.web.searxng_url, or the key of another engine")
        failed: list[FathomError] = []
        for engine in self._engines:
            try:
                return await engine.search(query, limit, published, deadline)
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
            source=host(page.url),
            type=TYPE,
            entities=(),
            language=page.document.language or "en",
        )
        self._keep(document)
        return document

    def _keep(self, document: Document) -> None:
        if document.id not in self._pages:
            self._pages[document.id] = document
            self._chars += len(document.text)
        while self._chars > self._kept_chars:
            self._chars -= len(self._pages.popitem(last=False)[1].text)

    def _remember(self, ident: str, result: WebResult) -> None:
        self._known[ident] = result
        self._known.move_to_end(ident)
        while len(self._known) > self._remembered:
            self._known.popitem(last=False)


def shown(result: WebResult) -> Document:
    """Convert a result to a document whose text is the summary."""
    return Document(ident_of(result.url), result.title, result.summary, result.published, host(result.url), TYPE, ())


def ident_of(url: str) -> str:
    """Return ``web-`` and 24 hexadecimal digits; URLs that differ only in host case or fragment have the same id."""
    parts = urlsplit(url)
    plain = urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path or "/", parts.query, ""))
    return "web-" + hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:24]


def host(url: str) -> str:
    """Return the host without ``www.``."""
    return (urlsplit(url).hostname or "").removeprefix("www.")


def ranged(allowed: Filter) -> TimeRange:
    """Convert the times of a filter, of which ``as_of`` is inclusive and ``before`` exclusive."""
    ends = [end for end in (allowed.before, allowed.as_of + LEAST if allowed.as_of else None) if end is not None]
    return TimeRange(allowed.after, min(ends, default=None))
