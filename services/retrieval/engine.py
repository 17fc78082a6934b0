"""BM25 over a verified corpus, in memory; filters and as_of hold before ranking."""

from __future__ import annotations

import asyncio
import base64
import difflib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from fathom.bundle.manifest import Manifest, verify
from fathom.errors import CorruptData, InvalidField, MissingExtra, NotFound
from services.retrieval.config import Config
from services.retrieval.text import summary, tokens

MAX_QUERY_CHARS, MAX_QUERIES, MAX_TOP_K, MAX_IDS = 2_000, 256, 100, 32
PAGE_CHARS, MAX_PAGE_CHARS = 8_000, 100_000
SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True)
class Document:
    """One document; ``published`` is None when it is not known."""

    id: str
    title: str
    text: str
    published: datetime | None
    source: str
    type: str
    entities: tuple[str, ...]


@dataclass(frozen=True)
class Filter:
    """What may be ranked; empty sets allow all."""

    sources: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    entities: frozenset[str] = frozenset()
    after: datetime | None = None
    before: datetime | None = None
    as_of: datetime | None = None

    def allows(self, document: Document) -> bool:
        """A document without a date passes no time filter."""
        if self.sources and document.source not in self.sources:
            return False
        if self.types and document.type not in self.types:
            return False
        if self.entities and not self.entities & set(document.entities):
            return False
        if not (self.after or self.before or self.as_of):
            return True
        when = document.published
        return when is not None and (
            (self.after is None or when >= self.after)
            and (self.before is None or when < self.before)
            and (self.as_of is None or when <= self.as_of)
        )


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
    """Ready after ``start``."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.manifest: Manifest
        self.documents: list[Document] = []
        self._by_id: dict[str, Document] = {}
        self._index: Any = None

    async def start(self) -> None:
        """Verifies the corpus and builds the index; raises ``CorruptData`` naming the file."""
        self.manifest = await asyncio.to_thread(verify, self._config.corpus_dir)
        self.documents = await asyncio.to_thread(read_documents, self._config.corpus_dir)
        self._by_id = {document.id: document for document in self.documents}
        self._index = await asyncio.to_thread(self._build)

    def _build(self) -> Any:
        try:
            import bm25s
        except ImportError as error:
            raise MissingExtra("bm25s", "retrieval") from error
        weight = self._config.title_weight
        corpus = [tokens(f"{document.title} " * weight + document.text) for document in self.documents]
        index = bm25s.BM25()
        index.index(corpus, show_progress=False)
        return index

    def search(self, query: str, top_k: int, allowed: Filter, half_life_days: float) -> list[Hit]:
        """Hits, best first, only documents that share a term with the query. Raises ``InvalidField``."""
        query = query.strip()
        if not 1 <= len(query) <= MAX_QUERY_CHARS:
            raise InvalidField("queries", f"must have 1 to {MAX_QUERY_CHARS:,} characters each")
        terms = tokens(query)
        known = [term for term in terms if term in self._index.vocab_dict]
        if not known:
            return []
        mask = [allowed.allows(document) for document in self.documents]
        scores = self._index.get_scores(known)
        now = max((d.published for d in self.documents if d.published), default=datetime.now(UTC))
        ranked = [
            (float(score) * decay(document, allowed.as_of or now, half_life_days), position)
            for position, (score, document) in enumerate(zip(scores, self.documents, strict=True))
            if mask[position] and score > 0
        ]
        ranked.sort(key=lambda item: (-item[0], item[1]))
        wanted = set(terms)
        best = [(score, self.documents[position]) for score, position in ranked[:top_k]]
        return [Hit(doc, score, summary(doc.text, wanted, self._config.summary_chars)) for score, doc in best]

    def top_k(self, requested: int) -> int:
        """The number of results; raises ``InvalidField("top_k")``."""
        if not 0 <= requested <= MAX_TOP_K:
            raise InvalidField("top_k", f"must be 0 to {MAX_TOP_K}")
        return requested or self._config.top_k

    def fetch(self, ident: str, page_size: int, page_token: str, as_of: datetime | None) -> Page:
        """A page of a document; raises ``NotFound`` with the nearest ids, ``InvalidField`` for a bad page."""
        if not 0 <= page_size <= MAX_PAGE_CHARS:
            raise InvalidField("page_size", f"must be 0 to {MAX_PAGE_CHARS:,}")
        document = self._by_id.get(ident)
        if document is None or (as_of is not None and not Filter(as_of=as_of).allows(document)):
            raise NotFound("document", ident, difflib.get_close_matches(ident, list(self._by_id), n=3, cutoff=0.3))
        start = read_token(page_token, document) if page_token else 0
        end = start + (page_size or PAGE_CHARS)
        token = write_token(document, end) if end < len(document.text) else ""
        return Page(document, document.text[start:end], token)

    def corpus(self, name: str) -> str:
        """The corpus' name; raises ``InvalidField("corpus")`` for another one."""
        if name not in ("", self._config.corpus_name):
            raise InvalidField("corpus", f"no corpus {name!r}; known: {self._config.corpus_name}")
        return self._config.corpus_name


def decay(document: Document, now: datetime, half_life_days: float) -> float:
    """1 without a half-life or a date; else halved every ``half_life_days`` of age. Notes do not age."""
    if half_life_days <= 0 or document.published is None or document.type != "news":
        return 1.0
    age = max(0.0, (now - document.published).total_seconds() / SECONDS_PER_DAY)
    return math.exp(-math.log(2) * age / half_life_days)


def write_token(document: Document, position: int) -> str:
    return base64.urlsafe_b64encode(f"{document.id}\n{position}".encode()).decode()


def read_token(token: str, document: Document) -> int:
    """The position in a page token; raises ``InvalidField("page_token")`` when it is not one of this document."""
    try:
        ident, _, position = base64.urlsafe_b64decode(token.encode()).decode().partition("\n")
        if ident == document.id and 0 <= int(position) < len(document.text):
            return int(position)
    except ValueError:
        pass  # said below, as for a token of another document
    raise InvalidField("page_token", "is not one that Fetch gave for this document")


def read_documents(folder: Path) -> list[Document]:
    """The corpus' documents; raises ``CorruptData`` naming the line."""
    path, documents = folder / "documents.jsonl", []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            published = row["published"]
            when = datetime.combine(date.fromisoformat(published), datetime.min.time(), UTC) if published else None
            facts = (row["id"], row["title"], row["text"], when, row["source"], row["type"], tuple(row["entities"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(f"{path}:{number}", str(error)) from error
        documents.append(Document(*facts))
    return documents


def bounded(values: Sequence[str], limit: int, field: str) -> Sequence[str]:
    """1 to ``limit`` values; else ``InvalidField``."""
    if not 1 <= len(values) <= limit:
        raise InvalidField(field, f"must be 1 to {limit}")
    return values
