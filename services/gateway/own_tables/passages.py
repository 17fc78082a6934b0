"""Rows of a table as passages: each cell with the name of its column, each row with its place in the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.domain import frames
from fathom.domain.text.addresses import join_cells, list_cells
from fathom.services.gateway.tables import to_json_value

# Larger tables are computed on; nobody asks for one of their rows by its words.
MOST_ROWS = 500
# As long as the passages of documents, so that an encoder reads them whole.
PASSAGE_CHARS = 1_000
SEPARATOR = " | "
MOST_CELL_CHARS = 300


def write_passages(arrow: bytes, sheet: data.Sheet) -> bytes:
    """Return the first rows of a sheet as JSON lines, each a document of some rows that follow each other."""
    table = frames.read_table(arrow, sheet.id).slice(0, MOST_ROWS)
    rows = [row for row in list_rows(table, list_places(table, sheet)) if row]
    texts = list[str]()
    for row in rows:
        if texts and len(texts[-1]) + len(row) < PASSAGE_CHARS:
            texts[-1] += f"\n{row}"
        else:
            texts.append(row)
    # Neither words nor a language model read the type: it tells rows of tables from what somebody has written.
    lines = ({"title": sheet.title, "text": text, "source": sheet.title, "type": "table"} for text in texts)
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode()


def list_places(table: pa.Table, sheet: data.Sheet) -> list[str]:
    """Return where each row stands in its file: "A5:K5"; "" where that is not known of all rows."""
    # Columns of days and other keys say no place.
    known = [list_cells(column.source, sheet.rows) for column in sheet.columns if column.source]
    if not known or not all(known):
        return [""] * table.num_rows
    return [", ".join(join_cells([cells[row] for cells in known])) for row in range(table.num_rows)]


def list_rows(table: pa.Table, places: Sequence[str]) -> Iterator[str]:
    """Yield each row as a line: its first cell, the others behind the names of their columns, and its place."""
    names = [" ".join(name.split()) for name in table.column_names]
    for cells, place in zip(zip(*(column.to_pylist() for column in table.columns), strict=True), places, strict=True):
        written = [(name, write_cell(cell)) for name, cell in zip(names, cells, strict=True)]
        said = [text if not at else f"{name}: {text}" for at, (name, text) in enumerate(written) if text]
        # A note in a single cell needs no bars.
        yield SEPARATOR.join([*said, f"({place})"] if place and len(said) > 1 else said)


def write_cell(cell: Any) -> str:
    """Return a cell as a line of text has it; "" for an empty one."""
    value = to_json_value(cell)
    if value is None:
        return ""
    # A bar parts cells.
    text = f"{value:.12g}" if isinstance(value, float) else " ".join(str(value).replace("|", "/").split())
    return text[:MOST_CELL_CHARS]
