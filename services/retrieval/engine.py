"""Search, fetch and ingest over corpora that change by whole snapshots; filters and as_of apply before ranking."""

from __future__ import annotations

import asyncio
import difflib
import math
import tempfile
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from fathom.bus.base import KeyValue
from fathom.encoders.choose import Encoders
from fathom.errors import FathomError, InvalidField, MissingExtra, NotFound
from fathom.store import ObjectStore
from services.retrieval.config import Config
from services.retrieval.corpus import EVERYTHING, MAX_ID_CHARS, Document, Filter, content_key, key64
from services.retrieval.intake import Chunk, Intake
from services.retrieval.library import WEB, Library, refused_while_broken
from services.retrieval.online import Online
from services.retrieval.paging import read_token, write_token
from services.retrieval.rows import Issue, Parse
from services.retrieval.searching import Searching
from services.retrieval.seen import Seen
from services.retrieval.snapshot import Snapshot
from services.retrieval.text import summary, tokens
from services.retrieval.threads import settle

MAX_QUERY_CHARS, MAX_QUERIES, MAX_TOP_K, MAX_IDS = 2_000, 256, 100, 32
PAGE_CHARS, MAX_PAGE_CHARS = 8_000, 100_000
NEAREST_AMONG = 5_000
"""Number of ids that an unknown one is compared with."""
Keys = Collection[int]
"""Keys of ids, see ``key64``."""


@dataclass(frozen=True)
class Hit:
    """A search result."""

    document: Document
    score: float
    summary: str


@dataclass(frozen=True)
class Page:
    """A part of a document's text and the token for the next one ("" at the end)."""

    document: Document
    text: str
    next_token: str


@dataclass(frozen=True)
class Found:
    """The snapshot's id ("" for the web) and, per query, documents and scores, best first, or its error."""

    snapshot: str
    results: Sequence[Sequence[tuple[Document, float]] | FathomError]


@dataclass(frozen=True)
class Ingested:
    """Result of an ingest; ``snapshot`` is the id of the corpus' new content."""

    added: int
    duplicates: int
    rejected: int
    issues: Sequence[Issue]
    snapshot: str


