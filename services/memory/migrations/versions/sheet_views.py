"""Conversations keep how their tables are shown: under which title, and whether first."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, ForeignKeyConstraint, Integer, Text

revision, down_revision, branch_labels, depends_on = "8", "7", None, None


def upgrade() -> None:
    op.create_table(
        "sheet_views",
        *(Column(name, Text, primary_key=True) for name in ("tenant", "conversation", "sheet")),
        Column("title", Text, nullable=False),
        Column("pinned", Integer, nullable=False),
        Column("principal", Text, nullable=False),
        ForeignKeyConstraint(
            ["tenant", "conversation"],
            ["conversations.tenant", "conversations.id"],
            name="sheet_views_of_conversation",
            ondelete="CASCADE",
        ),
    )
