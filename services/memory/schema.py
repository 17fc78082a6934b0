"""Tables of the memory service, for SQLite and PostgreSQL. Every row names its tenant, first in every key.

After a change here write a revision in ``migrations/versions``; a test compares the two.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

METADATA = MetaData()
UNFILED, GROWN = text("filed = 0"), text("summarised < pages")
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
    # Who asked, as the caller's identity says; "" where nobody is identified. Nobody else recalls the turn.
    Column("principal", Text, nullable=False, server_default=""),
    # 1 once the turn has its page, or had one that was evicted.
    Column("filed", Integer, nullable=False, server_default="0"),
    # The turn that it follows, 0 for none; NULL for the one before it (turns of before there were threads).
    Column("parent", Integer),
    ForeignKeyConstraint(
        ["tenant", "conversation"],
        ["conversations.tenant", "conversations.id"],
        name="turns_of_conversation",
        ondelete="CASCADE",
    ),
    UniqueConstraint("tenant", "request", name="turns_by_request"),
    # Only what waits for its page: a scan for it must not read a table of years.
    Index(
        "turns_unfiled",
        "tenant",
        "principal",
        "ended",
        sqlite_where=text("filed = 0"),
        postgresql_where=text("filed = 0"),
    ),
    # For what ends by age, and for one user's own.
    Index("turns_by_end", "tenant", "ended"),
    Index("turns_of_principal", "tenant", "principal", "ended"),
    Index("turns_by_run", "tenant", "run"),
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
    # Who judged, as the caller's identity says.
    Column("principal", Text, nullable=False, server_default=""),
    UniqueConstraint("tenant", "request", name="feedback_by_request"),
    Index("feedback_by_run", "tenant", "run"),
)
# How a conversation shows its tables; one without a row is shown as it is.
SHEET_VIEWS = Table(
    "sheet_views",
    METADATA,
    Column("tenant", Text, primary_key=True),
    Column("conversation", Text, primary_key=True),
    Column("sheet", Text, primary_key=True),
    # "" for the table's own.
    Column("title", Text, nullable=False),
    Column("pinned", Integer, nullable=False),
    # Who said so, as the caller's identity says.
    Column("principal", Text, nullable=False),
    ForeignKeyConstraint(
        ["tenant", "conversation"],
        ["conversations.tenant", "conversations.id"],
        name="sheet_views_of_conversation",
        ondelete="CASCADE",
    ),
)
SEGMENTS = Table(
    "segments",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("principal", Text, nullable=False),
    # Encoder of the vectors; "" where none answered. The centroid is the sum of its pages' mean vectors, 32-bit.
    Column("encoder", Text, nullable=False),
    Column("centroid", LargeBinary, nullable=False),
    # A JSON object: in how many of its pages a term stands.
    Column("terms", Text, nullable=False),
    Column("pages", Integer, nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("first", Double, nullable=False),
    Column("last", Double, nullable=False),
    # How often pages of it were recalled, and when last.
    Column("visits", Integer, nullable=False, server_default="0"),
    Column("visited", Double, nullable=False, server_default="0"),
    Column("summary", Text, nullable=False, server_default=""),
    # Model that wrote the summary; "" for chosen sentences.
    Column("written_by", Text, nullable=False, server_default=""),
    # A JSON list of [conversation, number].
    Column("sources", Text, nullable=False, server_default="[]"),
    # Number of pages that the summary has seen.
    Column("summarised", Integer, nullable=False, server_default="0"),
    Index("segments_of_principal", "tenant", "principal"),
    Index("segments_grown", "number", sqlite_where=GROWN, postgresql_where=GROWN),
)
PAGES = Table(
    "pages",
    METADATA,
    Column("tenant", Text, primary_key=True),
    Column("conversation", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("segment", Integer, nullable=False),
    # The turn that this one continues, 0 for none, and the one with which the subject began.
    Column("continues", Integer, nullable=False),
    Column("chain", Integer, nullable=False),
    Column("encoder", Text, nullable=False),
    # Unit vectors of the passages, 16-bit, one after the other, and their number.
    Column("passages", Integer, nullable=False),
    Column("vectors", LargeBinary, nullable=False),
    # A JSON object: how often a term stands in the turn.
    Column("terms", Text, nullable=False),
    ForeignKeyConstraint(
        ["tenant", "conversation", "number"],
        ["turns.tenant", "turns.conversation", "turns.number"],
        name="pages_of_turn",
        ondelete="CASCADE",
    ),
    ForeignKeyConstraint(["segment"], ["segments.number"], name="pages_of_segment", ondelete="CASCADE"),
    Index("pages_by_segment", "segment"),
    Index("pages_by_encoder", "encoder"),
)
