"""Every row names its tenant in a column of its own, and conversations count their edits.

Before, a tenant's names were bound names, ``tenant=id``, and plain ones those of the tenant "default".
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Double, ForeignKeyConstraint, Integer, Text, UniqueConstraint, text

revision, down_revision, branch_labels, depends_on = "3", "2", None, None
TABLES = ("conversations", "turns", "feedback")


def upgrade() -> None:
    for table in TABLES:
        op.rename_table(table, f"old_{table}")
    create_tables()
    # Tables of the form before were only ever made in SQLite files: on PostgreSQL they are empty.
    if op.get_bind().dialect.name == "sqlite":
        copy_rows()
        # An earlier Fathom reads this number alone, and refuses the file by it.
        op.execute(text("pragma user_version = 3"))
    # The referring table goes first.
    for table in reversed(TABLES):
        op.drop_table(f"old_{table}")
    op.create_index("conversations_by_use", "conversations", ["tenant", "pinned", "updated", "id"])
    op.create_index("feedback_by_run", "feedback", ["tenant", "run"])


def create_tables() -> None:
    op.create_table(
        "conversations",
        Column("tenant", Text, primary_key=True),
        Column("id", Text, primary_key=True),
        Column("title", Text, nullable=False),
        Column("pinned", Integer, nullable=False, server_default="0"),
        Column("updated", Double, nullable=False),
        Column("version", Integer, nullable=False, server_default="1"),
    )
    op.create_table(
        "turns",
        Column("tenant", Text, primary_key=True),
        Column("conversation", Text, primary_key=True),
        Column("number", Integer, primary_key=True),
        *(Column(name, Text, nullable=False) for name in ("request", "question", "rewritten", "answer", "run")),
        Column("ended", Double, nullable=False),
        Column("bullets", Text, nullable=False),
        ForeignKeyConstraint(
            ["tenant", "conversation"],
            ["conversations.tenant", "conversations.id"],
            name="turns_of_conversation",
            ondelete="CASCADE",
        ),
        UniqueConstraint("tenant", "request", name="turns_by_request"),
    )
    op.create_table(
        "feedback",
        Column("number", Integer, primary_key=True),
        *(Column(name, Text, nullable=False) for name in ("tenant", "request", "run")),
        Column("helpful", Integer, nullable=False),
        *(Column(name, Text, nullable=False) for name in ("tags", "comment")),
        Column("created", Double, nullable=False),
        Column("edited", Text, nullable=False, server_default=""),
        UniqueConstraint("tenant", "request", name="feedback_by_request"),
    )


def copy_rows() -> None:
    for statement in (
        f"insert into conversations (tenant, id, title, pinned, updated)"
        f" select {tenant_of('id')}, {plain('id')}, title, pinned, updated from old_conversations",
        f"insert into turns (tenant, conversation, number, request, question, rewritten, answer, run, ended, bullets)"
        f" select {tenant_of('conversation')}, {plain('conversation')}, number, {plain('request')}, question,"
        f" rewritten, answer, {plain('run')}, ended, bullets from old_turns",
        f"insert into feedback (number, tenant, request, run, helpful, tags, comment, created, edited)"
        f" select rowid, {tenant_of('request')}, {plain('request')}, {plain('run')}, helpful, tags, comment,"
        f" created, edited from old_feedback",
    ):
        op.execute(text(statement))


def tenant_of(column: str) -> str:
    """Return the SQL of the tenant of a column with bound names; ids have no "="."""
    return f"case instr({column}, '=') when 0 then 'default' else substr({column}, 1, instr({column}, '=') - 1) end"


def plain(column: str) -> str:
    """Return the SQL of the identifier of a column with bound names."""
    return f"substr({column}, instr({column}, '=') + 1)"
