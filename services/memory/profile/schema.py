"""Tables of facts and stances; both belong to one user of a tenant."""

from __future__ import annotations

from sqlalchemy import Column, Double, Index, Integer, Table, Text, UniqueConstraint

from fathom.services.memory.schema import METADATA

FACTS = Table(
    "facts",
    METADATA,
    Column("tenant", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    # Who it is about, as the caller's identity says; "" where nobody is identified.
    Column("principal", Text, nullable=False),
    # The request that wrote it last: the same one again changes nothing.
    Column("request", Text, nullable=False),
    Column("kind", Text, nullable=False),
    # Texts of a deleted fact are empty; its row stays, so that the turn it was learnt from does not bring it back.
    Column("value", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("conversation", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("confidence", Double, nullable=False),
    # Seconds since the epoch: when it was last said, and when it ends to hold (0 for never).
    Column("updated", Double, nullable=False),
    Column("expires", Double, nullable=False, server_default="0"),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("deleted", Integer, nullable=False, server_default="0"),
    UniqueConstraint("tenant", "principal", "request", name="facts_by_request"),
    Index("facts_of_principal", "tenant", "principal", "deleted", "updated", "id"),
)
STANCES = Table(
    "stances",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("entity", Text, nullable=False),
    Column("measure", Text, nullable=False),
    # ISO dates; "" for an open end.
    Column("first", Text, nullable=False),
    Column("last", Text, nullable=False),
    Column("value", Double, nullable=False),
    Column("unit", Text, nullable=False),
    Column("as_of", Text, nullable=False),
    Column("view", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("created", Double, nullable=False),
    # Seconds since the epoch, 0 for one that is there: an emptied row stays for a while, so that the request that wrote
    # it does not bring it back when it is delivered again.
    Column("deleted", Double, nullable=False, server_default="0"),
    UniqueConstraint("tenant", "principal", "request", name="stances_by_request"),
    Index("stances_of_entity", "tenant", "principal", "entity", "created"),
)
