"""Tables as offices have them: what is read as people mean it, and what is reported by cell instead."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.core.errors import CorruptData, PayloadTooLarge
from fathom.domain import frames
from fathom.domain.text.addresses import name_column
from fathom.domain.text.encodings import decode_text
from fathom.services.datafetch.catalog.files import convert_csv
from fathom.services.datafetch.programs.own import list_own_series
from fathom.services.datafetch.sources.sheet import import_table
from fathom.services.datafetch.sources.upload import UploadLimits, read_upload
from tests.support.bombs import make_archive_bomb

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def csv(text: str, encoding: str = "utf-8") -> Any:
    return read_upload(text.encode(encoding), "t.csv")


def read_column(cells: Sequence[str], name: str = "x") -> Any:
    found = csv("\n".join(['"' + cell + '"' for cell in (name, *cells)]))
    return found.table.column(name).to_pylist(), found.units.get(name, ""), found.issues


def write_book(rows: Sequence[Sequence[Any]], merged: Sequence[str] = (), further: str = "") -> bytes:
    book = openpyxl.Workbook()
    page = book.active
    for row in rows:
        page.append(list(row))
    for cells in merged:
        page.merge_cells(cells)
    if further:
        book.create_sheet(further)
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("cells", "values", "unit"),
    [
        (["1.234,5", "987,25", "-12"], [1234.5, 987.25, -12.0], ""),
        (["1.234.567,89", "(45,2)"], [1234567.89, -45.2], ""),
        (["1 234,50", "12 000,00"], [1234.5, 12000.0], ""),
        (["(45.2)", "1,234.5"], [-45.2, 1234.5], ""),
        (["$99", "$1,234.50", "-$5", "($7.5)"], [99.0, 1234.5, -5.0, -7.5], "$"),
        (["€ 1.234,50", "99,00 €"], [1234.5, 99.0], "€"),
        (["US$5", "US$ 1,200"], [5.0, 1200.0], "US$"),
        (["￥1,200", "￥300"], [1200.0, 300.0], "￥"),
        (["12,5 %", "7,25%"], [12.5, 7.25], "%"),
        (["1,234", "2,345"], [1234, 2345], ""),
    ],
)
def test_numbers_as_people_write_them(cells: list[str], values: list[float], unit: str) -> None:
    found, said, issues = read_column(cells)
    assert (found, said, issues) == (values, unit, ())


def test_points_group_digits_where_another_column_has_decimal_commas() -> None:
    found = csv("units;price\n1.234;12,50\n2.345;13,75\n")
    assert found.table.to_pydict() == {"units": [1234.0, 2345.0], "price": [12.5, 13.75]}
    assert csv("units;price\n1.234;12.50\n").table.to_pydict() == {"units": [1.234], "price": [12.5]}


def test_two_currencies_in_a_column_are_no_numbers_and_are_reported() -> None:
    found, unit, issues = read_column(["$5", "€6", "7", "8", "9"])
    assert (found, unit) == (["$5", "€6", "7", "8", "9"], "")
    assert [(issue.row, issue.column) for issue in issues] == [(2, "x"), (3, "x")]


DAYS = [date(2025, 12, 31), date(2025, 4, 3)]


@pytest.mark.parametrize(
    "cells",
    [
        ["31.12.2025", "03.04.2025"],
        ["31/12/2025", "03/04/2025"],
        ["12/31/2025", "04/03/2025"],
        ["31-Dec-2025", "3-Apr-2025"],
        ["December 31, 2025", "Apr 3, 2025"],
        ["31 December 2025", "2025-04-03"],
        ["2025-12-31", "3.4.2025"],
        ["2025年12月31日", "20250403"],
    ],
)
def test_days_as_people_write_them(cells: list[str]) -> None:
    found, _, issues = read_column(cells, "when")
    assert (found, issues) == (DAYS, ())


def test_days_that_may_be_months_are_reported_and_not_guessed() -> None:
    found, _, issues = read_column(["03/04/2025", "05/06/2025"])
    assert found == ["03/04/2025", "05/06/2025"]
    assert "cannot be told apart" in issues[0].reason
    # Where both are the same day, nothing is open.
    assert read_column(["04/04/2025"])[0] == [date(2025, 4, 4)]


@given(st.lists(st.dates(date(1990, 1, 1), date(2030, 12, 31)), min_size=1, max_size=30), st.booleans())
def test_an_order_of_day_and_month_is_right_or_open(days: list[date], is_day_first: bool) -> None:
    form = "%d/%m/%Y" if is_day_first else "%m/%d/%Y"
    found, _, issues = read_column([day.strftime(form) for day in days])
    assert found == days or "cannot be told apart" in issues[0].reason


def test_a_title_above_the_table_is_named_and_costs_no_row() -> None:
    data = write_book(
        [["Sales of 2025"], [], ["Date", "Units"], [date(2025, 1, 31), 5], [date(2025, 2, 28), 7]], ["A1:B1"]
    )
    found = read_upload(data, "t.xlsx")
    assert found.table.to_pydict() == {"Date": [date(2025, 1, 31), date(2025, 2, 28)], "Units": [5, 7]}
    assert [(issue.row, "Sales of 2025" in issue.reason) for issue in found.issues] == [(1, True)]
    assert csv("Sales, of 2025\nDate;Units\n2025-01-31;5\n2025-02-28;7\n").table.column_names == ["Date", "Units"]


def test_a_header_of_merged_cells_gives_both_levels() -> None:
    rows = [
        ["Region", 2024, None, 2025, None],
        [None, "Units", "Revenue", "Units", "Revenue"],
        ["North", 1, 2.5, 3, 4.5],
    ]
    found = read_upload(write_book(rows, ["A1:A2", "B1:C1", "D1:E1"]), "t.xlsx")  # type: ignore[arg-type]
    assert found.table.to_pydict() == {
        "Region": ["North"], "2024 Units": [1], "2024 Revenue": [2.5], "2025 Units": [3], "2025 Revenue": [4.5],
    }  # fmt: skip
    assert not found.issues


def test_a_header_whose_last_cell_is_merged_loses_no_row() -> None:
    rows = [
        (None, "North", None, "South", None), (None, "FY24", "FY25", "FY24", "FY25"),
        ("Wheat", 1.5, 2.5, 3.5, 4.5), ("Barley", 5.5, 6.5, 7.5, 8.5),
    ]  # fmt: skip
    found = read_upload(write_book(rows, ["B1:C1", "D1:E1"]), "t.xlsx")
    assert found.table.to_pydict() == {
        "column_1": ["Wheat", "Barley"], "North FY24": [1.5, 5.5], "North FY25": [2.5, 6.5],
        "South FY24": [3.5, 7.5], "South FY25": [4.5, 8.5],
    }  # fmt: skip
    assert found.issues == ()
    # Without a second level the further columns have no names.
    found = read_upload(write_book([("Crop", "Sales", None), ("Wheat", 1.5, 2.5)], ["B1:C1"]), "t.xlsx")
    assert found.table.to_pydict() == {"Crop": ["Wheat"], "Sales": [1.5], "column_3": [2.5]}


def test_days_below_a_merged_cell_are_the_second_level() -> None:
    days = [date(2031, month, 28) for month in (1, 2, 3)]
    rows: list[list[object]] = [
        ["Stock of the yard"],
        ["Depot", "Tonnes at month-end, 2031"],
        [None, *days],
        ["North", 410, 387, 402],
        ["South", 95, 88, 71],
    ]
    found = read_upload(write_book(rows, ["A2:A3", "B2:D2"]), "t.xlsx")
    names = [f"Tonnes at month-end, 2031 {day}" for day in days]
    assert found.table.to_pydict() == dict(
        zip(["Depot", *names], [["North", "South"], [410, 95], [387, 88], [402, 71]], strict=True)
    )
    assert [issue.row for issue in found.issues] == [1]
    flat = read_upload(write_book([["Depot", *days], ["North", 1, 2, 3]]), "t.xlsx")
    assert flat.table.column_names == ["Depot", "2031-01-28", "2031-02-28", "2031-03-28"]


def test_days_above_further_days_are_data() -> None:
    days = [date(2031, month, 28) for month in (1, 2, 3)]
    found = read_upload(write_book([["Begin", None, "End"], days, days[::-1]]), "t.xlsx")
    assert found.table.num_rows == 2


def test_a_column_without_a_name_is_no_second_level() -> None:
    found = read_upload(write_book([["a", None, "c"], ["x", "y", "z"], ["u", "v", "w"]]), "t.xlsx")
    assert found.table.to_pydict() == {"a": ["x", "u"], "column_2": ["y", "v"], "c": ["z", "w"]}


def test_a_formula_without_a_stored_value_is_reported_by_cell() -> None:
    found = read_upload(write_book([["a", "b"], [1, "=A2*2"], [3, 4]]), "t.xlsx")
    assert found.table.to_pydict() == {"a": [1, 3], "b": [None, 4]}
    assert [(issue.row, "=A2*2" in issue.reason, "column 2" in issue.reason) for issue in found.issues] == [
        (2, True, True)
    ]


def test_a_column_says_in_which_cells_of_the_file_it_stands() -> None:
    rows = [["Sales"], [], ["Date", "Units"], [date(2025, 1, 31), 5], [date(2025, 2, 28), 7]]
    sheet, *_ = import_table(write_book(rows), XLSX, "sales.xlsx")  # type: ignore[arg-type]
    assert sheet.columns[1].source == "sales.xlsx B4:B5"
    sheet, *_ = import_table(b"a;b\n1;2\n", "text/csv", "t.csv")
    assert [column.source for column in sheet.columns] == ["t.csv A2:A2", "t.csv B2:B2"]
    assert [name_column(place) for place in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]


def test_further_sheets_are_named() -> None:
    found = read_upload(write_book([["a"], [1]], further="Costs"), "t.xlsx")
    assert (found.worksheets, found.issues) == (("Sheet", "Costs"), ())


def test_each_sheet_of_a_workbook_has_a_title_of_its_own() -> None:
    book = write_book([["a"], [1]], further="Costs 2031")
    assert import_table(book, XLSX, "t.xlsx").sheet.title == "t.xlsx Sheet"
    assert import_table(write_book([["a"], [1]]), XLSX, "t.xlsx").sheet.title == "t.xlsx"


def test_a_text_in_windows_1252_is_read_and_reported_and_gbk_is_not_mistaken_for_it() -> None:
    found = csv("naïve,café\n1,2\n", "cp1252")
    assert found.table.column_names == ["naïve", "café"]
    assert "Windows-1252" in found.issues[0].reason
    assert csv("日期,营业收入\n2025-01-31,5\n", "gbk").table.column_names == ["日期", "营业收入"]
    assert csv("Straße,Größe\nMüllerstraße,5\n", "cp1252").table.to_pydict() == {
        "Straße": ["Müllerstraße"],
        "Größe": [5],
    }


@given(st.text(st.sampled_from("营业收入同比增长利润现金流量表资产负债 0123abc,\n"), min_size=8, max_size=200))
def test_chinese_text_in_gbk_is_never_read_as_windows_1252(text: str) -> None:
    # Some characters of GBK are UTF-8 by chance, these two are not.
    decoded = decode_text(f"收入{text}".encode("gbk"))
    assert decoded == (f"收入{text}", "gb18030")


@pytest.mark.parametrize("cells", ["x" * 200_000, "1" * 200_000])
def test_a_huge_cell_is_left_out_with_its_row(cells: str) -> None:
    found = csv(f"a,b\n1,{cells}\n2,3\n")
    assert found.table.to_pydict() == {"a": [2], "b": [3]}
    assert found.issues[0].row == 2


def test_a_file_over_the_limit_and_a_bomb_are_refused() -> None:
    with pytest.raises(PayloadTooLarge):
        read_upload(b"a\n" * 100, "t.csv", limits=UploadLimits(file_bytes=100))
    book = write_book([["a"], ["0" * 30_000]] + [["0" * 30_000]] * 100)
    with pytest.raises(CorruptData, match="unpacks to"):
        read_upload(book, "t.xlsx", limits=UploadLimits(unpacked_bytes=100_000))


def test_a_bomb_of_a_gigabyte_is_refused_by_the_limits_that_hold_for_users() -> None:
    book = make_archive_bomb("xl/worksheets/sheet1.xml", 1 << 30)
    assert len(book) < 8 << 20
    started = time.process_time()
    with pytest.raises(CorruptData, match="unpacks to 1,073,741,824 bytes"):
        read_upload(book, "t.xlsx")
    assert time.process_time() - started < 1, "its directory says how much it is: nothing is unpacked"


def test_a_cell_of_two_gigabytes_in_a_folder_is_refused_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.write(b"entity,indicator,date,value\nE1,x,2020-01-01,1\nE2,x,2020-01-01,")
        # Zeros that take no room on the disk.
        file.seek(2 << 30)
        file.write(b"\nE3,x,2020-01-01,3\n")
    started = time.process_time()
    with pytest.raises(CorruptData, match=r"large\.csv:3.*over 2,000,000 bytes"):
        convert_csv(path, tmp_path / "large.parquet")
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("cells", "length", "last"),
    [
        (("Jan 2020", "Feb 2020"), "month", date(2020, 2, 29)),
        (("January 2020", "February 2020"), "month", date(2020, 2, 29)),
        (("2020-01", "2020-02"), "month", date(2020, 2, 29)),
        (("2020/01", "2020/02"), "month", date(2020, 2, 29)),
        (("Jan-20", "Feb-20"), "month", date(2020, 2, 29)),
        (("2020年1月", "2020年2月"), "month", date(2020, 2, 29)),
        (("Q1 2020", "Q2 2020"), "quarter", date(2020, 6, 30)),
        (("2020Q1", "2020Q2"), "quarter", date(2020, 6, 30)),
        (("1Q20", "2Q20"), "quarter", date(2020, 6, 30)),
        (("2020年第一季度", "2020年第二季度"), "quarter", date(2020, 6, 30)),
        (("H1 2020", "H2 2020"), "half year", date(2020, 12, 31)),
        (("FY2020", "FY2021"), "year", date(2021, 12, 31)),
        (("2020年", "2021年"), "year", date(2021, 12, 31)),
    ],
)
def test_periods_are_dated_by_their_last_day_and_it_is_said(cells: tuple[str, str], length: str, last: date) -> None:
    values, _, issues = read_column(cells)
    assert values[1] == last
    assert values[0] < last
    assert [(one.row, one.reason) for one in issues] == [(2, f"each cell is a {length}, dated by its last day")]


@pytest.mark.parametrize(
    "cells",
    [
        # A total beside the months would be a thirteenth value of December.
        ("Nov 2020", "Dec 2020", "FY2020"),
        ("Jan 2020", "see note"),
        ("May", "June"),
        ("Plan Q1 2020", "Plan Q2 2020"),
        ("Winter 2019", "Summer 2020"),
    ],
)
def test_texts_that_are_not_all_periods_of_one_length_stay_texts(cells: tuple[str, ...]) -> None:
    assert read_column(cells)[0] == list(cells)


@pytest.mark.parametrize("word", ["n/a", "-", "see note", "未披露"])
def test_one_word_in_a_column_of_numbers_is_a_missing_value_and_reported(word: str) -> None:
    values, _, issues = read_column(["1.5", "2", word, "4"])
    assert values == [1.5, 2.0, None, 4.0]
    # The usual words for "no value" are nothing to report.
    is_usual = word in ("n/a", "-")
    assert [one.row for one in issues] == ([] if is_usual else [4])
    assert all(word in one.reason for one in issues)


@pytest.mark.parametrize("remark", ["about 3, see note 2", "36 (12 of them returned)", "twelve or so"])
def test_one_remark_in_a_column_of_numbers_costs_its_own_cell_alone(remark: str) -> None:
    values, _, issues = read_column(["1.5", "2", remark, "4"])
    assert values == [1.5, 2.0, None, 4.0]
    assert [(one.row, remark in one.reason) for one in issues] == [(4, True)]


@pytest.mark.parametrize(
    "cells",
    [
        ["1", "2", "see note", "high", "low"],
        ["1", "2", "about 3"],
        ["1", "x"],
        # A code is no remark, and what names the rooms would lack one of them.
        ["101", "102", "103", "104B"],
    ],
)
def test_many_words_or_a_number_in_one_keep_a_column_as_text(cells: list[str]) -> None:
    assert read_column(cells)[0] == cells


def test_months_of_a_table_are_known_after_it_was_stored() -> None:
    sheet, *_ = import_table(b"month,units\nQ1 2020,3\nQ2 2020,4\n", "text/csv", "t.csv")
    stored = frames.read_parquet(frames.write_parquet(frames.read_table(sheet.arrow)))
    # So that no value of one quarter is given for a year.
    assert [one.months for one in list_own_series("t1", "t.csv", stored)] == [3]
