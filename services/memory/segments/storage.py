"""Rows of segments and pages; every statement names the tenant and the principal."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, delete, func, insert, or_, select, text, update

from fathom.services.memory.schema import PAGES, SEGMENTS, TURNS
from fathom.services.memory.segments.meaning import Floats
from fathom.services.memory.threads import load_thread

# A segment's terms are for choosing it; those of few pages each are found in the pages.
MAX_SEGMENT_TERMS = 1_500


@dataclass(frozen=True)
class Owner:
    """Tenant and user to whom a memory belongs."""

    tenant: str
    principal: str


@dataclass(frozen=True)
class FiledTurn:
    """A turn as it is recalled. ``ended`` is in seconds since the epoch."""

    conversation: str
    number: int
    question: str
    rewritten: str
    answer: str
    run: str
    ended: float
    bullets: tuple[str, ...] = ()

    @property
    def whole_question(self) -> str:
        """Return the question as it was made whole."""
        return self.rewritten or self.question


@dataclass(frozen=True)
class Segment:
    """A segment without its pages. Times are in seconds since the epoch."""

    number: int
    encoder: str
    centroid: Floats
    terms: Mapping[str, int]
    pages: int
    bytes: int
    first: float
    last: float
    visits: int
    visited: float
    summary: str
    written_by: str
    sources: tuple[tuple[str, int], ...]
    summarised: int


@dataclass(frozen=True)
class Page:
    """Vectors and terms of a filed turn, and its place in the segment and in its conversation's chains."""

    conversation: str
    number: int
    segment: int
    continues: int
    chain: int
    encoder: str
    vectors: Floats
    terms: Mapping[str, int]
    ended: float = 0.0

    def is_comparable(self, encoder: str) -> bool:
        """Return whether the page has vectors of an encoder."""
        return self.encoder == encoder and len(self.vectors) > 0

    @property
    def mean(self) -> Floats:
        """Return the mean of the passages' vectors; empty without vectors."""
        mean: Floats = self.vectors.mean(axis=0) if len(self.vectors) else np.zeros(0, np.float32)
        return mean


def has_turns(db: Connection, owner: Owner) -> bool:
    """Return whether the user has said anything that is held."""
    chosen = (TURNS.c.tenant == owner.tenant, TURNS.c.principal == owner.principal)
    return db.execute(select(TURNS.c.number).where(*chosen).limit(1)).first() is not None


def find_older(db: Connection, owner: Owner, conversation: str, newest: int, through: int = 0) -> frozenset[int]:
    """Return the turns of a conversation before its ``newest`` ones, of those that lead to the last or ``through``."""
    return frozenset(load_thread(db, owner.tenant, conversation, through)[:-newest])


def lock_owner(db: Connection, owner: Owner) -> None:
    """Let one replica at a time file the turns of a user; on SQLite the transaction does."""
    if db.dialect.name == "postgresql":
        digest = hashlib.sha256(f"{owner.tenant}\0{owner.principal}".encode()).digest()
        key = int.from_bytes(digest[:8], "big", signed=True)
        db.execute(text("select pg_advisory_xact_lock(:key)"), {"key": key})


def list_owners(db: Connection, limit: int) -> list[Owner]:
    """Return users with turns that are not filed yet."""
    chosen = select(TURNS.c.tenant, TURNS.c.principal).where(TURNS.c.filed == 0).distinct().limit(limit)
    return [Owner(*row) for row in db.execute(chosen)]


def list_unfiled(db: Connection, owner: Owner, limit: int) -> list[FiledTurn]:
    """Return the user's oldest turns that are not filed yet."""
    chosen = (TURNS.c.tenant == owner.tenant, TURNS.c.principal == owner.principal, TURNS.c.filed == 0)
    query = select(*TURN).where(*chosen).order_by(TURNS.c.ended, TURNS.c.conversation, TURNS.c.number).limit(limit)
    return [parse_filed(row) for row in db.execute(query)]


