"""Queues of the caller's tenant: items are added once, given to one reviewer at a time, and decided once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, and_, delete, func, insert, or_, select, update

from fathom.core.call import current_principal, current_tenant
from fathom.core.errors import Conflict, FailedPrecondition, InvalidField, NotFound, PermissionDenied
from fathom.core.ids import new_id
from fathom.core.paging import page_size, read_token, write_token
from fathom.services.memory.database import Database
from fathom.services.memory.reviews.blinding import is_turned, parse_machine, show, turn
from fathom.services.memory.reviews.items import (
    MAX_KEY_CHARS,
    Decision,
    Item,
    Kind,
    Machine,
    NewItem,
    Verdict,
    check_decision,
    check_item,
)
from fathom.services.memory.reviews.rechecks import add_recheck, withdraw_recheck
from fathom.services.memory.reviews.schema import REVIEW_DECISIONS, REVIEW_ITEMS
from fathom.services.memory.schema import TURNS

MAX_ITEMS = 100
# What people can work through in months; a program that adds without end is stopped here.
MAX_OPEN = 20_000
# A long report is read in less; what somebody has left open must not stay away from others for a day.
HELD_S = UNDO_S = 600.0
# Of a page of decisions: half of what a message takes. An item has up to 256 KiB, and an edit of it two texts more.
MAX_PAGE_BYTES = 16 << 20
# Items of a page that are read at once.
BATCH = 20


class Reviews:
    """Items and decisions; every statement names the tenant of the call, and a reviewer is the call's principal."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    async def add(self, items: Sequence[NewItem]) -> tuple[int, int]:
        """Add items, all or none; return how many were new, and how many were there.

        Raises ``InvalidField``, ``Conflict`` for a key of another item, ``FailedPrecondition`` when too many wait.
        """
        if not 1 <= len(items) <= MAX_ITEMS:
            raise InvalidField("items", f"must be 1 to {MAX_ITEMS}")
        for place, item in enumerate(items):
            check_item(item, f"items[{place}]")
        tenant = current_tenant()

        def work(db: Connection) -> tuple[int, int]:
            # In one transaction: a program whose request is refused can mend it and send it again as a whole.
            added = 0
            for place, item in enumerate(items):
                row = find_by_key(db, tenant, item.key)
                if row is None:
                    add_item(db, tenant, item, self._clock())
                    added += 1
                else:
                    take_again(db, row, item, f"items[{place}]", self._clock())
            if added and count_open(db, tenant) > MAX_OPEN:
                raise FailedPrecondition(f"more than {MAX_OPEN:,} items would wait: let people decide on some first")
            return added, len(items) - added

        return await self._database.run_transaction(work)

    async def list_queues(self) -> dict[Kind, tuple[int, int]]:
        """Return how many items of each queue are open and decided."""
        own = REVIEW_ITEMS.c.tenant == current_tenant()
        columns = (REVIEW_ITEMS.c.kind, REVIEW_ITEMS.c.decided)
        query = select(*columns, func.count()).where(own).group_by(*columns)
        rows = await self._database.run_transaction(lambda db: db.execute(query).all())
        counts = {(kind, decided): count for kind, decided, count in rows}
        return {kind: (counts.get((kind.value, 0), 0), counts.get((kind.value, 1), 0)) for kind in Kind}

    async def claim(self, kind: Kind, after: str = "") -> Item | None:
        """Return the oldest open item that nobody else holds, and hold it for the caller; None when there is none.

        With ``after`` only items behind that one, which the caller gives up. Raises ``NotFound``.
        """
        tenant, reviewer = current_tenant(), current_principal()

        def work(db: Connection) -> Item | None:
            now = self._clock()
            is_free = REVIEW_ITEMS.c.held_until <= now
            is_own = and_(REVIEW_ITEMS.c.holder == reviewer, REVIEW_ITEMS.c.held_until > now)
            if after:
                behind = REVIEW_ITEMS.c.number > give_up(db, tenant, after, reviewer)
                row = find_open(db, tenant, kind, or_(is_free, is_own), behind)
            else:
                # A page that is loaded again shows the same item.
                row = find_open(db, tenant, kind, is_own) or find_open(db, tenant, kind, is_free)
            if row is None:
                return None
            hold(db, tenant, row["id"], reviewer, now + HELD_S)
            return show(row, None)

        return await self._database.run_transaction(work)

    async def decide(self, ident: str, version: int, decision: Decision) -> Item:
        """Decide on an item of a version and return it; the same decision of the same reviewer again changes nothing.

        ``grade`` is of the first text as shown; ``after`` is the text as edited. Raises ``InvalidField``, ``NotFound``
        and ``Conflict``.
        """
        tenant, reviewer = current_tenant(), current_principal()

        def work(db: Connection) -> Item:
            row = require_item(db, tenant, ident, is_locked=True)
            made = find_decision(db, tenant, ident)
            shown = show(row, made)
            check_decision(shown, decision)
            wanted = complete(shown, replace(decision, reviewer=reviewer, created=self._clock()))
            is_same = shown.decision is not None and is_alike(shown.decision, wanted)
            # Sent again, since the answer was lost: not another person's decision.
            if is_same and row["version"] == version + 1:
                return shown
            if shown.decision is not None or row["version"] != version:
                current = str(row["version"])
                said = f"is {current} now, not {version}: somebody has decided meanwhile, or has taken it back"
                raise Conflict(f"version: the item {said}", metadata={"field": "version", "version": current})
            return write_decision(db, row, wanted)

        return await self._database.run_transaction(work)

    async def undo(self, ident: str) -> Item:
        """Take the caller's decision back and hold the open item for the caller; an open one is returned as it is.

        Raises ``NotFound``, ``PermissionDenied`` and ``FailedPrecondition``.
        """
        tenant, reviewer = current_tenant(), current_principal()

        def work(db: Connection) -> Item:
            row, now = require_item(db, tenant, ident, is_locked=True), self._clock()
            made = find_decision(db, tenant, ident)
            if made is None:
                return show(row, None)
            # Another reviewer disagrees by a decision of his own, on another item, and not by removing this one.
            if made["principal"] != reviewer:
                raise PermissionDenied("only who has decided may take it back")
            if now > made["created"] + UNDO_S:
                raise FailedPrecondition(f"a decision can be taken back for {UNDO_S / 60:g} minutes")
            if row["kind"] == Kind.COMPARISON.value:
                withdraw_recheck(db, tenant, ident)
            db.execute(delete(REVIEW_DECISIONS).where(REVIEW_DECISIONS.c.number == made["number"]))
            # Another version, so that a decision that was sent before cannot arrive after.
            values = {"decided": 0, "version": row["version"] + 1, "holder": reviewer, "held_until": now + HELD_S}
            db.execute(update(REVIEW_ITEMS).where(is_item(tenant, ident)).values(**values))
            return show({**row, **values}, None)

        return await self._database.run_transaction(work)

    async def list_decisions(self, kind: Kind | None = None, size: int = 0, token: str = "") -> tuple[list[Item], str]:
        """Return a page of decided items, those decided last first, and the next page's token; ``InvalidField``."""
        size, of = page_size(size), "review decisions"
        made, items = REVIEW_DECISIONS.c, REVIEW_ITEMS.c
        chosen = [made.tenant == current_tenant()]
        if token:
            chosen.append(made.number < read_token(token, of, (int,))[0])
        if kind is not None:
            chosen.append(items.kind == kind.value)
        joined = REVIEW_DECISIONS.join(REVIEW_ITEMS, and_(items.tenant == made.tenant, items.id == made.item))
        # Ids alone: rows with their texts would be sorted as a whole.
        query = select(made.number, made.item).select_from(joined).where(*chosen)

        def work(db: Connection) -> tuple[list[Item], str]:
            found = db.execute(query.order_by(made.number.desc()).limit(size + 1)).all()
            page, count = load_page(db, current_tenant(), [ident for _, ident in found[:size]])
            return page, write_token(of, found[count - 1][0]) if len(found) > count else ""

        return await self._database.run_transaction(work)


