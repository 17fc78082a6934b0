"""The end of a user's run whose model is cut off, says nothing, repeats itself, or answers without `finish`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.domain.chat.hermes import format_tool_call
from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, Usage
from fathom.services.planner.answering.rendering.available import CUT
from fathom.services.planner.answering.rendering.finish import CitedEnding
from fathom.services.planner.coverage.wording import open_with_notice
from fathom.services.planner.episode.agent import AgentLoop
from fathom.services.planner.episode.continuation import join_parts
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import (
    Answer,
    Episode,
    FindingKind,
    MaterialKind,
    Outcome,
    Step,
    StopReason,
    Task,
    ToolStatus,
)
from fathom.services.planner.model.slots import Reading
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.think import Finish, Think
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, Reply, make_schema
from tests.support.observer import RecordingObserver
from tests.support.policy import FakePolicy, PolicyRequest
from tests.unit.planner.episode.test_loop import finish, research, task


# Finds one note per call, so that material numbers count the successful looks.
class Look:
    """Tool that finds a note, or nothing."""

    name, description, reads = "look", "Looks something up.", True
    parameters: Mapping[str, Any] = make_schema(["text"], text={"type": "string"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | NumberedReply:
        if arguments["text"].startswith("nothing"):
            return Reply(ToolStatus.EMPTY, {"hits": []})
        found = NewMaterial(MaterialKind.PASSAGE, Document(id=call_id, title=arguments["text"], text="Some text."))
        return lambda first: Reply(ToolStatus.OK, {"material": first}, arguments["text"], (found,))


@dataclass(frozen=True)
class Said:
    """A completion of the script; ``native`` is a call that an endpoint sends beside the text."""

    text: str = ""
    reason: FinishReason = FinishReason.STOP
    native: tuple[str, str] | None = None


# As hosted models answer: text and native calls, no ids, each reply 400 tokens long.
class Endpoint(FakePolicy):
    """Policy as an endpoint behaves: no token ids; the last line is repeated for ever."""

    def __init__(self, *lines: str | Said) -> None:
        self.lines = lines
        self.requests: list[tuple[tuple[Message, ...], list[str]]] = []

    async def write(self, request: PolicyRequest) -> str:
        self.requests.append((request.view.messages, [tool.name for tool in request.tools]))
        return ""

    def complete(self, request: PolicyRequest, text: str) -> Completion:
        said = self.lines[min(request.index, len(self.lines) - 1)]
        said = said if isinstance(said, Said) else Said(said)
        made = super().complete(request, said.text)
        calls = made.tool_calls
        if said.native is not None:
            name, arguments = said.native
            calls = (replace(calls[0] if calls else CALL, name=name, arguments_json=arguments),)
        return replace(
            made, prompt_token_ids=(), sampled_token_ids=(), log_probs=(), exact=False, tool_calls=calls,
            finish_reason=said.reason, usage=Usage(100, 400, 0, 1),
        )  # fmt: skip


# A completion's call, as a template for native ones.
(CALL,) = (call for call in FakePolicy.complete(
    Endpoint(), PolicyRequest("r-0", task(), None, (), None), finish("x")  # type: ignore[arg-type]
).tool_calls)  # fmt: skip
# Cut in the middle of the word "reason".
CUT_PROSE = Said("Apple rose by 80 % in 2020, which is more than Microsoft's 41 %, and the rea", FinishReason.LENGTH)


def look(text: str) -> str:
    return format_tool_call("look", {"intent": "to see", "text": text})


async def asks_about_the_world(question: str) -> bool:
    """Stands for the classifier, which test_question_routing.py tries."""
    return question.startswith("How much")


def make(policy: Endpoint, about: Task | None = None, steps: Sequence[Step] = ()) -> AgentLoop:
    about = about or task()
    episode = Episode(about, research().opening(about))
    for step in steps:
        episode.append(step)
    registry = Registry([Look(), Think(), Finish()], len(episode.material))
    resources = EpisodeResources(registry, needs_evidence=asks_about_the_world)
    return AgentLoop(episode, research(), policy, resources, RecordingObserver())


async def run(policy: Endpoint, about: Task | None = None) -> Outcome:
    # Every ending is tried once whole and once resumed after each round: workers die between rounds.
    """Play to the end; a worker that takes the run up after any round ends it alike."""
    loop = make(policy, about)
    outcome = await loop.run()
    steps = loop.episode.steps
    for known in range(1, len(steps) + 1):
        again = make(Endpoint(*policy.lines), about, steps[:known])
        assert await again.run() == outcome, f"resumed after {known} rounds"
        assert again.episode.messages == loop.episode.messages
    return outcome


def text_of(outcome: Outcome) -> str:
    assert outcome.answer is not None
    return outcome.answer.markdown


async def test_a_report_in_prose_that_cites_is_the_answer_and_is_not_asked_for_again() -> None:
    policy = Endpoint(look("prices"), "Apple rose [1].")
    # A citation shows that prose is an answer; two requests, and none to "call finish".
    outcome = await run(policy)
    assert (outcome.stop, text_of(outcome), len(policy.requests)) == (StopReason.FINISHED, "Apple rose [1].", 2)


async def test_prose_is_the_answer_where_there_is_nothing_to_cite() -> None:
    policy = Endpoint("Hello.")
    assert text_of(await run(policy)) == "Hello."
    assert len(policy.requests) == 1


async def test_a_sentence_about_the_next_step_is_no_answer() -> None:
    policy = Endpoint(look("prices"), "Now I will look at the costs.", look("costs"), finish("So [2]."))
    assert text_of(await run(policy)) == "So [2]."
    # The model is told why its sentence was no answer.
    assert "names no source" in policy.requests[2][0][-1].content


async def test_prose_that_cites_nothing_twice_is_the_answer() -> None:
    # Asked once and no more: a model that insists is believed.
    policy = Endpoint(look("prices"), "It rose.", "It rose, I say.")
    assert text_of(await run(policy)) == "It rose, I say."


@pytest.mark.parametrize(
    "rest",
    [
        "more than Microsoft's 41 %, and the reason is demand.",
        CUT_PROSE.text + "son is demand.",
        finish("Microsoft's 41 %, and the reason is demand."),
    ],
    ids=["last words first", "all again", "as a call"],
)
async def test_prose_that_the_limit_has_cut_is_continued_without_doubled_words(rest: str) -> None:
    policy = Endpoint(CUT_PROSE, rest)
    # The three ways in which models go on, and one text in the end.
    whole = "Apple rose by 80 % in 2020, which is more than Microsoft's 41 %, and the reason is demand."
    assert text_of(await run(policy)) == whole
    told = policy.requests[1][0][-1]
    assert "cut off at 400 tokens" in told.content
    assert "41 %, and the rea»" in told.content, "the model is told where to go on"


async def test_a_finish_that_the_limit_has_cut_is_continued_and_every_call_has_its_result() -> None:
    cut = Said(
        native=("finish", '{"intent": "end", "answer": "Line one.\\nLine two begins he'), reason=FinishReason.LENGTH
    )
    # The second call begins its sentence again, which was the cut one.
    policy = Endpoint(cut, Said(native=("finish", '{"answer": "Line two begins here."}')))
    assert text_of(await run(policy)) == "Line one.\nLine two begins here."
    told = policy.requests[1][0][-1]
    assert (told.role, json.loads(told.content)["status"]) == (Role.TOOL, "cut")
    # Every call must have a result, or the next request is refused by the endpoint.
    assert told.tool_call_id == policy.requests[1][0][-2].tool_calls[0].id


async def test_an_answer_that_is_cut_again_and_again_says_so_in_its_first_line_and_as_a_finding() -> None:
    policy = Endpoint(*(Said(f"Part {n} of a long answer, part {n}", FinishReason.LENGTH) for n in range(9)))
    outcome = await run(policy)
    # The first reply and two continuations.
    assert len(policy.requests) == 3
    assert text_of(outcome).splitlines()[0] == CUT[0]
    assert "Part 0" in text_of(outcome)
    assert "Part 2" in text_of(outcome)
    assert outcome.answer is not None
    (mark,) = outcome.answer.findings
    assert (mark.kind, mark.text) == (FindingKind.TRUNCATED, CUT[0])
    assert "limit of tokens" in mark.detail


async def test_a_filtered_answer_is_given_as_far_as_it_came_and_marked() -> None:
    outcome = await run(Endpoint(Said("Half of it", FinishReason.ABORT)))
    assert text_of(outcome) == f"{CUT[0]}\n\nHalf of it"
    assert outcome.answer is not None
    assert "content filter" in outcome.answer.findings[0].detail


async def test_a_tool_call_that_the_limit_has_cut_is_told_its_limit() -> None:
    cut = Said(native=("look", '{"intent": "see", "text": "a very lo'), reason=FinishReason.LENGTH)
    policy = Endpoint(cut, finish("Done."))
    assert text_of(await run(policy)) == "Done."
    error = json.loads(policy.requests[1][0][-1].content)["error"]
    assert "cut off at 400 tokens" in error
    # The cause is the limit; "no JSON" would send the model looking in the wrong place.
    assert "JSON" not in error


async def test_a_thought_that_uses_up_the_reply_is_told_so() -> None:
    policy = Endpoint(Said("", FinishReason.LENGTH), finish("Done."))
    assert text_of(await run(policy)) == "Done."
    assert "think less" in policy.requests[1][0][-1].content


@pytest.mark.parametrize(
    ("reason", "said"), [(FinishReason.STOP, "replied with nothing"), (FinishReason.ABORT, "content filter")]
)
async def test_two_empty_replies_end_the_run_with_what_was_found(reason: FinishReason, said: str) -> None:
    policy = Endpoint(look("prices"), Said("", reason))
    outcome = await run(policy)
    # One look, two empty replies.
    assert (outcome.stop, len(policy.requests)) == (StopReason.UNFINISHED, 3)
    first, *rest = text_of(outcome).split("\n\n")
    assert said in first
    assert rest == ["## Documents", "- prices [1]"]
    assert outcome.answer is not None
    # Written by the planner, so it must not be credited to the model.
    assert (outcome.answer.cited, outcome.answer.model) == ((1,), "fathom")


class Incomplete(CitedEnding):
    """Ending that finds a part of the question open."""

    async def finish(self, text: str, episode: Episode, last: bool) -> Answer:
        answer = await super().finish(text, episode, last)
        return replace(answer, reading=Reading(episode.task.question, line="Read as: x", open_texts=("x",)))


async def test_an_answer_in_the_models_place_begins_with_why_and_not_with_what_it_leaves_open() -> None:
    loop = make(Endpoint(""))
    loop._resources = replace(loop._resources, ending=Incomplete())
    answer = (await loop.run()).answer
    assert answer is not None
    assert answer.reading is not None
    # The reason for the missing answer comes before any notice about what it leaves open.
    assert open_with_notice(answer).markdown.startswith("**No answer:** ")


async def test_a_model_that_says_nothing_at_all_leaves_an_answer_that_says_so() -> None:
    outcome = await run(Endpoint(""))
    said = "**No answer:** the model replied with nothing, twice in a row, and nothing was found."
    assert (outcome.stop, text_of(outcome)) == (StopReason.UNFINISHED, said)


async def test_the_answer_in_the_models_place_is_in_the_language_of_the_question() -> None:
    outcome = await run(Endpoint(look("prices"), ""), replace(task(), question="苹果为什么上涨？"))
    assert text_of(outcome).startswith("**没有答案：** 模型连续两次没有任何回复")


async def test_the_same_call_again_and_again_leaves_only_finish_and_then_ends() -> None:
    policy = Endpoint(look("prices"))
    outcome = await run(policy, replace(task(), limits=replace(task().limits, max_rounds=20)))
    # The first look and four repetitions; the last reply but one was offered everything, the last one only finish.
    assert (outcome.stop, len(policy.requests)) == (StopReason.UNFINISHED, 5)
    assert [names for _, names in policy.requests][-2:] == [["finish", "look", "think"], ["finish"]]
    assert "call `finish` now" in policy.requests[-1][0][-1].content
    assert "went on repeating calls" in text_of(outcome)
    assert "- prices [1]" in text_of(outcome)


async def test_a_model_that_finishes_when_only_that_is_left_has_its_answer() -> None:
    # One more repetition and the run would have ended.
    policy = Endpoint(*[look("prices")] * 4, finish("It rose [1]."))
    outcome = await run(policy)
    assert (outcome.stop, text_of(outcome)) == (StopReason.FINISHED, "It rose [1].")


async def test_rounds_that_find_nothing_leave_only_finish() -> None:
    policy = Endpoint(look("prices"), *(look(f"nothing {n}") for n in range(20)))
    outcome = await run(policy, replace(task(), limits=replace(task().limits, max_rounds=20)))
    # One that found something, six that found nothing, and the last with finish alone.
    assert (outcome.stop, len(policy.requests)) == (StopReason.UNFINISHED, 8)
    assert "without finding anything new" in text_of(outcome)


async def test_a_spent_budget_gives_what_was_found() -> None:
    policy = Endpoint(*(look(f"note {n}") for n in range(9)))
    outcome = await run(policy, task(max_rounds=3))
    assert outcome.stop is StopReason.BUDGET
    assert "budget of this run was spent" in text_of(outcome)
    # Each of three rounds has found a note.
    assert "- note 2 [3]" in text_of(outcome)


async def test_a_draft_that_was_sent_back_is_better_than_a_list() -> None:
    policy = Endpoint(finish("It rose by 80 %."), "")
    outcome = await run(policy, replace(task(), question="How much did Apple rise in 2020?"))
    assert outcome.stop is StopReason.UNFINISHED
    # The finish guard gave the draft back, since nothing had been looked up; there was no second one.
    assert text_of(outcome).endswith("This is its last draft.\n\nIt rose by 80 %.")


async def test_a_trainers_episode_gets_no_answer_that_its_model_has_not_sampled() -> None:
    policy = Endpoint(look("prices"), "")
    outcome = await run(policy, replace(task(max_rounds=6), is_rollout=True))
    # Six rounds of nothing: a training learns from what the model did, not from what the planner wrote for it.
    assert (outcome.stop, outcome.answer, len(policy.requests)) == (StopReason.BUDGET, None, 6)
    assert {tuple(names) for _, names in policy.requests} == {("finish", "look", "think")}


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        # Joined by a blank, where both sides have letters; by none before a sign, none in Chinese; doubled words once.
        (["It rose by", "80 %."], "It rose by 80 %."),
        (["It rose by 80", " %."], "It rose by 80 %."),
        (["上涨了百分之", "八十。"], "上涨了百分之八十。"),
        (["", "All of it."], "All of it."),
        (["One two three four", "two three four five six", "five six seven"], "One two three four five six seven"),
    ],
)  # fmt: skip
def test_parts_are_joined_as_one_text(parts: list[str], whole: str) -> None:
    assert join_parts(parts) == whole
