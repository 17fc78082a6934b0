"""Follow-ups made whole by the slots of earlier turns, and what is asked back instead of guessed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace

import pytest

from fathom.clients import Clients
from fathom.core.telemetry import Telemetry
from fathom.domain.chat.messages import Message, Role
from fathom.services.planner.classification.classifier import Classifier, Verdict, load_heads
from fathom.services.planner.classification.examples import KIND, ROUTE
from fathom.services.planner.classification.vectors import Encoded
from fathom.services.planner.model.programs import Program, ReadProgram, parse_steps
from fathom.services.planner.model.slots import ReadText, Slot, SlotKind
from fathom.services.planner.questions.follow_ups import Completed, complete_question, merge_inputs
from fathom.services.planner.questions.frames import Turn
from fathom.services.planner.questions.periods import Shift, shift_period
from fathom.services.planner.workflow.rewriting import (
    ASKS,
    Reading,
    Rewriter,
    make_clarification,
    restore_reading,
)

WORDS = {
    SlotKind.ENTITY: "Pfizer|Lilly|Apple|Microsoft|gold|苹果|微软|谷歌|黄金",
    SlotKind.INDICATOR: "maximum drawdown|volatility|volatile|return|unemployment|inflation|收益率|波动率|最大回撤",
    SlotKind.PERIOD: r"2018年第四季度|2020-03-\d\d|\b(?:19|20)\d\d\b|(?:19|20)\d\d年",
    SlotKind.UNKNOWN: "Zoom's|Ford|margins",
}
PFIZER = ("What was Pfizer's maximum drawdown in 2020?", "Pfizer's maximum drawdown in 2020 was -30.6% [1].")
APPLE = ("比较苹果和微软2019年的收益率", "苹果为88.96%，微软为57.6%[1]。")


def read(text: str) -> ReadText:
    """Read with a small lexicon, as datafetch does with that of its data."""
    found = [
        Slot(kind, match.group(), value_of(kind, match.group()), match.start(), match.end())
        for kind, words in WORDS.items()
        for match in re.finditer(words, text)
    ]
    return ReadText(text, tuple(sorted(found, key=lambda slot: slot.start)))


def value_of(kind: SlotKind, text: str) -> str:
    if kind is not SlotKind.PERIOD:
        return text.lower()
    if "-" in text:
        return f"{text}/{text}"
    year = text[:4]
    return f"{year}-10-01/{year}-12-31" if "第四" in text else f"{year}-01-01/{year}-12-31"


def complete(question: str, *turns: tuple[str, str]) -> Completed:
    return complete_question(read(question), [Turn.of(read(asked), read(answered)) for asked, answered in turns])


@pytest.mark.parametrize(
    ("turn", "question", "whole"),
    [
        (PFIZER, "and Lilly?", "What was Lilly's maximum drawdown in 2020?"),
        (PFIZER, "What about 2021 then?", "What was Pfizer's maximum drawdown in 2021?"),
        (PFIZER, "And the year after?", "What was Pfizer's maximum drawdown in 2021?"),
        (PFIZER, "And the volatility?", "What was Pfizer's volatility in 2020?"),
        (PFIZER, "And Zoom's?", "What was Zoom's maximum drawdown in 2020?"),
        (PFIZER, "How volatile was it?", "How volatile was Pfizer (2020)?"),
        (PFIZER, "Why?", "Why (Pfizer, maximum drawdown, 2020, -30.6%)?"),
        (PFIZER, "Is -30.6% a lot?", "Is -30.6% a lot (Pfizer, maximum drawdown, 2020)?"),
        (APPLE, "那黄金呢", "比较黄金2019年的收益率"),
        (APPLE, "那2018年第四季度呢？", "比较苹果和微软2018年第四季度的收益率"),
        (APPLE, "次年呢", "比较苹果和微软2020年的收益率"),
        (APPLE, "两者的最大回撤呢", "苹果和微软的最大回撤呢（2019年）？"),
        (APPLE, "前者为什么这么高", "苹果为什么这么高（收益率，2019年，88.96%）？"),
        (APPLE, "和黄金比呢？", "和黄金比呢（苹果和微软，收益率，2019年）？"),
    ],
)
def test_a_follow_up_says_whom_what_and_when(turn: tuple[str, str], question: str, whole: str) -> None:
    assert complete(question, turn) == Completed(whole)


@pytest.mark.parametrize(
    ("turn", "question", "whole"),
    [
        (PFIZER, "add Lilly", "What was Pfizer and Lilly's maximum drawdown in 2020?"),
        (APPLE, "去掉苹果", "比较微软2019年的收益率"),
        (APPLE, "去掉苹果，加上谷歌", "比较微软和谷歌2019年的收益率"),
        (APPLE, "第二家的波动率呢", "微软的波动率呢（2019年）？"),
        (APPLE, "另一家的波动率呢", "微软的波动率呢（2019年）？"),
        (PFIZER, "no, I meant 2019", "What was Pfizer's maximum drawdown in 2019?"),
        (PFIZER, "go back to 2010", "go back to 2010 (Pfizer, maximum drawdown)?"),
        (PFIZER, "two years later?", "What was Pfizer's maximum drawdown in 2022?"),
        (PFIZER, "Is 31% right?", "Is 31% right (Pfizer, maximum drawdown, 2020)?"),
    ],
)
def test_a_follow_up_adds_removes_ranks_and_corrects(turn: tuple[str, str], question: str, whole: str) -> None:
    assert complete(question, turn) == Completed(whole)


RANKED = ("Returns of Apple and Microsoft in 2019", "Apple returned 89.0% and Microsoft 57.6% in 2019 [1].")
LOSSES = ("Who lost more in 2018, Apple or Microsoft?", "Apple lost 6.8% and Microsoft 2.1% in 2018 [1].")


@pytest.mark.parametrize(
    ("turn", "question", "part"),
    [
        (RANKED, "the better one's volatility?", "Apple's volatility"),
        (RANKED, "and the loser in 2020?", "Microsoft in 2020"),
        (LOSSES, "what did the loser return in 2019?", "did Apple return"),
        (APPLE, "涨得少的那家波动率是多少", "微软波动率"),
        (
            ("Apple and Lilly: volatility 2019", "Apple 26.2%, Lilly 20.1% [1]."),
            "the best one in 2020?",
            "Lilly in 2020",
        ),
    ],
)
def test_the_better_one_is_found_by_the_figures_of_the_answer(turn: tuple[str, str], question: str, part: str) -> None:
    assert part in complete(question, turn).text


def test_the_better_one_of_a_single_figure_is_asked_back() -> None:
    assert complete("and the better one?", PFIZER).unresolved


@pytest.mark.parametrize(
    ("turn", "question", "whole"),
    [
        (PFIZER, "and in March?", "What was Pfizer's maximum drawdown in March 2020?"),
        (PFIZER, "Q3?", "What was Pfizer's maximum drawdown in Q3 2020?"),
        (PFIZER, "May to June?", "What was Pfizer's maximum drawdown in May 2020 to June 2020?"),
        (PFIZER, "and in December of the year before?", "What was Pfizer's maximum drawdown in December 2019?"),
        (APPLE, "上半年呢", "比较苹果和微软2019年1月至2019年6月的收益率"),
        (PFIZER, "through to 2022", "What was Pfizer's maximum drawdown in from 2020 to 2022?"),
    ],
)
def test_what_a_date_leaves_out_is_that_of_the_conversation(turn: tuple[str, str], question: str, whole: str) -> None:
    assert complete(question, turn) == Completed(whole)


def test_then_is_the_time_that_the_answer_found() -> None:
    turn = ("When was inflation highest?", "Inflation was highest in 2020, at 9.1% [1].")
    assert complete("What was unemployment at that time?", turn).text == "What was unemployment in 2020?"


@pytest.mark.parametrize(
    ("question", "whole"),
    [
        ("log scale please", "log scale please (Pfizer, maximum drawdown, 2020, -30.6%)?"),
        ("in euros?", "in euros (Pfizer, maximum drawdown, 2020, -30.6%)?"),
    ],
)
def test_a_manner_is_that_of_the_last_question(question: str, whole: str) -> None:
    assert complete(question, PFIZER) == Completed(whole)


def test_a_pronoun_after_another_reference_asks_nothing_back() -> None:
    found = complete("which of them fell further from its peak?", RANKED)
    assert not found.unresolved
    assert found.text.startswith("which of Apple and Microsoft fell further from its peak")


@pytest.mark.parametrize("question", ["and in 2019?", "那2019年呢", "那个再往前推五年看看"])
def test_a_fragment_without_a_turn_before_is_asked_back(question: str) -> None:
    assert complete(question, ("Hello", "Good morning.")).unresolved


def test_names_that_the_data_do_not_know_are_names() -> None:
    ford = ("Ford's volatility in 2018?", "Ford's volatility was 24.1% [1].")
    assert complete("and Zoom's?", ford).text == "Zoom's volatility in 2018?"


@pytest.mark.parametrize(
    ("turn", "question", "options"),
    [
        (APPLE, "加上上次那只基金", 0),
        (PFIZER, "and the other one?", 0),
        (("Hello", "Good morning."), "And the year after?", 0),
        (("Apple's best and worst day of 2020", "Best 2020-03-13, worst 2020-03-16 [1]."), "And gold on that day?", 2),
    ],
)
def test_words_without_one_antecedent_are_reported(turn: tuple[str, str], question: str, options: int) -> None:
    found = complete(question, turn)
    assert found.unresolved
    assert len(found.options) == options


def test_that_day_is_the_only_day_of_the_answer() -> None:
    turn = ("On which day of 2020 did Apple lose most?", "Apple lost most on 2020-03-16 [1].")
    assert "16 March 2020" in complete("What did gold do that day?", turn).text


@pytest.mark.parametrize(
    "question",
    ["How did gold do in 2011?", "What was unemployment in 2009?", "2018年微软的波动率是多少", "Apple volatility 2015"],
)
def test_a_whole_question_stays_as_it_is(question: str) -> None:
    assert complete(question, PFIZER) == Completed(question)


def test_older_turns_fill_what_the_last_one_lacks() -> None:
    found = complete("And the volatility?", PFIZER, ("And Lilly?", "-20.1% [1]."))
    assert found.text == "And Lilly (volatility)?"
    assert complete("How volatile was it?", PFIZER, ("What about unemployment?", "3.5%.")).text.count("Pfizer") == 1


def test_one_pronoun_for_two_companies_is_not_guessed() -> None:
    found = complete("它的波动率呢？", APPLE)
    assert found.unresolved == "它"
    assert found.options == ("苹果的波动率呢（2019年）？", "微软的波动率呢（2019年）？")
    nothing = complete("What was its return in 2020?", ("Hello", "Good morning."))
    assert (nothing.unresolved, nothing.options) == ("its", ())


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


class Lexicon:
    """Reader of these tests."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def read(self, text: str, as_of: object = None) -> ReadText | None:
        self.texts.append(text)
        return read(text)

    async def read_program(self, text: str, earlier: Sequence[str] = (), as_of: object = None) -> ReadProgram | None:
        return None


