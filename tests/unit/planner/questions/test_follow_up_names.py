"""Which names a follow-up means: several of several turns, one in place of another, a place in a ranking, a part."""

from __future__ import annotations

import re

import pytest

from fathom.services.planner.model.slots import ReadText, Slot, SlotKind
from fathom.services.planner.questions.compositions import choose_phrase, list_phrases, put_in_place
from fathom.services.planner.questions.follow_ups import Completed
from fathom.services.planner.questions.frames import Turn, join_same
from tests.unit.planner.questions.test_follow_ups import APPLE, PFIZER, complete

PAIR = ("Returns of Apple and Microsoft in 2019", "Apple returned 89.0% and Microsoft 57.6% in 2019 [1].")
BETTER = ("Which had the better return in 2019, Apple or Microsoft?", "Apple, with 89.0% [1].")


@pytest.mark.parametrize(
    ("turn", "question", "whole"),
    [
        (PAIR, "swap Microsoft for Lilly", "Returns of Apple and Lilly in 2019"),
        (PAIR, "Now compare Pfizer with Lilly instead.", "Returns of Pfizer and Lilly in 2019"),
        (PAIR, "What was number two in 2020?", "What was Microsoft in 2020 (Return)?"),
        (BETTER, "the one that came out ahead, how volatile was it in 2020?", "Apple, how volatile was it in 2020?"),
        (BETTER, "Plot the best one's volatility", "Plot Apple's volatility (2019)?"),
        # A company is "they" in English.
        (PFIZER, "Did they fall in 2019?", "Did Pfizer fall in 2019 (maximum drawdown)?"),
        # "Both" are the one before and the one that the question itself names.
        (
            ("苹果2019年的收益率", "88.96%[1]。"),
            "那微软呢？两家差多少？",
            "那微软呢？苹果和微软差多少（收益率，2019年）？",
        ),
    ],
)
def test_the_names_that_are_meant(turn: tuple[str, str], question: str, whole: str) -> None:
    assert complete(question, turn).text.casefold() == whole.casefold()


def test_a_pronoun_for_names_of_its_own_question_needs_no_turn() -> None:
    question = "New question: rank Apple, Microsoft and Lilly by their return in 2022."
    assert complete(question, PFIZER) == Completed(question)


def test_two_companies_of_which_one_is_known_are_asked_back() -> None:
    assert complete("两家的波动率呢", ("苹果2019年的收益率", "88.96%[1]。")).unresolved == "两家"


def test_a_year_alone_moves_the_quarter_that_was_asked_for() -> None:
    found = complete("2020年呢", ("苹果2018年第四季度的收益率", "-29.9%[1]。"))
    assert found.text == "苹果2020年第四季度的收益率"


def test_all_periods_of_a_question_are_kept_and_one_of_two_is_asked_back() -> None:
    turn = ("unemployment in 2009 and in 2020", "10.0% and 14.7% [1].")
    assert complete("Why?", turn).text == "Why (unemployment, 2009 and 2020, 10.0%)?"
    assert complete("How did gold do that year?", turn).unresolved == "that year"
    assert complete("两者的最大回撤呢", APPLE).text == "苹果和微软的最大回撤呢（2019年）？"


def read_funds(text: str) -> ReadText:
    """Read with a lexicon that knows two funds by style, one of them by its ticker too."""
    found = [
        Slot(SlotKind.ENTITY, match.group(), value, match.start(), match.end())
        for words, value in (("MTUM|momentum ETF", "MTUM"), ("value ETF", "VLUE"))
        for match in re.finditer(words, text)
    ]
    known = " ".join(slot.text for slot in found)
    unknown = [
        Slot(SlotKind.UNKNOWN, match.group(), "", match.start(), match.end())
        for match in re.finditer(r"\b(?:value|low-cost)\b", text)
        if match.group() not in known
    ]
    return ReadText(text, (*found, *unknown))


@pytest.mark.parametrize(
    ("follow_up", "whole"),
    [("now the value one", "How deep did the value ETF fall?"), ("the low-cost one?", ""), ("and MTUM?", "")],
)
def test_a_part_of_a_name_is_read_with_the_rest_of_the_earlier_one(follow_up: str, whole: str) -> None:
    last = Turn.of(read_funds("How deep did the MTUM momentum ETF fall?"), ReadText("-28%")).question
    phrases = list_phrases(read_funds(follow_up), last)
    found = choose_phrase(phrases, [read_funds(phrase.text) for phrase in phrases])
    assert (put_in_place(found, last) if found else "") == whole


def test_words_of_one_meaning_side_by_side_are_one_slot() -> None:
    slots = (
        Slot(SlotKind.MEASURE, "Annualised", "volatility", 0, 10),
        Slot(SlotKind.FREQUENCY, "daily", "daily", 11, 16),
        Slot(SlotKind.MEASURE, "volatility", "volatility", 17, 27),
    )
    [joined] = join_same(ReadText("Annualised daily volatility", slots)).slots
    assert (joined.text, joined.end) == ("Annualised daily volatility", 27)
