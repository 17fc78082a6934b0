"""Tables of the first release."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Double, ForeignKey, Integer, Text

revision, down_revision, branch_labels, depends_on = "1", None, None, None


def upgrade() -> None:
    op.create_table(
        "conversations",
        Column("id", Text, primary_key=True),
        Column("title", Text, nullable=False),
        Column("pinned", Integer, nullable=False, server_default="0"),
        Column("updated", Double, nullable=False),
    )
    op.create_table(
        "turns",
        Column("conversation", Text, ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
        Column("number", Integer, primary_key=True),
        Column("request", Text, nullable=False, unique=True),
        *(Column(name, Text, nullable=False) for name in ("question", "rewritten", "answer", "run")),
        Column("ended", Double, nullable=False),
        Column("bullets", Text, nullable=False),
    )
    op.create_table(
        "feedback",
        Column("request", Text, primary_key=True),
        Column("run", Text, nullable=False),
        Column("helpful", Integer, nullable=False),
        *(Column(name, Text, nullable=False) for name in ("tags", "comment")),
        Column("created", Double, nullable=False),
    )