class NoVectors:
    """Encoder that does not answer."""

    async def encode(self, texts: Sequence[str]) -> Encoded | None:
        return None


def make_rewriter(may_ask: bool = True) -> Rewriter:
    clients = Clients({}, Telemetry("test", log_level="critical"))
    return Rewriter(clients, Lexicon(), Classifier(NoVectors(), load_heads()), str, may_ask=may_ask)


def make_history(*turns: tuple[str, str]) -> list[Message]:
    return [Message(role, text) for turn in turns for role, text in zip((Role.USER, Role.ASSISTANT), turn, strict=True)]


class ProgramLexicon(Lexicon):
    """Reader that knows the programs of the last question and of the follow-up."""

    def __init__(self, program: str, confidence: float) -> None:
        super().__init__()
        self._program, self._confidence = program, confidence
        self.asked: list[tuple[str, ...]] = []

    async def read_program(self, text: str, earlier: Sequence[str] = (), as_of: object = None) -> ReadProgram | None:
        self.asked.append((*earlier, text))
        program, confidence = (self._program, self._confidence) if earlier else (DRAWDOWN, 0.97)
        return ReadProgram(read(text), Program("calculation", parse_steps(program), confidence, 1.0))


DRAWDOWN = 'drawdown(within(series("Pfizer", PFE), "2020"))'


