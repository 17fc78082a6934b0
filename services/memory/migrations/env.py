"""Run by Alembic: applies the revisions within the connection and the transaction of ``migrating.migrate``."""

from __future__ import annotations

from alembic import context

from fathom.services.memory.migrating import REVISION_TABLE
from fathom.services.memory.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=REVISION_TABLE
)
context.run_migrations()
