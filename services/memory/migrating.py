"""Brings a database to the tables of this version, once, however many replicas start at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from fathom.core.errors import CorruptData, FailedPrecondition

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "9"
"""The newest revision in ``migrations/versions``."""
REVISION_TABLE = "memory_revision"
FOLDER = Path(__file__).parent / "migrations"
# Tables of the releases before Alembic, which wrote the number of their revision into the head of the SQLite file.
FIRST_TABLES = frozenset({"conversations", "turns", "feedback"})
FIRST_REVISIONS = (1, 2)
# Any number that no other user of the same database locks; it is the same in every version.
LOCK = 4_046_172_109
# A replica waits as long for another one that is migrating.
WAIT = "120s"
ADVICE = "restore a backup or move it away"


def migrate(connection: Connection, name: str) -> None:
    """Create or upgrade the tables within the connection's transaction; the database is called ``name`` in errors.

    Raises ``FailedPrecondition`` for a database of a later version, ``CorruptData`` for one that is not memory's.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite:
        # The service's own limits are for requests, and a migration may take longer. SQLite's lock is the transaction.
        connection.execute(text(f"set local lock_timeout = '{WAIT}'"))
        connection.execute(text("set local statement_timeout = 0"))
        connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": LOCK})
    tables = set(inspect(connection).get_table_names())
    if REVISION_TABLE in tables and read_revisions(connection) == [HEAD]:
        return
    # Only here: a start that has nothing to migrate imports for a quarter less without Alembic, and while it
    # lasts nobody has a memory.
    from alembic import command

    config = make_config(connection)
    if REVISION_TABLE in tables:
        if not is_behind(connection, config, name):
            return
    elif tables if is_sqlite else tables & FIRST_TABLES:
        version = connection.execute(text("pragma user_version")).scalar_one() if is_sqlite else 0
        if version not in FIRST_REVISIONS or not tables >= FIRST_TABLES or (version == 1) == has_edits(connection):
            raise CorruptData(name, f"is no memory of a version up to {FIRST_REVISIONS[-1]}, but {version}; {ADVICE}")
        command.stamp(config, str(version))
    elif is_sqlite and (version := connection.execute(text("pragma user_version")).scalar_one()):
        raise CorruptData(name, f"is no memory: empty, of version {version}; {ADVICE}")
    command.upgrade(config, "head")


def make_config(connection: Connection) -> Config:
    """Return Alembic's configuration for migrations over this connection."""
    from alembic.config import Config

    config = Config()
    # Alembic's settings are those of an ini file, in which a percent sign begins a reference.
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def read_revisions(connection: Connection) -> list[str]:
    """Return the revisions that the database says it is of; one, unless somebody has changed it."""
    return list(connection.execute(text(f"select version_num from {REVISION_TABLE}")).scalars())  # noqa: S608 - a constant


def is_behind(connection: Connection, config: Config, name: str) -> bool:
    """Return True if revisions are missing; raise ``FailedPrecondition`` for a revision that is not known here."""
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    found = read_revisions(connection)
    for revision in found:
        if revision not in known:
            message = f"{name} is of revision {revision}, and this version of Fathom knows {scripts.get_current_head()}"
            raise FailedPrecondition(f"{message}: start the version that wrote it, or restore a backup")
    return found != [scripts.get_current_head()]


def has_edits(connection: Connection) -> bool:
    """Return True if judgements have the column that the second revision added."""
    return any(column["name"] == "edited" for column in inspect(connection).get_columns("feedback"))
