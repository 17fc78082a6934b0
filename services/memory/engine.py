"""Conversations: turns are appended once, windows go into prompts, deletion removes everything derived."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, literal, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from fathom.core.call import current_principal, current_tenant
from fathom.core.errors import Conflict, InvalidField, NotFound
from fathom.core.ids import checked_id
from fathom.core.paging import page_size, read_token, write_token
from fathom.services.memory.database import Database
from fathom.services.memory.history import find_passage, has_word, split_words
from fathom.services.memory.points import extract_points
from fathom.services.memory.profile.derived import delete_derived
from fathom.services.memory.profile.facts import Facts
from fathom.services.memory.profile.stances import Stances
from fathom.services.memory.reviews.erasing import delete_of_runs
from fathom.services.memory.reviews.store import Reviews
from fathom.services.memory.schema import CONVERSATIONS, FEEDBACK, TURNS
from fathom.services.memory.segments.storage import delete_turns
from fathom.services.memory.sheets.views import SheetView, check_view, list_views, put_view
from fathom.services.memory.threads import cut_page, load_thread, read_parent

# Bounds of what one call may store; far above what the pages and the planner write.
MAX_QUESTION_CHARS, MAX_ANSWER_CHARS = 100_000, 1_000_000
MAX_BULLETS, MAX_BULLET_CHARS = 50, 2_000
MAX_TITLE_CHARS, DEFAULT_TITLE_CHARS = 200, 120
MAX_TAGS, MAX_TAG_CHARS, MAX_COMMENT_CHARS = 32, 64, 10_000
TURN = tuple(
    TURNS.c[name] for name in ("number", "question", "rewritten", "answer", "run", "ended", "bullets", "parent")
)
SAID = tuple(FEEDBACK.c[name] for name in ("run", "helpful", "tags", "comment", "edited"))


@dataclass(frozen=True)
class Turn:
    """One question and its answer. ``ended`` is in seconds since the epoch.

    ``parent`` is the turn that it follows, 0 for none; None, before it is stored, is the newest one.
    """

    question: str
    rewritten: str
    answer: str
    run: str
    bullets: tuple[str, ...] = ()
    number: int = 0
    ended: float = 0.0
    parent: int | None = None


@dataclass(frozen=True)
class WindowTurn:
    """A turn of the window: with its full answer, or with bullet points."""

    number: int
    question: str
    answer: str
    bullets: tuple[str, ...]
    run: str = ""


@dataclass(frozen=True)
class Conversation:
    """Summary of a conversation. ``updated`` is in seconds since the epoch; ``version`` counts its edits."""

    id: str
    title: str
    turns: int
    updated: float
    pinned: bool
    version: int = 1
    passage: str = ""
    """Text around a word that was searched for."""


@dataclass(frozen=True)
class Judgement:
    """A user's judgement of a run's answer. ``edited`` is the answer as the user would have it, "" when not edited.

    ``created`` is in seconds since the epoch.
    """

    run: str
    helpful: bool
    tags: tuple[str, ...] = ()
    comment: str = ""
    edited: str = ""
    created: float = 0.0


class Engine:
    """Conversation store; usable after ``start``. Every statement names the tenant of the call."""

    def __init__(self, place: Path | str, connections: int = 8, clock: Callable[[], float] = time.time) -> None:
        """Take the path of a SQLite file, or a URL of PostgreSQL and the most connections to it."""
        self.database, self._clock = Database(place, connections), clock
        self.facts, self.stances = Facts(self.database, clock), Stances(self.database, clock)
        self.reviews = Reviews(self.database, clock)

    async def start(self) -> None:
        """Open or create the database; raise ``CorruptData``, ``FailedPrecondition`` and ``DependencyFailed``."""
        await self.database.open()

    async def close(self) -> None:
        await self.database.close()

    async def append(self, request_id: str, conversation: str, turn: Turn) -> Turn:
        """Append a turn and return it as stored; a known ``request_id`` returns the stored one, also after a restart.

        A turn without bullets gets them from its answer, and one that follows none that is there follows the newest.
        Raises ``InvalidField``, and ``Conflict`` when the id belongs to another turn.
        """
        checked_id("request_id", request_id)
        checked_id("conversation_id", conversation)
        check_turn(turn)
        tenant, principal = current_tenant(), current_principal()

        def work(db: Connection) -> Turn:
            # Looked up within the transaction: two equal requests at once must not both insert.
            known = db.execute(
                select(TURNS.c.conversation, *TURN).where(TURNS.c.tenant == tenant, TURNS.c.request == request_id)
            ).first()
            if known is not None:
                stored = parse_turn(known[1:])
                # The stored turn got its number, time, place and perhaps bullets here; only what was said is compared.
                bullets = turn.bullets or stored.bullets
                expected = replace(
                    turn, number=stored.number, ended=stored.ended, parent=stored.parent, bullets=bullets
                )
                if known[0] != conversation or stored != expected:
                    raise Conflict(f"request_id {request_id!r} is another turn", metadata={"field": "request_id"})
                return stored
            now = self._clock()
            touch_conversation(db, tenant, conversation, turn.question, now)
            # Numbers follow the largest, so that they stay unique and ascending: the conversation's row is locked.
            newest = find_turn(db, tenant, conversation)
            # The conversation may have been deleted since the question was asked; its answer then begins another one.
            is_there = turn.parent in (None, 0) or find_turn(db, tenant, conversation, turn.parent) == turn.parent
            parent = turn.parent if turn.parent is not None and is_there else newest
            bullets = turn.bullets or tuple(extract_points(turn.answer))
            stored = replace(turn, number=newest + 1, ended=now, bullets=bullets, parent=parent)
            values = {**asdict(stored), "bullets": json.dumps(stored.bullets, ensure_ascii=False)}
            values |= {"tenant": tenant, "principal": principal, "conversation": conversation, "request": request_id}
            db.execute(insert(TURNS).values(**values))
            return stored

        return await self.database.run_transaction(work)

    async def get_window(
        self, conversation: str, full_turns: int, max_turns: int, through: int = 0
    ) -> tuple[list[WindowTurn], int]:
        """Return the newest ``max_turns`` turns, oldest first, and the number of older turns left out.

        The last ``full_turns`` have their answer, older ones their bullet points. An unknown conversation is empty.
        Only those turns count that lead to the newest one, or to ``through``. Raises ``InvalidField``.
        """
        if full_turns < 0:
            raise InvalidField("full_turns", "must not be negative")
        if max_turns < 1:
            raise InvalidField("max_turns", "must be 1 or more")
        if through < 0:
            raise InvalidField("through", "must not be negative")

        tenant = current_tenant()

        def work(db: Connection) -> tuple[list[Turn], int]:
            thread = load_thread(db, tenant, conversation, through)
            return load_turns(db, tenant, conversation, thread[-max_turns:]), len(thread)

        kept, total = await self.database.run_transaction(work)
        # Negative when fewer turns are kept than are shown in full: then all are.
        first_full = len(kept) - full_turns
        window = [
            # The question as it was made whole: in a window it stands without the turns that it referred to.
            WindowTurn(turn.number, turn.rewritten or turn.question, turn.answer, (), turn.run)
            if position >= first_full
            else WindowTurn(turn.number, turn.rewritten or turn.question, "", turn.bullets, turn.run)
            for position, turn in enumerate(kept)
        ]
        return window, total - len(kept)

    async def list_turns(
        self, conversation: str, size: int = 0, token: str = "", through: int = 0, *, is_newest_first: bool = False
    ) -> tuple[list[Turn], str]:
        """Return a page of turns and the next page's token; with ``through`` that turn and those that lead to it.

        Raises ``NotFound`` and ``InvalidField``.
        """
        if through < 0:
            raise InvalidField("through", "must not be negative")
        size, tenant = page_size(size), current_tenant()
        # A token of one list leads nowhere in another.
        kind = " ".join([*(["newest"] if is_newest_first else []), *([str(through)] if through else [])])
        of = f"turns {conversation} {kind}".strip()
        after = int(read_token(token, of, (int,))[0]) if token else 0
        own = [TURNS.c.tenant == tenant, TURNS.c.conversation == conversation]
        if after:
            own.append(TURNS.c.number < after if is_newest_first else TURNS.c.number > after)
        order = TURNS.c.number.desc() if is_newest_first else TURNS.c.number

        def work(db: Connection) -> list[Turn]:
            require_conversation(db, tenant, conversation)
            chosen = list(own)
            if through:
                thread = load_thread(db, tenant, conversation, through)
                chosen.append(TURNS.c.number.in_(cut_page(thread, after, size + 1, is_newest_first=is_newest_first)))
            # One row more than the page tells whether there is a next one.
            rows = db.execute(select(*TURN).where(*chosen).order_by(order).limit(size + 1))
            return [parse_turn(row) for row in rows]

        found = await self.database.run_transaction(work)
        page = found[:size]
        return page, write_token(of, page[-1].number) if len(found) > size else ""

    async def list_sheet_views(self, conversation: str) -> list[SheetView]:
        """Return how a conversation shows some of its tables; an unknown one has said nothing."""
        tenant = current_tenant()
        return await self.database.run_transaction(lambda db: list_views(db, tenant, conversation))

    async def list_conversations(
        self, size: int = 0, token: str = "", searched: str = ""
    ) -> tuple[list[Conversation], str]:
        """Return a page of the tenant's conversations, and the next page's token; with ``searched`` those that have it.

        Pinned ones come first, then the most recently used. Raises ``InvalidField``.
        """
        size, tenant, words = page_size(size), current_tenant(), split_words(searched)
        # A token of one search leads nowhere in another.
        of = " ".join(("conversations", *words))
        key = read_token(token, of, (int, float, str)) if token else ()
        order = (CONVERSATIONS.c.pinned, CONVERSATIONS.c.updated, CONVERSATIONS.c.id)
        query = select_conversations(tenant).order_by(*(column.desc() for column in order)).limit(size + 1)
        query = query.where(*(has_word(word) for word in words))
        if key:
            # Pages go on after the key of the last row, not by offset: a conversation used meanwhile moves to the front
            # and would shift every row.
            query = query.where(tuple_(*order) < tuple_(*(literal(part) for part in key)))

        def work(db: Connection) -> tuple[list[Conversation], bool]:
            rows = db.execute(query).all()
            found = [parse_conversation(row) for row in rows[:size]]
            if words:
                found = [replace(item, passage=find_passage(db, tenant, item.id, words)) for item in found]
            return found, len(rows) > size

        page, has_more = await self.database.run_transaction(work)
        if not has_more:
            return page, ""
        return page, write_token(of, int(page[-1].pinned), page[-1].updated, page[-1].id)

    async def update(
        self,
        conversation: str,
        title: str | None,
        pinned: bool | None,
        version: int = 0,
        sheet: SheetView | None = None,
    ) -> Conversation:
        """Rename or pin a conversation or one of its tables; with ``version`` only if it has still that many edits.

        Raises ``NotFound``, ``InvalidField``, and ``Conflict`` when somebody else has edited it since.
        """
        # Titles stand on one line of a list.
        title = None if title is None else " ".join(title.split())
        if title is not None and not 1 <= len(title) <= MAX_TITLE_CHARS:
            raise InvalidField("title", f"must have 1 to {MAX_TITLE_CHARS} characters")
        check_text("title", title or "", MAX_TITLE_CHARS)
        if version < 0:
            raise InvalidField("version", "must not be negative")
        view = check_view(sheet) if sheet else None
        tenant, principal = current_tenant(), current_principal()
        chosen = (CONVERSATIONS.c.tenant == tenant, CONVERSATIONS.c.id == conversation)
        # A None leaves its column as it is. The time of the last use stays, too: renaming is no turn. What is said of a
        # table alone is no edit either, since lists of conversations do not show it; its row is locked all the same.
        is_edit = view is None or title is not None or pinned is not None
        values: dict[str, Any] = {"version": CONVERSATIONS.c.version + int(is_edit)}
        values |= {} if title is None else {"title": title}
        values |= {} if pinned is None else {"pinned": int(pinned)}

        def work(db: Connection) -> Conversation:
            # Compared by the statement that writes: on PostgreSQL another tab's edit may lie between two statements.
            wanted = (*chosen, CONVERSATIONS.c.version == version) if version else chosen
            done = db.execute(update(CONVERSATIONS).where(*wanted).values(**values))
            if not done.rowcount:
                require_conversation(db, tenant, conversation)
                (current,) = db.execute(select(CONVERSATIONS.c.version).where(*chosen)).one()
                message = f"version: the conversation was edited meanwhile: it is version {current}, not {version}"
                raise Conflict(message, metadata={"field": "version", "version": str(current)})
            if view is not None:
                put_view(db, tenant, principal, conversation, view)
            query = select_conversations(tenant).where(CONVERSATIONS.c.id == conversation)
            return parse_conversation(db.execute(query).one())

        return await self.database.run_transaction(work)

    async def delete(self, conversation: str) -> int:
        """Delete a conversation with its turns and their feedback; return the number of turns. Raises ``NotFound``."""
        tenant = current_tenant()
        of_conversation = (TURNS.c.tenant == tenant, TURNS.c.conversation == conversation)

        def work(db: Connection) -> int:
            # Locked until the end, so that no turn is appended between the statements.
            require_conversation(db, tenant, conversation, is_locked=True)
            # Feedback knows runs only, so it goes before the turns that name them. Turns without a run have no
            # feedback.
            runs = select(TURNS.c.run).where(*of_conversation, TURNS.c.run != "")
            db.execute(delete(FEEDBACK).where(FEEDBACK.c.tenant == tenant, FEEDBACK.c.run.in_(runs)))
            delete_derived(db, tenant, conversation, runs)
            delete_of_runs(db, tenant, runs)
            turns = delete_turns(db, tenant, *of_conversation)
            db.execute(
                delete(CONVERSATIONS).where(CONVERSATIONS.c.tenant == tenant, CONVERSATIONS.c.id == conversation)
            )
            return turns

        return await self.database.run_transaction(work)

    async def record_feedback(self, request_id: str, judgement: Judgement) -> None:
        """Store a judgement once per ``request_id``; raise ``InvalidField`` and ``Conflict``."""
        checked_id("request_id", request_id)
        checked_id("run_id", judgement.run)
        tags = judgement.tags
        if len(tags) > MAX_TAGS or any(not 1 <= len(tag) <= MAX_TAG_CHARS for tag in tags):
            raise InvalidField("tags", f"must be at most {MAX_TAGS} of 1 to {MAX_TAG_CHARS} characters")
        check_text("comment", judgement.comment, MAX_COMMENT_CHARS)
        check_text("edited_answer", judgement.edited, MAX_ANSWER_CHARS)
        tenant, principal, listed = current_tenant(), current_principal(), json.dumps(list(tags), ensure_ascii=False)
        said = (judgement.run, int(judgement.helpful), listed, judgement.comment, judgement.edited)

        def work(db: Connection) -> None:
            known = db.execute(
                select(*SAID).where(FEEDBACK.c.tenant == tenant, FEEDBACK.c.request == request_id)
            ).first()
            if known is None:
                values = dict(zip((column.name for column in SAID), said, strict=True))
                values |= {"tenant": tenant, "principal": principal, "request": request_id, "created": self._clock()}
                db.execute(insert(FEEDBACK).values(**values))
            elif tuple(known) != said:
                raise Conflict(f"request_id {request_id!r} is another judgement", metadata={"field": "request_id"})

        await self.database.run_transaction(work)


def touch_conversation(db: Connection, tenant: str, conversation: str, question: str, now: float) -> None:
    """Create the conversation, or note its use; its row is then locked until the transaction ends."""
    # PostgreSQL and SQLite know the same clause, which SQLAlchemy has once for each.
    upsert = postgresql.insert if db.dialect.name == "postgresql" else sqlite.insert
    title = " ".join(question.split())[:DEFAULT_TITLE_CHARS]
    made = upsert(CONVERSATIONS).values(tenant=tenant, id=conversation, title=title, updated=now)
    # The first question stays the title.
    keys = (CONVERSATIONS.c.tenant, CONVERSATIONS.c.id)
    db.execute(made.on_conflict_do_update(index_elements=keys, set_={"updated": made.excluded.updated}))


def check_turn(turn: Turn) -> None:
    """Raise ``InvalidField`` naming the field that is empty, too long or negative."""
    if not turn.question.strip():
        raise InvalidField("turn.question", "is empty")
    if turn.parent is not None and turn.parent < 0:
        raise InvalidField("turn.parent", "must not be negative")
    if turn.run:
        checked_id("turn.run_id", turn.run)
    for field, text, limit in (
        ("turn.question", turn.question, MAX_QUESTION_CHARS),
        ("turn.rewritten_question", turn.rewritten, MAX_QUESTION_CHARS),
        ("turn.answer", turn.answer, MAX_ANSWER_CHARS),
    ):
        check_text(field, text, limit)
    if len(turn.bullets) > MAX_BULLETS or any(not 1 <= len(bullet) <= MAX_BULLET_CHARS for bullet in turn.bullets):
        raise InvalidField("turn.bullets", f"must be at most {MAX_BULLETS} of 1 to {MAX_BULLET_CHARS:,} characters")


def check_text(field: str, text: str, limit: int) -> None:
    """Raise ``InvalidField`` for a text of more than ``limit`` characters, or with one that PostgreSQL cannot store."""
    if len(text) > limit:
        raise InvalidField(field, f"must have at most {limit:,} characters")
    if "\0" in text:
        raise InvalidField(field, "must not have the character NUL")


def require_conversation(db: Connection, tenant: str, conversation: str, *, is_locked: bool = False) -> None:
    """Raise ``NotFound`` if the tenant has no such conversation; ``is_locked`` locks its row for the transaction."""
    query = select(CONVERSATIONS.c.id).where(CONVERSATIONS.c.tenant == tenant, CONVERSATIONS.c.id == conversation)
    # The id comes from the caller and may be of any length, and have a character that no database takes.
    if "\0" in conversation or db.execute(query.with_for_update() if is_locked else query).first() is None:
        raise NotFound("conversation", conversation[:MAX_TITLE_CHARS])


def select_conversations(tenant: str) -> Select[Any]:
    """Return the query of the tenant's conversations with the columns of ``parse_conversation``."""
    turns = (
        select(func.count())
        .where(TURNS.c.tenant == CONVERSATIONS.c.tenant, TURNS.c.conversation == CONVERSATIONS.c.id)
        .correlate(CONVERSATIONS)
        .scalar_subquery()
    )
    own = CONVERSATIONS.c
    return select(own.id, own.title, turns, own.updated, own.pinned, own.version).where(own.tenant == tenant)


