"""Conversion of connector results and imported files to sheets, and of errors to missing items."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from fathom.core.errors import FathomError, InvalidField, NotFound
from fathom.domain import frames
from fathom.services.datafetch.query.model import Column, Missing, Sheet
from fathom.services.datafetch.query.result import describe_column, make_sheet
from fathom.services.datafetch.sources.base import DataRequest, Fetched, NoVintage, RowIssue
from fathom.services.datafetch.sources.upload import read_upload

# Key columns; all others are values.
KEYS = frozenset({"date", "concept", "unit", "start", "end", "filed", "form", "accession", "latest", "published"})
FILES = {
    "text/csv": "table.csv",
    "text/tab-separated-values": "table.tsv",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "table.xlsx",
    "application/vnd.apache.parquet": "table.parquet",
}


def to_sheet(fetched: Fetched, title: str = "") -> Sheet:
    """Return a sheet whose columns have unit, source, vendor, entity and the last day of knowledge."""
    where, entity = fetched.provenance, fetched.facts.get("symbol", "")
    columns = []
    for name in fetched.table.column_names:
        bare = describe_column(fetched.table, name)
        if name in KEYS:
            columns.append(bare)
            continue
        columns.append(
            Column(
                name,
                bare.type,
                fetched.units.get(name, ""),
                entity=entity,
                # Where it stands in a user's file is what somebody looks for who checks a number.
                source=f"{title or where.place} {fetched.cells[name]}" if name in fetched.cells else where.place,
                as_of=where.known_until.isoformat() if where.known_until else "",
                nulls=bare.nulls,
                vendor=where.vendor,
            )
        )
    facts = (fetched.facts.get("name"), fetched.facts.get("title"), entity)
    return make_sheet(fetched.table, title or ", ".join(fact for fact in facts if fact) or where.place, columns)


def to_missing(request: DataRequest, error: FathomError, as_of: date | None = None) -> Missing:
    """Return the missing item that reports a connector's error."""
    if isinstance(error, NoVintage):
        reason = "NOT_YET_PUBLISHED"
    elif isinstance(error, NotFound):
        reason = "NOT_YET_PUBLISHED" if as_of is not None and (request.start or as_of) > as_of else "NO_DATA_IN_PERIOD"
    elif isinstance(error, InvalidField) and error.field == "symbol":
        reason = "UNKNOWN_ENTITY"
    else:
        reason = "SOURCE_FAILED"
    period = f"{request.start or ''}..{request.end or ''}" if request.start or request.end else ""
    nearest = error.nearest if isinstance(error, NotFound) else ()
    return Missing(request.symbol, reason, error.message, ", ".join(request.fields), period, nearest)


# Sheets of a workbook behind its first one that a call looks at.
MOST_FURTHER = 64


class ImportedTable(NamedTuple):
    """A caller's own table as a sheet, its invalid rows, and the names of all sheets of its workbook."""

    sheet: Sheet
    issues: tuple[RowIssue, ...] = ()
    worksheets: tuple[str, ...] = ()


def import_table(data: bytes, content_type: str, title: str, worksheet: str = "") -> ImportedTable:
    """Return a caller's own table; ``content_type`` selects the format.

    The sheet of a workbook that has several is called by the workbook and by its own name. Raises
    ``InvalidField("data")`` for an unknown type, and the errors of ``read_upload`` and ``frames.read_table``.
    """
    # Parameters such as the charset follow a semicolon.
    kind, name = content_type.partition(";")[0].strip().lower(), title or "imported table"
    if kind in frames.ARROW_TYPES:
        table = frames.read_table(data, "data")
        return ImportedTable(make_sheet(table, name, [describe_column(table, one) for one in table.column_names]))
    if kind not in FILES:
        raise InvalidField("data", f"content type {kind[:80]!r} is none of {', '.join([frames.ARROW_STREAM, *FILES])}")
    fetched = read_upload(data, FILES[kind], worksheet)
    page = worksheet or fetched.worksheets[0] if len(fetched.worksheets) > 1 else ""
    return ImportedTable(to_sheet(fetched, f"{name} {page}".strip()), fetched.issues, fetched.worksheets)


class RefusedWorksheet(NamedTuple):
    """A further sheet of a workbook that is no table, and why."""

    worksheet: str
    reason: str


def import_tables(
    data: bytes, content_type: str, title: str, worksheet: str = "", further: int = 0
) -> tuple[ImportedTable, list[tuple[str, ImportedTable] | RefusedWorksheet]]:
    """Return a caller's own table, and as many as ``further`` more of its workbook with their names.

    Raises as ``import_table`` does for the first one; a further sheet that is no table costs no other.
    """
    first = import_table(data, content_type, title, worksheet)
    found: list[tuple[str, ImportedTable] | RefusedWorksheet] = []
    taken = 0
    for page in first.worksheets[1 : MOST_FURTHER + 1]:
        if taken == further:
            break
        try:
            found.append((page, import_table(data, content_type, title, page)))
            taken += 1
        except FathomError as error:
            found.append(RefusedWorksheet(page, error.message))
    return first, found
