"""Programs in words: every function has a phrase, and every word that a program uses is in its question."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from fathom.domain.programs.language import DERIVED, SIGNATURES, SPECIAL, Call
from fathom.services.planner.model.programs import Program, parse_steps
from fathom.services.planner.questions.periods import Shift, shift_period
from fathom.services.planner.questions.wording import GENITIVE, load_phrases, write_question

EXAMPLES = Path(__file__).parents[4] / "services" / "datafetch" / "programs" / "examples"
# Every so many of the thousands of examples.
STRIDE = 9
# These are written by themselves: names side by side, and the words of a period.
BY_THEMSELVES = {"each", "when"}
A, B = 'series("gold", GOLD)', 'series("oil", WTI)'


def make(text: str) -> Program:
    return Program("calculation", parse_steps(text), 1.0, 1.0)


def list_programs() -> list[Program]:
    rows = [
        json.loads(line)
        for file in sorted(EXAMPLES.glob("*.jsonl"))
        for line in islice(file.read_text(encoding="utf-8").splitlines(), 0, None, STRIDE)
    ]
    made = [make(row["program"]) for row in rows]
    return [one for one in made if not one.functions & SPECIAL]


def test_every_function_of_the_language_has_a_phrase_in_both_languages() -> None:
    phrases = load_phrases()["functions"]
    assert set(phrases) == {*SIGNATURES, *DERIVED} - BY_THEMSELVES
    assert all(len(both) == 2 and all(both) for both in phrases.values())


@pytest.mark.parametrize("chinese", [False, True])
def test_every_word_of_a_program_is_in_its_question(chinese: bool) -> None:
    programs = list_programs()
    assert len(programs) > 500
    for program in programs:
        question = write_question(program, chinese).casefold()
        assert [words for words in program.words if GENITIVE.sub("", words).casefold() not in question] == []
        assert question


def test_functions_with_their_parameters_are_told_apart() -> None:
    calls = [
        f"sharpe({A})", f'sharpe({A}, "2%")', f"sharpe({A}, month)", f'sharpe({A}, "2%", week)', f"vol({A})",
        f"vol({A}, month)", f"corr({A}, {B})", f"corr({A}, {B}, week)", f'top(each({A}, {B}), "2")', f"top(each({A}, {B}))",
        f"every({A}, month, mean)", f"every({A}, month, last)", f"crossings({A}, {B}, up)", f"crossings({A}, {B}, down)",
        f"pct({A}, {B})", f"pct({B}, {A})", f'count_if({A}, above, "5")', f'count_if({A}, at_least, "5")',
        f'portfolio("60%", {A}, "40%", {B})', f'portfolio("60%", {A}, "40%", {B}, year)', f'recent({A}, "3", month)',
    ]  # fmt: skip
    for chinese in (False, True):
        assert len({write_question(make(call), chinese) for call in calls}) == len(calls)


@pytest.mark.parametrize(
    ("program", "question"),
    [
        (
            f'sharpe(within({A}, "2010-2019"), "1.5%")',
            "Sharpe ratio of gold in 2010-2019 with a risk-free rate of 1.5%",
        ),
        (f'pct(at({A}, "2010"), at({A}, "2012"))', "percentage change from gold in 2010 to gold in 2012"),
        (f'at({A}, "23 June 2016")', "gold on 23 June 2016"),
        (f'ret(between({A}, end("2012"), "May 2013"))', "return of gold from the end of 2012 to May 2013"),
        (
            f'vol(portfolio("60%", {A}, "40%", {B}, year))',
            "volatility of portfolio of 60% gold and 40% oil, rebalanced annual",
        ),
        # A step that another one refers to stands in its place.
        (
            f'maximum(within({A}, "2018"))\nret(after({A}, _1))',
            "return of gold after the time of the highest gold in 2018",
        ),
        (f"mean({A})\nmean({B})", "average of gold; the average of oil"),
    ],
)
def test_a_program_in_english_words(program: str, question: str) -> None:
    assert write_question(make(program), chinese=False) == f"What was the {question}?"


def test_a_portfolio_without_a_share_is_still_a_question() -> None:
    odd = Program("calculation", (Call("portfolio", ()),), 1.0, 1.0)
    assert write_question(odd, chinese=False) == ""


@pytest.mark.parametrize(
    ("value", "unit", "count", "chinese", "words"),
    [
        ("2020-01-01/2020-12-31", "year", 1, False, "2021"),
        ("2020-01-01/2020-12-31", "year", -1, True, "2019年"),
        ("2018-10-01/2018-12-31", "quarter", 1, True, "2019年第一季度"),
        ("2018-10-01/2018-12-31", "year", 1, True, "2019年第四季度"),
        ("2020-12-01/2020-12-31", "month", 1, False, "January 2021"),
        ("2009-10-01/2009-10-31", "decade", 1, False, "October 2019"),
        ("2020-04-01/2020-04-30", "month", 3, True, "2020年7月"),
        ("2015-01-01/2019-12-31", "year", 1, False, "2020"),
        ("2015-01-01/2019-12-31", "year", -1, False, "2014"),
        ("2020-03-23/2020-03-23", "year", 0, True, "2020年"),
        ("2020-03-23/2020-03-23", "day", 1, False, "24 March 2020"),
        ("2020-01-31/2020-01-31", "month", 1, False, "29 February 2020"),
        ("2020-05-03/2020-06-09", "year", 1, False, ""),
        ("2019-01-01/2020-12-31", "year", 0, False, ""),
        ("2020-01-01/..", "year", 1, False, ""),
    ],
)
def test_periods_move_by_a_unit_from_the_earlier_one(
    value: str, unit: str, count: int, chinese: bool, words: str
) -> None:
    assert shift_period(value, Shift(unit, count), chinese) == words
