"""Turns name the turn that they follow; those that do not follow the one before them."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Integer

revision, down_revision, branch_labels, depends_on = "6", "5", None, None


def upgrade() -> None:
    op.add_column("turns", Column("parent", Integer))
