"""Tables of the memory service, for SQLite and PostgreSQL. Every row names its tenant, first in every key.

After a change here write a revision in ``migrations/versions``; a test compares the two.
"""

from __future__ import annotations

from sqlalchemy import Column, Double, ForeignKeyConstraint, Index, Integer, MetaData, Table, Text, UniqueConstraint

METADATA = MetaData()
CONVERSATIONS = Table(
    "conversations",
    METADATA,
    Column("tenant", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("title", Text, nullable=False),
    Column("pinned", Integer, nullable=False, server_default="0"),
    # Seconds since the epoch, here and below.
    Column("updated", Double, nullable=False),
    # Counts the edits of title and pin, so that an edit of what somebody else has edited meanwhile is noticed.
    Column("version", Integer, nullable=False, server_default="1"),
    Index("conversations_by_use", "tenant", "pinned", "updated", "id"),
)
TURNS = Table(
    "turns",
    METADATA,
    Column("tenant", Text, primary_key=True),
    Column("conversation", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("request", Text, nullable=False),
    Column("question", Text, nullable=False),
    Column("rewritten", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("ended", Double, nullable=False),
    # A JSON list of texts.
    Column("bullets", Text, nullable=False),
    ForeignKeyConstraint(
        ["tenant", "conversation"],
        ["conversations.tenant", "conversations.id"],
        name="turns_of_conversation",
        ondelete="CASCADE",
    ),
    UniqueConstraint("tenant", "request", name="turns_by_request"),
)
FEEDBACK = Table(
    "feedback",
    METADATA,
    # The order of arrival, which two judgements of one moment share with nobody.
    Column("number", Integer, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("helpful", Integer, nullable=False),
    # A JSON list of texts.
    Column("tags", Text, nullable=False),
    Column("comment", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("edited", Text, nullable=False, server_default=""),
    UniqueConstraint("tenant", "request", name="feedback_by_request"),
    Index("feedback_by_run", "tenant", "run"),
)
