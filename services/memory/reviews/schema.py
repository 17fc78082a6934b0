"""Tables of items that people decide on, and of their decisions."""

from __future__ import annotations

from sqlalchemy import Column, Double, ForeignKeyConstraint, Index, Integer, Table, Text, UniqueConstraint

from fathom.services.memory.schema import METADATA

REVIEW_ITEMS = Table(
    "review_items",
    METADATA,
    # The order of arrival, in which items are given out.
    Column("number", Integer, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("id", Text, nullable=False),
    # Whose words it has: who asked the run that it is about; "" where that is nobody in particular.
    Column("principal", Text, nullable=False),
    Column("kind", Text, nullable=False),
    # Of a recheck the id of its comparison.
    Column("key", Text, nullable=False),
    # Of all that was added but the machine's verdict, which may come later.
    Column("digest", Text, nullable=False),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("question", Text, nullable=False),
    Column("language", Text, nullable=False),
    # JSON lists of [question, answer] and of [text, owner].
    Column("history", Text, nullable=False),
    Column("material", Text, nullable=False),
    Column("texts", Text, nullable=False),
    # JSON objects, "" where there is none. Grades here and below are the first text's against the second.
    Column("machine", Text, nullable=False),
    Column("previous", Text, nullable=False, server_default=""),
    Column("run", Text, nullable=False),
    Column("source", Text, nullable=False),
    # Seconds since the epoch, here and below.
    Column("created", Double, nullable=False),
    # 1 while there is a decision on it.
    Column("decided", Integer, nullable=False, server_default="0"),
    # Who has it before him, and until when nobody else gets it.
    Column("holder", Text, nullable=False, server_default=""),
    Column("held_until", Double, nullable=False, server_default="0"),
    UniqueConstraint("tenant", "id", name="review_items_by_id"),
    UniqueConstraint("tenant", "kind", "key", name="review_items_by_key"),
    Index("review_items_by_queue", "tenant", "kind", "decided", "number"),
    Index("review_items_by_run", "tenant", "run"),
)
REVIEW_DECISIONS = Table(
    "review_decisions",
    METADATA,
    # The order of the decisions.
    Column("number", Integer, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("item", Text, nullable=False),
    # Who decided, as the caller's identity says.
    Column("principal", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    # NULL of what is not graded.
    Column("grade", Integer),
    Column("reason", Text, nullable=False),
    # The text before and after an edit.
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("created", Double, nullable=False),
    ForeignKeyConstraint(
        ["tenant", "item"], ["review_items.tenant", "review_items.id"], name="decisions_of_item", ondelete="CASCADE"
    ),
    UniqueConstraint("tenant", "item", name="review_decisions_by_item"),
)
