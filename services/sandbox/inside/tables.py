"""Tables that a cell shows: frames and series as JSON of typed columns, with title, units and limits."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from fathom.services.sandbox.inside.finance import Column, Table
from fathom.services.sandbox.ipc.frames import TABLE

# A reader pages through a table of this size, and its JSON stays below the limit of a cell's displays.
MAX_ROWS, MAX_COLUMNS, MAX_CELLS = 50_000, 200, 500_000
MAX_TABLE_BYTES = 4 * 1024 * 1024
MAX_TEXT_CHARS, MAX_TITLE_CHARS, MAX_NAME_CHARS = 1_000, 200, 120
# JSON and not Arrow: whoever reads it need not trust a binary reader with bytes that a cell may have made up.
DUMP = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class TableTooLarge(ValueError):
    """Raised for a table over a limit; the message names the limit."""


class TableDisplay:
    """Display of tables for one session: the function ``show_table`` and the formatter of frames and series."""

    def __init__(self, add: Callable[[dict[str, Any]], str], is_sheet: Callable[[Any], bool]) -> None:
        """Create it; ``add`` sends a bundle, ``is_sheet`` recognises a sheet that the session was given."""
        self._add, self._is_sheet = add, is_sheet

    def show_table(self, table: Any, title: str = "", units: Mapping[str, str] | None = None) -> None:
        """Show a DataFrame or Series as a table of results: it becomes the next sheet_n, which the answer can place.

        ``units`` gives units by column, such as {"return": "%", "price": "USD"}. At most 50,000 rows, 200 columns and
        4 MiB. Raises ``TypeError`` for any other object and ``ValueError`` for a larger or an empty table.
        """
        if not isinstance(table, (pd.DataFrame, pd.Series)):
            raise TypeError(f"show_table takes a DataFrame or a Series, not {type(table).__name__}")
        # Rows without columns have a length and nothing to show.
        if not (len(table) and np.ndim(table) and table.size):
            raise ValueError("show_table: the table is empty")
        self._add({TABLE: encode_table(table, str(title), units or read_units(table), is_result=False)})

    def make_bundle(self, value: Any, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return the table of a displayed frame; {} for an empty one, a given sheet, or one over the limits."""
        # A sheet that the session was given is in the answer's material already, under its own name.
        if not value.size or self._is_sheet(value):
            return {}
        try:
            return {TABLE: encode_table(value, "", read_units(value), is_result=True)}
        except TableTooLarge as error:
            print(f"this table was not kept as a sheet: {error}", file=sys.stderr)
            return {}

    def make_styled_bundle(self, styler: Any, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return the table of a styled frame: with its values, and the text of the frame."""
        bundle = self.make_bundle(styler.data)
        return {**bundle, "text/plain": str(styler.data)} if bundle else {}


def read_units(table: Any) -> dict[str, str]:
    """Return the units of a result of ``finance``; {} for other frames, whose ``attrs`` outlive their values."""
    units = table.attrs.get("units") if isinstance(table, (Column, Table)) else None
    return dict(units) if isinstance(units, Mapping) else {}


def read_convention(table: Any) -> str:
    """Return how a result of ``finance`` was computed, in one sentence; "" for other frames."""
    stated = table.attrs.get("convention", "") if isinstance(table, (Column, Table)) else ""
    return str(stated)[:MAX_TEXT_CHARS]


def encode_table(table: Any, title: str, units: Mapping[str, str], *, is_result: bool) -> str:
    """Return a frame as JSON: title, units, and columns with name, type and values.

    The types are ``number``, ``integer``, ``boolean``, ``date``, ``time`` and ``text``; null stands for a missing
    value. A named or non-trivial index becomes the first columns. Raises ``TableTooLarge``.
    """
    rows, columns = len(table), 1 if isinstance(table, pd.Series) else table.shape[1]
    # Before anything is copied: a frame over the limit may be as large as the session's memory.
    for count, limit, what in ((rows, MAX_ROWS, "rows"), (columns, MAX_COLUMNS, "columns")):
        if count > limit:
            raise TableTooLarge(f"{count:,} {what} are over the limit of {limit:,}: aggregate or select first")
    if rows * columns > MAX_CELLS:
        raise TableTooLarge(f"{rows * columns:,} cells are over the limit of {MAX_CELLS:,}: aggregate or select first")
    # Named columns from here on, since a sheet has no index.
    frame = flatten_index(table)
    names = make_names(frame)
    content = {
        "title": " ".join(title.split())[:MAX_TITLE_CHARS],
        "convention": read_convention(table),
        "is_result": is_result,
        "units": {str(name): str(unit)[:MAX_NAME_CHARS] for name, unit in units.items() if str(name) in names},
        "columns": [
            dict(zip(("name", "type", "values"), (name, *encode_column(frame.iloc[:, place])), strict=True))
            for place, name in enumerate(names)
        ],
    }
    encoded = DUMP(content)
    if len(encoded.encode("utf-8", "replace")) > MAX_TABLE_BYTES:
        raise TableTooLarge(f"its text is over {MAX_TABLE_BYTES >> 20} MiB: aggregate or select first")
    return encoded


def flatten_index(table: Any) -> pd.DataFrame:
    """Return a frame whose index, unless it only counts rows, has become columns."""
    if isinstance(table, pd.Series):
        table = table.to_frame("value" if table.name is None else table.name)
    frame: pd.DataFrame = table
    if is_row_count(frame):
        return frame
    index = frame.index
    plain = "date" if isinstance(index, (pd.DatetimeIndex, pd.PeriodIndex)) else "item"
    levels = [index.get_level_values(level) for level in range(index.nlevels)]
    keys = {
        str(level.name) if level.name is not None else plain if index.nlevels == 1 else f"{plain} {place}": level
        for place, level in enumerate(levels, 1)
    }
    heads = pd.DataFrame(
        {name: pd.Series(np.asarray(level.astype(object)), dtype=object) for name, level in keys.items()}
    )
    values = frame.reset_index(drop=True)
    whole: pd.DataFrame = pd.concat(
        [heads, values.set_axis([join_name(name) for name in values.columns], axis=1)], axis=1
    )
    return whole


def is_row_count(frame: pd.DataFrame) -> bool:
    """Return whether a frame's index only counts the rows of the table that it was selected from.

    Such an index has no name. It is integers that repeat, or all those from 0 in any order, or integers beside a column
    of dates or texts, which says what a row is about. Other integers beside numbers alone may be years or groups.
    """
    index = frame.index
    if index.nlevels > 1 or index.name is not None or not pd.api.types.is_integer_dtype(index.dtype):
        return False
    is_whole = not len(index) or bool(index.min() == 0 and index.max() == len(index) - 1)
    return is_whole or not index.is_unique or not all(map(pd.api.types.is_numeric_dtype, frame.dtypes))


def join_name(name: Any) -> str:
    """Return a column's name as text; the levels of a name are joined by a blank."""
    return " ".join(str(part) for part in name if str(part)) if isinstance(name, tuple) else str(name)


def make_names(frame: pd.DataFrame) -> list[str]:
    """Return distinct names of the columns, at most ``MAX_NAME_CHARS`` characters each."""
    names: list[str] = []
    for position, column in enumerate(frame.columns, 1):
        wanted = " ".join(join_name(column).split())[:MAX_NAME_CHARS] or f"column {position}"
        number, name = 2, wanted
        while name in names:
            name, number = f"{wanted} ({number})", number + 1
        names.append(name)
    return names


def encode_column(column: Any) -> tuple[str, list[Any]]:
    """Return type and values of a column."""
    kind, api = column.dtype, pd.api.types
    # What counts is the type of the categories, not that they are stored as numbers.
    if isinstance(kind, pd.CategoricalDtype):
        column = column.astype(object)
        kind = column.dtype
    if api.is_bool_dtype(kind):
        return "boolean", [None if pd.isna(value) else bool(value) for value in column]
    if api.is_integer_dtype(kind):
        # As Python integers: one that 64 bits cannot hold becomes a number instead of wrapping around.
        return encode_objects(column.astype(object))
    if api.is_float_dtype(kind):
        return "number", [None if pd.isna(value) else float(value) for value in column]
    if api.is_datetime64_any_dtype(kind):
        return encode_objects(column.astype(object))
    return encode_objects(column)


def encode_objects(column: Any) -> tuple[str, list[Any]]:
    """Return type and values of a column of Python objects, by what all values that are not null have in common."""
    values = [None if pd.api.types.is_scalar(value) and pd.isna(value) else value for value in column]
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, (bool, np.bool_)) for value in known):
        return "boolean", [None if value is None else bool(value) for value in values]
    # For Python a truth value is a number, too.
    numbers = all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in known)
    if known and numbers:
        # Arrow's integers have 64 bits; larger ones keep their size as numbers.
        whole = all(isinstance(value, (int, np.integer)) and -(2**63) <= value < 2**63 for value in known)
        number: Callable[[Any], Any] = int if whole else float
        return "integer" if whole else "number", [None if value is None else number(value) for value in values]
    if known and all(isinstance(value, datetime.date) for value in known):
        return encode_times(values)
    return "text", [None if value is None else str(value)[:MAX_TEXT_CHARS] for value in values]


def encode_times(values: list[Any]) -> tuple[str, list[Any]]:
    """Return days as ``date``, and as ``time`` in UTC when one of them has a time of day."""
    moments = [None if value is None else pd.Timestamp(value) for value in values]
    plain = [
        None if one is None else one if one.tzinfo is None else one.tz_convert("UTC").tz_localize(None)
        for one in moments
    ]
    if all(one is None or one == one.normalize() for one in plain):
        return "date", [None if one is None else one.date().isoformat() for one in plain]
    return "time", [None if one is None else one.isoformat(timespec="microseconds") for one in plain]
