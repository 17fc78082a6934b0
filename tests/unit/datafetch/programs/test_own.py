"""Columns of users' own tables in programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest

from fathom.domain.programs.language import parse
from fathom.services.datafetch.convert import program_to_proto
from fathom.services.datafetch.discovery.query_vectors import QueryVectors
from fathom.services.datafetch.programs.own import MOST_COLUMNS, OwnLinker, OwnMeaning, OwnSeries, list_own_series
from fathom.services.datafetch.programs.reader import ProgramReading
from fathom.services.datafetch.programs.resolve import Assumption, Catalogue, NamedSeries, resolve

from .tiny import TinyEncoder, make_linker

FIRST, LAST = date(2026, 8, 3), date(2026, 11, 19)
TENCENT = OwnSeries("t1", "腾讯控股", "", "hstech.csv", FIRST, LAST)
GOLD = OwnSeries("t1", "gold (EUR)", "EUR", "hstech.csv", FIRST, LAST)


def make_table(**columns: pa.Array) -> pa.Table:
    return pa.table({"日期": pa.array([FIRST, LAST, None], pa.date32()), **columns})


def find_last_day(series: Sequence[tuple[str, str]]) -> date:
    return LAST


def make_catalogue(*own: OwnSeries) -> Catalogue:
    members = [(one.sheet_id, one.column) for one in own]
    ids = {f"own{number}": place for number, place in enumerate(members, 1)}
    return Catalogue(
        ids.get,
        lambda group: members if group == "own" else [],
        lambda *_: False,
        find_last_day,
        lambda entity, _: entity,
    )


def test_columns_of_numbers_are_series_from_the_first_to_the_last_day() -> None:
    table = make_table(**{"gold (EUR)": pa.array([1.0, 2.0, 3.0]), "note": pa.array(["a", "b", "c"])})
    assert list_own_series("t1", "hstech.csv", table) == [GOLD]


def test_a_row_that_adds_up_the_ones_above_is_a_total() -> None:
    cells = {
        "North": [1.0, 2.25],
        "South": [3.0, None],
        "Pole": [0.5, 1.0],
        "All": [4.5, 3.25],
        "of which lent": [1.0, 1.0],
    }
    table = pa.table({"date": pa.array([FIRST, LAST], pa.date32()), **cells})
    meanings = {name: OwnMeaning(names=("Balance",), label=name, kind="Bank") for name in cells}
    found = {one.column: one.is_total for one in list_own_series("t1", "cash.xlsx", table, meanings)}
    assert found == {"North": False, "South": False, "Pole": False, "All": True, "of which lent": True}
    # Without labels columns are different things, whatever they add up to.
    assert not any(one.is_total for one in list_own_series("t1", "cash.xlsx", table))


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"x": [1.0]}),
        make_table(other=pa.array([FIRST, LAST, LAST]), x=pa.array([1.0, 2.0, 3.0])),
        pa.table({"date": pa.array([None], pa.date32()), "x": [1.0]}),
    ],
    ids=["no dates", "two columns of dates", "empty dates"],
)
def test_a_table_without_exactly_one_column_of_dates_has_no_series(table: pa.Table) -> None:
    assert list_own_series("t1", "a.csv", table) == []


def make_own_linker(*own: OwnSeries) -> OwnLinker:
    encoder = TinyEncoder()
    return OwnLinker(own, make_linker(encoder), QueryVectors(encoder))


@pytest.mark.parametrize(
    ("words", "ident"), [("腾讯控股", "own1"), ("Gold", "own2"), ("gold (EUR)", "own2"), ("S&P 500", None)]
)
def test_a_column_of_ones_own_comes_before_a_bundled_series_of_that_name(words: str, ident: str | None) -> None:
    linker = make_own_linker(TENCENT, GOLD)
    features = linker.compare(words, QueryVectors(TinyEncoder()).encode([words])[0])
    assert len(features) == len(linker.entries) == len(linker.meta)
    assert linker.find_exact(features) == ident


def test_columns_of_a_question_are_bounded() -> None:
    many = [OwnSeries("t1", f"c{number}", "", "a.csv", FIRST, LAST) for number in range(MOST_COLUMNS + 1)]
    assert len(make_own_linker(*many).own) == MOST_COLUMNS


def test_one_table_can_be_meant_as_a_whole_two_cannot() -> None:
    other = OwnSeries("t2", "x", "", "b.csv", FIRST, LAST)
    assert make_own_linker(TENCENT, GOLD).has_single_table
    assert not make_own_linker(TENCENT, other).has_single_table


def test_words_that_no_name_says_are_taken_for_the_columns_and_that_is_said() -> None:
    program = parse('rank(ret(series("the companies in my table", own)))')
    found = resolve(program, make_catalogue(TENCENT, GOLD), None)
    assert found.steps == ("f.rank(f.ret(f.each(s1, s2)))",)
    assert found.series == (
        NamedSeries("s1", "t1", "腾讯控股", "腾讯控股"),
        NamedSeries("s2", "t1", "gold (EUR)", "gold (EUR)"),
    )
    assert found.assumptions == (Assumption("the companies in my table", ("腾讯控股", "gold (EUR)")),)


def test_a_table_of_one_column_is_no_group() -> None:
    found = resolve(parse('vol(series("my fund", own))'), make_catalogue(TENCENT), None)
    assert found.steps == ("f.vol(s1)",)


def test_the_contract_has_sheet_and_column_of_own_series_and_ids_of_others() -> None:
    series = (NamedSeries("s1", "t1", "腾讯控股", "腾讯"), NamedSeries("s2", "GOLD", "close_adj", "gold"))
    assumed = (Assumption("mine", ("腾讯控股",)),)
    reading = ProgramReading("", "calculation", 0.9, 1.0, ("f.ret(s1)",), series, (), (), assumed)
    own, bundled = program_to_proto(reading, ["t1"]).series
    assert (own.sheet_id, own.column, own.entity) == ("t1", "腾讯控股", "")
    assert (bundled.sheet_id, bundled.entity, bundled.indicator) == ("", "GOLD", "close_adj")
    assert list(program_to_proto(reading, ["t1"]).assumptions[0].columns) == ["腾讯控股"]


@pytest.mark.parametrize(
    ("program", "is_amount", "is_state", "detail"),
    [
        ('at(series("x", own1), "Q2 2025")', False, False, ""),
        ('at(series("x", own1), "May 2025")', False, False, "each of a quarter"),
        ('within(series("x", own1), "May 2025")', True, False, "each of a quarter"),
        ('at(series("x", own1), "30 June 2025")', False, False, ""),
        ('at(series("x", own1), "15 May 2025")', False, True, "each of a quarter"),
        ('at(series("x", own1), "30 June 2025")', True, False, "each of a quarter"),
        ('at(series("x", own1), "2025")', False, False, "nothing says how"),
        ('at(series("x", own1), "2025")', False, True, ""),
        ('at(series("x", own1), end("2025"))', False, False, ""),
        ('total(within(series("x", own1), "2025"))', True, False, ""),
        ('mean(within(series("x", own1), "2025"))', False, False, ""),
    ],
)
def test_a_period_of_which_a_column_has_no_value_is_missing(
    program: str, is_amount: bool, is_state: bool, detail: str
) -> None:
    own = OwnSeries("t1", "x", "", "a.csv", FIRST, LAST, ("x",), is_amount=is_amount, months=3, is_state=is_state)
    found = resolve(parse(program), replace(make_catalogue(own), own={("t1", "x"): own}), LAST)
    assert [detail in gap.detail for gap in found.missing] == ([True] if detail else [])
    assert bool(found.steps) is not bool(detail)