def mark_filed(db: Connection, owner: Owner, turn: FiledTurn) -> bool:
    """Note that a turn is filed; return False where another replica was faster, or the turn is gone."""
    chosen = (TURNS.c.conversation == turn.conversation, TURNS.c.number == turn.number, TURNS.c.filed == 0)
    return bool(db.execute(update(TURNS).where(TURNS.c.tenant == owner.tenant, *chosen).values(filed=1)).rowcount)


def load_segments(db: Connection, owner: Owner) -> list[Segment]:
    """Return all segments of the user, oldest first."""
    chosen = (SEGMENTS.c.tenant == owner.tenant, SEGMENTS.c.principal == owner.principal)
    rows = db.execute(select(SEGMENTS).where(*chosen).order_by(SEGMENTS.c.number)).mappings()
    return [parse_segment(dict(row)) for row in rows]


def load_pages(
    db: Connection, owner: Owner, segments: Collection[int], conversation: str = "", through: int = 0
) -> list[Page]:
    """Return the pages of segments, or those of them in one conversation up to a turn, oldest first."""
    query = PAGE.where(PAGES.c.tenant == owner.tenant, PAGES.c.segment.in_(list(segments)))
    if conversation:
        query = query.where(PAGES.c.conversation == conversation)
    if through:
        query = query.where(PAGES.c.number <= through)
    return [parse_page(dict(row)) for row in db.execute(query.order_by(*PAGE_ORDER)).mappings()]


def load_last_pages(db: Connection, owner: Owner, turn: FiledTurn, limit: int) -> list[Page]:
    """Return the pages of a conversation before a turn, the newest ``limit`` of them, oldest first."""
    chosen = (PAGES.c.tenant == owner.tenant, PAGES.c.conversation == turn.conversation, PAGES.c.number < turn.number)
    query = PAGE.where(*chosen, TURNS.c.principal == owner.principal).order_by(PAGES.c.number.desc()).limit(limit)
    return [parse_page(dict(row)) for row in db.execute(query).mappings()][::-1]


def list_conversation_segments(db: Connection, owner: Owner, conversation: str) -> set[int]:
    """Return the segments with pages of a conversation."""
    chosen = (PAGES.c.tenant == owner.tenant, PAGES.c.conversation == conversation)
    return set(db.execute(select(PAGES.c.segment).where(*chosen).distinct()).scalars())


def list_without_vectors(db: Connection, encoder: str, limit: int) -> list[tuple[Owner, FiledTurn]]:
    """Return turns whose pages have no vectors of this encoder, of any user."""
    joined = TURNS.join(
        PAGES,
        (PAGES.c.tenant == TURNS.c.tenant)
        & (PAGES.c.conversation == TURNS.c.conversation)
        & (PAGES.c.number == TURNS.c.number),
    )
    query = select(TURNS.c.tenant, TURNS.c.principal, *TURN).select_from(joined)
    # Two ranges of its index, where "other than" would read the whole table.
    other = or_(PAGES.c.encoder < encoder, PAGES.c.encoder > encoder)
    rows = db.execute(query.where(other).limit(limit))
    return [(Owner(*row[:2]), parse_filed(row[2:])) for row in rows]


def put_vectors(
    db: Connection, owner: Owner, turn: FiledTurn, encoder: str, vectors: Floats, terms: Mapping[str, int]
) -> int | None:
    """Store the vectors of a page and its terms; return its segment, None where the page is gone."""
    chosen = (
        PAGES.c.tenant == owner.tenant,
        PAGES.c.conversation == turn.conversation,
        PAGES.c.number == turn.number,
    )
    values = {"encoder": encoder, "vectors": pack(vectors), "passages": len(vectors)}
    values["terms"] = json.dumps(terms, ensure_ascii=False)
    db.execute(update(PAGES).where(*chosen).values(**values))
    return db.execute(select(PAGES.c.segment).where(*chosen)).scalar_one_or_none()


