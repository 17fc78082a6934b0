"""Periods in the names of columns: every quarter, month, half and year in the forms of both languages, and no others."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import date

import pyarrow as pa
import pytest

from fathom.core.errors import InvalidField
from fathom.domain import frames
from fathom.services.datafetch.catalog.column_periods import check_period, read_column_period
from fathom.services.datafetch.convert import sheet_to_proto
from fathom.services.datafetch.semantics.applying import apply_meaning
from fathom.services.datafetch.semantics.meaning import Aggregation, ColumnMeaning, Role, TableMeaning
from fathom.services.datafetch.semantics.proposing import propose_meaning
from fathom.services.datafetch.semantics.rpc import list_own_meanings

YEARS = range(1995, 2036)
HAN = "一 二 三 四 五 六 七 八 九 十 十一 十二".split()  # noqa: SIM905
Form = Callable[[int, int], str]
QUARTERS: dict[str, Form] = {
    "Q1 2024": lambda year, part: f"Q{part} {year}",
    "2024 Q1": lambda year, part: f"{year} Q{part}",
    "2024Q1": lambda year, part: f"{year}Q{part}",
    "2024-Q1": lambda year, part: f"{year}-Q{part}",
    "Q1-2024": lambda year, part: f"Q{part}-{year}",
    "1Q24": lambda year, part: f"{part}Q{year % 100:02d}",
    "1Q2024": lambda year, part: f"{part}Q{year}",
    "Q1'24": lambda year, part: f"Q{part}'{year % 100:02d}",
    "Q1-24": lambda year, part: f"Q{part}-{year % 100:02d}",
    "q1_2024": lambda year, part: f"q{part}_{year}",
    "first quarter of 2024": lambda year, part: f"{['first', 'second', 'third', 'fourth'][part - 1]} quarter of {year}",
    "2024年第一季度": lambda year, part: f"{year}年第{HAN[part - 1]}季度",
    "2024年一季度": lambda year, part: f"{year}年{HAN[part - 1]}季度",
    "2024年1季度": lambda year, part: f"{year}年{part}季度",
    "2024年Q1": lambda year, part: f"{year}年Q{part}",
}
MONTHS: dict[str, Form] = {
    "Jan-24": lambda year, month: f"{calendar.month_abbr[month]}-{year % 100:02d}",
    "Jan-2024": lambda year, month: f"{calendar.month_abbr[month]}-{year}",
    "Jan'24": lambda year, month: f"{calendar.month_abbr[month]}'{year % 100:02d}",
    "Jan 2024": lambda year, month: f"{calendar.month_abbr[month]} {year}",
    "January 2024": lambda year, month: f"{calendar.month_name[month]} {year}",
    "2024-01": lambda year, month: f"{year}-{month:02d}",
    "01/2024": lambda year, month: f"{month:02d}/{year}",
    "202401": lambda year, month: f"{year}{month:02d}",
    "2024年1月": lambda year, month: f"{year}年{month}月",
    "2024年一月": lambda year, month: f"{year}年{HAN[month - 1]}月",
}
HALVES: dict[str, Form] = {
    "H1 2024": lambda year, part: f"H{part} {year}",
    "1H24": lambda year, part: f"{part}H{year % 100:02d}",
    "2024H1": lambda year, part: f"{year}H{part}",
    "2024年上半年": lambda year, part: f"{year}年{'上下'[part - 1]}半年",
}
WHOLE: dict[str, Form] = {
    "2024": lambda year, _: str(year),
    "FY2024": lambda year, _: f"FY{year}",
    "FY24": lambda year, _: f"FY{year % 100:02d}",
    "FY 2024": lambda year, _: f"FY {year}",
    "fiscal year 2024": lambda year, _: f"fiscal year {year}",
    "2024年": lambda year, _: f"{year}年",
    "2024年度": lambda year, _: f"{year}年度",
    "2024财年": lambda year, _: f"{year}财年",
}
FORMS = [
    (length, name, form)
    for length, forms in ((3, QUARTERS), (1, MONTHS), (6, HALVES), (12, WHOLE))
    for name, form in forms.items()
]
MEASURES = ("{}", "{} Revenue", "Revenue {}", "Revenue ({})", "Revenue (EUR m) {}", "收入 {}", "{}收入")


def list_columns(length: int, form: Form) -> list[tuple[str, date, date]]:
    """Return the name of each period of 41 years with its days, by the calendar alone."""
    found = []
    for year in YEARS:
        for part in range(1, 12 // length + 1):
            last = part * length
            end = date(year, last, calendar.monthrange(year, last)[1])
            found.append((form(year, part), date(year, last - length + 1, 1), end))
    return found


@pytest.mark.parametrize(("length", "name", "form"), FORMS, ids=[name for _, name, _ in FORMS])
def test_each_period_is_read_alone_and_beside_a_measure(length: int, name: str, form: Form) -> None:
    wrong = []
    for place, (text, start, end) in enumerate(list_columns(length, form)):
        column = MEASURES[place % len(MEASURES)].format(text)
        found = read_column_period(column)
        rest = MEASURES[place % len(MEASURES)].replace(" (EUR m)", "").format("").strip(" ()")
        if found is None or (found.start, found.end, found.rest, found.months) != (start, end, rest, length):
            wrong.append((column, found))
    assert not wrong


@pytest.mark.parametrize(("length", "name", "form"), FORMS, ids=[name for _, name, _ in FORMS])
def test_the_words_of_a_period_are_read_as_the_same_again(length: int, name: str, form: Form) -> None:
    for text, start, end in list_columns(length, form)[:: 12 // length + 1]:
        found = read_column_period(f"Revenue {text}")
        assert found is not None
        again = check_period(found.words, "period")
        assert (again.start, again.end) == (start, end)


@pytest.mark.parametrize(
    "name",
    ["Revenue", "Units 1850", "Revenue 2023 and 2025", "last quarter", "since 2020", "TTM", "T2024", "Q5 2024", "2024E",
     "summer 2024", "31 February 2024", "10-year yield", "B12", "May", "Q1", "column_3"],
)  # fmt: skip
def test_what_is_no_single_period_of_the_calendar_is_none(name: str) -> None:
    assert read_column_period(name) is None


@pytest.mark.parametrize(
    ("name", "end"),
    [("Q3", "2024-09-30"), ("二季度", "2024-06-30"), ("Mar", "2024-03-31"), ("H2 units", "2024-12-31"),
     ("Units", "2024-12-31"), ("Q1 2023", "2023-03-31"), ("since 2020", "None"), ("last month", "None")],
)  # fmt: skip
def test_the_year_of_a_table_completes_names_without_one(name: str, end: str) -> None:
    found = read_column_period(name, 2024)
    assert str(found and found.end) == end


async def propose(table: pa.Table, title: str) -> TableMeaning:
    async def match(text: str, limit: int) -> list[object]:
        return []

    return (await propose_meaning(table, {}, title, match, {})).meaning  # type: ignore[arg-type]


async def test_quarters_in_the_names_of_columns_become_rows_with_their_days_and_cells() -> None:
    table = pa.table({"Site": ["Sand", "Lyng"], "2024 Q1": [1, 2], "2024 Q2": [3, 4], "2025 Q1": [5, None]})
    meaning = await propose(table, "harvest.xlsx")
    assert [(one.names, one.period, one.year) for one in meaning.values] == [
        (("harvest",), words, 0) for words in ("2024 Q1", "2024 Q2", "2025 Q1")
    ]
    sources = {
        name: f"harvest.xlsx {letter}5:{letter}6" for name, letter in zip(table.column_names, "ABCD", strict=True)
    }
    sheet, issues = apply_meaning(table, "harvest.xlsx", meaning, sources)
    assert frames.read_table(sheet.arrow, "t").to_pydict() == {
        "date": [date(2024, 3, 31), date(2024, 6, 30), date(2025, 3, 31)],
        "Sand harvest": [1.0, 3.0, 5.0],
        "Lyng harvest": [2.0, 4.0, None],
    }
    assert (sheet.columns[1].source, sheet.columns[2].source, issues) == (
        "harvest.xlsx B5:D5", "harvest.xlsx B6:C6", [],
    )  # fmt: skip


async def test_a_year_and_its_last_quarter_are_two_values_though_they_end_on_one_day() -> None:
    table = pa.table({"Item": ["Revenue"], "Q3 2024": [1.0], "Q4 2024": [2.0], "FY2024": [9.0]})
    sheet, _ = apply_meaning(table, "income.csv", await propose(table, "income.csv"))
    assert frames.read_table(sheet.arrow, "t").to_pydict() == {
        "date": [date(2024, 9, 30), date(2024, 12, 31)],
        "Revenue income": [1.0, 2.0],
        "Revenue income per year": [None, 9.0],
    }


async def test_a_period_in_brackets_is_no_unit_and_days_of_balances_are_read() -> None:
    table = pa.table({"Item": ["Cash"], "EUR m (31/12/2024)": [1.0], "2025-06-30 00:00:00": [2.0]})
    values = (await propose(table, "balance.csv")).values
    assert [(one.unit, one.find_days()) for one in values] == [
        ("", (date(2024, 12, 31),) * 2), ("", (date(2025, 6, 30),) * 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("period", "year", "dated", "field"),
    [("some time", 0, False, r"\[1\].period"), ("Q1 2024 to", 2024, False, r"\[1\].period"),
     ("Q1 2024", 2024, False, r"\[1\].period"), ("Q1 2024", 0, True, r"\[1\].period"),
     ("Q1 2024 in EUR", 0, False, r"only 'Q1 2024' is a period"), ("", 0, False, r"\[1\].year")],
)  # fmt: skip
def test_a_period_that_a_column_cannot_have_is_refused_by_field(
    period: str, year: int, dated: bool, field: str
) -> None:
    table = pa.table({"Day": [date(2024, 1, 31)], "x": [1.0]})
    first = ColumnMeaning("Day", Role.DATE if dated else Role.IGNORED)
    second = ColumnMeaning("x", Role.VALUE, ("x",), "", Aggregation.UNKNOWN, year, "", period)
    with pytest.raises(InvalidField, match=field):
        apply_meaning(table, "t", TableMeaning((first, second)))


@pytest.mark.parametrize("years", [[2023, 2024], ["2023", "2024"], ["FY2023", "FY2024"]])
async def test_parts_of_the_years_of_rows_are_one_series(years: list[int | str]) -> None:
    table = pa.table({"Year": years, "Q1": [1.0, 5.0], "Q2": [2.0, 6.0], "Q3": [3.0, 7.0], "Q4": [4.0, None]})
    meaning = await propose(table, "turnover.csv")
    sources = {f"Q{at}": f"turnover.csv {letter}2:{letter}3" for at, letter in enumerate("BCDE", 1)}
    sheet, _ = apply_meaning(table, "turnover.csv", meaning, sources)
    shown = frames.read_table(sheet.arrow, "t").to_pydict()
    assert shown["turnover"] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert (shown["date"][0], shown["date"][-1]) == (date(2023, 3, 31), date(2024, 9, 30))
    # In the order of the days, so that each value is known by its place.
    assert sheet.columns[1].source == "turnover.csv B2:E2, B3:D3"
    assert list_own_meanings(sheet_to_proto(sheet), meaning)["turnover"].months == 3


async def test_periods_of_rows_as_texts_are_days() -> None:
    table = pa.table({"Month": ["2024-01", "2024-02"], "Copper (USD/t)": [8300.0, 8350.0]})
    sheet, _ = apply_meaning(table, "prices.csv", await propose(table, "prices.csv"))
    assert frames.read_table(sheet.arrow, "t").to_pydict() == {
        "date": [date(2024, 1, 31), date(2024, 2, 29)], "Copper": [8300.0, 8350.0],
    }  # fmt: skip
    assert (await propose(table.set_column(0, "Month", [["a", "2024-02"]]), "prices.csv")).date is None


def test_a_part_of_a_year_needs_rows_of_years() -> None:
    columns = (ColumnMeaning("Day", Role.DATE), ColumnMeaning("Units", Role.VALUE, period="Q1"))
    for days, field in (([date(2024, 1, 31)], r"columns\[1\].period"), (["somewhen"], r"columns\[0\].role")):
        with pytest.raises(InvalidField, match=field):
            apply_meaning(pa.table({"Day": days, "Units": [1]}), "t", TableMeaning(columns))


async def test_the_sheet_of_a_workbook_says_the_year_and_what_is_measured() -> None:
    table = pa.table({"Site": ["Sand", "Lyng"], "Jan": [1, 2], "Feb": [3, 4]})
    meaning = await propose(table, "plants.xlsx Investment 2031")
    assert [(one.names, one.period) for one in meaning.values] == [
        (("Investment",), "Jan 2031"),
        (("Investment",), "Feb 2031"),
    ]
    # A name that nobody has chosen says nothing.
    assert [one.names for one in (await propose(table, "costs_2031.xlsx Sheet2")).values] == [("costs",), ("costs",)]


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("Quarter", ["Q1", "Q2", "Q1", "Q2"]),
        ("季度", ["第一季度", "第二季度"] * 2),
        ("Quarter", [1, 2, 1, 2]),
        ("fiscal_qtr", [1, 2, 1, 2]),
        ("季度", [1, 2, 1, 2]),
        ("Month", [3, 6, 3, 6]),
        ("月份", [3, 6, 3, 6]),
    ],
)
async def test_a_year_and_its_part_in_two_columns_are_the_time_of_a_row(name: str, cells: list[object]) -> None:
    table = pa.table({"Year": [2031, 2031, 2032, 2032], name: cells, "Output": [4.0, 5.0, 6.0, 7.0]})
    meaning = await propose(table, "plant.csv")
    assert [(one.column, one.role) for one in meaning.columns if one.role in (Role.DATE, Role.VALUE)] == [
        ("Year", Role.DATE),
        ("Output", Role.VALUE),
    ]
    sheet, issues = apply_meaning(table, "plant.csv", meaning, {"Output": "C2:C5"})
    made = frames.read_table(sheet.arrow, "made").to_pydict()
    ends = [date(2031, 3, 31), date(2031, 6, 30), date(2032, 3, 31), date(2032, 6, 30)]
    assert (made["date"], made["Output"], issues) == (ends, [4.0, 5.0, 6.0, 7.0], [])


@pytest.mark.parametrize(
    ("name", "cells"), [("Quarter", [1, 5, 1, 2]), ("Quarter", [0, 1, 2, 3]), ("Plant", [1, 2] * 2)]
)
async def test_numbers_that_no_part_of_a_year_has_stay_values(name: str, cells: list[int]) -> None:
    table = pa.table({"Year": [2031, 2032, 2033, 2034], name: cells})
    meaning = await propose(table, "plant.csv")
    assert [one.column for one in meaning.values] == [name]
