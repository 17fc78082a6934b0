"""Conversations: turns are appended once, windows go into prompts, deletion removes everything derived."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fathom.core.call import DEFAULT_TENANT, bind, current_tenant, unbind
from fathom.core.errors import Conflict, InvalidField, NotFound
from fathom.core.ids import checked_id
from fathom.core.paging import page_size, read_token, write_token
from fathom.services.memory.database import Database
from fathom.services.memory.points import extract_points

# Bounds of what one call may store; far above what the pages and the planner write.
MAX_QUESTION_CHARS, MAX_ANSWER_CHARS = 100_000, 1_000_000
MAX_BULLETS, MAX_BULLET_CHARS = 50, 2_000
MAX_TITLE_CHARS, DEFAULT_TITLE_CHARS = 200, 120
MAX_TAGS, MAX_TAG_CHARS, MAX_COMMENT_CHARS = 32, 64, 10_000
TURN = "number, question, rewritten, answer, run, ended, bullets"
CONVERSATION = (
    "select c.id, c.title, (select count(*) from turns t where t.conversation = c.id), c.updated, c.pinned"
    " from conversations c"
)


@dataclass(frozen=True)
class Turn:
    """One question and its answer. ``ended`` is in seconds since the epoch."""

    question: str
    rewritten: str
    answer: str
    run: str
    bullets: tuple[str, ...] = ()
    number: int = 0
    ended: float = 0.0


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
    """Summary of a conversation. ``updated`` is in seconds since the epoch."""

    id: str
    title: str
    turns: int
    updated: float
    pinned: bool


@dataclass(frozen=True)
class Judgement:
    """What a user thinks of a run's answer. ``edited`` is the answer as the user would have it, "" when not edited.

    ``created`` is in seconds since the epoch.
    """

    run: str
    helpful: bool
    tags: tuple[str, ...] = ()
    comment: str = ""
    edited: str = ""
    created: float = 0.0


class Engine:
    """Conversation store; usable after ``start``."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path)

    async def start(self) -> None:
        """Open or create the database; raise ``CorruptData`` and ``DependencyFailed``."""
        await self._database.open()

    async def close(self) -> None:
        await self._database.close()

    async def append(self, request_id: str, conversation: str, turn: Turn) -> Turn:
        """Append a turn and return it as stored; a known ``request_id`` returns the stored one, also after a restart.

        A turn without bullets gets them from its answer. Raises ``InvalidField``, and ``Conflict`` when the id belongs
        to another turn.
        """
        checked_id("request_id", request_id)
        checked_id("conversation_id", conversation)
        check_turn(turn)
        owned, owned_request, owned_run = bind(conversation), bind(request_id), bind(turn.run)

        def work(db: sqlite3.Connection) -> Turn:
            sql = f"select conversation, {TURN} from turns where request = ?"
            # Looked up within the transaction: two equal requests at once must not both insert.
            known = db.execute(sql, (owned_request,)).fetchone()
            if known is not None:
                stored = parse_turn(known[1:])
                expected = replace(
                    # The stored turn got its number, time and perhaps bullets here; only what the caller sent is
                    # compared.
                    turn,
                    number=stored.number,
                    ended=stored.ended,
                    bullets=turn.bullets or stored.bullets,
                )
                if known[0] != owned or stored != expected:
                    raise Conflict(f"request_id {request_id!r} is another turn", metadata={"field": "request_id"})
                return stored
            now = time.time()
            db.execute(
                "insert into conversations (id, title, updated) values (?, ?, ?)"
                # The first question stays the title.
                " on conflict (id) do update set updated = excluded.updated",
                (owned, " ".join(turn.question.split())[:DEFAULT_TITLE_CHARS], now),
            )
            # Numbers follow the largest, so that they stay unique and ascending.
            sql = "select coalesce(max(number), 0) + 1 from turns where conversation = ?"
            (number,) = db.execute(sql, (owned,)).fetchone()
            stored = replace(turn, number=number, ended=now, bullets=turn.bullets or tuple(extract_points(turn.answer)))
            said = (stored.question, stored.rewritten, stored.answer, owned_run)
            db.execute(
                f"insert into turns (conversation, request, {TURN}) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (owned, owned_request, number, *said, now, json.dumps(stored.bullets, ensure_ascii=False)),
            )
            return stored

        return await self._database.run_transaction(work)

    async def get_window(
        self, conversation: str, full_turns: int, max_turns: int, through: int = 0
    ) -> tuple[list[WindowTurn], int]:
        """Return the newest ``max_turns`` turns, oldest first, and the number of older turns left out.

        The last ``full_turns`` have their answer, older ones their bullet points. An unknown conversation is empty.
        With ``through`` the turns after that number do not count.
        Raises ``InvalidField``.
        """
        if full_turns < 0:
            raise InvalidField("full_turns", "must not be negative")
        if max_turns < 1:
            raise InvalidField("max_turns", "must be 1 or more")
        if through < 0:
            raise InvalidField("through", "must not be negative")

        owned = bind(conversation)

        def work(db: sqlite3.Connection) -> tuple[list[Turn], int]:
            chosen = "from turns where conversation = ? and (? = 0 or number <= ?)"
            values = (owned, through, through)
            rows = db.execute(f"select {TURN} {chosen} order by number desc limit ?", (*values, max_turns)).fetchall()
            (total,) = db.execute(f"select count(*) {chosen}", values).fetchone()
            return [parse_turn(row) for row in reversed(rows)], total

        kept, total = await self._database.run_transaction(work)
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

    async def list_turns(self, conversation: str, size: int = 0, token: str = "") -> tuple[list[Turn], str]:
        """Return a page of turns, oldest first, and the next page's token; raise ``NotFound`` and ``InvalidField``."""
        size, of, owned = page_size(size), f"turns {conversation}", bind(conversation)
        after = read_token(token, of, (int,))[0] if token else 0

        def work(db: sqlite3.Connection) -> list[Turn]:
            require_conversation(db, owned)
            sql = f"select {TURN} from turns where conversation = ? and number > ? order by number limit ?"
            # One row more than the page tells whether there is a next one.
            return [parse_turn(row) for row in db.execute(sql, (owned, after, size + 1))]

        found = await self._database.run_transaction(work)
        page = found[:size]
        return page, write_token(of, page[-1].number) if len(found) > size else ""

    async def list_conversations(self, size: int = 0, token: str = "") -> tuple[list[Conversation], str]:
        """Return a page of the tenant's conversations, and the next page's token.

        Pinned ones come first, then the most recently used.
        """
        size, of = page_size(size), "conversations"
        own, keys = select_own(current_tenant())
        sql, order = f"{CONVERSATION} where {own}", " order by c.pinned desc, c.updated desc, c.id desc limit ?"
        key = read_token(token, of, (int, float, str)) if token else ()
        if key:
            # Pages go on after the key of the last row, not by offset: a conversation used meanwhile moves to the front
            # and would shift every row.
            sql += " and (c.pinned, c.updated, c.id) < (?, ?, ?)"
            key = (*key[:2], bind(str(key[2])))
        rows = await self._database.run_transaction(
            lambda db: db.execute(sql + order, (*keys, *key, size + 1)).fetchall()
        )
        page = [parse_conversation(row) for row in rows[:size]]
        if len(rows) <= size:
            return page, ""
        return page, write_token(of, int(page[-1].pinned), page[-1].updated, page[-1].id)

    async def update(self, conversation: str, title: str | None, pinned: bool | None) -> Conversation:
        """Rename or pin a conversation; raise ``NotFound`` and ``InvalidField``."""
        # Titles stand on one line of a list.
        title = None if title is None else " ".join(title.split())
        if title is not None and not 1 <= len(title) <= MAX_TITLE_CHARS:
            raise InvalidField("title", f"must have 1 to {MAX_TITLE_CHARS} characters")

        owned = bind(conversation)

        def work(db: sqlite3.Connection) -> Conversation:
            require_conversation(db, owned)
            # A None leaves its column as it is. The time of the last use stays, too: renaming is no turn.
            sql = "update conversations set title = coalesce(?, title), pinned = coalesce(?, pinned) where id = ?"
            db.execute(sql, (title, pinned, owned))
            return parse_conversation(db.execute(f"{CONVERSATION} where c.id = ?", (owned,)).fetchone())

        return await self._database.run_transaction(work)

    async def delete(self, conversation: str) -> int:
        """Delete a conversation with its turns and their feedback; return the number of turns. Raises ``NotFound``."""
        owned = bind(conversation)

        def work(db: sqlite3.Connection) -> int:
            require_conversation(db, owned)
            # Feedback knows runs only, so it goes before the turns that name them. Turns without a run have no
            # feedback.
            sql = "delete from feedback where run in (select run from turns where conversation = ? and run != '')"
            db.execute(sql, (owned,))
            turns = db.execute("delete from turns where conversation = ?", (owned,)).rowcount
            db.execute("delete from conversations where id = ?", (owned,))
            return turns

        return await self._database.run_transaction(work)

    async def record_feedback(self, request_id: str, judgement: Judgement) -> None:
        """Store a judgement once per ``request_id``; raise ``InvalidField`` and ``Conflict``."""
        checked_id("request_id", request_id)
        run, tags, comment = judgement.run, judgement.tags, judgement.comment
        checked_id("run_id", run)
        if len(tags) > MAX_TAGS or any(not 1 <= len(tag) <= MAX_TAG_CHARS for tag in tags):
            raise InvalidField("tags", f"must be at most {MAX_TAGS} of 1 to {MAX_TAG_CHARS} characters")
        if len(comment) > MAX_COMMENT_CHARS:
            raise InvalidField("comment", f"must have at most {MAX_COMMENT_CHARS:,} characters")
        if len(judgement.edited) > MAX_ANSWER_CHARS:
            raise InvalidField("edited_answer", f"must have at most {MAX_ANSWER_CHARS:,} characters")
        owned_request, listed = bind(request_id), json.dumps(list(tags), ensure_ascii=False)
        said: tuple[Any, ...] = (bind(run), int(judgement.helpful), listed, comment, judgement.edited)

        def work(db: sqlite3.Connection) -> None:
            sql = "select run, helpful, tags, comment, edited from feedback where request = ?"
            known = db.execute(sql, (owned_request,)).fetchone()
            if known is None:
                sql = (
                    "insert into feedback (request, run, helpful, tags, comment, edited, created)"
                    " values (?, ?, ?, ?, ?, ?, ?)"
                )
                db.execute(sql, (owned_request, *said, time.time()))
            elif known != said:
                raise Conflict(f"request_id {request_id!r} is another judgement", metadata={"field": "request_id"})

        await self._database.run_transaction(work)

    async def list_feedback(self, size: int = 0, token: str = "") -> tuple[list[Judgement], str]:
        """Return a page of the tenant's judgements, oldest first, and the next page's token; raise ``InvalidField``."""
        size, of = page_size(size), "feedback"
        after = read_token(token, of, (int,))[0] if token else 0
        own, keys = select_own(current_tenant(), "run")
        # The row's number is the order of arrival, which two judgements of one moment share with nobody.
        sql = (
            "select rowid, run, helpful, tags, comment, edited, created from feedback"
            f" where {own} and rowid > ? order by rowid limit ?"
        )
        rows = await self._database.run_transaction(lambda db: db.execute(sql, (*keys, after, size + 1)).fetchall())
        page = [parse_judgement(row[1:]) for row in rows[:size]]
        return page, write_token(of, rows[size - 1][0]) if len(rows) > size else ""