def create_segment(db: Connection, owner: Owner, ended: float) -> int:
    """Create an empty segment and return its number."""
    values: dict[str, Any] = {"tenant": owner.tenant, "principal": owner.principal, "encoder": "", "terms": "{}"}
    values |= {"centroid": b"", "pages": 0, "bytes": 0, "first": ended, "last": ended}
    key = db.execute(insert(SEGMENTS).values(**values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def create_page(db: Connection, owner: Owner, page: Page) -> None:
    """Store a page; its segment is not changed (``renew_segment``)."""
    names = ("conversation", "number", "segment", "continues", "chain", "encoder")
    values = {name: getattr(page, name) for name in names}
    values |= {"vectors": pack(page.vectors), "passages": len(page.vectors)}
    terms = json.dumps(page.terms, ensure_ascii=False)
    db.execute(insert(PAGES).values(tenant=owner.tenant, terms=terms, **values))


def renew_segment(db: Connection, owner: Owner, number: int) -> None:
    """Compute what a segment says of its pages anew; delete one that has none left."""
    pages = load_pages(db, owner, [number])
    of_segment = SEGMENTS.c.number == number
    if not pages:
        db.execute(delete(SEGMENTS).where(of_segment))
        return
    counted: Counter[str] = Counter()
    for page in pages:
        counted.update(page.terms.keys())
    terms = json.dumps(dict(counted.most_common(MAX_SEGMENT_TERMS)), ensure_ascii=False)
    encoder = max((page.encoder for page in pages), key=[page.encoder for page in pages].count)
    means = [page.mean for page in pages if page.encoder == encoder and len(page.vectors)]
    centroid = pack(np.mean(means, axis=0)[None]) if means else b""
    size = sum(page.vectors.size * 2 + len(json.dumps(page.terms).encode()) for page in pages)
    values = {"encoder": encoder, "centroid": centroid, "terms": terms, "pages": len(pages)}
    values |= {"bytes": size + len(terms.encode()) + len(centroid), "last": max(page.ended for page in pages)}
    db.execute(update(SEGMENTS).where(of_segment).values(**values, first=min(page.ended for page in pages)))


def delete_turns(db: Connection, tenant: str, *chosen: ColumnElement[bool]) -> int:
    """Delete the tenant's turns of these conditions with all that was derived from them; return their number."""
    own = (TURNS.c.tenant == tenant, *chosen)
    joined = (PAGES.c.tenant == TURNS.c.tenant) & (PAGES.c.conversation == TURNS.c.conversation)
    places = PAGES.join(TURNS, joined & (PAGES.c.number == TURNS.c.number))
    numbers = db.execute(select(PAGES.c.segment).select_from(places).where(*own).distinct()).scalars().all()
    deleted = db.execute(delete(TURNS).where(*own)).rowcount
    for number in sorted(numbers):
        # A summary has words of the turns that are gone; it is written anew of those that are left.
        db.execute(update(SEGMENTS).where(SEGMENTS.c.number == number).values(summary="", sources="[]", summarised=0))
        renew_segment(db, Owner(tenant, ""), number)
    return deleted


def delete_segments(db: Connection, owner: Owner, numbers: Collection[int]) -> None:
    """Delete segments with their pages; the turns stay in their conversations."""
    chosen = (SEGMENTS.c.tenant == owner.tenant, SEGMENTS.c.number.in_(list(numbers)))
    db.execute(delete(SEGMENTS).where(*chosen))


def note_visits(db: Connection, owner: Owner, numbers: Collection[int], now: float) -> None:
    """Count that pages of segments were recalled."""
    chosen = (SEGMENTS.c.tenant == owner.tenant, SEGMENTS.c.number.in_(list(numbers)))
    db.execute(update(SEGMENTS).where(*chosen).values(visits=SEGMENTS.c.visits + 1, visited=now))


def load_turns(db: Connection, owner: Owner, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], FiledTurn]:
    """Return the user's turns at these places."""
    by_conversation: dict[str, list[int]] = {}
    for conversation, number in places:
        by_conversation.setdefault(conversation, []).append(number)
    found = {}
    for conversation, numbers in by_conversation.items():
        chosen = (TURNS.c.conversation == conversation, TURNS.c.number.in_(numbers))
        own = (TURNS.c.tenant == owner.tenant, TURNS.c.principal == owner.principal)
        for row in db.execute(select(*TURN).where(*own, *chosen)):
            turn = parse_filed(row)
            found[turn.conversation, turn.number] = turn
    return found


def list_unsummarised(db: Connection, limit: int) -> list[tuple[Owner, Segment]]:
    """Return segments with pages that their summaries have not seen."""
    query = select(SEGMENTS).where(SEGMENTS.c.summarised < SEGMENTS.c.pages).order_by(SEGMENTS.c.number).limit(limit)
    rows = [dict(row) for row in db.execute(query).mappings()]
    return [(Owner(row["tenant"], row["principal"]), parse_segment(row)) for row in rows]


def put_summary(
    db: Connection, owner: Owner, segment: Segment, summary: str, written_by: str, sources: Sequence[tuple[str, int]]
) -> bool:
    """Store a summary unless the segment has changed since it was read; return whether it was stored."""
    unchanged = (SEGMENTS.c.pages == segment.pages, SEGMENTS.c.last == segment.last)
    # Numbers of deleted segments come again on SQLite.
    own = (SEGMENTS.c.tenant == owner.tenant, SEGMENTS.c.principal == owner.principal)
    chosen = (*own, SEGMENTS.c.number == segment.number, *unchanged)
    values = {"summary": summary, "written_by": written_by, "sources": json.dumps([list(one) for one in sources])}
    return bool(db.execute(update(SEGMENTS).where(*chosen).values(**values, summarised=segment.pages)).rowcount)


def count_bytes(db: Connection, owner: Owner) -> int:
    """Return the bytes of the user's segments with their pages."""
    chosen = (SEGMENTS.c.tenant == owner.tenant, SEGMENTS.c.principal == owner.principal)
    return int(db.execute(select(func.coalesce(func.sum(SEGMENTS.c.bytes), 0)).where(*chosen)).scalar_one())


TURN = tuple(
    TURNS.c[name] for name in ("conversation", "number", "question", "rewritten", "answer", "run", "ended", "bullets")
)
PAGE = select(PAGES, TURNS.c.ended).select_from(
    PAGES.join(
        TURNS,
        (PAGES.c.tenant == TURNS.c.tenant)
        & (PAGES.c.conversation == TURNS.c.conversation)
        & (PAGES.c.number == TURNS.c.number),
    )
)
PAGE_ORDER = (TURNS.c.ended, PAGES.c.conversation, PAGES.c.number)


def make_empty() -> Floats:
    """Return no vectors."""
    return np.zeros((0, 0), np.float32)


def pack(vectors: Floats) -> bytes:
    """Return vectors in 16 bits: the loss is far below the distance of two neighbours."""
    return vectors.astype("<f2").tobytes()


def unpack(data: bytes, rows: int) -> Floats:
    """Return ``rows`` packed vectors in 32 bits."""
    return np.frombuffer(data, "<f2").astype(np.float32).reshape(rows, -1) if data else make_empty()


def parse_filed(row: Sequence[Any]) -> FiledTurn:
    conversation, number, question, rewritten, answer, run, ended, bullets = row
    return FiledTurn(conversation, number, question, rewritten, answer, run, ended, tuple(json.loads(bullets)))


def parse_segment(row: Mapping[str, Any]) -> Segment:
    centroid = unpack(row["centroid"], 1)
    return Segment(
        row["number"], row["encoder"], centroid[0] if len(centroid) else np.zeros(0, np.float32),
        json.loads(row["terms"]), row["pages"], row["bytes"], row["first"], row["last"], row["visits"],
        row["visited"], row["summary"], row["written_by"],
        tuple((conversation, number) for conversation, number in json.loads(row["sources"])), row["summarised"],
    )  # fmt: skip


def parse_page(row: Mapping[str, Any]) -> Page:
    vectors = unpack(row["vectors"], row["passages"])
    return Page(
        row["conversation"], row["number"], row["segment"], row["continues"], row["chain"], row["encoder"], vectors,
        json.loads(row["terms"]), row["ended"],
    )  # fmt: skip


def list_places(pages: Sequence[Page]) -> Iterator[tuple[str, int]]:
    """Yield the conversation and number of each page's turn."""
    for page in pages:
        yield page.conversation, page.number
