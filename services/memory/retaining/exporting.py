"""Export of all rows that are held of a user or a tenant, whatever the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, LargeBinary, Table, literal, or_, select, tuple_

from fathom.core.paging import page_size, read_token, unknown_token, write_token
from fathom.services.memory.database import Database
from fathom.services.memory.retaining.scope import Scope
from fathom.services.memory.schema import CONVERSATIONS, METADATA, TURNS

OF = "export"


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    table: str
    values: Mapping[str, Any]


class Exporter:
    """Reads rows page by page."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def export(self, scope: Scope, size: int = 0, token: str = "") -> tuple[list[Row], str]:
        """Return a page of rows and the token of the next one; raise ``InvalidField``."""
        size, tables = page_size(size), list_tables(scope)
        start, after = read_place(token, len(tables))

        def work(db: Connection) -> list[tuple[int, Row]]:
            found: list[tuple[int, Row]] = []
            for place in range(start, len(tables)):
                key = after if place == start else ()
                rows = load_rows(db, tables[place], scope, key, size + 1 - len(found))
                found += [(place, row) for row in rows]
                if len(found) > size:
                    break
            return found

        found = await self._database.run_transaction(work)
        page = found[:size]
        if len(found) <= size:
            return [row for _, row in page], ""
        place, last = page[-1]
        key = json.dumps([last.values[column.name] for column in tables[place].primary_key])
        return [row for _, row in page], write_token(OF, place, key)


def list_tables(scope: Scope) -> list[Table]:
    """Return the tables with rows of the scope, in a fixed order."""
    named = [table for table in METADATA.sorted_tables if "tenant" in table.c]
    return [table for table in named if scope.principal is None or find_condition(table, scope) is not None]


def find_condition(table: Table, scope: Scope) -> ColumnElement[bool] | None:
    """Return which rows of a table are the user's; None for a table that names no user."""
    if scope.principal is None:
        return literal(value=True) == literal(value=True)
    if "principal" in table.c:
        return table.c.principal == scope.principal
    own = (TURNS.c.tenant == scope.tenant, TURNS.c.principal == scope.principal)
    if table is CONVERSATIONS:
        return CONVERSATIONS.c.id.in_(select(TURNS.c.conversation).where(*own))
    if "conversation" in table.c and "number" in table.c:
        return tuple_(table.c.conversation, table.c.number).in_(
            select(TURNS.c.conversation, TURNS.c.number).where(*own)
        )
    return None


def load_rows(db: Connection, table: Table, scope: Scope, after: Sequence[Any], limit: int) -> list[Row]:
    """Return rows behind a key, without what is computed from others."""
    shown = [column for column in table.c if not isinstance(column.type, LargeBinary)]
    keys = list(table.primary_key)
    query = select(*shown).where(table.c.tenant == scope.tenant)
    condition = find_condition(table, scope)
    if condition is not None and scope.principal is not None:
        query = query.where(condition)
    if after:
        query = query.where(follows(keys, after))
    return [Row(table.name, dict(row)) for row in db.execute(query.order_by(*keys).limit(limit)).mappings()]


def follows(keys: Sequence[Any], after: Sequence[Any]) -> ColumnElement[bool]:
    """Return the condition of larger keys, column by column: what SQLite and PostgreSQL compare alike."""
    parts = []
    for place, (column, value) in enumerate(zip(keys, after, strict=True)):
        equal = [earlier == said for earlier, said in zip(keys[:place], after[:place], strict=True)]
        condition = column > value
        for one in equal:
            condition = condition & one
        parts.append(condition)
    return or_(*parts)


def read_place(token: str, tables: int) -> tuple[int, Sequence[Any]]:
    """Return the table and the key where a page begins; raise ``InvalidField("page_token")``."""
    if not token:
        return 0, ()
    place, key = read_token(token, OF, (int, str))
    try:
        after = json.loads(str(key))
    except ValueError:
        raise unknown_token() from None
    if not isinstance(place, int) or not 0 <= place < tables or not isinstance(after, list):
        raise unknown_token()
    return place, after
