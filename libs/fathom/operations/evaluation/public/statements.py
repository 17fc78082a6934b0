"""SQL statements that models write, run over small databases and compared with the authors' own.

Results are compared as the authors of the two sets do: BULL by the same rows under some order of the columns, and in
the same order where the question's own statement sorts (the execution accuracy of Spider's test suites); defog's by the
same rows once each, where further columns are allowed.
"""

from __future__ import annotations

import itertools
import math
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from fathom.core.errors import InvalidField
from fathom.core.extras import name_missing_extra

if TYPE_CHECKING:
    import duckdb

Row = tuple[Any, ...]
Run = Callable[[str], list[Row]]
"""Runs a statement; raises ``InvalidField("sql")`` for one that fails, or takes too long."""
ROWS, SECONDS = 100_000, 10.0
# Orders of columns that are tried: more are only left where many columns have the same values.
ORDERS = 5_000
# Instructions between two looks at the clock.
STEPS = 10_000
READS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)


def run_sqlite(connection: sqlite3.Connection, statement: str) -> list[Row]:
    """Run a statement that only reads; raise ``InvalidField("sql")`` for any other."""
    deadline = time.monotonic() + SECONDS
    # The statement is a model's: whatever is more than reading is refused by the database itself.
    connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in READS else sqlite3.SQLITE_DENY)
    connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
    try:
        return [tuple(map(simplify, row)) for row in connection.execute(statement).fetchmany(ROWS)]
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise InvalidField("sql", str(error)) from error


def open_duckdb(statements: Sequence[str]) -> duckdb.DuckDBPyConnection:
    """Return a database in memory that was filled by the statements, and can reach no file from then on."""
    with name_missing_extra():
        import duckdb

    connection = duckdb.connect(":memory:", config={"threads": "1"})
    for statement in statements:
        connection.execute(statement)
    connection.execute("set enable_external_access = false; set lock_configuration = true")
    return connection


def run_duckdb(connection: duckdb.DuckDBPyConnection, statement: str) -> list[Row]:
    """Run one statement that only reads; raise ``InvalidField("sql")`` for any other."""
    with name_missing_extra():
        import duckdb

    cursor = connection.cursor()
    # DuckDB has no time limit of its own.
    timer = threading.Timer(SECONDS, cursor.interrupt)
    timer.start()
    try:
        parts = cursor.extract_statements(statement)
        if [part.type for part in parts] != [duckdb.StatementType.SELECT]:
            raise InvalidField("sql", "is not one SELECT")
        return [tuple(map(simplify, row)) for row in cursor.execute(parts[0]).fetchmany(ROWS)]
    except duckdb.Error as error:
        raise InvalidField("sql", str(error).splitlines()[0]) from error
    finally:
        timer.cancel()
        cursor.close()


def simplify(value: Any) -> Any:
    """Return a value as it is compared: numbers as floats, days and instants as texts."""
    # An instant at midnight is the day that the other statement may give.
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").removesuffix(" 00:00:00")
    if isinstance(value, date):
        return value.isoformat()
    return float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else value


def is_same_value(one: Any, other: Any) -> bool:
    """Return whether two values are equal, numbers within 1e-6."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


def sort_distinct(rows: Sequence[Row]) -> list[Row]:
    """Return the rows once each, in an order that depends on nothing but them."""
    # Keyed by texts: rows themselves do not sort, since a column may hold numbers beside nulls.
    keyed = {format_row(row): row for row in rows}
    return [keyed[key] for key in sorted(keyed)]


def format_row(row: Row) -> tuple[str, ...]:
    """Return a row as texts that are equal where its values are."""
    return tuple(f"{value:.6g}" if isinstance(value, float) else repr(value) for value in row)


def holds(gold: Sequence[Row], given: Sequence[Row]) -> bool:
    """Return whether some choice of the given columns has the rows of the gold result, once each in any order."""
    if not gold or not given:
        return not gold and not given
    right = sort_distinct(gold)
    # A dozen columns at most: a statement that shows whole tables is no answer.
    if len(gold[0]) > len(given[0]) or len(given[0]) > 12:
        return False
    # Without a look at the rows first: columns with as many values are candidates, all others are not.
    values = [{repr(value) for value in column} for column in zip(*right, strict=True)]
    found = [{repr(value) for value in column} for column in zip(*given, strict=True)]
    likely = [[at for at, column in enumerate(found) if len(column) == len(wanted)] for wanted in values]
    for chosen in itertools.islice(itertools.product(*likely), ORDERS):
        if len(set(chosen)) == len(chosen):
            rows = sort_distinct([tuple(row[at] for at in chosen) for row in given])
            if len(rows) == len(right) and all(map(is_same_row, right, rows)):
                return True
    return False


def is_same_row(one: Row, other: Row) -> bool:
    """Return whether two rows of one width are equal."""
    return all(is_same_value(left, right) for left, right in zip(one, other, strict=True))


def equals(gold: Sequence[Row], given: Sequence[Row], *, is_ordered: bool) -> bool:
    """Return whether both have the same rows equally often, under some order of the columns of ``given``."""
    if len(gold) != len(given) or not gold:
        return len(gold) == len(given)
    if len(gold[0]) != len(given[0]):
        return False
    # Only columns with the same values can stand for each other, which leaves few orders to try.
    wanted = [count_values(column) for column in zip(*gold, strict=True)]
    columns = [count_values(column) for column in zip(*given, strict=True)]
    likely = [[at for at, column in enumerate(columns) if column == one] for one in wanted]
    right = [format_row(row) for row in gold]
    for chosen in itertools.islice(itertools.product(*likely), ORDERS):
        if len(set(chosen)) == len(chosen):
            rows = [format_row(tuple(row[at] for at in chosen)) for row in given]
            if rows == right if is_ordered else Counter(rows) == Counter(right):
                return True
    return False


def count_values(column: Sequence[Any]) -> Counter[str]:
    """Return how often a column has each value."""
    return Counter(text for value in column for text in format_row((value,)))
