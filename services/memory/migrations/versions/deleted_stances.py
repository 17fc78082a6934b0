"""Deleted stances leave an empty row for a while, so that a redelivered request does not bring them back."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Double

revision, down_revision, branch_labels, depends_on = "9", "8", None, None


def upgrade() -> None:
    op.add_column("stances", Column("deleted", Double, nullable=False, server_default="0"))
