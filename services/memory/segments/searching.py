"""Recall in two stages: the segments that fit a question, then the turns in them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from fathom.core.errors import InvalidField
from fathom.core.paging import Key, read_token, write_token
from fathom.services.memory.database import Database
from fathom.services.memory.segments import storage
from fathom.services.memory.segments.filing import Filer
from fathom.services.memory.segments.meaning import Floats, Origin, measure_nearness, scale
from fathom.services.memory.segments.passages import TOLD, mark_names, read_turn
from fathom.services.memory.segments.scoring import (
    SHARES,
    Nearness,
    Query,
    Shares,
    add_neighbours,
    combine,
    fuse,
    measure_heat,
    measure_length,
    read_query,
    score_dates,
    score_statements,
    score_words,
    weigh_terms,
)
from fathom.services.memory.segments.storage import FiledTurn, Owner, Page, Segment
from fathom.services.memory.segments.vectors import Vectors

MAX_QUESTION_CHARS, MAX_TOP_K, DEFAULT_TOP_K = 10_000, 50, 3
# Turns that are looked at, those of whole segments: what a question costs does not grow with the memory.
PAGES_READ = 384
# Share of the turn before in the meaning of a turn: "and in 2015?" says nothing alone.
BEFORE = 0.5
# Standard deviations by which a question must be nearer to its best turn than sentences about nothing are to theirs, by
# their mean. None of 250 planted questions and 760 of LoCoMo is lost up to 0.9, whichever of the six sets is left out.
MARGIN = 0.8
# Of an answer in a result; whoever wants the whole asks for the turn.
ANSWER_CHARS = 8_000


@dataclass(frozen=True)
class Wanted:
    """Query of the memory; times are in seconds since the epoch, 0 where open.

    With ``newest`` so many of the conversation's newest turns do not count, and of the others only those that lead to
    them; ``older`` has these.
    """

    question: str
    top_k: int = 0
    token: str = ""
    conversation: str = ""
    through: int = 0
    after: float = 0.0
    before: float = 0.0
    newest: int = 0
    older: frozenset[int] = frozenset()

    def has_page(self, page: Page) -> bool:
        """Return whether a turn's end is within the times, and its number one of those that count."""
        is_within = page.ended >= self.after and (not self.before or page.ended < self.before)
        return is_within and (not self.newest or page.number in self.older)


@dataclass(frozen=True)
class RankedPage:
    """A page with what it has of a question (``score``, 0 to 1), its place among the others, and its best passage."""

    page: Page
    score: float
    place: float
    passage: int

    @property
    def key(self) -> tuple[float, str, int]:
        """Return the key of the page in the list of results."""
        return self.place, self.page.conversation, self.page.number


@dataclass(frozen=True)
class Recalled:
    """A turn with its page, what it has of the question, the passage that fits best, and its place in the order."""

    turn: FiledTurn
    page: Page
    score: float
    passage: str
    place: float = 0.0


@dataclass(frozen=True)
class RecalledSegment:
    """A segment with its score and heat."""

    segment: Segment
    score: float
    heat: float


@dataclass(frozen=True)
class Found:
    """Recalled turns, best first; ``has_meaning`` is False where words alone were compared.

    ``has_turns`` is whether the user has any turn, found or not.
    """

    turns: tuple[Recalled, ...]
    segments: tuple[RecalledSegment, ...]
    has_meaning: bool
    has_more: bool = False
    token: str = ""
    has_turns: bool = False


class Searcher:
    """Answers questions to the memory of one user at a time."""

    def __init__(self, database: Database, vectors: Vectors, filer: Filer, clock: Callable[[], float]) -> None:
        self._database, self._vectors, self._filer, self._clock = database, vectors, filer, clock

    async def search(self, owner: Owner, wanted: Wanted) -> Found:
        """Return the turns that fit a question best; raise ``InvalidField``."""
        check(wanted)
        of = f"recall {fingerprint(wanted)}"
        key = read_token(wanted.token, of, (float, str, int)) if wanted.token else ()
        wanted, has_turns = await self._database.run_transaction(lambda db: settle(db, owner, wanted))
        # Where nothing is older than the window neither filing nor the encoder is waited for.
        if wanted.newest and not wanted.older:
            return Found((), (), has_meaning=False, has_turns=has_turns)
        # What was said just now can be asked for at once.
        await self._filer.file_pending(owner)
        now = self._clock()
        query = read_query(wanted.question, datetime.fromtimestamp(now, UTC).date())
        encoded = await self._vectors.encode([wanted.question])
        if encoded is not None:
            terms = tuple(dict.fromkeys([*query.terms, *mark_names(encoded.names[0])]))
            query = replace(
                query, terms=terms, vector=encoded.vectors[0], encoder=encoded.encoder, origin=encoded.origin
            )

        def work(db: Connection) -> Found:
            found = recall(db, owner, wanted, query, now, key)
            # One visit per question, however many pages of the list are read.
            if not key and found.turns:
                storage.note_visits(db, owner, {one.page.segment for one in found.turns}, now)
            token = write_token(of, *last_key(found)) if found.has_more else ""
            return replace(found, token=token, has_turns=has_turns)

        return await self._database.run_transaction(work)


