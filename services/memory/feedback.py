"""Judgements of answers as they are read: filtered, page by page, with the turn that is judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, select

from fathom.core.call import current_principal, current_tenant
from fathom.core.errors import InvalidField
from fathom.core.paging import page_size, read_token, write_token
from fathom.services.memory.database import Database
from fathom.services.memory.engine import MAX_TAG_CHARS, SAID, TURN, Judgement, Turn, parse_turn
from fathom.services.memory.schema import FEEDBACK, TURNS


@dataclass(frozen=True)
class Filter:
    """Filter of judgements; times are in seconds since the epoch, 0 where open."""

    helpful: bool | None = None
    tag: str = ""
    run: str = ""
    is_edited: bool = False
    after: float = 0.0
    before: float = 0.0
    is_own: bool = False
    conversation: str = ""


@dataclass(frozen=True)
class Judged:
    """A judgement, and the turn that is judged with its conversation, where it is known and asked for."""

    judgement: Judgement
    conversation: str = ""
    turn: Turn | None = None


class Feedback:
    """Reader of judgements."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(
        self,
        chosen: Filter | None = None,
        size: int = 0,
        token: str = "",
        *,
        with_turn: bool = False,
        is_newest_first: bool = False,
    ) -> tuple[list[Judged], str]:
        """Return a page of the tenant's judgements in the order of their arrival, and the next page's token.

        Raises ``InvalidField`` for a bad filter, and for the token of another order.
        """
        size, of = page_size(size), "feedback, newest first" if is_newest_first else "feedback"
        conditions = [FEEDBACK.c.tenant == current_tenant(), *list_conditions(chosen or Filter())]
        if token:
            known = read_token(token, of, (int,))[0]
            conditions.append(FEEDBACK.c.number < known if is_newest_first else FEEDBACK.c.number > known)
        order = FEEDBACK.c.number.desc() if is_newest_first else FEEDBACK.c.number
        joined = FEEDBACK.outerjoin(
            TURNS, (TURNS.c.tenant == FEEDBACK.c.tenant) & (TURNS.c.run == FEEDBACK.c.run) & (FEEDBACK.c.run != "")
        )
        columns = (FEEDBACK.c.number, *SAID, FEEDBACK.c.created)
        query = select(*columns, TURNS.c.conversation, *TURN).select_from(joined if with_turn else FEEDBACK)
        if not with_turn:
            query = select(*columns)
        query = query.where(*conditions).order_by(order).limit(size + 1)
        rows = await self._database.run_transaction(lambda db: db.execute(query).all())
        page = [parse_judged(row[1:]) for row in rows[:size]]
        return page, write_token(of, rows[size - 1][0]) if len(rows) > size else ""


def list_conditions(chosen: Filter) -> Sequence[ColumnElement[bool]]:
    """Return the conditions of a filter; raise ``InvalidField`` naming what cannot be asked."""
    if len(chosen.tag) > MAX_TAG_CHARS or "\0" in chosen.tag:
        raise InvalidField("tag", f"must have at most {MAX_TAG_CHARS} characters, none of them NUL")
    if "\0" in chosen.run:
        raise InvalidField("run_id", "must not have the character NUL")
    if "\0" in chosen.conversation:
        raise InvalidField("conversation_id", "must not have the character NUL")
    if chosen.before and chosen.before <= chosen.after:
        raise InvalidField("before", "must be later than after")
    found: list[ColumnElement[bool]] = []
    if chosen.helpful is not None:
        found.append(FEEDBACK.c.helpful == int(chosen.helpful))
    if chosen.tag:
        # Tags are a JSON list: with its quotes a tag is no part of another one.
        found.append(FEEDBACK.c.tags.contains(json.dumps(chosen.tag, ensure_ascii=False), autoescape=True))
    if chosen.run:
        found.append(FEEDBACK.c.run == chosen.run)
    if chosen.conversation:
        own = (TURNS.c.tenant == current_tenant(), TURNS.c.conversation == chosen.conversation, TURNS.c.run != "")
        found.append(FEEDBACK.c.run.in_(select(TURNS.c.run).where(*own)))
    if chosen.is_edited:
        found.append(FEEDBACK.c.edited != "")
    if chosen.after:
        found.append(FEEDBACK.c.created >= chosen.after)
    if chosen.before:
        found.append(FEEDBACK.c.created < chosen.before)
    if chosen.is_own:
        found.append(FEEDBACK.c.principal == current_principal())
    return found


def parse_judged(row: Sequence[Any]) -> Judged:
    """Return a judgement with its turn, if the row has one."""
    run, helpful, tags, comment, edited, created = row[:6]
    judged = Judged(Judgement(run, bool(helpful), tuple(json.loads(tags)), comment, edited, created))
    if len(row) > 6 and row[6] is not None:
        return replace(judged, conversation=row[6], turn=parse_turn(row[7:]))
    return judged
