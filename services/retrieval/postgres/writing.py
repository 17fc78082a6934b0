"""Filling the tables: segments of documents with their words and vectors, and the ends of versions."""

from __future__ import annotations

import json
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from fathom.services.retrieval.config import Recipe
from fathom.services.retrieval.corpus.building import (
    ENCODED_TOGETHER,
    build_encoded_text,
    build_indexed_text,
    split_batches,
)
from fathom.services.retrieval.documents.model import Document, hash64, hash_content, parse_document
from fathom.services.retrieval.documents.versions import CURRENT, find_deleted, find_ends, make_version, to_microseconds
from fathom.services.retrieval.index.text import tokenise
from fathom.services.retrieval.postgres.schema import BLOCK

Encode = Callable[[list[str]], Sequence[Sequence[float]]]
"""Returns the vectors of texts, in order."""
PASSAGES = (
    "segment", "place", "id_key", "content_key", "source_key", "published", "source", "type", "entities",
    "house", "rating", "document", "vector",
)  # fmt: skip
POSTINGS = ("term", "segment", "block", "documents", "places", "counts", "lengths")


def sign(key: int) -> int:
    """Return a key of 64 bits as PostgreSQL's integer, which has a sign."""
    return key - (1 << 64) if key >= 1 << 63 else key


@dataclass
class Block:
    """Postings of consecutive passages of a segment: by term, places, counts of the term, and lengths in terms."""

    number: int
    postings: dict[str, tuple[array[int], array[int], array[int]]] = field(
        default_factory=lambda: defaultdict(lambda: (array("i"), array("i"), array("i")))
    )
    terms: int = 0

    def add(self, place: int, document: Document, recipe: Recipe) -> None:
        """Add the terms of one passage."""
        terms = Counter(strip_zeros(term) for term in tokenise(build_indexed_text(document, recipe)))
        length = terms.total()
        self.terms += length
        for term, count in terms.items():
            places, counts, lengths = self.postings[term]
            places.append(place)
            counts.append(count)
            lengths.append(length)

    def list_rows(self, segment: int) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of ``POSTINGS``."""
        for term, (places, counts, lengths) in self.postings.items():
            yield term, segment, self.number, len(places), places.tolist(), counts.tolist(), lengths.tolist()


def make_passage(segment: int, place: int, document: Document, vector: Iterable[float] | None) -> tuple[Any, ...]:
    """Return the row of ``PASSAGES``."""
    return (
        segment, place, sign(hash64(document.id)), sign(hash64(hash_content(document.title, document.text))),
        sign(hash64(document.key)) if document.key else None,
        None if document.published is None else to_microseconds(document.published), strip_zeros(document.source),
        strip_zeros(document.type), [strip_zeros(entity.casefold()) for entity in document.entities],
        strip_zeros(document.house.casefold()), strip_zeros(document.rating.casefold()),
        # ASCII escapes: PostgreSQL has no character of number zero.
        json.dumps(document.to_row()), None if vector is None else write_vector(vector),
    )  # fmt: skip


def strip_zeros(text: str) -> str:
    return text.replace("\0", "")


def write_vector(vector: Iterable[float]) -> str:
    """Return a vector in pgvector's notation, exactly."""
    return f"[{','.join(repr(float(value)) for value in vector)}]"


def write_rows(connection: Any, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy,
    ):
        for row in rows:
            copy.write_row(row)


def store_segment(
    connection: Any, name: str, documents: Iterable[Document], recipe: Recipe, encode: Encode | None
) -> None:
    """Store a segment, whole or not at all, unless it is there; another process that stores it is waited for."""
    # Encoding takes minutes between two statements, and a large segment as long as it takes.
    connection.execute("SET LOCAL statement_timeout = 0")
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,))
    if connection.execute("SELECT 1 FROM segments WHERE name = %s", (name,)).fetchone():
        return
    (segment,) = connection.execute(
        "INSERT INTO segments (name, documents, terms) VALUES (%s, 0, 0) RETURNING id", (name,)
    ).fetchone()
    count = terms = 0
    newest = None
    for number, part in enumerate(split_blocks(documents)):
        block = Block(number)
        for some in part:
            vectors = (
                [None] * len(some) if encode is None else encode([build_encoded_text(one, recipe) for one in some])
            )
            passages = zip(some, vectors, strict=True)
            rows = (make_passage(segment, at, one, vector) for at, (one, vector) in enumerate(passages, start=count))
            write_rows(connection, "passages", PASSAGES, rows)
            for at, document in enumerate(some, start=count):
                if recipe.words:
                    block.add(at, document, recipe)
                if document.published is not None:
                    newest = max(newest or document.published, document.published)
            count += len(some)
        write_rows(connection, "postings", POSTINGS, block.list_rows(segment))
        terms += block.terms
    # A query that is planned without statistics reads all postings of a segment.
    connection.execute("ANALYZE passages, postings")
    connection.execute(
        "UPDATE segments SET documents = %s, terms = %s, newest = %s WHERE id = %s",
        (count, terms, None if newest is None else to_microseconds(newest), segment),
    )


def split_blocks(documents: Iterable[Document]) -> Iterator[Iterator[list[Document]]]:
    """Yield blocks, each as lists of documents that are encoded together."""
    rest = iter(documents)
    while (first := next(rest, None)) is not None:
        yield split_batches(chain([first], islice(rest, BLOCK - 1)), ENCODED_TOGETHER)


def store_ends(connection: Any, segments: Sequence[int], beginning: str) -> None:
    """Note, for the versions of every source in the last segment, until when each is the newest; once per chain."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (beginning,))
    if connection.execute("SELECT 1 FROM chains WHERE chain = %s", (beginning,)).fetchone():
        return
    found = connection.execute(
        "SELECT p.segment, p.place, p.document FROM passages p "
        "WHERE p.segment = ANY(%s) AND p.source_key IN (SELECT source_key FROM passages WHERE segment = %s) "
        "ORDER BY array_position(%s::bigint[], p.segment), p.place",
        (list(segments), segments[-1], list(segments)),
    ).fetchall()
    versions = [make_version(parse_document(json.loads(row))) for _, _, row in found]
    ends, deleted = find_ends(versions), find_deleted(versions)
    if any(until != CURRENT for until in ends) or any(deleted):
        noted = zip(found, ends, deleted, strict=True)
        rows = ((segment, place, beginning, until, is_deleted) for (segment, place, _), until, is_deleted in noted)
        write_rows(connection, "ends", ("segment", "place", "chain", "until", "deleted"), rows)
    connection.execute("INSERT INTO chains VALUES (%s)", (beginning,))
