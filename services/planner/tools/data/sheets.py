"""Replies that bring sheets: their metadata for the model, their first and last rows, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prometheus_client import Histogram

from fathom.api.common.v1.common_pb2 import MissingItem, MissingReason
from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.domain.chat.quoting import shorten
from fathom.services.planner.model.episode import MaterialKind, ToolStatus
from fathom.services.planner.tools.compression import measure_compression
from fathom.services.planner.tools.session import Session
from fathom.services.planner.tools.tool import NewMaterial, Reply

# First and last rows of a few tables; the whole tables are in the Python session.
DIGEST_CHARS = 5_000


def make_sheets_reply(
    session: Session,
    found: Sequence[pb.Sheet],
    missing: Sequence[MissingItem],
    first: int,
    digests: Histogram | None = None,
    **head: Any,
) -> Reply:
    """Register the sheets in the session and return them with names and numbers, the first of them ``first``.

    ``digests`` is the histogram of compression ratios, ``head`` goes into the reply's head as it is.
    """
    sheets, findings, shown = [], [], []
    for offset, sheet in enumerate(found):
        variable = session.put(sheet)
        findings.append(NewMaterial(MaterialKind.SHEET, sheet, variable))
        sheets.append(describe_sheet(sheet, variable, first + offset))
        # The model knows the sheet by its variable; its id means nothing to it.
        shown.append(sheet.digest.replace(sheet.id, variable))
        if digests is not None:
            digests.observe(measure_compression(sheet.rows, sheet.digest))
    findings += [NewMaterial(MaterialKind.MISSING, item) for item in missing]
    # What is missing is material as well, numbered after the sheets: an answer may cite it.
    lacking = [
        {**describe_missing(item), "material": number} for number, item in enumerate(missing, first + len(sheets))
    ]
    # Empty is a finding, too: it counts as evidence and is not repeated as a failure would be.
    status = ToolStatus.OK if sheets else ToolStatus.EMPTY
    body = shorten("\n\n".join(shown), DIGEST_CHARS)
    return Reply(status, {"sheets": sheets, "missing": lacking, **head}, body, tuple(findings))


def describe_sheet(sheet: pb.Sheet, variable: str, number: int) -> dict[str, Any]:
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
    described: dict[str, Any] = {
        "variable": variable, "material": number, "title": sheet.title, "rows": sheet.rows, "columns": columns,
    }  # fmt: skip
    for name in ("basis", "resampling"):
        stated = [(at, value) for at, column in enumerate(sheet.columns) if (value := getattr(column, name))]
        # Mostly all columns have the same, which then stands once.
        if len({value for _, value in stated}) == 1:
            described[name] = stated[0][1]
        else:
            for at, value in stated:
                columns[at][name] = value
    return described


def describe_missing(item: MissingItem) -> dict[str, Any]:
    """Return a missing item in the form that the model receives."""
    return {
        "subject": item.subject,
        "aspect": item.aspect,
        "period": item.period,
        "reason": MissingReason.Name(item.reason).removeprefix("MISSING_REASON_"),
        "nearest": list(item.nearest),
        "detail": item.detail,
    }
