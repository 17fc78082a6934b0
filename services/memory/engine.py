"""Conversations in SQLite: one writer, every call in a thread, turns idempotent by request id."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from fathom.errors import Conflict, CorruptData, InvalidField, NotFound
from fathom.ids import checked_id
from services.memory.points import points

T = TypeVar("T")
VERSION = 1
SCHEMA = """
create table conversations (
  id text primary key, title text not null, pinned integer not null default 0, updated real not null);
create table turns (
  conversation text not null references conversations(id) on delete cascade, number integer not null,
  request text not null unique, question text not null, rewritten text not null, answer text not null,
  run text not null, ended real not null, bullets text not null, primary key (conversation, number));
create table feedback (
  request text primary key, run text not null, helpful integer not null, tags text not null, comment text not null,
  created real not null);
"""


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
    """A turn of the window: in full, or as points."""

    number: int
    question: str
    answer: str
    bullets: tuple[str, ...]


@dataclass(frozen=True)
class Conversation:
    """One line about a conversation."""

    id: str
    title: str
    turns: int
    updated: float
    pinned: bool


class Engine:
    """Ready after ``start``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    async def start(self) -> None:
        """Opens or makes the database; raises ``CorruptData`` when the file is no database of this version."""
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        try:
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma foreign_keys = on")
            (version,) = connection.execute("pragma user_version").fetchone()
            if version == 0:
                connection.executescript(f"begin; {SCHEMA} pragma user_version = {VERSION}; commit;")
            elif version != VERSION:
                raise CorruptData(str(self._path), f"has version {version}, this service reads {VERSION}")
            if connection.execute("pragma quick_check").fetchone() != ("ok",):
                raise CorruptData(str(self._path), "SQLite's check fails; restore a backup or delete the file")
        except sqlite3.DatabaseError as error:
            connection.close()
            raise CorruptData(str(self._path), f"{error}; restore a backup or delete the file") from error
        self._connection = connection

    async def close(self) -> None:
        if self._connection is not None:
            await asyncio.to_thread(self._connection.close)

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs ``work`` in one transaction."""

        def locked() -> T:
            assert self._connection is not None
            with self._lock:
                self._connection.execute("begin immediate")
                try:
                    result = work(self._connection)
                except BaseException:
                    self._connection.execute("rollback")
                    raise
                self._connection.execute("commit")
                return result

        return await asyncio.to_thread(locked)

    async def append(self, request_id: str, conversation: str, turn: Turn) -> Turn:
        """Appends a turn; a known ``request_id`` gives the stored one. Raises ``InvalidField`` and ``Conflict``."""
        checked_id("request_id", request_id)
        checked_id("conversation_id", conversation)
        if not turn.question.strip():
            raise InvalidField("turn.question", "is empty")

        def work(db: sqlite3.Connection) -> Turn:
            known = db.execute("select conversation, * from turns where request = ?", (request_id,)).fetchone()
            if known is not None:
                if known[0] != conversation or known[4] != turn.question:
                    raise Conflict(f"request_id {request_id!r} is another turn", metadata={"field": "request_id"})
                return turn_of(known[1:])
            now = time.time()
            db.execute(
                "insert into conversations (id, title, updated) values (?, ?, ?)"
                " on conflict (id) do update set updated = excluded.updated",
                (conversation, turn.question[:120], now),
            )
            sql = "select coalesce(max(number), 0) + 1 from turns where conversation = ?"
            (number,) = db.execute(sql, (conversation,)).fetchone()
            bullets = turn.bullets or tuple(points(turn.answer))
            stored = replace(turn, number=number, ended=now, bullets=bullets)
            row = (conversation, number, request_id, turn.question, turn.rewritten, turn.answer, turn.run, now)
            encoded = json.dumps(bullets, ensure_ascii=False)
            db.execute("insert into turns values (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, encoded))
            return stored

        return await self._do(work)

    async def window(self, conversation: str, full_turns: int, max_turns: int) -> tuple[list[WindowTurn], int]:
        """The newest turns, the last ones in full, older ones as points (row M08); and how many fell out."""
        turns = await self._do(lambda db: all_turns(db, conversation))
        kept = turns[max(0, len(turns) - max_turns) :]
        first_full = len(kept) - full_turns
        window = [
            WindowTurn(
                turn.number,
                turn.rewritten or turn.question,
                turn.answer if position >= first_full else "",
                () if position >= first_full else turn.bullets,
            )
            for position, turn in enumerate(kept)
        ]
        return window, len(turns) - len(kept)

    async def turns(self, conversation: str) -> list[Turn]:
        """All turns, oldest first; raises ``NotFound`` for an unknown conversation."""
        turns = await self._do(lambda db: all_turns(db, conversation))
        if not turns:
            raise NotFound("conversation", conversation)
        return turns

    async def conversations(self) -> list[Conversation]:
        """Pinned ones first, then the most recently used."""
        sql = (
            "select c.id, c.title, count(t.number), c.updated, c.pinned from conversations c"
            " left join turns t on t.conversation = c.id group by c.id order by c.pinned desc, c.updated desc, c.id"
        )
        rows = await self._do(lambda db: db.execute(sql).fetchall())
        return [
            Conversation(ident, title, turns, updated, bool(pinned)) for ident, title, turns, updated, pinned in rows
        ]

    async def update(self, conversation: str, title: str | None, pinned: bool | None) -> Conversation:
        """Renames or pins; raises ``NotFound``."""
        if title is not None and not 1 <= len(title.strip()) <= 200:
            raise InvalidField("title", "must have 1 to 200 characters")

        def work(db: sqlite3.Connection) -> int:
            sql = "update conversations set title = coalesce(?, title), pinned = coalesce(?, pinned) where id = ?"
            return db.execute(sql, (title, pinned, conversation)).rowcount

        if not await self._do(work):
            raise NotFound("conversation", conversation)
        return next(item for item in await self.conversations() if item.id == conversation)

    async def delete(self, conversation: str) -> int:
        """Deletes a conversation with its turns; gives their number. Raises ``NotFound``."""

        def work(db: sqlite3.Connection) -> int:
            (turns,) = db.execute("select count(*) from turns where conversation = ?", (conversation,)).fetchone()
            if not db.execute("delete from conversations where id = ?", (conversation,)).rowcount:
                raise NotFound("conversation", conversation)
            return int(turns)

        return await self._do(work)

    async def feedback(self, request_id: str, run: str, helpful: bool, tags: Sequence[str], comment: str) -> None:
        """Keeps a judgement once per ``request_id``."""
        checked_id("request_id", request_id)
        checked_id("run_id", run)
        if len(comment) > 10_000:
            raise InvalidField("comment", "must have at most 10,000 characters")
        row: tuple[Any, ...] = (request_id, run, helpful, json.dumps(list(tags)), comment, time.time())
        await self._do(lambda db: db.execute("insert or ignore into feedback values (?, ?, ?, ?, ?, ?)", row))


def all_turns(db: sqlite3.Connection, conversation: str) -> list[Turn]:
    rows = db.execute("select * from turns where conversation = ? order by number", (conversation,)).fetchall()
    return [turn_of(row) for row in rows]


def turn_of(row: Sequence[Any]) -> Turn:
    _, number, _, question, rewritten, answer, run, ended, bullets = row
    return Turn(question, rewritten, answer, run, tuple(json.loads(bullets)), number, ended)
