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
from fathom.services.planner.questions.completing import SLOTS, FollowUp, guess, is_complete
from fathom.services.planner.questions.exchanging import exchange_slots
from fathom.services.planner.questions.leaning import COMPARING, REFERRING, REMOVING, find_leaning
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


@pytest.mark.parametrize(
    ("turn", "question", "whole"),
    [
        (PFIZER, "and Lilly?", "What was Lilly's maximum drawdown in 2020?"),
        (PFIZER, "What about 2021?", "What was Pfizer's maximum drawdown in 2021?"),
        (PFIZER, "no, I meant 2019", "What was Pfizer's maximum drawdown in 2019?"),
        (PFIZER, "And the volatility?", "What was Pfizer's volatility in 2020?"),
        (PFIZER, "Lilly in 2021?", "What was Lilly's maximum drawdown in 2021?"),
        (APPLE, "2018年呢？", "比较苹果和微软2018年的收益率"),
        (APPLE, "波动率呢", "比较苹果和微软2019年的波动率"),
        # A name said again stays where it is, and words of the last question are no new ones.
        (PFIZER, "What was Pfizer's volatility?", "What was Pfizer's volatility in 2020?"),
    ],
)
def test_what_a_follow_up_names_takes_the_one_place_of_its_kind(
    turn: tuple[str, str], question: str, whole: str
) -> None:
    found = exchange_slots(read(question), read(turn[0]))
    assert found is not None
    assert found.text == whole


@pytest.mark.parametrize(
    ("turn", "question"),
    [
        # More than its slots, nothing at all.
        (PFIZER, "how bumpy was 2021?"),
        (PFIZER, "Why?"),
        (PFIZER, "And Zoom's?"),
        # One for two, two for one, the same again.
        (APPLE, "那黄金呢"),
        (PFIZER, "Lilly and Apple?"),
        (PFIZER, "and Pfizer?"),
        # A part of a year has no place for a year, and the last question has none for a frequency.
        (("What was Pfizer's return on 2020-03-12?", "It was -3% [1]."), "and 2019?"),
        (PFIZER, "monthly?"),
        # What is added, compared or left out changes more than a word.
        (PFIZER, "add Lilly"),
        (PFIZER, "compare with Lilly"),
        (APPLE, "去掉苹果"),
    ],
)
def test_anything_else_is_no_exchange(turn: tuple[str, str], question: str) -> None:
    assert exchange_slots(read(question), read(turn[0])) is None


@pytest.mark.parametrize(
    "question",
    [
        "What was Apple's return in 2019?",
        "苹果2019年的收益率是多少",
        "gold return 2021",
        "unemployment volatility in 2020",
    ],
)
async def test_a_whole_question_stays_as_it_is(question: str) -> None:
    assert is_complete(read(question))
    found = await make_rewriter().rewrite(question, make_history(PFIZER))
    assert (found.question, found.method, found.asks_back) == (question, "", False)


def test_a_guess_names_what_the_follow_up_lacks_and_each_of_several() -> None:
    found = guess(FollowUp(read("how bumpy was it?"), read(PFIZER[0])))
    assert (found.text, found.is_sure) == ("how bumpy was it (Pfizer, maximum drawdown, 2020)?", False)
    of_two = guess(FollowUp(read("它的波动率呢？"), read(APPLE[0])))
    assert of_two.options == (
        "它的波动率呢（苹果和微软，2019年）？",
        "它的波动率呢（苹果，2019年）？",
        "它的波动率呢（微软，2019年）？",
    )


def test_names_that_hold_a_leaning_word_lean_on_nothing() -> None:
    entity = Slot(SlotKind.ENTITY, "First Republic, the other", "x", 0, 24)
    assert find_leaning(ReadText("First Republic, the othe", (entity,))) == frozenset()
    assert find_leaning(read("compared with the other one, without Lilly")) == {COMPARING, REFERRING, REMOVING}
    assert find_leaning(read("其中同比最高的是")) == frozenset()


def test_words_read_as_an_indicator_and_as_a_measure_are_exchanged_once() -> None:
    last, asked = read(PFIZER[0]), read("and the volatility?")
    twice = (*asked.slots, replace(asked.slots[0], kind=SlotKind.MEASURE, value="std"))
    found = exchange_slots(replace(asked, slots=twice), last)
    assert found is not None
    assert found.text == "What was Pfizer's volatility in 2020?"


