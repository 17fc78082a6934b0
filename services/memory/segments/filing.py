"""Files turns as pages: which turn one continues, to which segment it belongs, and what is evicted for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Connection

from fathom.services.memory.database import Database
from fathom.services.memory.segments import storage
from fathom.services.memory.segments.meaning import Floats, Origin, measure_nearness
from fathom.services.memory.segments.passages import PageText, read_turn
from fathom.services.memory.segments.scoring import (
    is_joined,
    measure_heat,
    measure_overlap,
)
from fathom.services.memory.segments.storage import FiledTurn, Owner, Page, Segment, make_empty
from fathom.services.memory.segments.vectors import Encoded, Vectors

# A subject that was left is taken up again within a few turns, or by its segment.
OPEN_CHAINS, LAST_PAGES = 6, 24
# A longer segment would be read as a whole for one of its pages.
MAX_PAGES = 32
# Turns that one search waits for; the others are filed in the background.
AT_ONCE = 32


@dataclass(frozen=True)
class Bounds:
    """Most segments and bytes of one user."""

    segments: int = 500
    bytes: int = 32 << 20


@dataclass(frozen=True)
class NewPage:
    """A turn with what it is to be found by, before it has a place."""

    turn: FiledTurn
    text: PageText
    encoder: str = ""
    vectors: Floats = field(default_factory=make_empty)
    origin: Origin | None = None

    @property
    def mean(self) -> Floats:
        """Return the mean of the passages' vectors; empty without vectors."""
        mean: Floats = self.vectors.mean(axis=0) if len(self.vectors) else np.zeros(0, np.float32)
        return mean


class Filer:
    """Files turns; each once, whichever replica is first."""

    def __init__(self, database: Database, vectors: Vectors, bounds: Bounds, clock: Callable[[], float]) -> None:
        self._database, self._vectors, self._bounds, self._clock = database, vectors, bounds, clock

    async def file_pending(self, owner: Owner, limit: int = AT_ONCE) -> int:
        """File the user's oldest waiting turns, at most ``limit``; return their number."""
        turns = await self._database.run_transaction(lambda db: storage.list_unfiled(db, owner, limit))
        if not turns:
            return 0
        # Outside of any transaction: an encoder takes longer than a database.
        pages = await self._read(turns)

        def work(db: Connection) -> None:
            storage.lock_owner(db, owner)
            for page in pages:
                if storage.mark_filed(db, owner, page.turn):
                    place(db, owner, page)
            evict(db, owner, self._bounds, self._clock())

        await self._database.run_transaction(work)
        return len(turns)

    async def _read(self, turns: Sequence[FiledTurn]) -> list[NewPage]:
        texts = [read_turn(turn.whole_question, turn.answer) for turn in turns]
        encoded = await self._vectors.encode([passage for text in texts for passage in text.list_texts()])
        if encoded is None:
            return [NewPage(turn, text) for turn, text in zip(turns, texts, strict=True)]
        return [
            NewPage(turn, text, encoded.encoder, vectors, encoded.origin)
            for turn, (text, vectors) in zip(turns, split(encoded, texts), strict=True)
        ]

    async def add_vectors(self, limit: int = AT_ONCE) -> int:
        """Give vectors to pages that have none of the current encoder; return their number."""
        probe = await self._vectors.encode(["."])
        if probe is None:
            return 0
        lacking = await self._database.run_transaction(
            lambda db: storage.list_without_vectors(db, probe.encoder, limit)
        )
        if not lacking:
            return 0
        texts = [read_turn(turn.whole_question, turn.answer) for _, turn in lacking]
        encoded = await self._vectors.encode([passage for text in texts for passage in text.list_texts()])
        if encoded is None or encoded.encoder != probe.encoder:
            return 0
        rows = split(encoded, texts)

        def work(db: Connection) -> None:
            changed: set[tuple[Owner, int]] = set()
            for (owner, turn), (text, vectors) in zip(lacking, rows, strict=True):
                segment = storage.put_vectors(db, owner, turn, encoded.encoder, vectors, text.terms)
                if segment is not None:
                    changed.add((owner, segment))
            for owner, segment in sorted(changed, key=lambda one: one[1]):
                storage.renew_segment(db, owner, segment)

        await self._database.run_transaction(work)
        return len(lacking)


