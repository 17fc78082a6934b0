"""Facts about a user: added, replaced, edited by version, deleted without coming back."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, insert, literal, or_, select, tuple_, update

from fathom.core.call import current_principal, current_tenant
from fathom.core.errors import Conflict, FailedPrecondition, InvalidField, NotFound
from fathom.core.ids import checked_id, new_id
from fathom.core.paging import page_size, read_token, write_token
from fathom.domain.profile.kinds import Kind, check_value
from fathom.services.memory.database import Database
from fathom.services.memory.profile.schema import FACTS

MAX_TEXT_CHARS, MAX_SUBJECT_CHARS = 500, 64
# A prompt shows a few; a page of two hundred is what somebody can still look through.
MAX_FACTS = 200
STATED, LEARNT = "stated", "learnt"
SHOWN = ("id", "kind", "value", "subject", "text", "run", "conversation", "origin", "confidence", "updated", "expires")
COLUMNS = tuple(FACTS.c[name] for name in (*SHOWN, "version"))


@dataclass(frozen=True)
class Fact:
    """One short sentence about a user. Times are in seconds since the epoch; ``expires`` 0 is never.

    ``value`` is that of a preference; ``origin`` says whether the user stated it on purpose or it was learnt.
    """

    text: str
    kind: Kind = Kind.STATEMENT
    value: str = ""
    subject: str = ""
    run: str = ""
    conversation: str = ""
    origin: str = STATED
    confidence: float = 1.0
    updated: float = 0.0
    expires: float = 0.0
    id: str = ""
    version: int = 0


class Facts:
    """Facts of the caller, who is a user of a tenant: every statement names both."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    async def list(self, size: int = 0, token: str = "") -> tuple[list[Fact], str]:
        """Return a page of the caller's facts that hold, newest first, and the next page's token.

        Raises ``InvalidField``.
        """
        size, of = page_size(size), "facts"
        key = read_token(token, of, (float, str)) if token else ()
        order = (FACTS.c.updated, FACTS.c.id)
        query = select(*COLUMNS).where(self._are_live()).order_by(*(column.desc() for column in order)).limit(size + 1)
        if key:
            query = query.where(tuple_(*order) < tuple_(*(literal(part) for part in key)))
        rows = await self._database.run_transaction(lambda db: db.execute(query).all())
        page = [parse_fact(row) for row in rows[:size]]
        return page, write_token(of, page[-1].updated, page[-1].id) if len(rows) > size else ""

    async def put(self, request_id: str, fact: Fact) -> Fact:
        """Add a fact, or edit the one of its id, and return it as stored; a known ``request_id`` changes nothing.

        Of each preference there is one: it is replaced, unless the one that is there was said later. An edit with a
        version is one of that version alone.
        Raises ``InvalidField``, ``NotFound``, ``Conflict`` and ``FailedPrecondition``.
        """
        checked_id("request_id", request_id)
        fact = check_fact(fact)
        fact = replace(fact, updated=fact.updated or self._clock())
        owner = (current_tenant(), current_principal())

        def work(db: Connection) -> Fact:
            # The first outcome is repeated, whatever the repetition says.
            known = db.execute(select(*COLUMNS).where(is_of(*owner), FACTS.c.request == request_id)).first()
            if known is not None:
                return parse_fact(known)
            if fact.id:
                return edit(db, owner, request_id, fact)
            standing = find_standing(db, owner, fact)
            if standing is None:
                return add(db, owner, request_id, fact, self._clock())
            # Deliveries may overtake each other; the user's order counts.
            if standing.updated > fact.updated:
                return standing
            return write(db, owner, request_id, replace(fact, id=standing.id), standing.version)

        return await self._database.run_transaction(work)

    async def delete(self, fact_id: str) -> None:
        """Delete a fact with its texts; raise ``NotFound``."""
        owner = (current_tenant(), current_principal())
        gone = {"text": "", "value": "", "subject": "", "run": "", "conversation": "", "deleted": 1}
        chosen = (is_of(*owner), FACTS.c.id == fact_id, FACTS.c.deleted == 0)
        erase = update(FACTS).where(*chosen).values(**gone, version=FACTS.c.version + 1, updated=self._clock())
        # The id comes from the caller and may have a character that no database takes.
        if "\0" in fact_id or not await self._database.run_transaction(lambda db: db.execute(erase).rowcount):
            raise NotFound("fact", fact_id[:MAX_SUBJECT_CHARS])

    def _are_live(self) -> ColumnElement[bool]:
        return and_(is_of(current_tenant(), current_principal()), holds_at(self._clock()))


def is_of(tenant: str, principal: str) -> ColumnElement[bool]:
    """Return the condition of the rows of one user."""
    return and_(FACTS.c.tenant == tenant, FACTS.c.principal == principal)