async def rewrite_with(follow_up: str, program: str, confidence: float) -> tuple[Reading, ProgramLexicon]:
    reader = ProgramLexicon(program, confidence)
    return await replace(make_rewriter(), reader=reader).rewrite(follow_up, make_history(PFIZER)), reader


async def test_the_program_of_a_follow_up_is_read_behind_the_questions_and_handed_on() -> None:
    found, reader = await rewrite_with("and in 2019?", 'drawdown(within(series("Pfizer", PFE), "2019"))', 0.95)
    assert (found.question, found.method) == ("What was Pfizer's maximum drawdown in 2019?", "program")
    # What the answer said is no question.
    assert found.program_texts == (PFIZER[0], "and in 2019?")
    assert found.program_texts in reader.asked
    assert restore_reading(asdict(found)).program_texts == found.program_texts
    # A record of before has no such texts.
    stored = {name: value for name, value in asdict(found).items() if name != "program_texts"}
    assert restore_reading(stored).program_texts == ()


class SmallTalk(Classifier):
    """Classifier that takes everything for small talk, and nothing for a chart."""

    def __init__(self) -> None:
        super().__init__(NoVectors(), load_heads())

    async def classify_one(self, head: str, text: str, grouping: str = KIND) -> Verdict:
        return Verdict("chat", 0.99, is_sure=True) if head == ROUTE else Verdict()