def split(encoded: Encoded, texts: Sequence[PageText]) -> list[tuple[PageText, Floats]]:
    """Return each text with what its passages name, and the vectors of them."""
    rows, start = [], 0
    for text in texts:
        stop = start + len(text.list_texts())
        # What stands in two of its vectors is named once.
        names = encoded.names[start : start + len(text.passages)]
        rows.append((text.add_names(names), encoded.vectors[start:stop]))
        start = stop
    return rows


def place(db: Connection, owner: Owner, new: NewPage) -> None:
    """Store a page behind the turn that it continues, in the segment of its subject or a new one."""
    before = find_continued(new, storage.load_last_pages(db, owner, new.turn, LAST_PAGES))
    segment = find_segment(new, storage.load_segments(db, owner), before)
    number = storage.create_segment(db, owner, new.turn.ended) if segment is None else segment.number
    continues, chain = (before.number, before.chain) if before else (0, new.turn.number)
    made = (new.turn.conversation, new.turn.number, number, continues, chain, new.encoder, new.vectors, new.text.terms)
    storage.create_page(db, owner, Page(*made))
    storage.renew_segment(db, owner, number)


def find_continued(new: NewPage, pages: Sequence[Page]) -> Page | None:
    """Return the page that a turn goes on from: of the newest of each chain the nearest, if it is near; else None."""
    newest: dict[int, Page] = {page.chain: page for page in pages}
    ends = sorted(newest.values(), key=lambda page: page.number)[-OPEN_CHAINS:]
    fitting = [(rank(new, page.encoder, page.mean, page.terms), page) for page in ends]
    found = [(score, page.number, page) for (joined, score), page in fitting if joined]
    return max(found, key=lambda one: one[:2])[2] if found else None


def find_segment(new: NewPage, segments: Sequence[Segment], before: Page | None) -> Segment | None:
    """Return the segment of the turn's subject: that of the page it continues, else the nearest one; None for none."""
    open_ones = [segment for segment in segments if segment.pages < MAX_PAGES]
    if before is not None:
        own = next((segment for segment in open_ones if segment.number == before.segment), None)
        if own is not None:
            return own
    fitting = [(rank(new, one.encoder, one.centroid, one.terms, one.pages), one) for one in open_ones]
    found = [(score, one.number, one) for (joined, score), one in fitting if joined]
    return max(found, key=lambda one: one[:2])[2] if found else None


def rank(new: NewPage, encoder: str, vector: Floats, terms: Mapping[str, int], count: int = 1) -> tuple[bool, float]:
    """Return whether a page, or a segment of ``count`` pages, is about what the new one is, and how near it is."""
    near, overlap = None, measure_overlap(new.text.terms, terms, count)
    if new.origin is not None and encoder == new.encoder and vector.size:
        near = float(measure_nearness(new.mean, vector[None], new.origin)[0])
    return is_joined(near, overlap), (near or 0.0) + overlap


def evict(db: Connection, owner: Owner, bounds: Bounds, now: float) -> None:
    """Delete the coldest segments until the user's memory is within its bounds."""
    segments = storage.load_segments(db, owner)
    coldest = sorted(
        segments,
        key=lambda one: (measure_heat(one.visits, one.pages, max(one.visited, one.last), now), one.last, one.number),
    )
    count, size, gone = len(segments), sum(one.bytes for one in segments), []
    for segment in coldest:
        if count <= bounds.segments and size <= bounds.bytes:
            break
        gone.append(segment.number)
        count, size = count - 1, size - segment.bytes
    if gone:
        storage.delete_segments(db, owner, gone)