def check_turn(turn: Turn) -> None:
    """Raise ``InvalidField`` naming the field that is empty or too long."""
    if not turn.question.strip():
        raise InvalidField("turn.question", "is empty")
    if turn.run:
        checked_id("turn.run_id", turn.run)
    for field, text, limit in (
        ("turn.question", turn.question, MAX_QUESTION_CHARS),
        ("turn.rewritten_question", turn.rewritten, MAX_QUESTION_CHARS),
        ("turn.answer", turn.answer, MAX_ANSWER_CHARS),
    ):
        if len(text) > limit:
            raise InvalidField(field, f"must have at most {limit:,} characters")
    if len(turn.bullets) > MAX_BULLETS or any(not 1 <= len(bullet) <= MAX_BULLET_CHARS for bullet in turn.bullets):
        raise InvalidField("turn.bullets", f"must be at most {MAX_BULLETS} of 1 to {MAX_BULLET_CHARS:,} characters")


def require_conversation(db: sqlite3.Connection, conversation: str) -> None:
    """Raise ``NotFound`` if the conversation does not exist."""
    if db.execute("select 1 from conversations where id = ?", (conversation,)).fetchone() is None:
        # The id comes from the caller and may be of any length.
        raise NotFound("conversation", unbind(conversation)[1][:MAX_TITLE_CHARS])


def select_own(tenant: str, column: str = "c.id") -> tuple[str, tuple[str, ...]]:
    """Return the condition that a row is the tenant's, by a column with bound names, and its parameters."""
    if tenant == DEFAULT_TENANT:
        return f"instr({column}, '=') = 0", ()
    # A range of the primary key: ">" is the character after "=".
    return f"{column} >= ? and {column} < ?", (f"{tenant}=", f"{tenant}>")


def parse_turn(row: Sequence[Any]) -> Turn:
    number, question, rewritten, answer, run, ended, bullets = row
    return Turn(question, rewritten, answer, unbind(run)[1], tuple(json.loads(bullets)), number, ended)


def parse_judgement(row: Sequence[Any]) -> Judgement:
    run, helpful, tags, comment, edited, created = row
    return Judgement(unbind(run)[1], bool(helpful), tuple(json.loads(tags)), comment, edited, created)


def parse_conversation(row: Sequence[Any]) -> Conversation:
    ident, title, turns, updated, pinned = row
    return Conversation(unbind(ident)[1], title, turns, updated, bool(pinned))