MICROSOFT = ("Compare the return of Apple and Microsoft in 2019", "89 % and 58 % [1].")
INFLATION = ("What was inflation in 2019?", "1.8 % [1].")
UNEMPLOYMENT = ("And unemployment?", "3.7 % [1].")


@pytest.mark.parametrize(
    ("turns", "question", "whole"),
    [
        ((MICROSOFT,), "What was the volatility of the former in 2020?", "What was the volatility of Apple in 2020?"),
        ((MICROSOFT,), "And the latter's volatility?", "And Microsoft's volatility (2019)?"),
        ((MICROSOFT,), "What were their margins in 2019?", "What were Apple and Microsoft's margins in 2019?"),
        ((APPLE,), "后者2020年的波动率是多少？", "微软2020年的波动率是多少？"),
        ((APPLE,), "两者的波动率呢", "苹果和微软的波动率呢（2019年）？"),
        # One thing in each of two turns.
        ((INFLATION, UNEMPLOYMENT), "the former in 2020?", "inflation in 2020?"),
    ],
)
async def test_a_pronoun_that_says_how_many_is_replaced_by_their_names(
    turns: tuple[tuple[str, str], ...], question: str, whole: str
) -> None:
    found = await make_rewriter().rewrite(question, make_history(*turns))
    assert (found.question, found.method, found.asks_back) == (whole, SLOTS, False)


@pytest.mark.parametrize(
    ("turns", "question"),
    [
        # One name for two, a year for which there is no word, a day after a year, words that still lean.
        ((PFIZER,), "What was the volatility of the former in 2020?"),
        ((MICROSOFT,), "What about the latter in the year that followed?"),
        ((MICROSOFT,), "How did the latter do on 2020-03-12?"),
        ((MICROSOFT,), "Was their volatility higher than that one?"),
        ((MICROSOFT,), "their margins?"),
    ],
)
async def test_a_pronoun_without_its_names_or_with_more_to_resolve_is_asked_back(
    turns: tuple[tuple[str, str], ...], question: str
) -> None:
    assert (await make_rewriter().rewrite(question, make_history(*turns))).asks_back


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
    blind = Classifier(NoVectors(), load_heads())
    return Rewriter(clients, Lexicon(), blind, blind, str, may_ask=may_ask)


def make_history(*turns: tuple[str, str]) -> list[Message]:
    return [Message(role, text) for turn in turns for role, text in zip((Role.USER, Role.ASSISTANT), turn, strict=True)]


class ProgramLexicon(Lexicon):
    """Reader that knows the programs of the last question and of the follow-up."""

    def __init__(self, program: str, confidence: float, alone: str | None = None, **marks: tuple[str, ...]) -> None:
        super().__init__()
        self._program, self._confidence, self._marks = program, confidence, marks
        # What a rewritten question computes by itself; by default the same.
        self._alone = program if alone is None else alone
        self.asked: list[tuple[str, ...]] = []

    async def read_program(self, text: str, earlier: Sequence[str] = (), as_of: object = None) -> ReadProgram | None:
        self.asked.append((*earlier, text))
        if earlier:
            found = Program("calculation", parse_steps(self._program), self._confidence, 1.0)
            found = replace(found, left_out=self._marks.get("left_out", ()), unread=self._marks.get("unread", ()))
        else:
            steps = parse_steps(DRAWDOWN if text == PFIZER[0] else self._alone)
            found = Program("calculation", steps, 0.97, 1.0)
        return ReadProgram(read(text), found)


DRAWDOWN = 'drawdown(within(series("Pfizer", PFE), "2020"))'


async def rewrite_with(
    follow_up: str, program: str, confidence: float = 0.95, alone: str | None = None, **marks: tuple[str, ...]
) -> tuple[Reading, ProgramLexicon]:
    reader = ProgramLexicon(program, confidence, alone, **marks)
    return await replace(make_rewriter(), reader=reader).rewrite(follow_up, make_history(PFIZER)), reader


