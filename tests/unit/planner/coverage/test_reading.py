"""Test how a question becomes slots: datafetch's reading, what it left over, and what the model states itself."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import pytest

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.errors import DependencyFailed, NotReady
from fathom.domain.chat.messages import Completion, FinishReason, Sampling, ToolCall, Usage
from fathom.services.planner.answering.rendering.finish import CheckedEnding
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.coverage.ending import CoverageEnding
from fathom.services.planner.coverage.reading import QuestionReader, bind_words, join_words
from fathom.services.planner.coverage.stated import read_statement, refine
from fathom.services.planner.coverage.wording import format_line
from fathom.services.planner.model.episode import Answer, Episode, Limits, Step, Task
from fathom.services.planner.model.slots import ReadText, Slot, SlotKind, SlotSource, SlotState


def place(question: str, kind: SlotKind, text: str, value: str = "") -> Slot:
    start = question.index(text)
    return Slot(kind, text, value, start, start + len(text))


class Datafetch:
    """Answers with one mention, or fails; ``starts`` calls find it not ready."""

    def __init__(self, mention: pb.Mention | None = None, starts: int = 0) -> None:
        self.mention, self.starts = mention, starts
        self.waited_for = asyncio.Event()
        """Set by a call that it was not ready for."""
        self.texts: list[str] = []

    async def read_question(self, request: pb.ReadQuestionRequest, timeout_s: float) -> pb.ReadQuestionResponse:
        self.texts.append(request.question)
        if self.starts:
            self.starts -= 1
            self.waited_for.set()
            # A thousandth of a second: it says when to come again, and the test need not wait.
            raise NotReady("datafetch is warming up", retry_after_s=0.001)
        if self.mention is None:
            raise DependencyFailed("datafetch", "is gone")
        return pb.ReadQuestionResponse(mentions=[self.mention])


class Services:
    def __init__(self, datafetch: Datafetch) -> None:
        self.datafetch = datafetch


def make_episode(question: str) -> Episode:
    """Return an episode that has ended in one step without material."""
    made = Episode(Task("run_1", question, "m", Sampling(), Limits(9, 9_999, time.monotonic() + 100)), ())
    said = Completion((1,), (2,), (0.0,), "", (), FinishReason.STOP, 0, 0, Usage(), True, "m")
    made.append(Step(0, (), said))
    return made


def reader(mention: pb.Mention | None = None) -> QuestionReader:
    clients: Any = Services(Datafetch(mention))
    return QuestionReader(clients)


async def test_a_reading_that_fails_leaves_the_dates_and_never_the_run() -> None:
    slots = await reader().read("Apple from 2015 to 2020 with 3%")
    assert [(slot.kind, slot.value) for slot in slots] == [(SlotKind.PERIOD, "2015-01-01/2020-12-31")]
    assert await reader().read_measures(["drawdown"]) is None


async def test_a_datafetch_that_starts_is_waited_for() -> None:
    mention = pb.Mention(kind=pb.MENTION_KIND_ENTITY, start=0, end=5, text="Apple", value="AAPL")
    clients: Any = Services(Datafetch(mention, starts=3))
    read = QuestionReader(clients)
    reading = asyncio.create_task(read.read("Apple rose"))
    await clients.datafetch.waited_for.wait()
    assert read.is_waiting("Apple rose")
    assert [slot.text for slot in await reading] == ["Apple"]
    assert not read.is_waiting("Apple rose")


async def test_a_question_that_was_read_before_the_run_is_not_read_again() -> None:
    known = ReadText("Apple in 2019", (Slot(SlotKind.ENTITY, "Apple", "AAPL", 0, 5),))
    datafetch = Datafetch()
    clients: Any = Services(datafetch)
    ending = CoverageEnding(CheckedEnding(Evidence(None)), QuestionReader(clients), Evidence(None))
    ending.begin(known.text, known)
    episode = make_episode(known.text)
    reading = await ending.read(Answer("It rose."), episode)
    assert reading is not None
    assert [slot.text for slot in reading.slots] == ["Apple", "2019"]
    assert known.text not in datafetch.texts


@pytest.mark.parametrize(
    ("question", "guess", "line", "left"),
    [
        (
            "Apple in 2019",
            "how about that year?",
            "Read as, by a guess: Apple",
            "what else “how about that year?” may mean",
        ),
        ("Apple 在2019年", "它呢？", "推测理解为：Apple", "“它呢？”的其他含义"),
        ("Apple in 2019", "x" * 500, "Read as, by a guess: Apple", f"what else “{'x' * 79}…” may mean"),
    ],
)
async def test_a_guess_at_what_a_follow_up_means_is_shown_as_one(
    question: str, guess: str, line: str, left: str
) -> None:
    clients: Any = Services(Datafetch())
    ending = CoverageEnding(CheckedEnding(Evidence(None)), QuestionReader(clients), Evidence(None))
    ending.begin(question, ReadText(question, (Slot(SlotKind.ENTITY, "Apple", "AAPL", 0, 5),)))
    episode = make_episode(question)
    episode.task = replace(episode.task, guess=guess)
    reading = await ending.read(Answer("It rose."), episode)
    assert reading is not None
    assert reading.line.startswith(line)
    assert reading.open_texts[0] == left
    known = await ending.read(Answer("It rose."), make_episode(question))
    assert known is not None
    assert left not in known.open_texts


async def test_a_number_that_the_reading_skipped_is_a_parameter() -> None:
    mention = pb.Mention(kind=pb.MENTION_KIND_ENTITY, start=0, end=5, text="Apple", value="AAPL")
    slots = await reader(mention).read("Apple held for 90 days in 2019")
    assert [(slot.kind, slot.text) for slot in slots] == [
        (SlotKind.ENTITY, "Apple"), (SlotKind.PARAMETER, "90"), (SlotKind.PERIOD, "2019"),
    ]  # fmt: skip


async def test_names_that_a_draft_and_its_answer_share_are_read_once() -> None:
    read = reader(pb.Mention(kind=pb.MENTION_KIND_MEASURE, text="mean", value="mean"))
    first = await read.read_measures(["mean price"])
    read.clients.datafetch.mention = None  # type: ignore[attr-defined]
    assert (first, await read.read_measures(["mean price"])) == (frozenset({"mean"}), first)


def test_a_number_inside_a_name_is_no_parameter() -> None:
    question = "Returns of the S&P 500"
    assert len(bind_words(question, [place(question, SlotKind.ENTITY, "S&P 500", "SP500")])) == 1


def test_unknown_words_before_a_number_are_its_name() -> None:
    question = "Sharpe ratio with a risk-free rate of 4%"
    parts = [("risk-free", SlotKind.UNKNOWN), ("rate", SlotKind.UNKNOWN), ("4%", SlotKind.PARAMETER)]
    [slot] = join_words(question, [place(question, kind, text) for text, kind in parts])
    assert (slot.kind, slot.text) == (SlotKind.PARAMETER, "risk-free rate of 4%")


def test_a_number_in_words_is_a_parameter_with_its_unit() -> None:
    question = "the three days with the highest price"
    [slot] = join_words(question, [place(question, SlotKind.UNKNOWN, word) for word in ("three", "days")])
    assert (slot.kind, slot.text, slot.value) == (SlotKind.PARAMETER, "three days", "3")


def test_words_apart_stay_apart() -> None:
    question = "pattern of prices, hedge"
    slots = [place(question, SlotKind.UNKNOWN, word) for word in ("pattern", "hedge")]
    assert [slot.text for slot in join_words(question, slots)] == ["pattern", "hedge"]


def state(**reading: object) -> tuple[Slot, ...]:
    return read_statement([ToolCall("c", "finish", json.dumps({"answer": "x", "reading": reading}))])


def test_a_model_fills_in_what_the_question_leaves_to_it() -> None:
    asked = [Slot(SlotKind.ENTITY, "Apple", "AAPL", 0, 5)]
    slots = refine(asked, state(frequency="weekly", entities=["Intel"], open=["dividends"]))
    assert [(slot.kind, slot.text, slot.source) for slot in slots] == [
        (SlotKind.ENTITY, "Apple", SlotSource.QUESTION),
        (SlotKind.FREQUENCY, "weekly", SlotSource.MODEL),
        (SlotKind.UNKNOWN, "dividends", SlotSource.MODEL),
    ]
    assert slots[-1].state is SlotState.OPEN


def test_the_words_of_the_question_bind_a_model() -> None:
    asked = [Slot(SlotKind.FREQUENCY, "monthly", "monthly"), Slot(SlotKind.PERIOD, "2020", "2020-01-01/2020-12-31")]
    assert refine(asked, state(frequency="daily", start="2019-01-01", end="2019-12-31")) == tuple(asked)


def test_a_model_dates_a_period_that_the_question_gives_in_words() -> None:
    asked = [Slot(SlotKind.PERIOD, "last year", "2021-12-28/2022-12-28")]
    [slot] = refine(asked, state(start="2022-01-01", end="2022-12-31"))
    assert slot.value == "2022-01-01/2022-12-31"


def test_an_unknown_word_that_the_model_states_is_unsure_and_not_open() -> None:
    asked = [Slot(SlotKind.UNKNOWN, "pattern")]
    slots = refine(asked, state(measures=["pattern: the weekdays of the highest closes"]))
    assert slots[0].state is SlotState.UNSURE
    assert "weekdays" in slots[0].detail


def test_a_malformed_statement_states_nothing() -> None:
    calls = [ToolCall("c", "finish", text) for text in ("{", '{"reading": "weekly"}', '{"reading": {"open": "x"}}')]
    assert [read_statement([call]) for call in calls] == [(), (), ()]


@pytest.mark.parametrize(
    ("question", "name", "line"),
    [
        ("腾跃国际控股集团2020年的收盘价？", "腾跃国际控股集团", "理解为：“腾跃国际控股集团”按300178理解"),
        ("What did Microsfot return?", "Microsfot", "Read as: “Microsfot” taken for 300178"),
    ],
)
def test_a_name_that_was_corrected_says_whom_it_was_taken_for(question: str, name: str, line: str) -> None:
    start = question.index(name)
    slot = Slot(SlotKind.ENTITY, name, "300178", start, start + len(name), confidence=0.85)
    assert format_line(question, [slot]).startswith(line)
    assert f"{name} (300178)" in format_line(question, [replace(slot, confidence=0.95)])
