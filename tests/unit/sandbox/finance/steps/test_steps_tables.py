"""Results of steps as tables: series have one each, values one together, a single value shows its course."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from fathom.services.sandbox.inside.finance import steps as f

DAYS = pd.bdate_range("2019-01-01", "2020-12-31")
YEAR = f.period("2020-01-01", "2020-12-31")
Shown = list[tuple[Any, str, Mapping[str, str]]]


@pytest.fixture
def sheet() -> pd.DataFrame:
    frame = pd.DataFrame({"date": DAYS, "AAA": range(100, 100 + len(DAYS)), "BBB": range(900, 900 - len(DAYS), -1)})
    frame.attrs = {"units": {"AAA": "USD", "BBB": "USD"}}
    return frame


def show(results: Mapping[str, Any], courses: Callable[[], Sequence[Any]] = list, language: str = "en") -> Shown:
    shown: Shown = []
    f.show_tables(lambda table, title, units: shown.append((table, title, units)), results, courses, language)
    return shown


def test_a_ranking_has_a_row_for_each_member_by_its_name(sheet: pd.DataFrame) -> None:
    group = f.each(f.line(sheet, "AAA", "Alpha"), f.line(sheet, "BBB", "Beta"))
    [(table, title, units)] = show({"returns of both": f.rank(f.ret(f.within(group, YEAR)))})
    assert (title, units) == ("returns of both", {"value": "%"})
    assert list(table["name"]) == ["Alpha", "Beta"]
    assert table["value"][0] > 0 > table["value"][1]
    assert set(table["day"]) == {"2020-12-31"}


def test_a_series_is_cut_to_its_window_and_no_course_is_shown_beside_it(sheet: pd.DataFrame) -> None:
    alpha = f.within(f.line(sheet, "AAA", "Alpha"), YEAR)
    [(table, title, units)] = show({"monthly returns": f.moves(alpha, "month")}, lambda: [alpha])
    assert (title, list(table.columns), units) == ("monthly returns", ["date", "Alpha"], {"Alpha": "%"})
    assert (len(table), table["date"].min().year) == (12, 2020)


def test_values_of_several_steps_share_a_table_and_name_their_units_where_these_differ(sheet: pd.DataFrame) -> None:
    alpha = f.line(sheet, "AAA", "Alpha")
    both = {"峰值": f.maximum(alpha), "涨跌幅": f.ret(alpha)}
    [(table, title, units)] = show(both, language="zh")
    assert (title, list(table.columns), units) == ("计算结果", ["步骤", "数值", "单位", "日期"], {})
    assert list(table["步骤"]) == [*both]
    assert list(table["单位"]) == ["USD", "%"]


def test_a_single_value_shows_the_course_that_it_is_taken_from_in_the_window_alone(sheet: pd.DataFrame) -> None:
    within = f.within(f.line(sheet, "AAA", "Alpha"), f.period("2020-03-01", "2020-03-31"))
    [(table, title, units)] = show({"maximum": f.maximum(within)}, lambda: [within])
    assert (title, units) == ("Alpha, 2020-03-02 – 2020-03-31", {"Alpha": "USD"})
    assert len(table) == 22


def test_the_course_of_a_portfolio_is_its_own_and_not_those_of_its_parts(sheet: pd.DataFrame) -> None:
    parts = [f.within(f.line(sheet, name, name), YEAR) for name in ("AAA", "BBB")]
    held = f.portfolio(1, parts[0], 1, parts[1])
    [(table, _, _)] = show({"drawdown": f.drawdown(held)}, lambda: [held])
    assert list(table.columns) == ["date", "portfolio"]
    assert table["portfolio"][0] == 100


def test_two_windows_of_a_series_are_one_column_and_other_values_of_its_name_another(sheet: pd.DataFrame) -> None:
    alpha = f.line(sheet, "AAA", "Alpha")
    windows = [f.within(alpha, f.period(month, month)) for month in ("2020-01", "2020-03")]
    [_, (table, _, _)] = show(
        {"one": f.maximum(windows[0]), "two": f.maximum(windows[1])}, lambda: [*windows, f.average(windows[1], 5)]
    )
    assert list(table.columns) == ["date", "Alpha", "Alpha (2)"]
    assert {day.month for day in table["date"]} == {1, 3}


def test_more_courses_than_one_chart_can_tell_apart_are_not_shown(sheet: pd.DataFrame) -> None:
    many = f.each(*(f.line(sheet, "AAA", f"share {number}") for number in range(7)))
    [(table, _, _)] = show({"returns": f.ret(many)}, lambda: [many])
    assert len(table) == 7


def test_what_has_no_value_shows_no_table(sheet: pd.DataFrame) -> None:
    alpha = f.line(sheet, "AAA", "Alpha")
    early = f.within(alpha, f.period("1990-01-01", "1990-12-31"))
    assert show({"maximum": None}, lambda: [early]) == []
    assert show({"maximum": f.maximum(alpha)}, lambda: [early]) == []
    assert show({"maximum": f.maximum(alpha)}) == []


def test_a_table_that_the_session_refuses_leaves_the_others(
    sheet: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []

    def refuse_long(table: pd.DataFrame, title: str, units: Mapping[str, str]) -> None:
        if len(table) > 100:
            raise ValueError("522 rows are over the limit")
        shown.append(title)

    alpha = f.line(sheet, "AAA", "Alpha")
    f.show_tables(refuse_long, {"all": f.steps(alpha, "day"), "months": f.moves(f.within(alpha, YEAR), "month")})
    assert shown == ["months"]
    assert "no table of all: 522 rows" in capsys.readouterr().err
