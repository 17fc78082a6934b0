"""Test what a run is reminded of: older turns than its window, marked as memory, in a budget, alike each attempt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.api.planner.v1.planner_pb2 import RunRequest
from fathom.core.errors import DependencyFailed
from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.pipeline import FROM_MEMORY
from fathom.services.planner.answering.rendering.material import estimate_tokens
from fathom.services.planner.runs.earlier.reminders import LEAST_SCORE, Recaller, make_reminders
from fathom.services.planner.runs.repository import RunRepository
from fathom.services.planner.workflow.stage_prompts import format_history
from fathom.transport.store import open_store

ASKED = RunRequest(question="and the margin we began with?", conversation_id="conv_1")


def page(number: int, score: float, passage: str = "The margin was 31.2%.") -> pb.MemoryPage:
    turn = pb.Turn(number=number, question=f"Q{number}?", bullets=[f"Point {number}."])
    turn.end_time.seconds = 1_767_225_600
    return pb.MemoryPage(conversation_id="conv_1", turn=turn, score=score, passage=passage, segment=1)


class Memory:
    """Memory with pages older than the window; ``has_turns`` is whether its user has said anything."""

    def __init__(self, *pages: pb.MemoryPage, has_turns: bool = True, is_away: bool = False) -> None:
        self.pages, self.has_turns, self.is_away = pages, has_turns, is_away
        self.asked: list[pb.SearchMemoryRequest] = []

    async def search_memory(self, request: pb.SearchMemoryRequest, timeout_s: float) -> pb.SearchMemoryResponse:
        if self.is_away:
            raise DependencyFailed("memory", "is away")
        self.asked.append(request)
        segment = pb.MemorySegment(id=1, summary="The margin of the first firm was discussed.")
        return pb.SearchMemoryResponse(pages=self.pages, segments=[segment], has_turns=self.has_turns)


def make(memory: Memory, tokens: int = 600) -> Recaller:
    record = RunRepository(open_store("memory://"))
    return Recaller(cast(Any, SimpleNamespace(memory=memory)), record, tokens, 1.0)


async def test_older_turns_come_as_memory_with_their_date_oldest_first() -> None:
    memory = Memory(page(2, 0.9), page(1, 0.8))
    found = await make(memory).recall("run_1", ASKED, "en")
    assert [message.role for message in found.messages] == [Role.USER, Role.ASSISTANT] * 2
    assert [found.messages[0].content, found.messages[2].content] == ["[2026-01-01] Q1?", "[2026-01-01] Q2?"]
    for message in found.messages[1::2]:
        assert message.content.startswith(FROM_MEMORY["en"])
        assert "The margin was 31.2%." in message.content
    told = "".join(message.content for message in found.messages)
    assert told.count("was discussed") == 1, "a summary is told once"
    # Only what the window does not show, in the one request that a run waits for.
    (asked,) = memory.asked
    assert (asked.conversation_id, asked.older_than_window) == ("conv_1", True)


async def test_a_question_in_a_thread_is_reminded_of_what_leads_to_it() -> None:
    memory = Memory(page(1, 0.9))
    asked = RunRequest(question="again?", conversation_id="conv_1", parent_turn=12)
    assert (await make(memory).recall("run_1", asked, "en")).messages
    assert [(one.through, one.older_than_window) for one in memory.asked] == [(12, True)]
    # Nothing leads to the beginning; the tools for earlier turns are there all the same.
    asked.parent_turn = 0
    found = await make(memory).recall("run_2", asked, "en")
    assert (found.messages, found.has_memory, len(memory.asked)) == ((), True, 1)


async def test_an_attempt_is_reminded_of_what_the_first_one_was() -> None:
    memory = Memory(page(1, 0.9))
    recaller = make(memory)
    first = await recaller.recall("run_1", ASKED, "zh")
    memory.pages = ()
    assert await recaller.recall("run_1", ASKED, "zh") == first
    assert FROM_MEMORY["zh"] in first.messages[1].content


@pytest.mark.parametrize("tokens", [0, 20, 60, 120, 600])
async def test_reminders_keep_to_their_tokens(tokens: int) -> None:
    memory = Memory(*(page(number, 0.9 - number / 100, "It was so. " * 10) for number in range(1, 6)))
    found = await make(memory, tokens).recall("run_1", ASKED, "en")
    assert sum(estimate_tokens(message.content) for message in found.messages) <= tokens
    assert bool(found.messages) == (tokens >= 120)
    assert found.has_memory


async def test_what_hardly_fits_is_left_out() -> None:
    two = Memory(page(2, LEAST_SCORE - 0.01), page(1, LEAST_SCORE))
    found = await make(two).recall("run_1", ASKED, "en")
    assert [message.content for message in found.messages[::2]] == ["[2026-01-01] Q1?"], "in the order of their places"
    inside = await make(Memory()).recall("run_1", ASKED, "en")
    assert not inside.messages
    assert inside.has_memory, "what the window shows can be searched, too"
    nothing = await make(Memory(has_turns=False)).recall("run_1", ASKED, "en")
    assert not nothing.has_memory, "whoever has no turns is offered no tools for them"


async def test_a_run_goes_on_without_a_memory_that_is_away() -> None:
    memory = Memory(page(1, 0.9), is_away=True)
    recaller = make(memory)
    assert not (await recaller.recall("run_1", ASKED, "en")).has_memory
    memory.is_away = False
    assert (await recaller.recall("run_1", ASKED, "en")).has_memory, "only that attempt"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_rewriting_of_a_follow_up_sees_which_turns_are_recalled(language: str) -> None:
    recalled = make_reminders(pb.SearchMemoryResponse(pages=[page(1, 0.9)]), 1_000, language)
    window = [Message(Role.USER, "and Nvidia?"), Message(Role.ASSISTANT, "More.")]
    # Behind many turns of the window a recalled one is told in points.
    shown = format_history([*recalled, *window * 5])
    assert f"A1 (points):\n{FROM_MEMORY[language]}\n- Point 1." in shown
    assert shown.count(FROM_MEMORY[language]) == 1