def is_item(tenant: str, ident: str) -> ColumnElement[bool]:
    """Return the condition of one item's row."""
    return and_(REVIEW_ITEMS.c.tenant == tenant, REVIEW_ITEMS.c.id == ident)


def read_first(db: Connection, query: Select[Any]) -> Mapping[str, Any] | None:
    """Return the first row of a query by the names of its columns; None for none."""
    row = db.execute(query).mappings().first()
    return None if row is None else dict(row)


def require_item(db: Connection, tenant: str, ident: str, *, is_locked: bool = False) -> Mapping[str, Any]:
    """Return an item's row, locked for the transaction if wanted; raise ``NotFound``."""
    query = select(REVIEW_ITEMS).where(is_item(tenant, ident))
    # The id comes from the caller and may have a character that no database takes.
    row = None if "\0" in ident else read_first(db, query.with_for_update() if is_locked else query)
    if row is None:
        raise NotFound("review item", ident[:MAX_KEY_CHARS])
    return row


def find_open(db: Connection, tenant: str, kind: Kind, *chosen: ColumnElement[bool]) -> Mapping[str, Any] | None:
    """Return the row of the oldest open item of these conditions, locked; None for none."""
    own = (REVIEW_ITEMS.c.tenant == tenant, REVIEW_ITEMS.c.kind == kind.value, REVIEW_ITEMS.c.decided == 0)
    query = select(REVIEW_ITEMS).where(*own, *chosen).order_by(REVIEW_ITEMS.c.number).limit(1)
    # Two reviewers at once get two items: the second one passes over the row that the first has locked.
    return read_first(db, query.with_for_update(skip_locked=True))


