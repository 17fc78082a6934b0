"""Rechecks: a comparison whose two grades are apart is looked at again, with both grades and their reasons."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from fathom.core.errors import FailedPrecondition
from fathom.core.ids import new_id
from fathom.services.memory.reviews.blinding import parse_machine
from fathom.services.memory.reviews.items import Kind
from fathom.services.memory.reviews.schema import REVIEW_ITEMS

# Of five grades: neighbours are a matter of taste.
APART = 2
COPIED = ("tenant", "principal", "digest", "question", "language", "history", "material", "texts", "machine", "run")


def add_recheck(db: Connection, row: Mapping[str, Any], grade: int, reason: str, now: float) -> None:
    """Add the recheck of a comparison if the judge and a person, who gave ``grade``, are apart.

    Nothing is added while one of the two has not graded: the second grade, whichever it is, brings the recheck.
    """
    machine = parse_machine(row["machine"])
    if machine is None or machine.grade is None or abs(machine.grade - grade) < APART:
        return
    # A copy and no reference: what was compared stays readable when the comparison ages out.
    values = {name: row[name] for name in COPIED}
    values |= {"id": new_id("review"), "kind": Kind.RECHECK.value, "key": row["id"], "source": row["source"]}
    values |= {"previous": json.dumps([grade, reason], ensure_ascii=False), "created": now}
    db.execute(insert(REVIEW_ITEMS).values(**values))


def withdraw_recheck(db: Connection, tenant: str, comparison: str) -> None:
    """Delete the recheck that a decision made; raise ``FailedPrecondition`` when somebody has decided on it."""
    own = (
        REVIEW_ITEMS.c.tenant == tenant,
        REVIEW_ITEMS.c.kind == Kind.RECHECK.value,
        REVIEW_ITEMS.c.key == comparison,
    )
    # Whoever decided on it relied on the grade that would go.
    if db.execute(select(REVIEW_ITEMS.c.id).where(*own, REVIEW_ITEMS.c.decided == 1)).first():
        raise FailedPrecondition("the recheck that followed from the decision is decided already")
    db.execute(delete(REVIEW_ITEMS).where(*own))
