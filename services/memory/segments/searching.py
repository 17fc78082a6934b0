"""Recall in two stages: the segments that fit a question, then the turns in them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy import Connection

from fathom.core.errors import InvalidField
from fathom.core.paging import Key, read_token, write_token
from fathom.services.memory.database import Database
from fathom.services.memory.segments import storage
from fathom.services.memory.segments.filing import Filer
from fathom.services.memory.segments.passages import read_turn
from fathom.services.memory.segments.scoring import (
    Query,
    add_neighbours,
    combine,
    measure_heat,
    measure_nearness,
    read_query,
    score_dates,
    score_words,
    weigh_terms,
)
from fathom.services.memory.segments.storage import FiledTurn, Owner, Page, Segment
from fathom.services.memory.segments.vectors import Vectors

MAX_QUESTION_CHARS, MAX_TOP_K, DEFAULT_TOP_K = 10_000, 50, 3
# Segments whose turns are looked at. At most this many times MAX_PAGES pages are read for one question.
SEGMENTS_READ = 12
# Of an answer in a result; whoever wants the whole asks for the turn.
ANSWER_CHARS = 8_000


@dataclass(frozen=True)
class Wanted:
    """Query of the memory; times are in seconds since the epoch, 0 where open."""

    question: str
    top_k: int = 0
    token: str = ""
    conversation: str = ""
    through: int = 0
    after: float = 0.0
    before: float = 0.0

    def is_within(self, ended: float) -> bool:
        """Return whether a turn's end is within the times."""
        return ended >= self.after and (not self.before or ended < self.before)


@dataclass(frozen=True)
class Recalled:
    """A turn with its page, its score and the passage that fits best."""

    turn: FiledTurn
    page: Page
    score: float
    passage: str


@dataclass(frozen=True)
class RecalledSegment:
    """A segment with its score and heat."""

    segment: Segment
    score: float
    heat: float


@dataclass(frozen=True)
class Found:
    """Recalled turns, best first; ``has_meaning`` is False where words alone were compared."""

    turns: tuple[Recalled, ...]
    segments: tuple[RecalledSegment, ...]
    has_meaning: bool
    has_more: bool = False
    token: str = ""


class Searcher:
    """Answers questions to the memory of one user at a time."""

    def __init__(self, database: Database, vectors: Vectors, filer: Filer, clock: Callable[[], float]) -> None:
        self._database, self._vectors, self._filer, self._clock = database, vectors, filer, clock

    async def search(self, owner: Owner, wanted: Wanted) -> Found:
        """Return the turns that fit a question best; raise ``InvalidField``."""
        check(wanted)
        of = f"recall {fingerprint(wanted)}"
        key = read_token(wanted.token, of, (float, str, int)) if wanted.token else ()
        # What was said just now can be asked for at once.
        await self._filer.file_pending(owner)
        now = self._clock()
        query = read_query(wanted.question, datetime.fromtimestamp(now, UTC).date())
        encoded = await self._vectors.encode([wanted.question])
        if encoded is not None:
            query = replace(query, vector=encoded.vectors[0], encoder=encoded.encoder, unrelated=encoded.unrelated)

        def work(db: Connection) -> Found:
            found = recall(db, owner, wanted, query, now, key)
            # One visit per question, however many pages of the list are read.
            if not key and found.turns:
                storage.note_visits(db, owner, {one.page.segment for one in found.turns}, now)
            return replace(found, token=write_token(of, *last_key(found))) if found.has_more else found

        return await self._database.run_transaction(work)


def recall(db: Connection, owner: Owner, wanted: Wanted, query: Query, now: float, after: Sequence[Key] = ()) -> Found:
    """Return one page of the turns that fit a question, without its token."""
    segments = [one for one in storage.load_segments(db, owner) if one.last >= wanted.after]
    segments = [one for one in segments if not wanted.before or one.first < wanted.before]
    if wanted.conversation:
        own = storage.list_conversation_segments(db, owner, wanted.conversation)
        segments = [one for one in segments if one.number in own]
    weights = weigh_terms([one.terms for one in segments], query.terms)
    chosen = choose_segments(segments, query, weights, now)[:SEGMENTS_READ]
    numbers = [one.segment.number for one in chosen]
    pages = storage.load_pages(db, owner, numbers, wanted.conversation, wanted.through)
    pages = [page for page in pages if wanted.is_within(page.ended)]
    ranked = sorted(rank_pages(pages, query, weights), key=lambda one: place_of(*one[:2]), reverse=True)
    ranked = [one for one in ranked if one[0] > 0 and (not after or place_of(*one[:2]) < tuple(after))]
    top_k = wanted.top_k or DEFAULT_TOP_K
    turns = storage.load_turns(db, owner, list(storage.list_places([page for _, page, _ in ranked[:top_k]])))
    recalled = tuple(
        Recalled(turns[page.conversation, page.number], page, score, find_passage(turns, page, best))
        for score, page, best in ranked[:top_k]
    )
    shown = {one.page.segment for one in recalled}
    kept = tuple(one for one in chosen if one.segment.number in shown)
    return Found(recalled, kept, query.vector is not None, len(ranked) > top_k)


