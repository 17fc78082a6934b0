"""Titles and pins that a user gave to the tables of a conversation."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, insert, select

from fathom.core.errors import InvalidField
from fathom.core.ids import checked_id
from fathom.services.memory.schema import SHEET_VIEWS

# Far more than the answers of a conversation have; each page of turns brings all of them.
MAX_VIEWS, MAX_TITLE_CHARS = 200, 200


@dataclass(frozen=True)
class SheetView:
    """View of a table. ``title`` is "" where it has its own."""

    sheet: str
    title: str
    pinned: bool


def check_view(view: SheetView) -> SheetView:
    """Return the view with its title on one line; raise ``InvalidField``."""
    checked_id("sheet.sheet_id", view.sheet)
    title = " ".join(view.title.split())
    if len(title) > MAX_TITLE_CHARS:
        raise InvalidField("sheet.title", f"must have at most {MAX_TITLE_CHARS} characters")
    # PostgreSQL has no text with NUL.
    if "\0" in title:
        raise InvalidField("sheet.title", "must not have the character NUL")
    return SheetView(view.sheet, title, view.pinned)


def put_view(db: Connection, tenant: str, principal: str, conversation: str, view: SheetView) -> None:
    """Store how a conversation shows a table; raise ``InvalidField`` where it has said so of too many.

    The conversation's row must be locked: what is stored is counted and replaced in two statements.
    """
    own = (SHEET_VIEWS.c.tenant == tenant, SHEET_VIEWS.c.conversation == conversation)
    db.execute(delete(SHEET_VIEWS).where(*own, SHEET_VIEWS.c.sheet == view.sheet))
    if not view.title and not view.pinned:
        return
    (known,) = db.execute(select(func.count()).select_from(SHEET_VIEWS).where(*own)).one()
    if known >= MAX_VIEWS:
        raise InvalidField("sheet.sheet_id", f"the conversation has named or pinned {MAX_VIEWS} tables, the most")
    row = {"title": view.title, "pinned": int(view.pinned), "principal": principal}
    db.execute(insert(SHEET_VIEWS).values(tenant=tenant, conversation=conversation, sheet=view.sheet, **row))


def list_views(db: Connection, tenant: str, conversation: str) -> list[SheetView]:
    """Return how a conversation shows its tables: pinned ones first, then by their names."""
    columns = SHEET_VIEWS.c
    query = select(columns.sheet, columns.title, columns.pinned)
    query = query.where(columns.tenant == tenant, columns.conversation == conversation)
    rows = db.execute(query.order_by(columns.pinned.desc(), columns.title, columns.sheet))
    return [SheetView(row.sheet, row.title, bool(row.pinned)) for row in rows]
