"""Search and fetch over a verified corpus, in memory; filters and as_of hold before ranking."""

from __future__ import annotations

import asyncio
import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fathom.bundle.manifest import NAME, Manifest, verify
from fathom.errors import FathomError, InvalidField, MissingExtra, NotFound
from services.retrieval.config import Config
from services.retrieval.corpus import Document, Filter, read_documents
from services.retrieval.paging import read_token, write_token
from services.retrieval.text import summary, tokens

if TYPE_CHECKING:
    from services.retrieval.index import Index

MAX_QUERY_CHARS, MAX_QUERIES, MAX_TOP_K, MAX_IDS = 2_000, 256, 100, 32
PAGE_CHARS, MAX_PAGE_CHARS = 8_000, 100_000
MAX_ID_CHARS = 200
SECONDS_PER_DAY = 86_400.0
FADING_TYPE = "news"
EVERYTHING = Filter()


@dataclass(frozen=True)
class Hit:
    """A result."""

    document: Document
    score: float
    summary: str


@dataclass(frozen=True)
class Page:
    """A part of a document's text and where to go on ("" at the end)."""

    document: Document
    text: str
    next_token: str


class Engine:
    """Ready after ``start``; then it never changes, and its work runs in threads."""

    manifest: Manifest
    built: datetime
    documents: Sequence[Document]
    _by_id: dict[str, Document]
    _index: Index

    def __init__(self, config: Config) -> None:
        self._config = config

    async def start(self) -> None:
        """Verifies the corpus and builds the index; raises ``CorruptData`` naming the file, or ``MissingExtra``."""
        await asyncio.to_thread(self._load)

    def _load(self) -> None:
        try:
            from services.retrieval.index import Index
        except ImportError as error:
            raise MissingExtra(error.name or "bm25s", "retrieval") from error
        folder, weight = self._config.corpus_dir, self._config.title_weight
        self.manifest = verify(folder)
        self.built = datetime.fromtimestamp((folder / NAME).stat().st_mtime, UTC)
        self.documents = read_documents(folder)
        self._by_id = {document.id: document for document in self.documents}
        self._index = Index([tokens(f"{document.title}\n" * weight + document.text) for document in self.documents])

    async def search(
        self, queries: Sequence[str], top_k: int = 0, allowed: Filter = EVERYTHING, half_life_days: float = 0.0
    ) -> list[list[Hit] | FathomError]:
        """Per query, in order: hits, best first, or why this query failed.

        Raises ``InvalidField`` for what concerns all queries: their number, ``top_k``, ``half_life_days``.
        """
        bounded(queries, MAX_QUERIES, "queries")
        if not 0 <= top_k <= MAX_TOP_K:
            raise InvalidField("top_k", f"must be 0 to {MAX_TOP_K}")
        if not (math.isfinite(half_life_days) and half_life_days >= 0):
            raise InvalidField("recency_half_life_days", "must be a number of days, 0 or more")
        return await asyncio.to_thread(self._search, queries, top_k or self._config.top_k, allowed, half_life_days)

    def _search(
        self, queries: Sequence[str], top_k: int, allowed: Filter, half_life_days: float
    ) -> list[list[Hit] | FathomError]:
        import numpy as np

        now = allowed.as_of or max((d.published for d in self.documents if d.published), default=datetime.now(UTC))
        weights = np.array(
            [decay(d, now, half_life_days) if allowed.allows(d) else 0.0 for d in self.documents], dtype=np.float32
        )
        results: list[list[Hit] | FathomError] = []
        for position, query in enumerate(queries):
            if not query.strip() or len(query) > MAX_QUERY_CHARS:
                results.append(InvalidField(f"queries[{position}]", f"must have 1 to {MAX_QUERY_CHARS:,} characters"))
                continue
            terms = tokens(query)
            best = [(self.documents[at], score) for at, score in self._index.best(terms, weights, top_k)]
            wanted, limit = set(terms), self._config.summary_chars
            results.append([Hit(document, score, summary(document.text, wanted, limit)) for document, score in best])
        return results

    async def fetch(
        self, ids: Sequence[str], page_size: int = 0, page_token: str = "", as_of: datetime | None = None
    ) -> list[Page | FathomError]:
        """Per id, in order: a page of the text, or ``NotFound`` with the nearest ids.

        Raises ``InvalidField`` for the number of ids, a page size out of range, and a bad page token.
        """
        bounded(ids, MAX_IDS, "ids")
        if not 0 <= page_size <= MAX_PAGE_CHARS:
            raise InvalidField("page_size", f"must be 0 to {MAX_PAGE_CHARS:,}")
        if page_token and len(ids) != 1:
            raise InvalidField("page_token", "goes with a single id")
        return await asyncio.to_thread(
            lambda: [self._page(ident, page_size or PAGE_CHARS, page_token, Filter(as_of=as_of)) for ident in ids]
        )

    def _page(self, ident: str, page_size: int, page_token: str, allowed: Filter) -> Page | FathomError:
        document = self._by_id.get(ident)
        if document is None or not allowed.allows(document):
            # Ids of the future stay unknown, also as a hint.
            visible = [item.id for item in self.documents if allowed.allows(item)]
            shown = ident[:MAX_ID_CHARS]
            return NotFound("document", shown, difflib.get_close_matches(shown, visible, n=3, cutoff=0.4))
        snapshot, length = self.manifest.snapshot, len(document.text)
        start = read_token(page_token, snapshot, ident, length) if page_token else 0
        end = start + page_size
        following = write_token(snapshot, ident, end) if end < length else ""
        return Page(document, document.text[start:end], following)

    def corpus(self, name: str) -> str:
        """The corpus' name; raises ``InvalidField("corpus")`` for another one."""
        if name not in ("", self._config.corpus_name):
            raise InvalidField("corpus", f"no corpus {name[:MAX_ID_CHARS]!r}; known: {self._config.corpus_name}")
        return self._config.corpus_name

    def snapshot(self, name: str) -> str:
        """The snapshot's id; raises ``NotFound`` for another one."""
        if name not in ("", self.manifest.snapshot):
            raise NotFound("snapshot", name[:MAX_ID_CHARS], [self.manifest.snapshot])
        return self.manifest.snapshot


def decay(document: Document, now: datetime, half_life_days: float) -> float:
    """1 without a half-life or a date; else halved every ``half_life_days`` of age. Only news fade."""
    if not half_life_days or document.published is None or document.type != FADING_TYPE:
        return 1.0
    age = max(0.0, (now - document.published).total_seconds() / SECONDS_PER_DAY)
    # Not below the smallest normal float32: an old document ranks last, it does not vanish.
    return max(math.exp2(-age / half_life_days), 1e-30)


def bounded(values: Sequence[str], limit: int, field: str) -> None:
    """Raises ``InvalidField`` unless there are 1 to ``limit`` values."""
    if not 1 <= len(values) <= limit:
        raise InvalidField(field, f"must be 1 to {limit}")
