"""Rows of own tables as passages: each cell with its column, each row with its place, as many as a corpus takes."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pyarrow as pa

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.domain import frames
from fathom.services.gateway.own_tables.passages import MOST_ROWS, PASSAGE_CHARS, write_passages


def write(table: pa.Table, **places: str) -> list[dict[str, Any]]:
    columns = [data.Column(name=name, source=places.get(name, "")) for name in table.column_names]
    sheet = data.Sheet(id="t1", title="model.xlsx Assumptions", rows=table.num_rows, columns=columns)
    return [json.loads(line) for line in write_passages(frames.write_table(table), sheet).splitlines()]


def test_a_row_has_its_cells_behind_their_columns_and_its_place() -> None:
    table = pa.table(
        {
            "Metric": ["Tax rate", "Loan | bank", "See the note"], "Value, %": [25.8, None, None],
            "Ends": [date(2031, 6, 30), date(2034, 1, 1), None],
        }
    )  # fmt: skip
    cells = {"Metric": "model.xlsx A3:A4, A6", "Value, %": "model.xlsx B3:B4, B6", "Ends": "model.xlsx C3:C4, C6"}
    assert write(table, **cells) == [
        {
            "title": "model.xlsx Assumptions",
            "text": "Tax rate | Value, %: 25.8 | Ends: 2031-06-30 | (A3:C3)\nLoan / bank | Ends: 2034-01-01 | (A4:C4)"
            "\nSee the note",
            "source": "model.xlsx Assumptions",
            "type": "table",
        }
    ]
    # A place that is not known of all rows is that of none.
    assert "A3" not in write(table, Metric="model.xlsx A3:A4")[0]["text"]
    assert write(pa.table({"Metric": [None, " "]})) == []


def test_long_tables_are_cut_between_rows_and_after_the_last_that_is_taken() -> None:
    table = pa.table(
        {"Item": [f"Item {row} {'x' * 60}" for row in range(MOST_ROWS + 1)], "Value": [1.0] * (MOST_ROWS + 1)}
    )
    texts = [one["text"] for one in write(table)]
    assert max(map(len, texts)) <= PASSAGE_CHARS
    rows = [line for text in texts for line in text.splitlines()]
    assert len(rows) == MOST_ROWS
    assert rows[-1].startswith(f"Item {MOST_ROWS - 1} ")
