"""Calculations that the data tool makes of questions: fetched, computed in one cell, and told a line per step."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from fathom.domain.chat.guidance import GIVEN_TABLES, with_guidance
from fathom.domain.chat.quoting import quote
from fathom.domain.text.terms import is_chinese
from tests.unit.policy.reference.conftest import make_program
from tests.unit.policy.reference.test_walk import assert_cited, assert_grounded

QUESTION = "When was Alpha highest in 2019, and how far did it fall afterwards until the end of 2020?"
YEAR = "f.period('2019-01-01', '2019-12-31')"
STEPS = [
    f"f.maximum(f.within(s1, {YEAR}))",
    "f.minimum(f.between(s1, _1, f.end(f.period('2020-01-01', '2020-12-31'))))",
    "f.pct(_1, _2)",
]


@pytest.fixture
def world(two_companies: Any) -> Any:
    """A world whose data tool gives tables only for typed queries."""
    two_companies.reads_only = True
    two_companies.words = []
    return two_companies


async def test_every_step_has_a_line_with_its_value_its_days_and_its_source(drive: Any, world: Any) -> None:
    world.program = make_program(STEPS)
    talk = await drive(QUESTION, world)
    assert talk.tools == ["data", "data", "python", "python", "finish"]
    assert talk.calls[1][1]["entities"] == ["AAA"]
    assert talk.calls[1][1]["indicators"] == ["close_adj"]
    assert "- (1) maximum of Alpha, 2019-01-01 to 2019-12-31: " in talk.answer
    assert "- (3) change from (1) to (2) in %: -" in talk.answer
    assert "{{figure:fig_1}}" in talk.answer
    assert_grounded(talk)
    assert_cited(talk)


async def test_a_chinese_question_is_answered_in_chinese(drive: Any, world: Any) -> None:
    world.program = make_program(STEPS[:1])
    talk = await drive("阿尔法2019年最高是多少？", world)
    assert "- Alpha（2019-01-01至2019-12-31）的峰值：" in talk.answer


async def test_a_program_of_which_the_reader_is_not_sure_is_not_computed(drive: Any, world: Any) -> None:
    world.program = make_program(STEPS, confidence=0.2)
    world.words = [["measure", "fall", "return"]]
    talk = await drive(QUESTION, world)
    assert not any("finance.steps" in str(arguments.get("code")) for _, arguments in talk.calls)


async def test_a_series_that_is_not_here_is_named_and_nothing_is_computed(drive: Any, world: Any) -> None:
    gap = {"words": "Gamma", "reason": "UNKNOWN_SERIES", "detail": "the tables have no series for 'Gamma'"}
    world.program = make_program([], series=[], missing=[gap])
    talk = await drive("What did Gamma return in 2019?", world)
    assert talk.tools == ["data", "finish"]
    assert talk.answer == "No series here holds “Gamma”, so there is no figure for it."
    assert talk.calls[-1][1]["reading"] == {"open": [talk.answer.rstrip(".")]}


@pytest.mark.parametrize(
    ("count", "question", "said"),
    [
        (
            2,
            "What did Gamma cost in 2019?",
            "Neither the tables of this conversation (plants.xlsx 1; plants.xlsx 2) nor",
        ),
        (
            6,
            "What did Gamma cost in 2019?",
            "(plants.xlsx 1; plants.xlsx 2; plants.xlsx 3; plants.xlsx 4 and 2 more) nor",
        ),
        (1, "Gamma 2019年的成本是多少？", "本次对话的表格（plants.xlsx 1）和这里的数据都没有“Gamma”"),
    ],
)
async def test_what_is_not_in_the_users_own_tables_is_said_of_them(
    drive: Any, world: Any, count: int, question: str, said: str
) -> None:
    gap = {"words": "Gamma", "reason": "UNKNOWN_SERIES", "detail": "the tables have no series for 'Gamma'"}
    world.program = make_program([], series=[], missing=[gap])
    rows = [f"[{at}] sheet_{at}: plants.xlsx {at}, 1,204 rows; columns date, Cost (EUR)" for at in range(1, count + 1)]
    guidance = [f"{GIVEN_TABLES[is_chinese(question)]}\n{quote(chr(10).join(rows))}"]
    talk = await drive(with_guidance(question, guidance), world)
    assert said in talk.answer
    assert "No series here" not in talk.answer


async def test_what_nothing_here_can_say_is_said(drive: Any, world: Any) -> None:
    world.program = make_program([], kind="outside", series=[])
    talk = await drive("Should I buy Alpha?", world)
    assert "no advice" in talk.answer
    assert "Should I buy Alpha?" in talk.calls[-1][1]["reading"]["open"][0]


async def test_a_step_that_fails_is_open_and_the_others_stay(drive: Any, world: Any) -> None:
    world.program = make_program([STEPS[0], "f.at(s1, f.period('2030-05-05', '2030-05-05'))"])
    talk = await drive(QUESTION, world)
    assert "(1) maximum" in talk.answer
    left = talk.calls[-1][1]["reading"]["open"]
    assert len(left) == 1
    assert left[0].startswith("Alpha, 2030-05-05 (")


async def test_where_every_step_fails_the_answer_is_a_refusal_with_the_reason(drive: Any, world: Any) -> None:
    world.program = make_program(["f.at(s1, f.period('2030-05-05', '2030-05-05'))"])
    talk = await drive("Alpha's close on 5 May 2030?", world)
    assert "I cannot compute this" in talk.answer
    assert "2021" in talk.answer


async def test_a_premise_that_the_values_contradict_comes_first(drive: Any, world: Any) -> None:
    world.asked = [["return", "why did Alpha crash from the start to the end", "fall"]]
    world.program = make_program(["f.ret(s1)"])
    talk = await drive("By how much did Alpha crash in all?", world)
    assert talk.calls[-1][1]["reading"]["open"] == ["The question presumes that it fell; by the values it rose"]


async def test_a_program_that_leaves_a_name_of_the_question_out_is_not_computed(drive: Any, world: Any) -> None:
    world.program = make_program(STEPS[:1], unused=[{"words": "Beta", "reason": "UNUSED_NAME"}])
    world.words = [["entity", "Alpha", "AAA"], ["entity", "Beta", "BBB"], ["measure", "highest", "max"]]
    talk = await drive("When were Alpha and Beta highest?", world)
    assert not any("finance.steps" in str(arguments.get("code")) for _, arguments in talk.calls)


@pytest.mark.parametrize(
    ("question", "said"), [(QUESTION, "nothing fits: "), ("阿尔法2019年何时超过900？", "没有符合的：")]
)
async def test_a_condition_that_no_value_meets_comes_first(drive: Any, world: Any, question: str, said: str) -> None:
    world.program = make_program([f"f.first_if(f.within(s1, {YEAR}), 'above', 900)"])
    talk = await drive(question, world)
    [left] = talk.calls[-1][1]["reading"]["open"]
    assert said in left
    assert "900" in left


async def test_data_that_a_window_lacks_are_said_first(drive: Any, world: Any) -> None:
    world.program = make_program(["f.mean(f.within(s1, f.period('1950-01-01', '2019-12-31')))"])
    talk = await drive("What was the average of Alpha since 1950?", world)
    [left] = talk.calls[-1][1]["reading"]["open"]
    assert "Alpha has values from" in left
    assert "not from 1950-01-01" in left


async def test_a_figure_is_no_reason(drive: Any, world: Any) -> None:
    world.program = make_program(STEPS[:1])
    talk = await drive("Why did Alpha rise in 2019?", world)
    assert "maximum of Alpha" in talk.answer
    assert talk.calls[-1][1]["reading"]["open"] == ["no document here says for certain what is behind it"]


@pytest.mark.parametrize("confidence", [0.88, 0.99])
async def test_words_that_a_program_does_not_use_are_open(drive: Any, world: Any, confidence: float) -> None:
    world.program = make_program(STEPS[:1], confidence=confidence, unused=[{"words": "gilt", "reason": "UNREAD"}])
    talk = await drive(QUESTION, world)
    assert "maximum of Alpha" in talk.answer
    assert talk.calls[-1][1]["reading"]["open"][0] == "gilt"


async def test_one_value_is_told_from_the_table_of_the_question(drive: Any, world: Any) -> None:
    world.program = make_program(["f.at(s1, f.period('2021-12-31', '2021-12-31'))"])
    world.reads_only = False
    frame, description = world.sheets[0]
    kept = [one for one in description["columns"] if one["name"] in ("date", "AAA.close_adj")]
    world.sheets[0] = (frame[["date", "AAA.close_adj"]].tail(1), {**description, "rows": 1, "columns": kept})
    talk = await drive("Alpha's close on 31 December 2021?", world)
    assert talk.tools == ["data", "finish"]


async def test_a_question_for_texts_goes_to_documents(drive: Any, world: Any) -> None:
    world.program = make_program([], kind="documents", series=[])
    talk = await drive("Who founded Alpha?", world)
    assert talk.tools[:2] == ["data", "search"]
    assert "python" not in talk.tools


async def test_an_answer_from_a_doubtful_program_says_so_first(drive: Any, world: Any) -> None:
    world.program = make_program(STEPS[:1], confidence=0.88)
    talk = await drive(QUESTION, world)
    assert "maximum of Alpha" in talk.answer
    left = talk.calls[-1][1]["reading"]["open"]
    assert left == ["the question may ask for more or for something else than these steps"]


OWN = {"name": "s1", "words": "Tencent", "variable": "sheet_1", "column": "腾讯", "dates": "日期"}


async def test_a_column_of_the_users_own_table_is_computed_without_a_query(drive: Any, world: Any) -> None:
    days = pd.date_range("2026-08-03", periods=3, freq="B")
    world.namespace["sheet_1"] = pd.DataFrame({"日期": days, "腾讯": [400.0, 360.0, 380.0]})
    world.program = make_program(["f.drawdown(s1)"], series=[OWN], words=["Tencent"])
    talk = await drive("How far did Tencent fall in my table?", world)
    codes = [str(arguments["code"]) for tool, arguments in talk.calls if tool == "python"]
    assert [tool for tool in talk.tools if tool == "data"] == ["data"]
    assert "s1 = f.line(sheet_1, '腾讯', 'Tencent')" in codes[0]


async def test_rows_of_the_users_own_table_are_computed_with_their_cells(drive: Any, world: Any) -> None:
    world.namespace["sheet_1"] = pd.DataFrame({"Tenant": ["Harbour", "Quill", "Moor"], "Rent": [1200.0, 800.0, 5.0]})
    own = {"name": "s1", "words": "Rent", "variable": "sheet_1", "column": "Rent", "rows": "yes"}
    steps = ["f.sum_rows(f.pick(s1, 'Status: open', 0, 1))"]
    world.program = make_program(steps, series=[{**own, "cells": "leases.csv B2:B4"}], words=["Rent"])
    talk = await drive("What is the total rent of the open leases?", world)
    codes = [str(arguments["code"]) for tool, arguments in talk.calls if tool == "python"]
    assert "s1 = f.rows(sheet_1, 'Rent', 'Rent')" in codes[0]
    assert "2,000" in talk.answer
    assert "leases.csv B2:B3" in talk.answer


@pytest.mark.parametrize(
    ("step", "cells"),
    [
        ("f.at(s1, f.period('2026-08-04', '2026-08-04'))", "own.csv B3"),
        ("f.maximum(s1)", "own.csv B4"),
        ("f.mean(f.within(s1, f.period('2026-08-03', '2026-08-04')))", "own.csv B3:B4"),
        ("f.change(s1)", "own.csv B2, B4"),
        ("f.top(f.last(f.each(s1, s2)), 1)", "own.csv B2"),
        ("f.median(f.last(f.each(s1, s2)))", "own.csv B2; own.csv C2"),
        # What is derived rests on more than one can name.
        ("f.maximum(f.steps(s1, 'day'))", "own.csv B2:B4"),
    ],
)
async def test_the_cells_that_a_value_rests_on_are_named(drive: Any, world: Any, step: str, cells: str) -> None:
    # Newest first, as many files are.
    days = pd.date_range("2026-08-03", periods=3, freq="B")[::-1]
    world.namespace["sheet_1"] = pd.DataFrame({"日期": days, "腾讯": [380.0, 360.0, 400.0], "美团": [90.0, 80.0, 70.0]})
    other = {**OWN, "name": "s2", "words": "Meituan", "column": "美团", "cells": "own.csv C2:C4"}
    series = [{**OWN, "cells": "own.csv B2:B4"}, *([other] if "s2" in step else [])]
    world.program = make_program([step], series=series, words=["Tencent", "Meituan"])
    talk = await drive("What of Tencent in my table?", world)
    assert f"Cells: {cells} [" in talk.answer


async def test_what_words_were_taken_for_is_said_first(drive: Any, world: Any) -> None:
    assumed = [{"words": "my companies", "columns": ["腾讯", "美团"]}]
    world.program = make_program(STEPS[:1], assumptions=assumed)
    talk = await drive(QUESTION, world)
    said = "“my companies” is taken for the columns of your table (腾讯, 美团), since no name here says it"
    assert talk.calls[-1][1]["reading"]["open"][0] == said


async def test_members_of_a_group_say_how_they_were_computed(drive: Any, world: Any) -> None:
    world.program = make_program(["f.crossover(f.each(s1, f.within(s1, f.period('2020-01-01', None))), 5, 20)"])
    talk = await drive(QUESTION, world)
    assert talk.answer.count("held while the mean of the last 5 values is above that of the last 20") == 2


async def test_a_question_for_a_meaning_goes_to_documents_though_its_word_was_taken_for_a_name(
    drive: Any, world: Any
) -> None:
    gap = {"words": "drawdown", "reason": "UNKNOWN_SERIES", "detail": "no series"}
    world.program = make_program([], series=[], words=["drawdown"], missing=[gap])
    world.words = [["measure", "maximum drawdown", "max_drawdown"]]
    talk = await drive("What is maximum drawdown?", world)
    assert "search" in talk.tools