async def test_the_program_of_a_follow_up_is_read_behind_the_questions_and_handed_on() -> None:
    follow_up = "and if you look at 2019?"
    found, reader = await rewrite_with(follow_up, 'drawdown(within(series("Pfizer", PFE), "2019"))', 0.95)
    assert (found.question, found.method) == ("What was Pfizer's maximum drawdown in 2019?", "program")
    # What the answer said is no question.
    assert found.program_texts == (PFIZER[0], follow_up)
    assert found.program_texts in reader.asked
    assert restore_reading(asdict(found)).program_texts == found.program_texts
    # A record of before has no such texts.
    stored = {name: value for name, value in asdict(found).items() if name != "program_texts"}
    assert restore_reading(stored).program_texts == ()


MERCK = 'vol(within(series("merck", MRK), "2020"))'


class SmallTalk(Classifier):
    """Classifier that takes everything for small talk, and nothing for a chart."""

    def __init__(self) -> None:
        super().__init__(NoVectors(), load_heads())

    async def classify_one(self, head: str, text: str, grouping: str = KIND) -> Verdict:
        return Verdict("chat", 0.99, is_sure=True) if head == ROUTE else Verdict()


@pytest.mark.parametrize(
    ("program", "question", "asks_back"),
    [
        (MERCK, "What was the volatility of merck in 2020?", False),
        (MERCK, "oh, merck (Pfizer, maximum drawdown, 2020)!", True),
        # One that only says again what was asked before takes nothing from it.
        (DRAWDOWN, "oh, merck!", False),
    ],
)
async def test_a_program_with_words_of_its_own_outweighs_the_sound_of_small_talk(
    program: str, question: str, asks_back: bool
) -> None:
    reader = ProgramLexicon(program, 0.97 if not asks_back else 0.4)
    rewriter = replace(make_rewriter(), reader=reader, classifier=SmallTalk())
    found = await rewriter.rewrite("oh, merck!", make_history(PFIZER))
    assert (found.question, found.asks_back) == (question, asks_back)


async def test_a_follow_up_whose_program_is_unlikely_is_asked_back() -> None:
    program = 'vol(within(series("Pfizer", PFE), "2020"))'
    found, _ = await rewrite_with("how bumpy was it?", program, 0.75)
    assert (found.asks_back, found.reference, found.program_texts) == (True, "how bumpy was it?", ())
    guess = "how bumpy was it (Pfizer, maximum drawdown, 2020)?"
    assert found.options == (guess, "What was the volatility of Pfizer in 2020?")
    likely, _ = await rewrite_with("how bumpy was it?", program, 0.9)
    assert (likely.asks_back, likely.question) == (False, "What was the volatility of Pfizer in 2020?")


LILLY = 'drawdown(within(series("Lilly", LLY), "2020"))'


@pytest.mark.parametrize(
    ("follow_up", "alone", "marks"),
    [
        # The rewritten question computes something else by itself.
        ("and Lilly?", 'maximum(within(series("Lilly", LLY), "2020"))', {}),
        # A word of the follow-up that nothing accounts for, and a name that no step uses.
        ("Lilly and Zoom", LILLY, {"unread": ("Zoom",)}),
        ("and Lilly by Zoom's?", LILLY, {"left_out": ("Zoom's",)}),
    ],
)
async def test_what_two_readings_do_not_agree_on_is_asked_back(
    follow_up: str, alone: str, marks: dict[str, tuple[str, ...]]
) -> None:
    found, _ = await rewrite_with(follow_up, LILLY, 0.95, alone, **marks)
    assert found.asks_back
    assert found.reference == next(iter(marks.values()), (follow_up,))[0]


async def test_a_word_that_a_function_is_called_by_is_accounted_for() -> None:
    program = 'drawdown(within(series("Pfizer", PFE), later("2020", 1, year)))'
    found, _ = await rewrite_with("and a year later?", program, unread=("later",))
    assert (found.asks_back, found.question) == (False, "What was the maximum drawdown of Pfizer in 2021?")


@pytest.mark.parametrize(
    ("turn", "question", "whole"),
    [
        (MICROSOFT, "I meant gold, not Microsoft", "Compare the return of Apple and gold in 2019"),
        (APPLE, "把微软换成谷歌", "比较苹果和谷歌2019年的收益率"),
        (APPLE, "把苹果换成谷歌", "比较谷歌和微软2019年的收益率"),
    ],
)
def test_the_one_of_two_names_that_the_last_question_has_is_replaced(
    turn: tuple[str, str], question: str, whole: str
) -> None:
    found = exchange_slots(read(question), read(turn[0]))
    assert found is not None
    assert (found.text, found.is_explicit) == (whole, True)