def holds_at(now: float) -> ColumnElement[bool]:
    """Return the condition of the facts that are neither deleted nor past their end."""
    return and_(FACTS.c.deleted == 0, or_(FACTS.c.expires == 0, FACTS.c.expires > now))


def find_standing(db: Connection, owner: tuple[str, str], fact: Fact) -> Fact | None:
    """Return the row that a new fact takes over: the preference of its kind, or the same sentence; None for none.

    A deleted row counts as well: what was said before the deletion does not come back by it.
    """
    # One of each preference; of statements only the same sentence is the same.
    same = [FACTS.c.kind == fact.kind.value]
    if fact.kind is Kind.STATEMENT:
        same += [FACTS.c.subject == fact.subject, func.lower(FACTS.c.text) == fact.text.lower()]
    row = db.execute(select(*COLUMNS).where(is_of(*owner), *same).order_by(FACTS.c.updated.desc()).limit(1)).first()
    return None if row is None else parse_fact(row)


def add(db: Connection, owner: tuple[str, str], request_id: str, fact: Fact, now: float) -> Fact:
    """Insert a fact; raise ``FailedPrecondition`` where there are too many."""
    # Rows of deleted facts do not count: they are empty.
    held = db.execute(select(func.count()).select_from(FACTS).where(is_of(*owner), holds_at(now))).scalar_one()
    if held >= MAX_FACTS:
        raise FailedPrecondition(f"{MAX_FACTS} facts are held already: delete some first")
    stored = replace(fact, id=new_id("fact"), version=1)
    values = {**asdict(stored), "kind": stored.kind.value, "tenant": owner[0], "principal": owner[1]}
    db.execute(insert(FACTS).values(**values, request=request_id))
    return stored


def edit(db: Connection, owner: tuple[str, str], request_id: str, fact: Fact) -> Fact:
    """Change the fact of an id; raise ``NotFound``, and ``Conflict`` when it is of another version."""
    row = db.execute(select(*COLUMNS).where(is_of(*owner), FACTS.c.id == fact.id, FACTS.c.deleted == 0)).first()
    if row is None:
        raise NotFound("fact", fact.id[:MAX_SUBJECT_CHARS])
    current = parse_fact(row)
    # Its value would be one of another kind.
    if fact.kind is not current.kind:
        raise InvalidField("fact.kind", f"is {current.kind}, and stays so: delete the fact and add another one")
    # Where it came from stays; who edits it says it on purpose.
    changed = replace(fact, run=current.run, conversation=current.conversation, origin=STATED, confidence=1.0)
    return write(db, owner, request_id, changed, fact.version or current.version)


def write(db: Connection, owner: tuple[str, str], request_id: str, fact: Fact, version: int) -> Fact:
    """Write a fact over the row of its id, if that is of ``version``; raise ``Conflict``."""
    stored = replace(fact, version=version + 1)
    values = {**asdict(stored), "kind": stored.kind.value, "request": request_id, "deleted": 0}
    chosen = (is_of(*owner), FACTS.c.id == fact.id)
    # Compared by the statement that writes: on PostgreSQL another tab's edit may lie between two statements.
    if not db.execute(update(FACTS).where(*chosen, FACTS.c.version == version).values(**values)).rowcount:
        current = db.execute(select(FACTS.c.version).where(*chosen)).scalar_one()
        message = f"fact.version: the fact was edited meanwhile: it is version {current}, not {version}"
        raise Conflict(message, metadata={"field": "fact.version", "version": str(current)})
    return stored


def check_fact(fact: Fact) -> Fact:
    """Return a fact in canonical form; raise ``InvalidField`` naming the field that is wrong."""
    # One line: a prompt and a list show it so.
    text = " ".join(fact.text.split())
    if not 1 <= len(text) <= MAX_TEXT_CHARS:
        raise InvalidField("fact.text", f"must have 1 to {MAX_TEXT_CHARS} characters")
    for field, said, limit in (("text", text, MAX_TEXT_CHARS), ("subject", fact.subject, MAX_SUBJECT_CHARS)):
        if len(said) > limit or any(ord(char) < 32 for char in said):
            raise InvalidField(f"fact.{field}", f"must have at most {limit} characters, and no control characters")
    for field, ident in (("run_id", fact.run), ("conversation_id", fact.conversation)):
        if ident:
            checked_id(f"fact.{field}", ident)
    if not (math.isfinite(fact.confidence) and 0 <= fact.confidence <= 1):
        raise InvalidField("fact.confidence", "must be 0 to 1")
    if fact.version < 0:
        raise InvalidField("fact.version", "must not be negative")
    return replace(fact, text=text, value=check_value(fact.kind, fact.value, "fact.value"))


def parse_fact(row: Sequence[Any]) -> Fact:
    values = dict(zip((*SHOWN, "version"), row, strict=True))
    return Fact(**{**values, "kind": Kind(values["kind"])})