def give_up(db: Connection, tenant: str, ident: str, reviewer: str) -> int:
    """Let others have an item that a reviewer holds; return its number. Raises ``NotFound``."""
    row = require_item(db, tenant, ident)
    if row["holder"] == reviewer:
        hold(db, tenant, ident, "", 0.0)
    number: int = row["number"]
    return number


def find_decision(db: Connection, tenant: str, ident: str) -> Mapping[str, Any] | None:
    """Return the row of the decision on an item; None while it is open."""
    chosen = (REVIEW_DECISIONS.c.tenant == tenant, REVIEW_DECISIONS.c.item == ident)
    return read_first(db, select(REVIEW_DECISIONS).where(*chosen))


def load_item(db: Connection, tenant: str, ident: str) -> Item:
    """Return an item with its decision."""
    return show(require_item(db, tenant, ident), find_decision(db, tenant, ident))


def load_page(db: Connection, tenant: str, idents: Sequence[str]) -> tuple[list[Item], int]:
    """Return decided items in this order, and how many ids they stand for.

    There are as many as ``MAX_PAGE_BYTES`` has room for, one at least.
    """
    page: list[Item] = []
    size = count = 0
    for start in range(0, len(idents), BATCH):
        batch = idents[start : start + BATCH]
        items = load_by(db, REVIEW_ITEMS.c.id, REVIEW_ITEMS.c.tenant == tenant, batch)
        decisions = load_by(db, REVIEW_DECISIONS.c.item, REVIEW_DECISIONS.c.tenant == tenant, batch)
        for ident in batch:
            # Erased, or taken back, since the ids were read.
            if ident in items and ident in decisions:
                size += measure_texts(items[ident]) + measure_texts(decisions[ident])
                if page and size > MAX_PAGE_BYTES:
                    return page, count
                page.append(show(items[ident], decisions[ident]))
            count += 1
    return page, count


def load_by(
    db: Connection, key: Column[str], own: ColumnElement[bool], wanted: Sequence[str]
) -> dict[str, Mapping[str, Any]]:
    """Return the rows of a tenant whose key is one of those that are wanted, by it."""
    query = select(key.table).where(own, key.in_(wanted))
    return {row[key.name]: dict(row) for row in db.execute(query).mappings()}


def measure_texts(row: Mapping[str, Any]) -> int:
    """Return the bytes of a row's texts."""
    return sum(len(value.encode()) for value in row.values() if isinstance(value, str))


def find_by_key(db: Connection, tenant: str, key: str) -> Mapping[str, Any] | None:
    """Return the row of a key that a program gave, whatever its queue; None for a new key."""
    own = (REVIEW_ITEMS.c.tenant == tenant, REVIEW_ITEMS.c.kind.in_([kind.value for kind in Kind if is_added(kind)]))
    return read_first(db, select(REVIEW_ITEMS).where(*own, REVIEW_ITEMS.c.key == key))


def is_added(kind: Kind) -> bool:
    """Return whether programs add such items; keys of rechecks are ids of comparisons."""
    return kind is not Kind.RECHECK


