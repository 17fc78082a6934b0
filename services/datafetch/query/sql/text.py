"""Expert SQL over sheets: one SELECT in an isolated database, with row and time limits."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from fathom.core.errors import DeadlineExceeded, InvalidField
from fathom.domain import frames
from fathom.services.datafetch.catalog.files import import_duckdb, quote
from fathom.services.datafetch.query.model import Column, Sheet
from fathom.services.datafetch.query.result import make_sheet
from fathom.services.datafetch.query.sql.lineage import trace_columns

# Statements that only read; others are refused before DuckDB sees them, and it is locked besides.
SELECT = re.compile(r"\s*(select|with|from|pivot|unpivot|summarize)\b", re.IGNORECASE)
# A caller's statement runs in this process: bounded text, and memory far below the pod's limit.
MAX_CHARS = 20_000
MEMORY = "1GB"
# Columns of a table that an error lists; a model that guessed a name finds the right one among them.
LISTED_COLUMNS = 40
TITLE_CHARS = 120


def run_sql(
    statement: str,
    sheets: Mapping[str, bytes],
    rows: int,
    seconds: float,
    columns: Mapping[str, Sequence[Column]] | None = None,
) -> Sheet:
    """Run one SELECT over Arrow streams, named by the keys of ``sheets``; ``seconds`` limits the run time.

    ``columns`` describes the columns of the sheets by the same names; those of the result get their sources and, where
    they can be derived, their units. Raises ``InvalidField("sql")`` with the tables' columns for anything else or a
    failing statement, and ``DeadlineExceeded``.
    """
    body = statement.strip().rstrip(";").rstrip()
    if len(body) > MAX_CHARS:
        raise InvalidField("sql", f"must have at most {MAX_CHARS:,} characters")
    # A second statement could undo the settings below. A semicolon within a text is refused too, which is the safe
    # error.
    if not SELECT.match(body) or ";" in body:
        raise InvalidField("sql", "must be one SELECT")
    module = import_duckdb()
    tables: dict[str, Any] = {}
    with module.connect(":memory:", config={"threads": 2, "memory_limit": MEMORY}) as connection:
        for name, arrow in sheets.items():
            tables[name] = frames.read_table(arrow, name)
            connection.register(name, tables[name])
        # After the sheets are registered: no file, no network, no extension from here on.
        connection.execute("set enable_external_access = false")
        # The statement itself must not switch access on again.
        connection.execute("set lock_configuration = true")
        # DuckDB has no time limit of its own; interrupt may be called from another thread.
        timer = threading.Timer(seconds, connection.interrupt)
        timer.start()
        try:
            # The line feed ends a comment at the end of the text, which would swallow the bracket and the limit.
            table = connection.sql(f"select * from ({body}\n) limit {int(rows)}").to_arrow_table()
        except module.InterruptException as error:
            raise DeadlineExceeded(f"the statement ran longer than {seconds:g} s") from error
        except module.Error as error:
            raise InvalidField("sql", f"{str(error).splitlines()[0]} {list_schema(tables)}") from error
        finally:
            timer.cancel()
        known = {name: (columns or {}).get(name, ()) or list_bare(found) for name, found in tables.items()}
        described = trace_columns(body, table, known, connection)
    return make_sheet(table, f"SQL: {' '.join(body.split())[:TITLE_CHARS]}", described)


def list_schema(tables: Mapping[str, Any]) -> str:
    """Return the columns of the tables, for an error's reader."""
    shown = []
    for name, table in tables.items():
        names = table.column_names
        more = f", and {len(names) - LISTED_COLUMNS} more" if len(names) > LISTED_COLUMNS else ""
        # Quoted where SQL needs it, so that a name can be copied.
        listed = ", ".join(column if column.isidentifier() else quote(column) for column in names[:LISTED_COLUMNS])
        shown.append(f"{name} has {listed}{more}")
    return f"({'; '.join(shown)})" if shown else "(no table is attached)"


def list_bare(table: Any) -> list[Column]:
    """Return the columns of a table of which nothing else is known."""
    return [Column(name, str(table.schema.field(name).type)) for name in table.column_names]
