"""Facts about users, and the views that answers to them took."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Double, Integer, Text, UniqueConstraint

revision, down_revision, branch_labels, depends_on = "5", "4", None, None


def upgrade() -> None:
    op.create_table(
        "facts",
        *(Column(name, Text, primary_key=True) for name in ("tenant", "id")),
        *(Column(name, Text, nullable=False) for name in ("principal", "request", "kind", "value", "subject")),
        *(Column(name, Text, nullable=False) for name in ("text", "run", "conversation", "origin")),
        *(Column(name, Double, nullable=False) for name in ("confidence", "updated")),
        Column("expires", Double, nullable=False, server_default="0"),
        Column("version", Integer, nullable=False, server_default="1"),
        Column("deleted", Integer, nullable=False, server_default="0"),
        UniqueConstraint("tenant", "principal", "request", name="facts_by_request"),
    )
    op.create_index("facts_of_principal", "facts", ["tenant", "principal", "deleted", "updated", "id"])
    op.create_table(
        "stances",
        Column("number", Integer, primary_key=True),
        *(Column(name, Text, nullable=False) for name in ("tenant", "principal", "id", "request", "entity")),
        *(Column(name, Text, nullable=False) for name in ("measure", "first", "last")),
        Column("value", Double, nullable=False),
        *(Column(name, Text, nullable=False) for name in ("unit", "as_of", "view", "run")),
        Column("created", Double, nullable=False),
        UniqueConstraint("tenant", "principal", "request", name="stances_by_request"),
    )
    op.create_index("stances_of_entity", "stances", ["tenant", "principal", "entity", "created"])