@pytest.mark.parametrize(
    ("confidence", "question"), [(0.97, "What was the volatility of merck in 2020?"), (0.4, "oh, merck!")]
)
async def test_a_sure_program_outweighs_the_sound_of_small_talk(confidence: float, question: str) -> None:
    reader = ProgramLexicon('vol(within(series("merck", MRK), "2020"))', confidence)
    rewriter = replace(make_rewriter(), reader=reader, classifier=SmallTalk())
    found = await rewriter.rewrite("oh, merck!", make_history(PFIZER))
    assert found.question == question


async def test_a_follow_up_whose_program_is_unlikely_is_asked_back() -> None:
    program = 'vol(within(series("Pfizer", PFE), "2020"))'
    found, _ = await rewrite_with("How volatile was it?", program, 0.4)
    assert (found.asks_back, found.reference) == (True, "How volatile was it?")
    assert found.options == ("How volatile was Pfizer (2020)?", "What was the volatility of Pfizer in 2020?")
    likely, _ = await rewrite_with("How volatile was it?", program, 0.8)
    assert (likely.asks_back, likely.question) == (False, "How volatile was Pfizer (2020)?")
    assert likely.program_texts == ()


async def test_without_a_language_model_the_slots_rewrite() -> None:
    found = await make_rewriter().rewrite("and Lilly?", make_history(PFIZER), "rules")
    assert (found.question, found.method) == ("What was Lilly's maximum drawdown in 2020?", "slots")
    assert (await make_rewriter().rewrite("and Lilly?", [])).question == "and Lilly?"


async def test_an_earlier_follow_up_is_made_whole_first() -> None:
    history = make_history(PFIZER, ("and Lilly?", "-20.1% [1]."))
    found = await make_rewriter().rewrite("and in 2021?", history)
    assert found.question == "What was Lilly's maximum drawdown in 2021?"


async def test_the_assistant_asks_back_once_and_then_takes_all_that_may_be_meant() -> None:
    asked = await make_rewriter().rewrite("它的波动率呢？", make_history(APPLE))
    assert asked.asks_back
    answer = make_clarification(asked)
    assert answer.clarification is not None
    assert answer.clarification.options == asked.options
    assert answer.markdown.startswith(ASKS["zh"])
    again = await make_rewriter().rewrite("它的波动率呢？", make_history(APPLE, (asked.question, answer.markdown)))
    assert not again.asks_back
    assert "苹果和微软" in again.question
    assert not (await make_rewriter(may_ask=False).rewrite("它的波动率呢？", make_history(APPLE))).asks_back


GOLD = ("What was the return of gold in 2019?", "It was 18.4% [1].")


