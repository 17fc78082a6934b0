"""Turns name who asked, and are filed as pages of segments, by which they are recalled."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Double, ForeignKeyConstraint, Integer, LargeBinary, Text, text

revision, down_revision, branch_labels, depends_on = "4", "3", None, None


def upgrade() -> None:
    op.add_column("turns", Column("principal", Text, nullable=False, server_default=""))
    op.add_column("turns", Column("filed", Integer, nullable=False, server_default="0"))
    op.add_column("feedback", Column("principal", Text, nullable=False, server_default=""))
    unfiled = text("filed = 0")
    op.create_index(
        "turns_unfiled", "turns", ["tenant", "principal", "ended"], sqlite_where=unfiled, postgresql_where=unfiled
    )
    op.create_index("turns_by_end", "turns", ["tenant", "ended"])
    op.create_index("turns_of_principal", "turns", ["tenant", "principal", "ended"])
    op.create_index("turns_by_run", "turns", ["tenant", "run"])
    create_segments()
    create_pages()


def create_segments() -> None:
    op.create_table(
        "segments",
        Column("number", Integer, primary_key=True),
        *(Column(name, Text, nullable=False) for name in ("tenant", "principal", "encoder")),
        Column("centroid", LargeBinary, nullable=False),
        Column("terms", Text, nullable=False),
        *(Column(name, Integer, nullable=False) for name in ("pages", "bytes")),
        *(Column(name, Double, nullable=False) for name in ("first", "last")),
        Column("visits", Integer, nullable=False, server_default="0"),
        Column("visited", Double, nullable=False, server_default="0"),
        Column("summary", Text, nullable=False, server_default=""),
        Column("written_by", Text, nullable=False, server_default=""),
        Column("sources", Text, nullable=False, server_default="[]"),
        Column("summarised", Integer, nullable=False, server_default="0"),
    )
    op.create_index("segments_of_principal", "segments", ["tenant", "principal"])
    grown = text("summarised < pages")
    op.create_index("segments_grown", "segments", ["number"], sqlite_where=grown, postgresql_where=grown)


def create_pages() -> None:
    op.create_table(
        "pages",
        *(Column(name, Text, primary_key=True) for name in ("tenant", "conversation")),
        Column("number", Integer, primary_key=True),
        *(Column(name, Integer, nullable=False) for name in ("segment", "continues", "chain", "passages")),
        Column("encoder", Text, nullable=False),
        Column("vectors", LargeBinary, nullable=False),
        Column("terms", Text, nullable=False),
        ForeignKeyConstraint(
            ["tenant", "conversation", "number"],
            ["turns.tenant", "turns.conversation", "turns.number"],
            name="pages_of_turn",
            ondelete="CASCADE",
        ),
        ForeignKeyConstraint(["segment"], ["segments.number"], name="pages_of_segment", ondelete="CASCADE"),
    )
    op.create_index("pages_by_segment", "pages", ["segment"])
    op.create_index("pages_by_encoder", "pages", ["encoder"])
