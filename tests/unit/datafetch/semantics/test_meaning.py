"""Test what columns of own tables mean: proposed by cells, names and likeness, checked, and applied as series."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from fathom.core.errors import InvalidField
from fathom.domain import frames
from fathom.services.datafetch.catalog.matching import Scored
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.semantics.applying import MOST_SERIES, apply_meaning
from fathom.services.datafetch.semantics.meaning import Aggregation, ColumnMeaning, Role, TableMeaning
from fathom.services.datafetch.semantics.proposing import propose_meaning
from fathom.services.datafetch.semantics.rpc import meaning_from_proto, meaning_to_proto

INDICATORS = {
    spec.id: spec
    for spec in (
        IndicatorSpec(id="revenue", name="operating revenue", name_zh="营业收入", synonyms=["sales"], flow=True),
        IndicatorSpec(id="cost", name="cost of sales", flow=True),
        IndicatorSpec(id="staff", name="employees"),
    )
}
PLANTS = pa.table(
    {"Plant": ["Porto", "Vigo"], "2024 Revenue": [1.5, 2.0], "2025 Revenue": [3.0, None], "Note": ["a", None]}
)
Match = Callable[[str, int], Any]


def find(**scores: Sequence[tuple[str, float]]) -> Match:
    """Return a finder of indicators that knows these names alone."""

    async def match(text: str, limit: int) -> list[Scored]:
        return [Scored(ident, score, ident, "embedding") for ident, score in scores.get(text, ())][:limit]

    return match


async def propose(table: pa.Table, title: str = "t.csv", match: Match | None = None) -> tuple[dict[str, Any], bool]:
    found = await propose_meaning(table, {}, title, match or find(), INDICATORS)
    return {one.column: one for one in found.meaning.columns}, found.adds


async def test_years_in_names_and_texts_that_name_rows_are_proposed_as_series() -> None:
    columns, adds = await propose(PLANTS, match=find(Revenue=[("revenue", 1.0)]))
    assert adds
    assert columns["Plant"].role is Role.LABEL
    assert columns["Note"].role is Role.IGNORED
    assert columns["2025 Revenue"] == ColumnMeaning(
        "2025 Revenue", Role.VALUE, ("Revenue", "operating revenue", "营业收入", "sales"), "", Aggregation.SUM, 2025,
        "revenue",
    )  # fmt: skip


async def test_dates_that_repeat_have_a_label_and_others_none() -> None:
    days = [date(2025, 1, 31), date(2025, 1, 31), date(2025, 2, 28)]
    table = pa.table({"Day": days, "Shop": ["A", "B", "A"], "Units (kg)": [1, 2, 3]})
    columns, adds = await propose(table)
    assert (columns["Day"].role, columns["Shop"].role, adds) == (Role.DATE, Role.LABEL, True)
    assert (columns["Units (kg)"].name, columns["Units (kg)"].unit) == ("Units", "kg")
    columns, adds = await propose(pa.table({"Day": days[1:], "Shop": ["A", "B"], "Units": [1, 2]}))
    assert (columns["Shop"].role, adds) == (Role.IGNORED, False)


async def test_years_in_names_come_before_days_of_the_rows() -> None:
    table = pa.table(
        {
            "House": ["Elm", "Oak"], "Rent, EUR thousand 2024": [1.0, 2.0], "Rent, EUR thousand 2025": [3.0, 4.0],
            "Lease ends": [date(2031, 6, 30), date(2034, 12, 31)],
        }
    )  # fmt: skip
    columns, adds = await propose(table)
    assert (columns["House"].role, columns["Lease ends"].role, adds) == (Role.LABEL, Role.IGNORED, True)
    rent = columns["Rent, EUR thousand 2025"]
    assert (rent.names, rent.unit, rent.year) == (("Rent",), "EUR thousand", 2025)
    # Prices of contracts for several years are those of the rows' days.
    days = [date(2025, 1, 2), date(2025, 1, 3)]
    columns, _ = await propose(pa.table({"Day": days, "Price 2026": [1.0, 2.0], "Price 2027": [3.0, 4.0]}))
    assert columns["Day"].role is Role.DATE


async def test_rows_that_nothing_tells_apart_are_no_series() -> None:
    table = pa.table(
        {"Bank": ["A", "A"], "Test": ["cover", "cover"], "30 June 2025": [2.9, 0.4], "30 Sept 2025": [2.8, 0.5]}
    )
    assert (await propose(table))[1] is False
    assert (await propose(table.slice(0, 1)))[1] is True


async def test_a_table_of_too_many_series_is_left_as_it_is() -> None:
    crops = [f"Crop {letter}" for letter in "ABCDEFGHIJKLM"]
    regions = {f"{region} FY2025": [1.5] * len(crops) for region in ("North", "South", "East", "West", "Abroad")}
    table = pa.table({"Crop": crops, **regions})
    # Thirteen crops in five regions: more than are made of one table, which was refused as a whole.
    assert (await propose(table))[1] is False
    assert (await propose(table.slice(0, 12)))[1] is True


async def test_a_year_ahead_of_people_is_the_year_of_a_column() -> None:
    table = pa.table({"Line": ["A", "B"], "2023 Passengers": [1, 2], "2024 Passengers": [3, 4]})
    columns, adds = await propose(table)
    assert (columns["2024 Passengers"].names, columns["2024 Passengers"].year, adds) == (("Passengers",), 2024, True)


async def test_a_column_of_years_is_a_date_only_if_it_says_so() -> None:
    columns, _ = await propose(pa.table({"Year": [2023, 2024], "Units": [1_950, 2_010]}))
    assert (columns["Year"].role, columns["Units"].role) == (Role.DATE, Role.VALUE)
    columns, adds = await propose(pa.table({"Orders": [2023, 2024], "Units": [1_950, 2_010]}))
    assert ({one.role for one in columns.values()}, adds) == ({Role.IGNORED}, False)
    columns, adds = await propose(pa.table({"Shop": ["A", "B"], "Units": [1_950, 2_010]}), "shops 2025.xlsx")
    assert (columns["Units"].year, columns["Shop"].role, adds) == (2025, Role.LABEL, True)


async def test_sums_are_proposed_where_what_a_name_is_like_agrees() -> None:
    table = pa.table({"Day": [date(2025, 1, 31)], "Takings": [1.0], "People": [2]})
    near = find(Takings=[("revenue", 0.7), ("cost", 0.6)], People=[("revenue", 0.6), ("staff", 0.6)])
    columns, adds = await propose(table, match=near)
    assert (columns["Takings"].aggregation, columns["Takings"].names) == (Aggregation.SUM, ("Takings",))
    assert columns["People"].aggregation is Aggregation.UNKNOWN
    assert adds


async def test_a_synonym_never_takes_the_name_of_another_column() -> None:
    table = pa.table({"Day": [date(2025, 1, 31)], "Revenue": [1.0], "Sales": [2.0]})
    columns, _ = await propose(table, match=find(Revenue=[("revenue", 1.0)]))
    assert "sales" not in columns["Revenue"].names


async def test_an_applied_meaning_gives_a_column_of_each_thing_and_measure_with_its_cells() -> None:
    found = await propose_meaning(PLANTS, {}, "plants.xlsx", find(), INDICATORS)
    sources = {"2024 Revenue": "plants.xlsx C5:C6", "2025 Revenue": "plants.xlsx E5:E6"}
    sheet, issues = apply_meaning(PLANTS, "plants.xlsx", found.meaning, sources)
    assert frames.read_table(sheet.arrow, "t").to_pydict() == {
        "date": [date(2024, 12, 31), date(2025, 12, 31)],
        "Porto Revenue": [1.5, 3.0],
        "Vigo Revenue": [2.0, None],
    }
    porto = sheet.columns[1]
    assert (porto.entity, porto.indicator_names, porto.source) == (
        "Porto", ("Revenue",), "plants.xlsx C5, E5",
    )  # fmt: skip
    assert (sheet.columns[2].nulls, issues) == (1, [])
    # Where a row of the file was left out, nobody can say which one is whose.
    sources["2025 Revenue"] = "plants.xlsx E5:E7"
    sheet, _ = apply_meaning(PLANTS, "plants.xlsx", found.meaning, sources)
    assert sheet.columns[1].source == "plants.xlsx C5:C6, plants.xlsx E5:E7 of Porto"
    assert meaning_from_proto(meaning_to_proto(found.meaning)) == found.meaning


def test_values_of_one_day_are_added_up_where_they_are_amounts_and_reported_otherwise() -> None:
    day = date(2025, 1, 31)
    table = pa.table({"Day": [day, day, None], "Units": [1, 2, 4]})
    for way, value, count in ((Aggregation.SUM, 3.0, 1), (Aggregation.LAST, 1.0, 2)):
        columns = (ColumnMeaning("Day", Role.DATE), ColumnMeaning("Units", Role.VALUE, aggregation=way))
        sheet, issues = apply_meaning(table, "t", TableMeaning(columns))
        assert frames.read_table(sheet.arrow, "t").to_pydict() == {"date": [day], "Units": [value]}
        # The row without a day, and the second value.
        assert len(issues) == count
    assert "no day" in issues[0].reason


def test_the_same_numbers_of_another_meaning_are_another_sheet() -> None:
    table = pa.table({"Day": [date(2025, 1, 31)], "Units": [1]})
    columns = ColumnMeaning("Day", Role.DATE), ColumnMeaning("Units", Role.VALUE, ("Units",))
    named = ColumnMeaning("Units", Role.VALUE, ("Units", "pieces"))
    ids = {apply_meaning(table, "t", TableMeaning((columns[0], one)))[0].id for one in (columns[1], named)}
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ([ColumnMeaning("None", Role.VALUE)], r"columns\[0\].column"),
        ([ColumnMeaning("Plant", Role.LABEL), ColumnMeaning("Plant", Role.LABEL)], r"columns\[1\].column"),
        ([ColumnMeaning("Plant", Role.VALUE)], r"columns\[0\].role"),
        ([ColumnMeaning("Plant", Role.DATE)], r"columns\[0\].role"),
        ([ColumnMeaning("2024 Revenue", Role.VALUE)], r"columns\[0\].year"),
        ([ColumnMeaning("2024 Revenue", Role.VALUE, ("x",) * 17, year=2024)], r"columns\[0\].names"),
        ([ColumnMeaning("2024 Revenue", Role.VALUE, (" ",), year=2024)], r"columns\[0\].names"),
        ([ColumnMeaning("Plant", Role.LABEL), ColumnMeaning("Note", Role.LABEL)], "meaning.columns"),
        ([ColumnMeaning("Plant", Role.LABEL)], "meaning.columns"),
    ],
)
def test_a_meaning_that_does_not_fit_is_refused_by_field(columns: list[ColumnMeaning], field: str) -> None:
    with pytest.raises(InvalidField, match=field):
        apply_meaning(PLANTS, "t", TableMeaning(tuple(columns)))


def test_more_series_than_a_question_can_name_are_refused() -> None:
    count = MOST_SERIES + 1
    table = pa.table({"Plant": [f"P{number}" for number in range(count)], "2025": list(range(count))})
    columns = ColumnMeaning("Plant", Role.LABEL), ColumnMeaning("2025", Role.VALUE, ("Output",), year=2025)
    with pytest.raises(InvalidField, match=r"more than 64 series"):
        apply_meaning(table, "t", TableMeaning(columns))
