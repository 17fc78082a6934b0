"""Items and decisions that go with the turns, the users and the time that they are of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, delete, exists, select, update

from fathom.services.memory.reviews.items import Kind
from fathom.services.memory.reviews.schema import REVIEW_DECISIONS, REVIEW_ITEMS


def delete_of_runs(db: Connection, tenant: str, runs: Sequence[str] | Select[Any]) -> int:
    """Delete the items about some runs, with their decisions; return their number."""
    return db.execute(
        delete(REVIEW_ITEMS).where(REVIEW_ITEMS.c.tenant == tenant, REVIEW_ITEMS.c.run.in_(runs))
    ).rowcount


def delete_older(db: Connection, tenant: str, oldest: float, rows: Counter[str]) -> None:
    """Delete the items of before a time, with their decisions; ``rows`` counts them."""
    # Decided ones, too: their decisions hang on them.
    old = (REVIEW_ITEMS.c.tenant == tenant, REVIEW_ITEMS.c.created < oldest)
    rows[REVIEW_ITEMS.name] += db.execute(delete(REVIEW_ITEMS).where(*old)).rowcount


def forget_reviewer(db: Connection, tenant: str, principal: str) -> None:
    """Open the items whose decisions went with their reviewer, and forget what the reviewer holds."""
    own = REVIEW_ITEMS.c.tenant == tenant
    held = (own, REVIEW_ITEMS.c.holder == principal)
    db.execute(update(REVIEW_ITEMS).where(*held).values(holder="", held_until=0.0))
    of_item = (REVIEW_DECISIONS.c.tenant == REVIEW_ITEMS.c.tenant, REVIEW_DECISIONS.c.item == REVIEW_ITEMS.c.id)
    # Nobody stands for such a decision any more, nor for the recheck that followed from it and repeats its words.
    bare = (own, REVIEW_ITEMS.c.decided == 1, ~exists().where(*of_item))
    undone = db.execute(select(REVIEW_ITEMS.c.id).where(*bare, REVIEW_ITEMS.c.kind == Kind.COMPARISON.value)).scalars()
    followed = (own, REVIEW_ITEMS.c.kind == Kind.RECHECK.value, REVIEW_ITEMS.c.key.in_(undone.all()))
    db.execute(delete(REVIEW_ITEMS).where(*followed))
    db.execute(update(REVIEW_ITEMS).where(*bare).values(decided=0, version=REVIEW_ITEMS.c.version + 1))