@pytest.mark.parametrize(
    ("turns", "question", "whole"),
    [
        # A correction denies one value and gives another.
        ([PFIZER], "no, not 2020, 2019", "What was Pfizer's maximum drawdown in 2019?"),
        # A whole question beside a word on the turn before needs nothing of it.
        ([PFIZER], "Leave that. return of Lilly in 2019?", "Leave that. return of Lilly in 2019?"),
        # "Both" after two turns about one thing each.
        ([PFIZER, ("And Lilly?", "Lilly: -20% [1].")], "both in 2021", "Pfizer and Lilly in 2021 (maximum drawdown)?"),
        # "It" is the indicator where no entity was named.
        (
            [("unemployment in 2019?", "3.7% [1].")],
            "how has it developed?",
            "how has unemployment developed (2019)?",
        ),
        # What is compared with another time needs both.
        ([GOLD], "Versus a year earlier?", "Versus in 2018 (gold, return, 2019)?"),
        # A date of its own is more exact than the shift beside it.
        ([PFIZER], "a year later, 2022?", "What was Pfizer's maximum drawdown in 2022?"),
        ([GOLD], "two years on?", "What was the return of gold in 2021?"),
    ],
)
def test_corrections_sets_and_times(turns: list[tuple[str, str]], question: str, whole: str) -> None:
    assert complete(question, *turns) == Completed(whole)


def test_the_returns_behind_a_frequency_are_no_measure_of_their_own() -> None:
    slots = (
        Slot(SlotKind.FREQUENCY, "monthly", "monthly", 10, 17),
        Slot(SlotKind.MEASURE, "returns", "return", 18, 25),
    )
    [merged] = merge_inputs(ReadText("same with monthly returns", slots)).slots
    assert (merged.kind, merged.text) == (SlotKind.FREQUENCY, "monthly returns")


FALL = ("Pfizer's maximum drawdown in 2020?", "-30.6%, from 2020-01-09 to 2020-03-23 [1].")
PEAK = ("When was gold highest in 2020?", "Gold peaked on 2020-08-06 [1].")


def read_extremes(text: str) -> ReadText:
    """Read with words for extremes, ranges of days as one period, and a fall as a measure."""
    found = read(re.sub(r"(\d{4}-\d\d-\d\d) to (\d{4}-\d\d-\d\d)", lambda match: "." * len(match.group()), text))
    measures = {"maximum drawdown": "max_drawdown", "low": "min", "top": "extreme", "highest": "max", "peak": "max"}
    slots = [slot for slot in found.slots if slot.kind is not SlotKind.INDICATOR and slot.text not in measures]
    for words, value in measures.items():
        slots += [
            Slot(SlotKind.MEASURE, words, value, match.start(), match.end())
            for match in re.finditer(rf"\b{words}\b", text)
        ]
    for match in re.finditer(r"(\d{4}-\d\d-\d\d)(?: to (\d{4}-\d\d-\d\d))?", text):
        value = f"{match[1]}/{match[2] or match[1]}"
        slots = [slot for slot in slots if not match.start() <= slot.start < match.end()]
        slots.append(Slot(SlotKind.PERIOD, match.group(), value, match.start(), match.end()))
    return ReadText(text, tuple(sorted(slots, key=lambda slot: slot.start)))


@pytest.mark.parametrize(
    ("turn", "question", "whole"),
    [
        # A fall leads from a high to a low.
        (FALL, "Lilly since that low?", "Lilly since that low on 23 March 2020 (maximum drawdown)?"),
        (FALL, "Lilly before that peak?", "Lilly before that peak on 9 January 2020 (maximum drawdown)?"),
        (PEAK, "Lilly since that top?", "Lilly since that top on 2020-08-06 (highest)?"),
    ],
)
def test_an_extreme_is_the_time_that_the_answer_has_found(turn: tuple[str, str], question: str, whole: str) -> None:
    turns = [Turn.of(read_extremes(turn[0]), read_extremes(turn[1]))]
    assert complete_question(read_extremes(question), turns).text == whole


@pytest.mark.parametrize(
    ("turn", "question", "words"),
    [
        (
            ("What were unemployment and inflation in 2020?", "8.1% and 1.2% [1]."),
            "When was that rate above 5%?",
            "that rate",
        ),
        (("Pfizer's return in 2019?", "3.2% [1]."), "Compare it with them", "them"),
    ],
)
def test_words_with_several_meanings_or_none_are_asked_back(turn: tuple[str, str], question: str, words: str) -> None:
    assert complete(question, turn).unresolved == words


def test_that_year_is_asked_back_where_an_answer_has_found_two() -> None:
    asked, answered = "Best years of Apple, 2001-01-01 to 2012-12-31?", "They were 2004 and 2009 [1]."
    found = complete_question(read("How volatile was it that year?"), [Turn.of(read_extremes(asked), read(answered))])
    assert (found.unresolved, len(found.options)) == ("that year", 2)
