"""Paging of a sheet's Arrow stream as JSON rows: filtered and sorted on the whole sheet, then cut."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fathom.core.errors import InvalidField
from fathom.domain import frames

# More rows than a page can display; larger requests belong to the export.
MAX_ROWS = 1_000
# Every word is compared with every cell: a long filter would cost time, and no user types one.
MAX_FILTER_CHARS = 200


@dataclass(frozen=True)
class View:
    """Requested view of a sheet: ``limit`` rows from ``offset`` on, after filter and sorting."""

    offset: int = 0
    limit: int = 50
    sort: str = ""
    """Column to sort by; empty keeps the sheet's order."""
    descending: bool = False
    words: str = ""
    """Keep only rows in which each of these words occurs somewhere, in any case; empty keeps all."""


def build_page(arrow: bytes, sheet_id: str, view: View) -> dict[str, Any]:
    """Return a page of rows as lists of JSON values in the order of ``columns``.

    ``total`` is the number of rows of the whole sheet that pass the filter. Nulls sort last in both directions. Raises
    ``InvalidField`` for a column that is unknown or cannot be sorted, and ``CorruptData``.
    """
    table = frames.read_table(arrow, sheet_id)
    if view.words.strip():
        table = filter_rows(table, view.words.split())
    if view.sort:
        table = sort_rows(table, view.sort, view.descending)
    part = table.slice(view.offset, view.limit)
    return {
        "columns": [{"name": field.name, "type": str(field.type)} for field in table.schema],
        "rows": [
            [to_json_value(value) for value in row] for row in zip(*(c.to_pylist() for c in part.columns), strict=True)
        ],
        "total": table.num_rows,
        "offset": view.offset,
    }


def validate_view(view: View) -> View:
    """Return the view; raise ``InvalidField`` for an impossible range or a filter that is too long."""
    if view.offset < 0:
        raise InvalidField("offset", "must not be negative")
    if not 1 <= view.limit <= MAX_ROWS:
        raise InvalidField("limit", f"must be 1 to {MAX_ROWS:,}")
    if len(view.words) > MAX_FILTER_CHARS:
        raise InvalidField("filter", f"must be at most {MAX_FILTER_CHARS} characters")
    return view


def filter_rows(table: Any, words: Sequence[str]) -> Any:
    """Return the rows in which each word is part of some displayed cell; "2020-12" finds that month."""
    # Compared as displayed, so that a user finds what the page shows.
    shown = [[str(to_json_value(value)).casefold() for value in column.to_pylist()] for column in table.columns]
    rows = [" ".join(cells) for cells in zip(*shown, strict=True)]
    kept = [index for index, row in enumerate(rows) if all(word.casefold() in row for word in words)]
    return table.take(frames.arrow().array(kept, "int64"))


def sort_rows(table: Any, column: str, descending: bool) -> Any:
    """Return the table sorted by one column; equal rows keep their order. Raises ``InvalidField("sort")``."""
    if column not in table.column_names:
        raise InvalidField("sort", f"no column {column!r}; known: {', '.join(table.column_names)}")
    pa = frames.arrow()
    try:
        # The row's position breaks ties: pages of one sorting must never overlap.
        position = pa.array(range(table.num_rows), "int64")
        keys = [("value", "descending" if descending else "ascending"), ("position", "ascending")]
        order = pa.table({"value": table.column(column), "position": position}).sort_by(keys)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidField("sort", f"column {column!r} has no order ({table.schema.field(column).type})") from error
    return table.take(order.column("position"))


def to_json_value(value: Any) -> Any:
    """Convert to a JSON value: dates and times ISO 8601, bytes base64, NaN null, infinities as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return None
        # JSON has neither NaN nor infinities.
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [to_json_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_json_value(item) for key, item in value.items()}
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    # A day is stored as its midnight.
    return text.removesuffix("T00:00:00")
