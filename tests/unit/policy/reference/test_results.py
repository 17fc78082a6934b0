"""Tables and charts of an answer with a calculation: those of its results, the course of a single value."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.policy.reference.conftest import ALPHA, BETA, compare, make_program

YEAR = "f.period('2019-01-01', '2019-12-31')"
BOTH = f"f.within(f.each(s1, s2), {YEAR})"


@pytest.fixture
def world(two_companies: Any) -> Any:
    two_companies.reads_only = True
    two_companies.words = []
    return two_companies


def list_charts(talk: Any) -> list[str]:
    return [call["code"] for _, call in talk.calls if str(call.get("code")).startswith("finance.chart")]


async def test_a_comparison_places_its_results_and_draws_the_course_in_the_window(drive: Any, world: Any) -> None:
    world.program = compare("ret", "drawdown")
    talk = await drive("Compare the return and the maximum drawdown of Alpha and Beta from 2019 to 2021", world)
    assert [name for name in ("sheet_1", "sheet_2", "sheet_3") if f"{{{{table:{name}}}}}" in talk.answer] == ["sheet_2"]
    assert len(world.namespace["sheet_2"]) == 4
    assert list_charts(talk) == ["finance.chart(sheet_3, 'rebased', '', language='en')"]
    assert world.namespace["sheet_3"]["date"].min().year == 2019


async def test_a_ranking_is_a_table_and_bars(drive: Any, world: Any) -> None:
    world.program = make_program([f"f.rank(f.ret({BOTH}))"], series=[ALPHA, BETA], words=["Alpha", "Beta"])
    talk = await drive("Rank Alpha and Beta by their return in 2019", world)
    [drawn] = list_charts(talk)
    assert drawn.startswith("finance.chart(sheet_2, 'columns', ")
    assert "{{table:sheet_2}}" in talk.answer
    assert "{{figure:fig_1}}" in talk.answer


@pytest.mark.parametrize("step", [f"f.top(f.ret({BOTH}), 1)", f"f.item(f.rank(f.ret({BOTH})), 0)"])
async def test_the_best_of_several_shows_all_of_them_by_size(drive: Any, world: Any, step: str) -> None:
    world.program = make_program([step], series=[ALPHA, BETA], words=["Alpha", "Beta"])
    talk = await drive("Which of Alpha and Beta returned most in 2019?", world)
    [drawn] = list_charts(talk)
    assert drawn.startswith("finance.chart(sheet_2, 'columns', 'All by size, for: ")
    assert list(world.namespace["sheet_2"]["value"]) == sorted(world.namespace["sheet_2"]["value"], reverse=True)
    assert len(world.namespace["sheet_2"]) == 2


async def test_the_highest_days_of_a_series_are_drawn_in_its_course(drive: Any, world: Any) -> None:
    world.program = make_program([f"f.top(f.within(s1, {YEAR}), 3)"])
    talk = await drive("Alpha's three highest closes in 2019", world)
    assert list_charts(talk) == ["finance.chart(sheet_3, 'levels', '', language='en')"]
    assert len(world.namespace["sheet_2"]) == 3


async def test_monthly_returns_are_a_table_and_columns(drive: Any, world: Any) -> None:
    world.program = make_program([f"f.moves(f.within(s1, {YEAR}), 'month')"])
    talk = await drive("Monthly returns of Alpha in 2019", world)
    [drawn] = list_charts(talk)
    assert drawn.startswith("finance.chart(sheet_2, 'columns', ")
    assert "{{table:sheet_2}}" in talk.answer
    assert len(world.namespace["sheet_2"]) == 12


async def test_a_rolling_measure_is_a_table_and_a_line(drive: Any, world: Any) -> None:
    world.program = make_program([f"f.within(f.average(s1, 20), {YEAR})"])
    talk = await drive("The 20-day average of Alpha in 2019", world)
    [drawn] = list_charts(talk)
    assert drawn.startswith("finance.chart(sheet_2, 'levels', ")
    assert "{{table:sheet_2}}" in talk.answer


async def test_the_drawdown_of_a_portfolio_is_drawn_of_its_own_course(drive: Any, world: Any) -> None:
    held = f"f.portfolio(1, f.within(s1, {YEAR}), 1, f.within(s2, {YEAR}))"
    world.program = make_program([f"f.drawdown({held})"], series=[ALPHA, BETA], words=["Alpha", "Beta"])
    talk = await drive("Maximum drawdown of half Alpha and half Beta in 2019", world)
    assert list_charts(talk) == ["finance.chart(sheet_2, 'drawdown', '', language='en')"]
    assert list(world.namespace["sheet_2"].columns) == ["date", "portfolio"]


async def test_a_correlation_is_a_number_with_a_dot_for_each_day(drive: Any, world: Any) -> None:
    step = f"f.corr(f.within(s1, {YEAR}), f.within(s2, {YEAR}))"
    world.program = make_program([step], series=[ALPHA, BETA], words=["Alpha", "Beta"])
    talk = await drive("Correlation of Alpha and Beta in 2019", world)
    assert list_charts(talk) == ["finance.chart(sheet_2, 'scatter', '', language='en')"]


async def test_a_single_value_shows_its_course_in_the_window(drive: Any, world: Any) -> None:
    world.program = make_program([f"f.maximum(f.within(s1, {YEAR}))"])
    talk = await drive("What was Alpha's highest close in 2019?", world)
    assert "{{table:sheet_2}}" in talk.answer
    assert {day.year for day in world.namespace["sheet_2"]["date"]} == {2019}


async def test_the_value_of_a_day_has_no_chart(drive: Any, world: Any) -> None:
    world.program = make_program([f"f.minus(f.at(s1, {YEAR}), f.at(s1, f.period('2018-01-02', '2018-01-02')))"])
    talk = await drive("How far was Alpha at the end of 2019 above 2 January 2018?", world)
    assert list_charts(talk) == []
    assert "{{table:sheet_1}}" in talk.answer


async def test_a_rate_is_never_rebased(drive: Any, one_rate: Any) -> None:
    one_rate.reads_only, one_rate.words = True, []
    rate = {"name": "s1", "entity": "US", "indicator": "unrate", "words": "unemployment"}
    steps = [f"f.change(f.within(s1, {YEAR}))", f"f.ret(f.within(s1, {YEAR}))"]
    one_rate.program = make_program(steps, series=[rate], words=["unemployment"])
    talk = await drive("Change of unemployment in 2019", one_rate)
    assert list_charts(talk) == ["finance.chart(sheet_3, 'levels', '', language='en')"]