class Engine:
    """Retrieval engine; usable after ``start``."""

    def __init__(
        self,
        config: Config,
        store: ObjectStore,
        parsers: Mapping[str, Parse] | None = None,
        seen: KeyValue | None = None,
    ) -> None:
        """Create the engine; ``seen`` is the bucket of documents shown to runs.

        Without it a process knows only its own searches.
        """
        settle()
        self._config, self._parsers = config, dict(parsers or {})
        self.encoders = Encoders(
            config.model_dir, config.threads, config.remote_encoders, config.query_tokens, half=config.half
        )
        self.library = Library(config, store, self.encoders)
        self.searching = Searching(config, self.encoders)
        self._web = Online(config.web)
        self._seen = Seen(seen)
        self._duties: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Open the corpora; raise ``CorruptData`` naming the file of a broken bundle, or ``MissingExtra``."""
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.close)
            try:
                await self.library.start()
            except ImportError as error:
                raise MissingExtra(error.name or "bm25s", "retrieval") from error
            undo.pop_all()
        self._duties = [asyncio.create_task(duty) for duty in (self._load_encoders(), self._look_again())]

    async def _load_encoders(self) -> None:
        """Load the encoders before they are needed."""
        for name in self.library.names():
            active = self.library.shelf(name).active
            if active is not None and active.encoder:
                with suppress(FathomError):
                    await asyncio.to_thread(getattr, self.encoders(active.encoder), "dim")

    async def _look_again(self) -> None:
        while self._config.refresh_s:
            await asyncio.sleep(self._config.refresh_s)
            with suppress(FathomError):  # a store that is away now may be there the next time
                await self.library.refresh()

    async def close(self) -> None:
        """Cancel background tasks and remove temporary files."""
        for duty in self._duties:
            duty.cancel()
        await asyncio.gather(*self._duties, return_exceptions=True)
        await self.searching.close()
        await self._web.close()
        await self.library.close()
        await asyncio.to_thread(self.encoders.close)

    async def rank(
        self,
        queries: Sequence[str],
        top_k: int = 0,
        allowed: Filter = EVERYTHING,
        half_life_days: float = 0.0,
        *,
        corpus: str = "",
        snapshot: str = "",
        ranking: str = "",
        run: str = "",
    ) -> Found:
        """Rank documents per query; every API uses this method, so that all return the same ids in the same order.

        Raises ``InvalidField`` for faults that concern all queries (their number, ``top_k``, ``half_life_days``,
        corpus, ranking), ``NotFound`` for a snapshot, and the encoder's errors.
        """
        bounded(queries, MAX_QUERIES, "queries")
        if not 0 <= top_k <= MAX_TOP_K:
            raise InvalidField("top_k", f"must be 0 to {MAX_TOP_K}")
        if not (math.isfinite(half_life_days) and half_life_days >= 0):
            raise InvalidField("recency_half_life_days", "must be a number of days, 0 or more")
        if corpus == WEB:
            pages = await self._web.rank(queries, top_k or self._config.top_k, allowed, MAX_QUERY_CHARS)
            return await self._shown(run, Found("", pages))
        opened = await self.library.snapshot(corpus, snapshot)
        from services.retrieval.ranking import Ask, Ranking

        chosen = Ranking(ranking) if ranking else opened.arms.ranking
        if lacking := opened.arms.lacks(chosen):
            raise InvalidField("ranking", f"the corpus has no {lacking}, so it cannot rank {chosen}")
        ask = Ask(top_k or self._config.top_k, allowed, half_life_days, chosen)
        ranked = await asyncio.gather(
            *(self._one(opened, query, ask, f"queries[{number}]") for number, query in enumerate(queries))
        )
        return await self._shown(run, Found(opened.id, ranked))

    async def _shown(self, run: str, found: Found) -> Found:
        if run:
            hits = [hits for hits in found.results if not isinstance(hits, FathomError)]
            await self._seen.show(run, [document.id for some in hits for document, _ in some])
        return found

    async def _one(
        self, snapshot: Snapshot, query: str, ask: object, field: str
    ) -> list[tuple[Document, float]] | FathomError:
        wanted = query.strip()
        if not wanted or len(query) > MAX_QUERY_CHARS:
            return InvalidField(field, f"must have 1 to {MAX_QUERY_CHARS:,} characters")
        ranked = await self.searching.rank(snapshot, wanted, ask)  # type: ignore[arg-type]
        documents = snapshot.table.documents
        return [(documents[position], score) for position, score in ranked]

    async def search(
        self,
        queries: Sequence[str],
        top_k: int = 0,
        allowed: Filter = EVERYTHING,
        half_life_days: float = 0.0,
        **where: str,
    ) -> tuple[str, list[list[Hit] | FathomError]]:
        """Rank with summaries; return the snapshot's id and, per query, hits or the query's error."""
        found = await self.rank(queries, top_k, allowed, half_life_days, **where)
        return found.snapshot, await asyncio.to_thread(self._summed_up, queries, found)

    def _summed_up(self, queries: Sequence[str], found: Found) -> list[list[Hit] | FathomError]:
        results: list[list[Hit] | FathomError] = []
        for query, result in zip(queries, found.results, strict=True):
            if isinstance(result, FathomError):
                results.append(result)
                continue
            wanted, limit = set(tokens(query)), self._config.summary_chars
            results.append([Hit(item, score, summary(item.text, wanted, limit)) for item, score in result])
        return results

    async def fetch(
        self,
        ids: Sequence[str],
        page_size: int = 0,
        page_token: str = "",
        as_of: datetime | None = None,
        *,
        corpus: str = "",
        snapshot: str = "",
        seen_by: str = "",
    ) -> tuple[str, list[Page | FathomError]]:
        """Return the snapshot's id and, per id, a page of the text, or ``NotFound`` with the nearest ids.

        With ``seen_by`` only documents that a search has shown to that run exist. Raises ``InvalidField`` for the
        number of ids, a page size out of range, and a bad page token.
        """
        bounded(ids, MAX_IDS, "ids")
        if not 0 <= page_size <= MAX_PAGE_CHARS:
            raise InvalidField("page_size", f"must be 0 to {MAX_PAGE_CHARS:,}")
        if page_token and len(ids) != 1:
            raise InvalidField("page_token", "goes with a single id")
        shown = await self._seen.among(seen_by, ids) if seen_by else None
        size, allowed = page_size or PAGE_CHARS, Filter(as_of=as_of)
        if corpus == WEB:
            return "", [await self._web_page(ident, size, page_token, as_of, shown) for ident in ids]
        opened = await self.library.snapshot(corpus, snapshot)
        return opened.id, await asyncio.to_thread(
            lambda: [page_of(opened, ident, size, page_token, allowed, shown) for ident in ids]
        )

    async def _web_page(
        self, ident: str, size: int, token: str, as_of: datetime | None, shown: Keys | None
    ) -> Page | FathomError:
        if shown is not None and key64(ident) not in shown:
            return NotFound("document", ident[:MAX_ID_CHARS])
        document = await self._web.document(ident, as_of)
        return document if isinstance(document, FathomError) else cut(document, size, token)

    async def ingest(self, corpus: str, items: AsyncGenerator[Document | Chunk | Issue, None]) -> Ingested:
        """Add documents and files to a corpus, creating it if necessary.

        Raises ``InvalidField`` for an invalid name, an unknown media type and too many bytes (nothing is added then),
        and ``Conflict`` when the corpus cannot be opened.
        """
        shelf = self.library.opened_for_writing(corpus)
        name = corpus or self._config.corpus_name
        try:
            async with shelf.writing, aclosing(items):
                refused_while_broken(shelf)
                base = await self.library.head(name)
                with tempfile.TemporaryDirectory() as folder:
                    limit = self._config.max_ingest_mb << 20
                    intake = Intake(Path(folder) / "spool.jsonl", base, self._parsers, limit)
                    try:
                        return await self._taken(name, intake, items, base)
                    finally:
                        intake.close()
        finally:
            self.library.forget_empty(name)

    async def _taken(
        self, corpus: str, intake: Intake, items: AsyncGenerator[Document | Chunk | Issue, None], base: Snapshot | None
    ) -> Ingested:
        async for item in items:
            if isinstance(item, Chunk):
                await asyncio.to_thread(intake.chunk, item)
            elif isinstance(item, Issue):
                intake.refuse(item.message)
            else:
                intake.document(item)
        await asyncio.to_thread(intake.end_file)
        ident = base.id if base is not None else ""
        if intake.added:
            ident = (await self.library.add(corpus, intake.documents())).id
        return Ingested(intake.added, intake.duplicates, intake.rejected, intake.issues, ident)


def page_of(
    snapshot: Snapshot, ident: str, size: int, token: str, allowed: Filter, shown: Keys | None
) -> Page | FathomError:
    """Return one page, or ``NotFound`` with the nearest ids; tokens stay valid across snapshots."""
    table = snapshot.table
    position = table.position(ident) if shown is None or key64(ident) in shown else None
    document = None if position is None else table.documents[position]
    if document is None or not allowed.allows(document):
        return NotFound("document", ident[:MAX_ID_CHARS], nearest(snapshot, ident[:MAX_ID_CHARS], allowed, shown))
    return cut(document, size, token)


def cut(document: Document, size: int, token: str) -> Page:
    """Return the page that a token refers to; raise ``InvalidField("page_token")`` for a token of another text."""
    text_key, length = content_key(document.title, document.text), len(document.text)
    start = read_token(token, text_key, document.id, length) if token else 0
    end = start + size
    following = write_token(text_key, document.id, end) if end < length else ""
    return Page(document, document.text[start:end], following)


def nearest(snapshot: Snapshot, ident: str, allowed: Filter, shown: Keys | None) -> list[str]:
    """Return similar ids among visible documents: ids published after ``as_of`` stay unknown even as hints."""
    known = snapshot.table.documents if shown is None else snapshot.table.names(list(shown))
    candidates = [item.id for item in islice(known, NEAREST_AMONG) if allowed.allows(item)]
    return difflib.get_close_matches(ident, candidates, n=3, cutoff=0.4)


def bounded(values: Sequence[str], limit: int, field: str) -> None:
    """Raise ``InvalidField`` unless there are 1 to ``limit`` values."""
    if not 1 <= len(values) <= limit:
        raise InvalidField(field, f"must be 1 to {limit}")