def settle(db: Connection, owner: Owner, wanted: Wanted) -> tuple[Wanted, bool]:
    """Return the query with the turns that are older than its window, and whether the user has any turn."""
    has_turns = storage.has_turns(db, owner)
    if not wanted.newest:
        return wanted, has_turns
    older = storage.find_older(db, owner, wanted.conversation, wanted.newest, wanted.through)
    return replace(wanted, older=older), has_turns


def recall(db: Connection, owner: Owner, wanted: Wanted, query: Query, now: float, after: Sequence[Key] = ()) -> Found:
    """Return one page of the turns that fit a question, without its token."""
    segments = [one for one in storage.load_segments(db, owner) if one.last >= wanted.after]
    segments = [one for one in segments if not wanted.before or one.first < wanted.before]
    if wanted.conversation:
        own = storage.list_conversation_segments(db, owner, wanted.conversation)
        segments = [one for one in segments if one.number in own]
    weights = weigh_terms([one.terms for one in segments], sum(one.pages for one in segments), query.terms)
    chosen = take_pages(choose_segments(segments, query, weights, now))
    numbers = [one.segment.number for one in chosen]
    pages = storage.load_pages(db, owner, numbers, wanted.conversation, wanted.through)
    pages = [page for page in pages if wanted.has_page(page)]
    layout = lay_out(pages, query)
    if not is_referring(pages, query, layout):
        pages, layout = [], None
    ranked = sorted(rank_pages(pages, query, weights, layout), key=lambda one: one.key, reverse=True)
    ranked = [one for one in ranked if one.score > 0 and (not after or one.key < tuple(after))]
    top = ranked[: wanted.top_k or DEFAULT_TOP_K]
    turns = storage.load_turns(db, owner, list(storage.list_places([one.page for one in top])))
    recalled = tuple(
        Recalled(
            turns[one.page.conversation, one.page.number], one.page, one.score, find_passage(turns, one), one.place
        )
        for one in top
    )
    shown = {one.page.segment for one in recalled}
    kept = tuple(one for one in chosen if one.segment.number in shown)
    return Found(recalled, kept, query.vector is not None, len(ranked) > len(top))


def choose_segments(
    segments: Sequence[Segment], query: Query, weights: dict[str, float], now: float
) -> list[RecalledSegment]:
    """Return the segments with their scores, best first; of equal ones the hottest first."""
    words = score_words([one.terms for one in segments], weights)
    found = []
    for segment, word in zip(segments, words, strict=True):
        meaning = None
        if query.vector is not None and query.origin is not None and segment.encoder == query.encoder:
            meaning = float(measure_nearness(query.vector, segment.centroid[None], query.origin)[0])
        # By its two ends: of the days between them nobody knows here whether they have a turn.
        dates = max(score_dates(query.days, time) for time in (segment.first, segment.last))
        heat = measure_heat(segment.visits, segment.pages, max(segment.visited, segment.last), now)
        found.append(RecalledSegment(segment, combine(meaning, word, dates), heat))
    return sorted(found, key=lambda one: (one.score, one.heat, one.segment.number), reverse=True)


def take_pages(segments: Sequence[RecalledSegment]) -> list[RecalledSegment]:
    """Return the first segments, as many as have ``PAGES_READ`` pages together; one at least."""
    counts = np.cumsum([one.segment.pages for one in segments])
    return [one for one, count in zip(segments, counts, strict=True) if count <= PAGES_READ or one is segments[0]]


def rank_pages(
    pages: Sequence[Page], query: Query, weights: dict[str, float], layout: Layout | None, shares: Shares = SHARES
) -> list[RankedPage]:
    """Return each page with its scores and the number of its best passage; ``layout`` is that of ``lay_out``."""
    words = score_words([page.terms for page in pages], weights)
    dates = [score_dates(query.days, page.ended) for page in pages]
    meanings = compare(pages, layout)
    own = [
        combine(None if meaning is None else meaning.mean, word, day, shares)
        for meaning, word, day in zip(meanings, words, dates, strict=True)
    ]
    bonuses = [
        shares.dates * day + shares.own * (query.is_own and TOLD in page.terms)
        for page, day in zip(pages, dates, strict=True)
    ]
    places = [(page.conversation, page.number) for page in pages]
    scores = add_neighbours(dict(zip(places, own, strict=True)), shares)
    order = add_neighbours(dict(zip(places, fuse(meanings, words, bonuses, shares), strict=True)), shares)
    # Behind the neighbours: beside a turn that says much stands no better one.
    statements = score_statements(meanings, words, [measure_length(page.terms) for page in pages], shares)
    return [
        # Rounded, so that it is the same number in a token. A turn that has nothing of the question is not about it,
        # whatever stands beside it.
        RankedPage(
            page,
            round(scores[place], 6) if score else 0.0,
            round(order[place] + statement, 6),
            meaning.passage if meaning else 0,
        )
        for page, place, score, statement, meaning in zip(pages, places, own, statements, meanings, strict=True)
    ]


