"""Statements that others wrote, run over the tables within limits of rows and time."""

from __future__ import annotations

import threading
from typing import Any

from fathom.core.errors import DeadlineExceeded, InvalidField
from fathom.services.datafetch.catalog.files import import_duckdb


def run_statement(connection: Any, statement: str, rows: int, seconds: float) -> Any:
    """Run a checked statement and return its Arrow table, limited to ``rows``.

    Raises ``InvalidField("sql")`` when it fails, and ``DeadlineExceeded`` after ``seconds``.
    """
    # A cursor of its own: interrupting it leaves other calls alone.
    cursor = connection.cursor()
    # DuckDB has no time limit of its own.
    timer = threading.Timer(seconds, cursor.interrupt)
    timer.start()
    try:
        # The line feed ends a comment at the end of the statement, which would swallow the limit.
        return cursor.sql(f"select * from ({statement}\n) limit {int(rows)}").to_arrow_table()
    except import_duckdb().InterruptException as error:
        raise DeadlineExceeded(f"the statement ran longer than {seconds:g} s") from error
    except import_duckdb().Error as error:
        raise InvalidField("sql", str(error).splitlines()[0]) from error
    finally:
        timer.cancel()
        cursor.close()
