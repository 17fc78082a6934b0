"""Tool ``sql``: one SELECT over the run's sheets, by their variable names; the result is a sheet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from prometheus_client import Histogram

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import InvalidField
from fathom.services.planner.tools.data.sheets import make_sheets_reply
from fathom.services.planner.tools.session import Session
from fathom.services.planner.tools.tool import NumberedReply, make_schema

SHEET_NAME = re.compile(r"\bsheet_\d+\b", re.IGNORECASE)
# Names in an error; a run rarely has more tables.
LISTED_SHEETS, LISTED_COLUMNS = 12, 12


@dataclass(frozen=True)
class Sql:
    """SQL over the sheets of a session."""

    clients: Clients
    session: Session
    timeout_s: float
    digests: Histogram | None = None
    """Histogram of compression ratios."""

    name: ClassVar[str] = "sql"
    # After the other calls of a round, whose tables it may name.
    reads: ClassVar[bool] = False
    description: ClassVar[str] = (
        "Runs one SELECT (DuckDB) over tables that `data` fetched, by their names sheet_1, sheet_2, …; the result is a"
        " new sheet with sources, which an answer can show. Columns with a point need double quotes:"
        ' SELECT date, "AAPL.close_adj" FROM sheet_1. Use it to join, group and rank, and `python` to compute.'
    )
    parameters: ClassVar[Mapping[str, Any]] = make_schema(
        ["query"],
        query={"type": "string", "minLength": 1, "maxLength": 20_000, "description": "One SELECT statement."},
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply:
        statement: str = arguments["query"]
        named = list(dict.fromkeys(name.lower() for name in SHEET_NAME.findall(statement)))
        unknown = [name for name in named if name not in self.session.sheets]
        if unknown or not named:
            what = f"there is no {unknown[0]}" if unknown else "name at least one sheet"
            raise InvalidField("sql.query", f"{what}; {self._list_sheets()}")
        sheets = {name: self.session.sheets[name] for name in named}
        request = pb.RunSqlRequest(
            request_id=call_id,
            sql=statement,
            tables={name: sheet.id for name, sheet in sheets.items()},
            # The units of a table that a cell has shown are known here alone.
            columns={name: pb.TableColumns(columns=sheet.columns) for name, sheet in sheets.items()},
        )
        try:
            response = await self.clients.datafetch.run_sql(request, timeout_s=self.timeout_s)
        except InvalidField as error:
            # "sql" is the field of the RPC; the tool's argument is its query.
            raise InvalidField("sql.query", error.message.removeprefix(f"{error.field}: ")) from error
        return lambda first: make_sheets_reply(self.session, [response.sheet], (), first, self.digests)

    def _list_sheets(self) -> str:
        """Return the sheets with their columns, for an error's reader."""
        if not self.session.sheets:
            return "no table was fetched yet: call `data` first"
        shown = [
            f"{variable} has {', '.join(column.name for column in sheet.columns[:LISTED_COLUMNS])}"
            for variable, sheet in list(self.session.sheets.items())[-LISTED_SHEETS:]
        ]
        return "; ".join(shown)
