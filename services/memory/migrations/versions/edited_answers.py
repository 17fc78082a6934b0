"""Judgements may carry the answer as the user would have it."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Text

revision, down_revision, branch_labels, depends_on = "2", "1", None, None


def upgrade() -> None:
    op.add_column("feedback", Column("edited", Text, nullable=False, server_default=""))