def add_item(db: Connection, tenant: str, item: NewItem, now: float) -> None:
    """Insert an item; it belongs to who asked its run."""
    # By the turn and not by the caller: programs add items on behalf of nobody in particular.
    asked = (TURNS.c.tenant == tenant, TURNS.c.run == item.run)
    owner = db.execute(select(TURNS.c.principal).where(*asked).limit(1)).scalar() if item.run else None
    values = {
        "tenant": tenant,
        "id": new_id("review"),
        "principal": owner or "",
        "kind": item.kind.value,
        "key": item.key,
        "digest": item.hash_content(),
        "question": item.question,
        "language": item.language,
        "history": json.dumps(item.history, ensure_ascii=False),
        "material": item.material,
        "texts": json.dumps([(one.text, one.owner) for one in item.texts], ensure_ascii=False),
        "machine": format_machine(item.machine),
        "run": item.run,
        "source": item.source,
        "created": now,
    }
    db.execute(insert(REVIEW_ITEMS).values(**values))


def take_again(db: Connection, row: Mapping[str, Any], item: NewItem, field: str, now: float) -> None:
    """Take the machine's verdict of an item that is there, if it is the first; raise ``Conflict`` for another item."""
    known = parse_machine(row["machine"])
    if row["digest"] != item.hash_content() or (known and item.machine and known != item.machine):
        raise Conflict(f"{field}.key: {item.key!r} is another item", metadata={"field": f"{field}.key"})
    # What is there is as good as what came: the version stays, and nobody who reads the item has to look again.
    if known is not None or item.machine is None:
        return
    values = {"machine": format_machine(item.machine)}
    db.execute(update(REVIEW_ITEMS).where(is_item(row["tenant"], row["id"])).values(**values))
    made = find_decision(db, row["tenant"], row["id"])
    # The judge comes second: what a person graded before may now be apart.
    if made is not None and row["kind"] == Kind.COMPARISON.value:
        add_recheck(db, {**row, **values}, made["grade"], made["reason"], now)


def format_machine(machine: Machine | None) -> str:
    """Return a verdict as it is stored."""
    return "" if machine is None else json.dumps(asdict(machine), ensure_ascii=False)


def count_open(db: Connection, tenant: str) -> int:
    """Return how many items of a tenant wait."""
    open_ones = (REVIEW_ITEMS.c.tenant == tenant, REVIEW_ITEMS.c.decided == 0)
    count: int = db.execute(select(func.count()).select_from(REVIEW_ITEMS).where(*open_ones)).scalar_one()
    return count


def hold(db: Connection, tenant: str, ident: str, holder: str, until: float) -> None:
    """Note who has an item before him, and until when."""
    db.execute(update(REVIEW_ITEMS).where(is_item(tenant, ident)).values(holder=holder, held_until=until))


def is_alike(one: Decision, other: Decision) -> bool:
    """Return whether two decisions differ in nothing but their time."""
    return replace(one, created=0.0) == replace(other, created=0.0)


def complete(item: Item, decision: Decision) -> Decision:
    """Return a decision with what follows from the item: the grade of a recheck, the text before an edit."""
    if decision.verdict is Verdict.EDIT:
        return replace(decision, before=item.texts[-1].text)
    # Stored as a grade, so that whoever counts grades need not know who was right.
    if item.kind is Kind.RECHECK and decision.verdict is not Verdict.GRADE:
        is_machines = decision.verdict is Verdict.ACCEPT
        graded = item.machine if is_machines else item.previous
        return replace(decision, grade=graded.grade if graded else None)
    return decision


def write_decision(db: Connection, row: Mapping[str, Any], decision: Decision) -> Item:
    """Store a decision on an open item and return the item; a grade that is apart from the judge's makes a recheck."""
    tenant, ident, kind = row["tenant"], row["id"], Kind(row["kind"])
    grade = turn(decision.grade, turned=is_turned(ident, kind))
    values = {"tenant": tenant, "item": ident, "principal": decision.reviewer, "verdict": decision.verdict.value}
    values |= {"grade": grade, "reason": decision.reason, "before": decision.before, "after": decision.after}
    db.execute(insert(REVIEW_DECISIONS).values(**values, created=decision.created))
    closed = {"decided": 1, "version": row["version"] + 1, "holder": "", "held_until": 0.0}
    db.execute(update(REVIEW_ITEMS).where(is_item(tenant, ident)).values(**closed))
    if kind is Kind.COMPARISON and grade is not None:
        add_recheck(db, row, grade, decision.reason, decision.created)
    return load_item(db, tenant, ident)
