"""Tables that a cell shows: typed columns as JSON, the index as columns, and limits that say what to do."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fathom.services.sandbox.inside.finance.results import Column
from fathom.services.sandbox.inside.tables import MAX_ROWS, TableDisplay, TableTooLarge, encode_table
from fathom.services.sandbox.ipc.frames import TABLE


def read(table: Any, title: str = "", units: dict[str, str] | None = None) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(encode_table(table, title, units or {}, is_result=True))
    return content


def test_columns_have_types_and_nulls() -> None:
    frame = pd.DataFrame(
        # One column of each kind, with a gap where the kind may have one.
        {
            "year": [2020, 2021],
            "return": [0.25, None],
            "day": pd.to_datetime(["2020-01-02", None]),  # type: ignore[arg-type]
            "at": pd.to_datetime(["2020-01-02 09:30", "2020-01-03 00:00"], utc=True),
            "ok": [True, False],
            "name": ["Apple", None],
            "kind": pd.Categorical(["a", "b"]),
            "born": [datetime.date(1976, 4, 1), None],
            "days": np.array([1, 2], dtype="timedelta64[D]"),
        }
    )
    columns = {column["name"]: (column["type"], column["values"]) for column in read(frame)["columns"]}
    assert columns == {
        "year": ("integer", [2020, 2021]),
        "return": ("number", [0.25, None]),
        "day": ("date", ["2020-01-02", None]),
        # A time with any clock time in it makes the whole column times.
        "at": ("time", ["2020-01-02T09:30:00.000000", "2020-01-03T00:00:00.000000"]),
        "ok": ("boolean", [True, False]),
        "name": ("text", ["Apple", None]),
        "kind": ("text", ["a", "b"]),
        "born": ("date", ["1976-04-01", None]),
        "days": ("text", ["1 days 00:00:00", "2 days 00:00:00"]),
    }


def test_an_index_that_says_something_becomes_columns_and_one_that_counts_does_not() -> None:
    assert [column["name"] for column in read(pd.DataFrame({"a": [1]}))["columns"]] == ["a"]
    # A year as an index is what the row is about; 0, 1, 2… is counting.
    years = pd.Series([0.1, 0.2], index=pd.PeriodIndex(["2020", "2021"], freq="Y"), name="return")
    assert [(c["name"], c["values"]) for c in read(years)["columns"]] == [
        ("date", ["2020", "2021"]),
        ("return", [0.1, 0.2]),
    ]
    grouped = pd.DataFrame({"name": ["Apple", "Apple"], "year": [2020, 2021], "value": [1.0, 2.0]})
    table = grouped.groupby(["name", "year"]).agg({"value": ["mean", "max"]})
    # Two levels of columns are joined by a blank.
    assert [c["name"] for c in read(table)["columns"]] == ["name", "year", "value mean", "value max"]


SHEET = pd.DataFrame({"date": pd.date_range("2020-01-01", periods=4), "close": [3.0, 1.0, 4.0, 2.0]})


# Selections keep the row numbers of the table they come from, with gaps or in another order.
@pytest.mark.parametrize(
    "selected",
    [
        SHEET[SHEET["close"] > 1.5],
        SHEET.iloc[1:3],
        SHEET.sort_values("close"),
        SHEET.nlargest(2, "close"),
        SHEET[["close"]].sort_values("close"),
        pd.concat([SHEET, SHEET])[["close"]],
    ],
)
def test_row_numbers_of_the_table_selected_from_are_no_column(selected: pd.DataFrame) -> None:
    assert "item" not in [column["name"] for column in read(selected)["columns"]]


def test_integers_that_say_what_a_row_is_about_stay_a_column() -> None:
    # Integers that neither count nor come from another table.
    by_year = pd.DataFrame.from_dict({2020: {"return": 0.1}, 2021: {"return": 0.2}}, orient="index")
    assert [(c["name"], c["values"]) for c in read(by_year)["columns"]] == [
        ("item", [2020, 2021]),
        ("return", [0.1, 0.2]),
    ]
    assert [c["name"] for c in read(pd.Series({2020: 0.1, 2022: 0.2}, name="return"))["columns"]] == ["item", "return"]


def test_names_are_distinct_and_units_are_those_of_columns() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    content = read(frame, "  A\ntitle ", {"a": "USD", "b": "%"})
    assert [c["name"] for c in content["columns"]] == ["a", "a (2)"]
    # A unit for a column that is not there is dropped.
    assert (content["title"], content["units"]) == ("A title", {"a": "USD"})


def test_a_table_over_a_limit_is_named_with_the_way_out() -> None:
    with pytest.raises(TableTooLarge, match="50,001 rows are over the limit of 50,000: aggregate or select first"):
        encode_table(pd.DataFrame({"a": range(MAX_ROWS + 1)}), "", {}, is_result=True)
    with pytest.raises(TableTooLarge, match="201 columns"):
        encode_table(pd.DataFrame([range(201)]), "", {}, is_result=True)
    with pytest.raises(TableTooLarge, match="4 MiB"):
        # Five million characters in 5,000 rows: within the limit of rows.
        encode_table(pd.DataFrame({"a": ["x" * 1_000] * 5_000}), "", {}, is_result=True)


def test_show_table_refuses_what_is_no_table() -> None:
    shown: list[dict[str, Any]] = []

    def add(bundle: dict[str, Any]) -> str:
        shown.append(bundle)
        return TABLE

    display = TableDisplay(add, lambda value: False)
    with pytest.raises(TypeError, match="not dict"):
        display.show_table({"a": 1})
    with pytest.raises(ValueError, match="empty"):
        display.show_table(pd.DataFrame({"a": []}))
    display.show_table(pd.DataFrame({"a": [1]}), "Returns", units={"a": "%"})
    assert json.loads(shown[0][TABLE])["title"] == "Returns"


def test_a_given_sheet_and_an_empty_frame_make_no_new_sheet(capsys: pytest.CaptureFixture[str]) -> None:
    given = pd.DataFrame({"a": [1]})
    display = TableDisplay(lambda bundle: TABLE, lambda value: value is given)
    assert display.make_bundle(given) == {}
    assert display.make_bundle(pd.DataFrame()) == {}
    assert TABLE in display.make_bundle(given.copy())
    # A table over the limit is printed as text and told on the error stream.
    assert display.make_bundle(pd.DataFrame({"a": range(MAX_ROWS + 1)})) == {}
    assert "was not kept as a sheet" in capsys.readouterr().err


def test_a_result_of_the_finance_library_brings_its_convention() -> None:
    stated = Column(pd.Series({"Apple": 0.806, "Microsoft": 0.421}, name="return"))
    stated.attrs = {"convention": "Total return."}
    assert read(stated)["convention"] == "Total return."
    # What is computed further has none, and other frames hand on attributes that need not hold any more.
    # A percentage of a return is no return any more, so its convention does not hold.
    assert read(stated * 100)["convention"] == ""
    plain = pd.Series([0.1], name="return")
    plain.attrs = {"convention": "Total return."}
    assert read(plain)["convention"] == ""