def find_turn(db: Connection, tenant: str, conversation: str, through: int | None = None) -> int:
    """Return the number of the newest turn of a conversation, or of the newest up to a number; 0 for none."""
    newest = select(func.coalesce(func.max(TURNS.c.number), 0))
    newest = newest.where(TURNS.c.tenant == tenant, TURNS.c.conversation == conversation)
    found: int = db.execute(newest if through is None else newest.where(TURNS.c.number <= through)).scalar_one()
    return found


def load_turns(db: Connection, tenant: str, conversation: str, numbers: Sequence[int]) -> list[Turn]:
    """Return turns of a conversation by their numbers, oldest first."""
    own = (TURNS.c.tenant == tenant, TURNS.c.conversation == conversation, TURNS.c.number.in_(list(numbers)))
    return [parse_turn(row) for row in db.execute(select(*TURN).where(*own).order_by(TURNS.c.number))]


def parse_turn(row: Sequence[Any]) -> Turn:
    number, question, rewritten, answer, run, ended, bullets, parent = row
    listed = tuple(json.loads(bullets))
    return Turn(question, rewritten, answer, run, listed, number, ended, read_parent(number, parent))


def parse_conversation(row: Sequence[Any]) -> Conversation:
    ident, title, turns, updated, pinned, version = row
    return Conversation(ident, title, turns, updated, bool(pinned), version)
