"""Tool ``data``: turns a question or a typed query into sheets of the run's Python session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from google.protobuf.timestamp_pb2 import Timestamp
from prometheus_client import Histogram

from fathom.api.common.v1.common_pb2 import MissingItem, MissingReason
from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.errors import InvalidField
from services.planner.model import Kind, ToolState
from services.planner.tools.compression import compression
from services.planner.tools.session import Session
from services.planner.tools.tool import Finding, Numbered, Reply, schema, shortened

DIGEST_CHARS = 5_000
FREQUENCIES = {
    "daily": pb.FREQUENCY_DAILY,
    "weekly": pb.FREQUENCY_WEEKLY,
    "monthly": pb.FREQUENCY_MONTHLY,
    "quarterly": pb.FREQUENCY_QUARTERLY,
    "annual": pb.FREQUENCY_ANNUAL,
}
NAMES = {"type": "array", "items": {"type": "string"}, "maxItems": 50}


@dataclass(frozen=True)
class Data:
    """Data retrieval; each table becomes a variable ``sheet_n`` of the session."""

    clients: Clients
    session: Session
    as_of: Timestamp | None
    timeout_s: float
    digests: Histogram | None = None
    """Histogram of compression ratios."""

    name: ClassVar[str] = "data"
    reads: ClassVar[bool] = True
    description: ClassVar[str] = (
        "Fetches numbers as tables. Give a question in words, or entities, indicators and dates. The whole table is"
        " then in Python as sheet_1, sheet_2, …; you see its first and last rows and its columns."
    )
    parameters: ClassVar[Mapping[str, Any]] = schema(
        [],
        question={"type": "string", "minLength": 1, "maxLength": 2000, "description": "What you need, in words."},
        entities={**NAMES, "description": "Names or codes, e.g. AAPL."},
        indicators={**NAMES, "description": "Names or ids, e.g. close_adj."},
        start_date={"type": "string", "description": "ISO date of the first row."},
        end_date={"type": "string", "description": "ISO date of the last row."},
        frequency={"enum": sorted(FREQUENCIES), "description": "Density of the series."},
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Numbered:
        request = pb.QueryRequest(request_id=call_id, as_of=self.as_of)
        if "question" in arguments:
            request.question = arguments["question"]
        elif "entities" in arguments or "indicators" in arguments:
            request.typed.CopyFrom(typed(arguments))
        else:
            raise InvalidField("data.question", "give a question, or entities and indicators")
        response = await self.clients.datafetch.query(request, timeout_s=self.timeout_s)
        return lambda first: self._told(response, first)

    def _told(self, response: pb.QueryResponse, first: int) -> Reply:
        """Register the sheets in the session and return them with names and numbers."""
        sheets, findings, digests = [], [], []
        for offset, sheet in enumerate(response.sheets):
            variable = self.session.put(sheet)
            findings.append(Finding(Kind.SHEET, sheet, variable))
            sheets.append(described(sheet, variable, first + offset))
            digests.append(sheet.digest.replace(sheet.id, variable))
            if self.digests is not None:
                self.digests.observe(compression(sheet.rows, sheet.digest))
        findings += [Finding(Kind.MISSING, item) for item in response.missing]
        # What is missing is material as well, numbered after the sheets: an answer may cite it.
        missing = [
            {**missing_item(item), "material": number}
            for number, item in enumerate(response.missing, first + len(sheets))
        ]
        head = {"sheets": sheets, "missing": missing}
        status = ToolState.OK if sheets else ToolState.EMPTY
        return Reply(status, head, shortened("\n\n".join(digests), DIGEST_CHARS), tuple(findings))


def typed(arguments: Mapping[str, Any]) -> pb.TypedQuery:
    """Convert the arguments to a typed query."""
    return pb.TypedQuery(
        entities=arguments.get("entities", ()),
        indicators=arguments.get("indicators", ()),
        start_date=arguments.get("start_date", ""),
        end_date=arguments.get("end_date", ""),
        frequency=FREQUENCIES.get(arguments.get("frequency", ""), pb.FREQUENCY_UNSPECIFIED),
    )


def described(sheet: pb.Sheet, variable: str, number: int) -> dict[str, Any]:
    """Return a sheet's metadata in the form that the model receives."""
    columns = [
        {
            "name": column.name,
            "type": column.type,
            "unit": column.unit,
            "entity": column.entity,
            "indicator": column.indicator,
            "as_of": column.as_of,
        }
        for column in sheet.columns
    ]
    return {"variable": variable, "material": number, "title": sheet.title, "rows": sheet.rows, "columns": columns}


def missing_item(item: MissingItem) -> dict[str, Any]:
    """Return a missing item in the form that the model receives."""
    return {
        "subject": item.subject,
        "aspect": item.aspect,
        "period": item.period,
        "reason": MissingReason.Name(item.reason).removeprefix("MISSING_REASON_"),
        "nearest": list(item.nearest),
        "detail": item.detail,
    }
