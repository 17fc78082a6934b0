"""Erasure of what is held of a user or a tenant, and of what is older than a tenant keeps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, exists, func, select, tuple_, update

from fathom.services.memory.database import Database
from fathom.services.memory.engine import DEFAULT_TITLE_CHARS
from fathom.services.memory.retaining.scope import Scope
from fathom.services.memory.reviews.erasing import delete_of_runs, delete_older, forget_reviewer
from fathom.services.memory.reviews.schema import REVIEW_ITEMS
from fathom.services.memory.schema import CONVERSATIONS, FEEDBACK, METADATA, TURNS
from fathom.services.memory.segments.storage import delete_turns

# Of one transaction, so that it ends within the database's limits.
TURNS_AT_ONCE = 2_000
DAY_S = 86_400.0
# Tables, besides turns, whose tenants have something that may be too old.
AGEING = (FEEDBACK, CONVERSATIONS, REVIEW_ITEMS)


@dataclass(frozen=True)
class Erased:
    """Deleted rows by table, and whether something is left."""

    rows: Mapping[str, int]
    has_more: bool = False


@dataclass(frozen=True)
class Keeping:
    """Days for which turns and judgements are kept, 0 for ever; by tenant where it has its own number."""

    days: int = 0
    by_tenant: Mapping[str, int] = field(default_factory=dict)

    def of(self, tenant: str) -> int:
        """Return the days of a tenant."""
        return self.by_tenant.get(tenant, self.days)


class Eraser:
    """Deletes rows with all that was derived from them."""

    def __init__(
        self, database: Database, keeping: Keeping | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._database, self._keeping, self._clock = database, keeping or Keeping(), clock

    async def erase(self, scope: Scope) -> Erased:
        """Delete what is held of the scope, at most ``TURNS_AT_ONCE`` turns of it."""

        def work(db: Connection) -> Erased:
            rows: Counter[str] = Counter()
            own = [TURNS.c.tenant == scope.tenant]
            if scope.principal is not None:
                own.append(TURNS.c.principal == scope.principal)
            erase_turns(db, scope.tenant, rows, *own)
            has_more = bool(db.execute(select(exists().where(*own))).scalar_one())
            # The other tables have no turns that a later call would still have to find.
            if not has_more:
                erase_others(db, scope, rows)
                if scope.principal is not None:
                    forget_reviewer(db, scope.tenant, scope.principal)
            return Erased(rows, has_more)

        return await self._database.run_transaction(work)

    async def expire(self) -> int:
        """Delete what is older than its tenant keeps, some turns of each tenant; return the number of rows."""
        if not self._keeping.days and not self._keeping.by_tenant:
            return 0
        tenants = await self._database.run_transaction(
            lambda db: (
                db.execute(select(TURNS.c.tenant).union(*(select(table.c.tenant) for table in AGEING))).scalars().all()
            )
        )
        return sum([await self._expire_of(tenant) for tenant in tenants if self._keeping.of(tenant)])

    async def _expire_of(self, tenant: str) -> int:
        oldest = self._clock() - self._keeping.of(tenant) * DAY_S

        def work(db: Connection) -> int:
            rows: Counter[str] = Counter()
            erase_turns(db, tenant, rows, TURNS.c.tenant == tenant, TURNS.c.ended < oldest)
            old = (FEEDBACK.c.tenant == tenant, FEEDBACK.c.created < oldest)
            rows["feedback"] += db.execute(delete(FEEDBACK).where(*old)).rowcount
            delete_older(db, tenant, oldest, rows)
            return rows.total()

        return await self._database.run_transaction(work)


def erase_turns(db: Connection, tenant: str, rows: Counter[str], *chosen: object) -> None:
    """Delete some turns with their judgements, and conversations that have none left."""
    conditions = list(chosen)
    some = select(TURNS.c.conversation, TURNS.c.number, TURNS.c.run).where(*conditions).limit(TURNS_AT_ONCE)  # type: ignore[arg-type]
    found = db.execute(some).all()
    if not found:
        return
    runs = [row.run for row in found if row.run]
    of_runs = (FEEDBACK.c.tenant == tenant, FEEDBACK.c.run.in_(runs))
    rows["feedback"] += db.execute(delete(FEEDBACK).where(*of_runs)).rowcount
    rows["review_items"] += delete_of_runs(db, tenant, runs)
    places = [(row.conversation, row.number) for row in found]
    rows["turns"] += delete_turns(db, tenant, tuple_(TURNS.c.conversation, TURNS.c.number).in_(places))
    conversations = sorted({row.conversation for row in found})
    of_them = (CONVERSATIONS.c.tenant == tenant, CONVERSATIONS.c.id.in_(conversations))
    left = exists().where(TURNS.c.tenant == CONVERSATIONS.c.tenant, TURNS.c.conversation == CONVERSATIONS.c.id)
    rows["conversations"] += db.execute(delete(CONVERSATIONS).where(*of_them, ~left)).rowcount
    for conversation in db.execute(select(CONVERSATIONS.c.id).where(*of_them)).scalars().all():
        rename(db, tenant, conversation)


def rename(db: Connection, tenant: str, conversation: str) -> None:
    """Give a conversation the first question that it still has: its title may be words of one that is gone."""
    own = (TURNS.c.tenant == tenant, TURNS.c.conversation == conversation)
    question = db.execute(select(TURNS.c.question).where(*own).order_by(TURNS.c.number).limit(1)).scalar_one()
    chosen = (CONVERSATIONS.c.tenant == tenant, CONVERSATIONS.c.id == conversation)
    title = " ".join(question.split())[:DEFAULT_TITLE_CHARS]
    db.execute(update(CONVERSATIONS).where(*chosen).values(title=title, version=CONVERSATIONS.c.version + 1))


def erase_others(db: Connection, scope: Scope, rows: Counter[str]) -> None:
    """Delete the rows of the scope in all tables that name a user, or everything of a tenant."""
    for table in reversed(METADATA.sorted_tables):
        if "tenant" not in table.c or (scope.principal is not None and "principal" not in table.c):
            continue
        chosen = [table.c.tenant == scope.tenant]
        if scope.principal is not None:
            chosen.append(table.c.principal == scope.principal)
        # What hangs on other rows goes with them, and is counted before it does.
        rows[table.name] += db.execute(select(func.count()).select_from(table).where(*chosen)).scalar_one()
        db.execute(delete(table).where(*chosen))
