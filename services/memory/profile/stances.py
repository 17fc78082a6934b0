"""Views that answers took: what was said of one measure of an entity in one period, once per request."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, literal, select, tuple_, update

from fathom.core.call import current_principal, current_tenant
from fathom.core.errors import Conflict, InvalidField, NotFound
from fathom.core.ids import checked_id, new_id
from fathom.core.paging import page_size, read_token, write_token
from fathom.services.memory.database import Database
from fathom.services.memory.profile.schema import STANCES

MAX_ENTITY_CHARS, MAX_MEASURE_CHARS, MAX_UNIT_CHARS, MAX_VIEW_CHARS, MAX_ENTITIES = 1_024, 200, 64, 500, 64
# The oldest go: what was said years ago of something else is not what an answer contradicts.
MAX_STANCES = 2_000
# Longer than any queue delivers a request again. What a deletion leaves, without a word of the view, goes after that.
TOMBSTONE_S = 30 * 86_400.0
EMPTY = dict.fromkeys(("entity", "measure", "first", "last", "unit", "as_of", "view", "run"), "") | {"value": 0.0}
SHOWN = ("id", "entity", "measure", "first", "last", "value", "unit", "as_of", "view", "run", "created")
COLUMNS = tuple(STANCES.c[name] for name in SHOWN)
IS_THERE = STANCES.c.deleted == 0


@dataclass(frozen=True)
class Stance:
    """Statement of an answer. ``first``, ``last`` and ``as_of`` are ISO dates, "" for open ends and unknown ones.

    ``created`` is in seconds since the epoch.
    """

    entity: str
    measure: str
    first: str
    last: str
    value: float
    unit: str
    as_of: str
    view: str
    run: str
    created: float = 0.0
    id: str = ""


class Stances:
    """Views taken in answers to the caller, who is a user of a tenant: every statement names both."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    async def record(self, request_id: str, stance: Stance) -> Stance:
        """Store a view once per ``request_id`` and return it as stored; raise ``InvalidField`` and ``Conflict``.

        One that was deleted since is returned and not stored again.
        """
        checked_id("request_id", request_id)
        check_stance(stance)
        owner = (current_tenant(), current_principal())
        now = self._clock()
        made = replace(stance, id=new_id("stance"), created=stance.created or now)

        def work(db: Connection) -> Stance:
            drop_tombstones(db, owner, now)
            chosen = (is_of(*owner), STANCES.c.request == request_id)
            known = db.execute(select(*COLUMNS, STANCES.c.deleted).where(*chosen)).first()
            # Within the transaction: of two equal requests one inserts, and the other finds it.
            if known is None:
                values = {"tenant": owner[0], "principal": owner[1], "request": request_id, **asdict(made)}
                db.execute(insert(STANCES).values(**values))
                drop_oldest(db, owner)
                return made
            stored = parse_stance(known[:-1])
            if known[-1]:
                # Its words are gone, so that they cannot be compared with those of the request.
                return replace(made, id=stored.id, created=stored.created)
            if stored != replace(made, id=stored.id, created=stored.created):
                raise Conflict(f"request_id {request_id!r} is another stance", metadata={"field": "request_id"})
            return stored

        return await self._database.run_transaction(work)

    async def list(self, entities: Sequence[str] = (), size: int = 0, token: str = "") -> tuple[Sequence[Stance], str]:
        """Return a page of the views on entities, of all where none is given, newest first, and the next page's token.

        Raises ``InvalidField``.
        """
        size, of = page_size(size), "stances"
        if len(entities) > MAX_ENTITIES or any("\0" in name for name in entities):
            raise InvalidField("entities", f"must be at most {MAX_ENTITIES} names")
        key = read_token(token, of, (float, int)) if token else ()
        query = select(*COLUMNS, STANCES.c.number).where(is_of(current_tenant(), current_principal()), IS_THERE)
        if entities:
            query = query.where(STANCES.c.entity.in_(tuple(entities)))
        order = (STANCES.c.created, STANCES.c.number)
        if key:
            query = query.where(tuple_(*order) < tuple_(*(literal(part) for part in key)))
        newest = query.order_by(*(column.desc() for column in order)).limit(size + 1)
        rows = await self._database.run_transaction(lambda db: db.execute(newest).all())
        page = [parse_stance(row[:-1]) for row in rows[:size]]
        return page, write_token(of, page[-1].created, rows[size - 1][-1]) if len(rows) > size else ""

    async def delete(self, stance_id: str) -> None:
        """Delete a view of the caller; raise ``NotFound``."""
        chosen = (is_of(current_tenant(), current_principal()), STANCES.c.id == stance_id, IS_THERE)
        gone = update(STANCES).where(*chosen).values(deleted=self._clock(), **EMPTY)
        # The id comes from the caller and may have a character that no database takes.
        if "\0" in stance_id or not await self._database.run_transaction(lambda db: db.execute(gone).rowcount):
            raise NotFound("stance", stance_id[:MAX_MEASURE_CHARS])


def is_of(tenant: str, principal: str) -> ColumnElement[bool]:
    """Return the condition of the rows of one user."""
    return and_(STANCES.c.tenant == tenant, STANCES.c.principal == principal)


def drop_tombstones(db: Connection, owner: tuple[str, str], now: float) -> None:
    """Delete what deletions of a user have left for longer than ``TOMBSTONE_S``."""
    db.execute(delete(STANCES).where(is_of(*owner), STANCES.c.deleted > 0, STANCES.c.deleted < now - TOMBSTONE_S))


def drop_oldest(db: Connection, owner: tuple[str, str]) -> None:
    """Delete what a user has beyond ``MAX_STANCES``, what deletions have left among it."""
    first = select(STANCES.c.number).where(is_of(*owner)).order_by(STANCES.c.number.desc()).offset(MAX_STANCES).limit(1)
    # By number and not by time: runs end in another order than they began.
    oldest = db.execute(first).scalar_one_or_none()
    if oldest is not None:
        db.execute(delete(STANCES).where(is_of(*owner), STANCES.c.number <= oldest))


def check_stance(stance: Stance) -> None:
    """Raise ``InvalidField`` naming the field that is empty, too long or no date or number."""
    for field, said, limit in (
        ("entity", stance.entity, MAX_ENTITY_CHARS),
        ("measure", stance.measure, MAX_MEASURE_CHARS),
        ("view", stance.view, MAX_VIEW_CHARS),
        ("unit", stance.unit or " ", MAX_UNIT_CHARS),
    ):
        if not 1 <= len(said) <= limit or any(ord(char) < 32 for char in said):
            raise InvalidField(f"stance.{field}", f"must have 1 to {limit:,} characters, and no control characters")
    for field, day in (("start_date", stance.first), ("end_date", stance.last), ("as_of", stance.as_of)):
        if day and not is_day(day):
            raise InvalidField(f"stance.{field}", f"{day[:20]!r} is no ISO date")
    if stance.run:
        checked_id("stance.run_id", stance.run)
    if not math.isfinite(stance.value):
        raise InvalidField("stance.value", "must be a finite number")


def is_day(text: str) -> bool:
    """Return whether a text is an ISO date."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def parse_stance(row: Sequence[Any]) -> Stance:
    return Stance(**dict(zip(SHOWN, row, strict=True)))
