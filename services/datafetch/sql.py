"""Expert SQL over sheets: one SELECT in an isolated database, with row and time limits."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping

from fathom import frames
from fathom.errors import DeadlineExceeded, InvalidField
from services.datafetch.model import Sheet
from services.datafetch.semantic.files import duckdb
from services.datafetch.sheets import described, make_sheet

SELECT = re.compile(r"\s*(select|with|from|pivot|unpivot|summarize)\b", re.IGNORECASE)
MAX_CHARS = 20_000
MEMORY = "1GB"


def run_sql(statement: str, sheets: Mapping[str, bytes], rows: int, seconds: float) -> Sheet:
    """Run one SELECT over Arrow streams, named by the keys of ``sheets``; ``seconds`` limits the run time.

    Raises ``InvalidField("sql")`` for anything else or a failing statement, and ``DeadlineExceeded``.
    """
    body = statement.strip().rstrip(";").rstrip()
    if len(body) > MAX_CHARS:
        raise InvalidField("sql", f"must have at most {MAX_CHARS:,} characters")
    if not SELECT.match(body) or ";" in body:
        raise InvalidField("sql", "must be one SELECT")
    module = duckdb()
    with module.connect(":memory:", config={"threads": 2, "memory_limit": MEMORY}) as connection:
        for name, arrow in sheets.items():
            connection.register(name, frames.read_table(arrow, name))
        connection.execute("set enable_external_access = false")
        connection.execute("set lock_configuration = true")
        timer = threading.Timer(seconds, connection.interrupt)
        timer.start()
        try:
            table = connection.sql(f"select * from ({body}\n) limit {int(rows)}").to_arrow_table()
        except module.InterruptException as error:
            raise DeadlineExceeded(f"the statement ran longer than {seconds:g} s") from error
        except module.Error as error:
            raise InvalidField("sql", str(error).splitlines()[0]) from error
        finally:
            timer.cancel()
    return make_sheet(table, statement[:120], [described(table, name) for name in table.column_names])