def choose_segments(
    segments: Sequence[Segment], query: Query, weights: dict[str, float], now: float
) -> list[RecalledSegment]:
    """Return the segments with their scores, best first; of equal ones the hottest first."""
    words = score_words([one.terms for one in segments], weights)
    found = []
    for segment, word in zip(segments, words, strict=True):
        meaning = None
        if query.vector is not None and query.unrelated is not None and segment.encoder == query.encoder:
            meaning = float(measure_nearness(query.vector, segment.centroid[None], query.unrelated)[0])
        dates = max(score_dates(query.days, time) for time in (segment.first, segment.last))
        heat = measure_heat(segment.visits, segment.pages, max(segment.visited, segment.last), now)
        found.append(RecalledSegment(segment, combine(meaning, word, dates), heat))
    return sorted(found, key=lambda one: (one.score, one.heat, one.segment.number), reverse=True)


def rank_pages(pages: Sequence[Page], query: Query, weights: dict[str, float]) -> list[tuple[float, Page, int]]:
    """Return each page with its score and the number of its best passage."""
    words = score_words([page.terms for page in pages], weights)
    found = []
    for page, word in zip(pages, words, strict=True):
        meaning, best = None, 0
        if query.vector is not None and query.unrelated is not None and page.is_comparable(query.encoder):
            near = measure_nearness(query.vector, page.vectors, query.unrelated)
            best = int(near.argmax())
            meaning = float(near[best])
        found.append((combine(meaning, word, score_dates(query.days, page.ended)), page, best))
    scores = add_neighbours({(page.conversation, page.number): score for score, page, _ in found})
    # Rounded, so that it is the same number in a token.
    return [(round(scores[page.conversation, page.number], 6), page, best) for _, page, best in found]


def place_of(score: float, page: Page) -> tuple[float, str, int]:
    """Return the key of a page in the list of results."""
    return score, page.conversation, page.number


def last_key(found: Found) -> tuple[float, str, int]:
    """Return the key of the last turn of a page of results."""
    last = found.turns[-1]
    return place_of(last.score, last.page)


def find_passage(turns: dict[tuple[str, int], FiledTurn], page: Page, number: int) -> str:
    """Return the passage of a turn by its number, as it was when its vector was made."""
    turn = turns[page.conversation, page.number]
    passages = read_turn(turn.whole_question, turn.answer).passages
    return passages[number] if number < len(passages) else passages[0]


def check(wanted: Wanted) -> None:
    """Raise ``InvalidField`` naming what cannot be asked."""
    if not wanted.question.strip():
        raise InvalidField("question", "is empty")
    if len(wanted.question) > MAX_QUESTION_CHARS or "\0" in wanted.question:
        raise InvalidField("question", f"must have at most {MAX_QUESTION_CHARS:,} characters, none of them NUL")
    if not 0 <= wanted.top_k <= MAX_TOP_K:
        raise InvalidField("top_k", f"must be 0 to {MAX_TOP_K}")
    if wanted.through < 0 or (wanted.through and not wanted.conversation):
        raise InvalidField("through", "must not be negative, and needs a conversation_id")
    if "\0" in wanted.conversation:
        raise InvalidField("conversation_id", "must not have the character NUL")
    if wanted.before and wanted.before <= wanted.after:
        raise InvalidField("before", "must be later than after")


def fingerprint(wanted: Wanted) -> str:
    """Return what a token is for: the same question with the same bounds, whatever the size of its pages."""
    parts = (wanted.question, wanted.conversation, wanted.through, wanted.after, wanted.before)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
