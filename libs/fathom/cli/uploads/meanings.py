"""Meanings of the columns of own tables: proposed by a gateway, written to a file, edited there, and sent back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fathom.cli.uploads.requests import call_gateway
from fathom.core.errors import InvalidField, NotFound

Columns = Sequence[Mapping[str, Any]]
HEAD = """\
# What the columns of these tables mean. Edit it and ask with --columns THIS_FILE.
# role: date, label (whose the rows are), value or ignored. names: what questions call it, first what answers say.
# aggregation: how the values of a period become one: sum (amounts), last (states), mean; "" if it is not known.
# year: of the values, where no column has dates; period: the same where it is no year ("Q1 2024", "Jan-24"), or a
# part of the years that the rows have ("Q1").
"""
MAX_BYTES = 1_000_000
# Shown of a table in one line; the file has all.
MOST_SHOWN = 6


def propose_columns(gateway: str, sheet_id: str, name: str, *, always: bool = False) -> Columns:
    """Return what a gateway proposes for an imported table; () where that says no more than the table itself.

    ``always`` returns it then, too. A gateway of an earlier version proposes nothing.
    """
    try:
        found = call_gateway("GET", make_url(gateway, sheet_id), name, "with")
    except NotFound:
        return ()
    columns: Columns = found.get("columns", ()) if always or found.get("adds") else ()
    return columns


def apply_columns(gateway: str, sheet_id: str, name: str, columns: Columns) -> dict[str, Any]:
    """Return the gateway's answer with the sheet of series; raise ``InvalidField`` for columns that do not fit."""
    body = json.dumps({"columns": list(columns)}).encode()
    return call_gateway("PUT", make_url(gateway, sheet_id), name, "columns", body)


def make_url(gateway: str, sheet_id: str) -> str:
    return f"{gateway.rstrip('/')}/v1/tables/{sheet_id}/meaning"


def describe_columns(columns: Columns) -> str:
    """Return a line on what columns mean: "Output, Revenue (sum) by Plant and year"."""
    values: dict[str, str] = {}
    for column in columns:
        if column.get("role") == "value":
            way = column.get("aggregation") or ""
            said = (column.get("names") or [column.get("column")])[0]
            values.setdefault(str(said), f"{said} ({way})" if way else str(said))
    shown = list(values.values())
    more = f" and {len(shown) - MOST_SHOWN} more" if len(shown) > MOST_SHOWN else ""
    by = [str(column.get("column")) for role in ("label", "date") for column in columns if column.get("role") == role]
    by += [kind for kind in ("year", "period") if any(column.get(kind) for column in columns)]
    return f"{', '.join(shown[:MOST_SHOWN])}{more} by {' and '.join(by) or 'row'}"


def write_meanings(meanings: Mapping[str, Columns]) -> str:
    """Return meanings by the names of tables as YAML with an explanation."""
    import yaml

    plain = {name: [trim(column) for column in columns] for name, columns in meanings.items()}
    return HEAD + yaml.safe_dump(plain, allow_unicode=True, sort_keys=False)


def trim(column: Mapping[str, Any]) -> dict[str, Any]:
    """Return a column without what is not said of it."""
    return {key: value for key, value in column.items() if value or key in ("column", "role")}


def read_meanings(file: Path) -> dict[str, Columns]:
    """Read meanings by the names of tables; raise ``InvalidField("columns")`` for a file that holds none."""
    import yaml

    try:
        if file.stat().st_size > MAX_BYTES:
            raise InvalidField("columns", f"{file} has more than {MAX_BYTES:,} bytes")
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidField("columns", f"{file} cannot be read ({error})") from error
    if not isinstance(found, dict) or not all(
        isinstance(columns, list) and all(isinstance(column, dict) for column in columns) for columns in found.values()
    ):
        raise InvalidField("columns", f"{file} is no list of columns per table: see `fathom columns --to FILE`")
    return {str(name): columns for name, columns in found.items()}
