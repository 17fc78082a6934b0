"""A database that has tables of its own: it computes the statements that are about them, in its dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fathom.core.errors import DeadlineExceeded, InvalidField
from fathom.domain.frames import arrow
from fathom.transport.postgres import Connections

if TYPE_CHECKING:
    from fathom.services.datafetch.warehouse.dialects import Translated

# The scheme of an address, and the dialect of what is there.
SCHEMES = {"postgresql": "postgres", "postgres": "postgres"}
# Rows of one result: what a sheet may have is far less, and rows fetched to be computed here are held in memory.
MOST_ROWS = 1_000_000
# Days and clock are those of the data, whatever the server's own zone.
OPTIONS = "-c TimeZone=UTC -c default_transaction_read_only=on"
# Statements of equal text are asked again and again with other parameters.
MOST_TRANSLATED = 128


class Database:
    """A PostgreSQL database, read only; every call has a connection of its own."""

    def __init__(self, name: str, url: str, places: int, seconds: float) -> None:
        """Store the settings without connecting.

        Raises ``InvalidField`` for the address of another kind of database, and ``MissingExtra``.
        """
        self.name = name
        # SQLGlot is a tenth of what datafetch would import at its start: for those alone who have a database.
        from fathom.services.datafetch.warehouse.dialects import translate

        scheme = url.partition("://")[0]
        if scheme not in SCHEMES:
            known = ", ".join(f"{one}://" for one in SCHEMES)
            raise InvalidField(f"datafetch.databases.{name}", f"begins with {scheme!r}, which is none of {known}")
        self._dialect, self._write = SCHEMES[scheme], translate
        self._seconds = seconds
        self._connections = Connections(url, places, seconds, name=f"the database {name!r}", options=OPTIONS)
        self._translated: dict[str, Translated] = {}

    def run(self, statement: str, parameters: Sequence[Any], seconds: float | None = None) -> Any:
        """Return the Arrow table of a statement in DuckDB's dialect; blocks.

        Raises ``DeadlineExceeded``, ``InvalidField("typed")`` for more rows than are taken, ``DependencyFailed`` and
        ``Overloaded``.
        """
        import psycopg

        made = self._translate(statement, parameters)
        values = list(parameters)
        limited = f"select * from (\n{made.sql}\n) as whole limit {MOST_ROWS + 1}"
        milliseconds = max(1, round((self._seconds if seconds is None else seconds) * 1_000))

        def work(connection: Any) -> Any:
            connection.execute(f"set local statement_timeout = {milliseconds}")
            with psycopg.RawCursor(connection) as cursor:
                cursor.execute(limited, values)
                columns = [(one.name, one.type_code) for one in cursor.description or ()]
                return make_table(columns, cursor.fetchall(), made)

        try:
            table = self._connections.run(work)
        except DeadlineExceeded as error:
            raise DeadlineExceeded(
                f"the query ran longer than {milliseconds / 1_000:g} s", metadata=error.metadata
            ) from error
        if table.num_rows > MOST_ROWS:
            raise InvalidField(
                "typed", f"needs more than {MOST_ROWS:,} rows of {self.name}; name fewer or a shorter period"
            )
        return table

    def _translate(self, statement: str, parameters: Sequence[Any]) -> Translated:
        known = self._translated.get(statement)
        if known is None:
            known = self._write(statement, parameters, self._dialect)
            while len(self._translated) >= MOST_TRANSLATED:
                # Threads may find the oldest gone already.
                self._translated.pop(next(iter(self._translated), ""), None)
            self._translated[statement] = known
        return known

    def close(self) -> None:
        self._connections.close()


def make_table(columns: Sequence[tuple[str, int]], rows: Sequence[Sequence[Any]], made: Translated) -> Any:
    """Return an Arrow table with the types that DuckDB would give, and the whole names of its columns."""
    from psycopg import postgres as types

    pa = arrow()
    known = {
        "float8": pa.float64(), "float4": pa.float64(), "numeric": pa.float64(), "int2": pa.int64(),
        "int4": pa.int64(), "int8": pa.int64(), "bool": pa.bool_(), "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
    }  # fmt: skip
    arrays, names = [], []
    for place, (name, code) in enumerate(columns):
        info = types.types.get(code)
        kind = known.get(info.name if info else "", pa.string())
        values: list[Any] = [row[place] for row in rows]
        if kind == pa.float64():
            values = [None if value is None else float(value) for value in values]
        elif kind == pa.string():
            values = [None if value is None else str(value) for value in values]
        arrays.append(pa.array(values, kind))
        names.append(made.names.get(name, name))
    return pa.table(arrays, names=names)