def test_a_name_behind_a_word_of_the_last_question_takes_only_the_place_behind_that() -> None:
    assert exchange_slots(read("per gold?"), read("Apple per euro in 2018")) is None


async def test_a_calculation_read_into_words_with_a_time_is_no_small_talk() -> None:
    reader = ProgramLexicon('vol(within(series("Pfizer", PFE), "2019"))', 0.4)
    rewriter = replace(make_rewriter(), reader=reader, classifier=SmallTalk())
    assert (await rewriter.rewrite("I should be grateful for 2019 as well", make_history(PFIZER))).asks_back


async def test_what_may_not_be_asked_back_is_a_guess_by_name() -> None:
    found = await make_rewriter(may_ask=False).rewrite("how bumpy was it?", make_history(PFIZER))
    assert (found.asks_back, found.reference) == (False, "how bumpy was it?")
    assert found.question == "how bumpy was it (Pfizer, maximum drawdown, 2020)?"


async def test_a_guess_that_adds_nothing_is_still_one() -> None:
    follow_up = "drop Lilly and redo the return for 2018"
    asked = await make_rewriter().rewrite(follow_up, make_history(PFIZER))
    assert (asked.question, asked.asks_back, asked.options) == (follow_up, True, ())
    guessed = await make_rewriter(may_ask=False).rewrite(follow_up, make_history(PFIZER))
    assert (guessed.question, guessed.reference) == (follow_up, follow_up)


async def test_an_answer_with_sources_was_about_data() -> None:
    found = await make_rewriter().rewrite("and in 2021?", make_history(("what about nonfarm?", "It was 1.2 m [1].")))
    assert found.asks_back


async def test_behind_small_talk_nothing_is_completed() -> None:
    found = await make_rewriter().rewrite("and Lilly?", make_history(("hello", "Hello, what would you like to know?")))
    assert (found.question, found.asks_back, found.method) == ("and Lilly?", False, "")


class FollowUps(SmallTalk):
    """Classifier that takes everything for a follow-up."""

    async def classify_one(self, head: str, text: str, grouping: str = KIND) -> Verdict:
        return Verdict("follow_up", 0.99, is_sure=True)


async def test_what_leans_on_a_question_that_was_not_asked_is_asked_back() -> None:
    hello = make_history(("hello", "Hello, what would you like to know?"))
    rewriter = replace(make_rewriter(), classifier=FollowUps())
    assert (await rewriter.rewrite("Same again, but for 2012.", hello)).asks_back
    assert not (await rewriter.rewrite("and Lilly?", hello)).asks_back


async def test_without_a_language_model_the_slots_rewrite() -> None:
    found = await make_rewriter().rewrite("and Lilly?", make_history(PFIZER), "rules")
    assert (found.question, found.method) == ("What was Lilly's maximum drawdown in 2020?", "slots")
    assert (await make_rewriter().rewrite("and Lilly?", [])).question == "and Lilly?"


async def test_an_earlier_follow_up_is_made_whole_first() -> None:
    history = make_history(PFIZER, ("and Lilly?", "-20.1% [1]."))
    found = await make_rewriter().rewrite("and in 2021?", history)
    assert found.question == "What was Lilly's maximum drawdown in 2021?"


async def test_the_assistant_asks_back_once_and_then_guesses_by_name() -> None:
    asked = await make_rewriter().rewrite("它的波动率呢？", make_history(APPLE))
    assert asked.asks_back
    answer = make_clarification(asked)
    assert answer.clarification is not None
    assert answer.clarification.options == asked.options
    assert answer.markdown.startswith(ASKS["zh"])
    again = await make_rewriter().rewrite("它的波动率呢？", make_history(APPLE, (asked.question, answer.markdown)))
    assert (again.asks_back, again.reference) == (False, "它的波动率呢？")
    assert "苹果和微软" in again.question


GOLD = ("What was the return of gold in 2019?", "It was 18.4% [1].")