@dataclass(frozen=True)
class Layout:
    """Vectors of pages and of a question, without what all texts share: all rows at once, pages beside those before.

    A product of matrices per page would take longer than the numbers in it.
    """

    pages: Sequence[Page]
    asked: Floats
    rows: Floats
    starts: NDArray[np.int_]
    counts: NDArray[np.int_]
    wholes: Floats

    @classmethod
    def of(cls, pages: Sequence[Page], vector: Floats, origin: Origin) -> Layout:
        """Lay out pages that have vectors, for a question's vector."""
        rows = origin.remove(np.concatenate([page.vectors for page in pages]))
        counts = np.array([len(page.vectors) for page in pages])
        starts = np.cumsum(counts) - counts
        means = np.add.reduceat(rows, starts) / counts[:, None]
        at = {(page.conversation, page.number): row for row, page in enumerate(pages)}
        before = [at.get((page.conversation, page.number - 1)) for page in pages]
        follows = np.array([row for row, earlier in enumerate(before) if earlier is not None], dtype=int)
        wholes = means.copy()
        wholes[follows] += BEFORE * means[[earlier for earlier in before if earlier is not None]]
        return cls(pages, origin.remove(vector[None])[0], rows, starts, counts, scale(wholes))

    def find_best(self, asked: Floats) -> Floats:
        """Return for each vector [n, dim] the nearness of the page that it is nearest to (``Nearness.mean``)."""
        best = np.maximum.reduceat((self.rows @ asked.T).clip(0.0, 1.0), self.starts)
        found: Floats = ((best + (self.wholes @ asked.T).clip(0.0, 1.0)) / 2).max(axis=0)
        return found


def lay_out(pages: Sequence[Page], query: Query) -> Layout | None:
    """Return the vectors of the pages that can be compared with a question; None where none can."""
    if query.vector is None or query.origin is None:
        return None
    comparable = [page for page in pages if page.is_comparable(query.encoder)]
    return Layout.of(comparable, query.vector, query.origin) if comparable else None


def is_referring(pages: Sequence[Page], query: Query, layout: Layout | None) -> bool:
    """Return whether a question is nearer to some page than sentences about nothing are, each to its nearest.

    True where that cannot be told: without vectors of all pages, and where the question names days.
    """
    controls = query.origin.controls if query.origin is not None else None
    if layout is None or controls is None or query.days or len(layout.pages) < len(pages):
        return True
    background = layout.find_best(controls)
    asked = layout.find_best(layout.asked[None])[0]
    return bool(asked > background.mean() + MARGIN * background.std())


def compare(pages: Sequence[Page], layout: Layout | None) -> list[Nearness | None]:
    """Return the nearness of each page; None where it has no vectors of the question's encoder."""
    if layout is None:
        return [None] * len(pages)
    near = (layout.rows @ layout.asked).clip(0.0, 1.0)
    found: dict[tuple[str, int], Nearness] = {}
    wholes = (layout.wholes @ layout.asked).clip(0.0, 1.0)
    places = zip(layout.pages, layout.starts, layout.counts, wholes, strict=True)
    for page, start, count, whole in places:
        own = near[start : start + count]
        best = int(own.argmax())
        said = select_said(own, is_told=TOLD in page.terms)
        found[page.conversation, page.number] = Nearness(float(own[best]), best, float(whole), float(said.max()))
    return [found.get((page.conversation, page.number)) for page in pages]


def select_said(near: Floats, *, is_told: bool) -> Floats:
    """Return of the nearness of a turn's vectors that of what it says: of its answer, and of what the user told."""
    # The last vector is that of question and answer together (``PageText.list_texts``). A question that fills a
    # passage alone has none; of its answer the last passage is left out then.
    passages = near[:-1] if len(near) > 2 else near
    return passages if is_told or len(passages) == 1 else passages[1:]


def last_key(found: Found) -> tuple[float, str, int]:
    """Return the key of the last turn of a page of results."""
    last = found.turns[-1]
    return last.place, last.page.conversation, last.page.number


def find_passage(turns: dict[tuple[str, int], FiledTurn], one: RankedPage) -> str:
    """Return the best passage of a turn."""
    turn = turns[one.page.conversation, one.page.number]
    # Cut again from the turn, since only the vectors of passages are stored.
    return read_turn(turn.whole_question, turn.answer).show(one.passage)


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
    if wanted.newest and not wanted.conversation:
        raise InvalidField("older_than_window", "needs a conversation_id")
    if "\0" in wanted.conversation:
        raise InvalidField("conversation_id", "must not have the character NUL")
    if wanted.before and wanted.before <= wanted.after:
        raise InvalidField("before", "must be later than after")


def fingerprint(wanted: Wanted) -> str:
    """Return what a token is for: the same question with the same bounds, whatever the size of its pages."""
    parts = (wanted.question, wanted.conversation, wanted.through, wanted.after, wanted.before, wanted.newest)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
