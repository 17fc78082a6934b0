"""Follow-ups made whole by the program of the conversation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fathom.core.errors import CorruptData
from fathom.services.planner.model.programs import Program, ReadProgram, parse_steps
from fathom.services.planner.model.slots import ReadText, Slot, SlotKind
from fathom.services.planner.questions.carrying import carry, exchange_words, is_likely, is_supported
from fathom.services.planner.questions.leaning import ADDING, COMPARING, REFERRING, REMOVING
from fathom.services.planner.questions.wording import write_question

LILLY = 'ret(within(series("Lilly", LLY), "2020"))'
OTHER_YEAR = 'ret(within(series("Pfizer", PFE), "2019"))'
VOLATILITY = 'vol(within(series("Pfizer", PFE), "2020"))'
LAST = "What was Pfizer's return in 2020?"
FORMER = 'ret(within(series("Pfizer", PFE), "2020"))'
WORDS = {
    "Pfizer": (SlotKind.ENTITY, "PFE"),
    "Lilly": (SlotKind.ENTITY, "LLY"),
    "return": (SlotKind.MEASURE, "return"),
    "volatility": (SlotKind.MEASURE, "volatility"),
    "house prices": (SlotKind.INDICATOR, "houses"),
    "Boston": (SlotKind.ENTITY, "boston"),
    "Tampa": (SlotKind.ENTITY, "tampa"),
    "2020": (SlotKind.PERIOD, "2020-01-01/2020-12-31"),
    "2019": (SlotKind.PERIOD, "2019-01-01/2019-12-31"),
    "a year earlier": (SlotKind.MEASURE, "yoy"),
    "Now": (SlotKind.MEASURE, "last"),
    "March 2020": (SlotKind.PERIOD, "2020-03-01/2020-03-31"),
}


def read(text: str) -> ReadText:
    found = [
        Slot(kind, words, value, text.index(words), text.index(words) + len(words))
        for words, (kind, value) in WORDS.items()
        if words in text
    ]
    return ReadText(text, tuple(sorted(found, key=lambda slot: slot.start)))


def make(text: str, program: str, confidence: float = 0.95, gaps: frozenset[str] = frozenset()) -> ReadProgram:
    return ReadProgram(read(text), Program("calculation", parse_steps(program), confidence, 1.0, gaps))


def complete(
    follow_up: str, program: str, *leaning: str, last: str = LAST, former: str = FORMER, **marks: object
) -> str:
    asked, before = make(follow_up, program, **marks), make(last, former)  # type: ignore[arg-type]
    if not is_supported(asked, before, leaning):
        return ""
    exchanged, in_words = carry(asked, before, chinese=False)
    return exchanged or in_words


@pytest.mark.parametrize(
    ("follow_up", "program", "whole"),
    [
        ("and Lilly?", 'ret(within(series("Lilly", LLY), "2020"))', "What was Lilly's return in 2020?"),
        ("and in 2019?", 'ret(within(series("Pfizer", PFE), "2019"))', "What was Pfizer's return in 2019?"),
        # A number with a point is exchanged, too.
        ("and 2019.5?", 'ret(within(series("Pfizer", PFE), "2019.5"))', "What was Pfizer's return in 2019.5?"),
        # Another calculation is put into words, without the one that was answered.
        ("volatility?", 'vol(within(series("Pfizer", PFE), "2020"))', "What was the volatility of Pfizer in 2020?"),
        ("highest ever?", 'maximum(series("Pfizer", PFE))', "What was the highest Pfizer?"),
        # Two calculations at once mostly repeat what was answered.
        ("highest?", f'{FORMER}\nmaximum(series("Pfizer", PFE))', ""),
        # The same again says nothing of the follow-up.
        ("in one chart", FORMER, ""),
        # What the follow-up says is not in its program: a name, a measure, a number.
        ("and Lilly?", 'ret(within(series("Pfizer", PFE), "2019"))', ""),
        ("its volatility in 2019?", 'ret(within(series("Pfizer", PFE), "2019"))', ""),
        ("and over 30 days in 2019?", 'ret(within(series("Pfizer", PFE), "2019"))', ""),
        # A likely program passes over words that no series has, and may ask for another calculation.
        ("sorry, I had Lilly in mind", 'ret(within(series("Lilly", LLY), "2020"))', "What was Lilly's return in 2020?"),
        ("and in 2019?", 'at(series("Pfizer", PFE), "2019")', "What was the Pfizer in 2019?"),
        # Words of a time that the program shifts were read as growth; for another name they may be anything.
        ("and a year earlier?", 'at(series("Pfizer", PFE), earlier("2020", 1, year))', "What was the Pfizer in 2019?"),
        ("and a year earlier?", 'at(series("Merck", MRK), earlier("2020", 1, year))', ""),
        # "Now" only stands around what is new, and is no last value.
        ("Now in 2019?", 'ret(within(series("Pfizer", PFE), "2019"))', "What was Pfizer's return in 2019?"),
    ],
)
def test_the_program_makes_the_follow_up_whole(follow_up: str, program: str, whole: str) -> None:
    assert complete(follow_up, program) == whole


def test_both_sides_of_a_comparison_and_what_is_added_to_are_kept() -> None:
    alone = 'ret(within(series("Lilly", LLY), "2020"))'
    both = 'ret(within(each(series("Pfizer", PFE), series("Lilly", LLY)), "2020"))'
    assert complete("compare with Lilly", alone, COMPARING) == complete("add Lilly", alone, ADDING) == ""
    assert complete("add Lilly", both, ADDING) == "What was the return of Pfizer and Lilly in 2020?"


SEVERAL = "How did Pfizer and Boston do in 2020?"
OF_SEVERAL = 'ret(within(each(series("Pfizer", PFE), series("Boston", x)), "2020"))'


@pytest.mark.parametrize(
    ("follow_up", "program", "leaning"),
    [
        # Which of the names are left is not for the program to say.
        ("drop Boston", 'ret(within(series("Pfizer", PFE), "2020"))', [REMOVING]),
        # One of several names goes without a word.
        ("and Lilly?", 'ret(within(each(series("Pfizer", PFE), series("Lilly", LLY)), "2020"))', []),
        # Words that may mean one of several, by a pronoun or by others.
        ("its volatility?", 'vol(within(each(series("Pfizer", PFE), series("Boston", x)), "2020"))', [REFERRING]),
        ("the weak firm's volatility?", 'vol(within(each(series("Pfizer", PFE), series("Boston", x)), "2020"))', []),
    ],
)
def test_what_may_mean_one_of_several_is_not_believed(follow_up: str, program: str, leaning: list[str]) -> None:
    assert complete(follow_up, program, *leaning, last=SEVERAL, former=OF_SEVERAL) == ""


def test_all_of_several_are_taken_over_by_a_follow_up_that_says_nothing_else() -> None:
    program = 'vol(within(each(series("Pfizer", PFE), series("Boston", x)), "2020"))'
    whole = "What was the volatility of Pfizer and Boston in 2020?"
    assert complete("volatility?", program, last=SEVERAL, former=OF_SEVERAL) == whole


def test_the_time_that_an_answer_has_found_is_not_asked_for_again() -> None:
    last, former = "When was Pfizer lowest in 2020?", 'minimum(within(series("Pfizer", PFE), "2020"))'
    nested = f'vol(within(series("Lilly", LLY), {former}))'
    assert complete("volatility of Lilly then?", nested, REFERRING, last=last, former=former) == ""


def test_an_unlikely_program_is_no_likely_one_and_one_with_an_unreadable_period_is_not_used() -> None:
    program = 'ret(within(series("Lilly", LLY), "2020"))'
    likely, unlikely = (make("and Lilly?", program, confidence).program for confidence in (0.8, 0.79))
    assert likely
    assert unlikely
    assert is_likely(likely)
    assert not is_likely(unlikely)
    later = 'ret(within(series("Lilly", LLY), "13"))'
    assert complete("and Lilly, 13?", later, gaps=frozenset({"PERIOD"})) == ""
    # What could not be read in the last question either stays as it was.
    assert complete("and Lilly?", program, gaps=frozenset({"PERIOD"})) == "What was Lilly's return in 2020?"
    assert complete("and Lilly?", program, gaps=frozenset({"UNKNOWN_SERIES"})) == "What was Lilly's return in 2020?"


@pytest.mark.parametrize(
    ("follow_up", "unread", "program", "quantities", "is_used"),
    [
        # Words around what is new, in no list.
        ("oops, Lilly", "oops", LILLY, (), True),
        ("oops, 2019", "oops", OTHER_YEAR, (), True),
        # Nothing is named, and nobody has heard that a volatility is asked for.
        ("another figure", "figure", VOLATILITY, (), False),
        ("how bumpy was that", "bumpy", VOLATILITY, ("volatility",), True),
        ("how deep was the fall", "deep", VOLATILITY, ("max_drawdown",), False),
        # A name that nothing knows, a pointing word, and a part of the time, which may be left out.
        ("Lilly or Zoom", "Zoom", LILLY, (), False),
        ("the former, Lilly", "former", LILLY, (), False),
        ("had I sat out March 2020", "sat", 'ret(within(series("Pfizer", PFE), "March 2020"))', (), False),
    ],
)
def test_unread_words_are_passed_over_where_nothing_hangs_on_them(
    follow_up: str, unread: str, program: str, quantities: tuple[str, ...], *, is_used: bool
) -> None:
    asked = make(follow_up, program)
    assert asked.program is not None
    asked = replace(asked, program=replace(asked.program, unread=(unread,)))
    assert is_supported(asked, make(LAST, FORMER), (), quantities) is is_used


def test_a_name_replaces_only_what_is_of_its_kind() -> None:
    last, former = "How did Boston house prices do in 2020?", 'ret(within(series("Boston house prices", x), "2020"))'
    program = 'ret(within(series("Tampa", x), "2020"))'
    assert complete("and Tampa?", program, last=last, former=former) == "How did Tampa house prices do in 2020?"


@pytest.mark.parametrize(
    ("moved", "words"),
    [
        ('later("March 2020", "twelve", month)', "in March 2021"),
        ('earlier("2020", 2, year)', "in 2018"),
        # A period that nobody has read, and a number that is none, stay as they are.
        ('later("2021", "twelve", month)', "at twelve months after 2021"),
        ('later("2020", "some", month)', "at some months after 2020"),
    ],
)
def test_a_period_some_time_later_is_named(moved: str, words: str) -> None:
    program = Program("calculation", parse_steps(f'vol(within(series("Pfizer", PFE), {moved}))'), 1.0, 1.0)
    periods = {"March 2020": "2020-03-01/2020-03-31", "2020": "2020-01-01/2020-12-31"}
    assert write_question(program, chinese=False, periods=periods) == f"What was the volatility of Pfizer {words}?"


def test_a_program_in_chinese_words() -> None:
    steps = parse_steps('cagr(within(each(series("可口可乐", KO), series("百事", PEP)), "2000年到2009年"))')
    program = Program("calculation", steps, 1.0, 1.0)
    assert write_question(program, chinese=True) == "2000年到2009年可口可乐和百事的年化收益率是多少？"
    # What computes nothing, and a step that there is not, are not put into words.
    for text in ('documents("a")', 'minus(series("a", x), _1)'):
        assert write_question(Program("calculation", parse_steps(text), 1.0, 1.0), chinese=True) == ""


@pytest.mark.parametrize("text", ["ret(", "ret(1)\nx = 2", "ret", "ret([1])"])
def test_what_is_no_program_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptData):
        parse_steps(text)


def test_a_figure_has_no_place_where_there_was_none() -> None:
    last = read("What was Pfizer's return in 2020?")
    assert exchange_words({"return": "2%"}, read("assume 2%"), last) == ""
    assert exchange_words({"2020": "2019"}, read("and 2019?"), last) == "What was Pfizer's return in 2019?"
