"""Items that people decide on, and their decisions."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Double, ForeignKeyConstraint, Integer, Text, UniqueConstraint

revision, down_revision, branch_labels, depends_on = "7", "6", None, None


def upgrade() -> None:
    op.create_table(
        "review_items",
        Column("number", Integer, primary_key=True),
        *(Column(name, Text, nullable=False) for name in ("tenant", "id", "principal", "kind", "key", "digest")),
        Column("version", Integer, nullable=False, server_default="1"),
        *(Column(name, Text, nullable=False) for name in ("question", "language", "history", "material", "texts")),
        Column("machine", Text, nullable=False),
        Column("previous", Text, nullable=False, server_default=""),
        *(Column(name, Text, nullable=False) for name in ("run", "source")),
        Column("created", Double, nullable=False),
        Column("decided", Integer, nullable=False, server_default="0"),
        Column("holder", Text, nullable=False, server_default=""),
        Column("held_until", Double, nullable=False, server_default="0"),
        UniqueConstraint("tenant", "id", name="review_items_by_id"),
        UniqueConstraint("tenant", "kind", "key", name="review_items_by_key"),
    )
    op.create_index("review_items_by_queue", "review_items", ["tenant", "kind", "decided", "number"])
    op.create_index("review_items_by_run", "review_items", ["tenant", "run"])
    op.create_table(
        "review_decisions",
        Column("number", Integer, primary_key=True),
        *(Column(name, Text, nullable=False) for name in ("tenant", "item", "principal", "verdict")),
        Column("grade", Integer),
        *(Column(name, Text, nullable=False) for name in ("reason", "before", "after")),
        Column("created", Double, nullable=False),
        ForeignKeyConstraint(
            ["tenant", "item"], ["review_items.tenant", "review_items.id"], name="decisions_of_item", ondelete="CASCADE"
        ),
        UniqueConstraint("tenant", "item", name="review_decisions_by_item"),
    )
