"""The episode's loop with a scripted policy and small tools: rounds, finish, budgets, stop, resume."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fathom.core.config import load
from fathom.core.errors import DependencyFailed, InvalidField
from fathom.domain.chat.hermes import format_tool_call
from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, Sampling, ToolSpec, Usage
from fathom.services.planner.config import Config
from fathom.services.planner.episode.agent import AgentLoop
from fathom.services.planner.episode.dialogue import Research, SearchR1, TagTexts
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import (
    Episode,
    Limits,
    MaterialKind,
    Outcome,
    Step,
    StopReason,
    Task,
    ToolStatus,
)
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.think import Finish, Think
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, Reply, make_schema
from tests.support.observer import RecordingObserver
from tests.support.policy import FakePolicy, PolicyRequest
from tests.support.waiting import eventually


class Echo:
    """Tool that returns its argument."""

    name, description, reads = "echo", "Says it again.", True
    parameters: Mapping[str, Any] = make_schema(["text"], text={"type": "string"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | NumberedReply:
        if arguments["text"] == "fail":
            raise DependencyFailed("retrieval", "is gone")
        if arguments["text"] == "hang":
            await asyncio.Event().wait()
        found = NewMaterial(MaterialKind.MISSING, {"subject": arguments["text"], "reason": "NO_MATCH"})
        return lambda first: Reply(ToolStatus.OK, {"material": first, "hits": []}, arguments["text"], (found,))


class Script(FakePolicy):
    """Policy that returns the next line and records its requests."""

    def __init__(self, *lines: str, first: int = 0) -> None:
        self.lines, self.next = lines, first
        self.requests: list[tuple[str, list[Message], tuple[list[int], int], tuple[ToolSpec, ...]]] = []

    async def write(self, request: PolicyRequest) -> str:
        context = (list(request.view.token_ids), request.view.covered)
        self.requests.append((request.request_id, list(request.view.messages), context, request.tools))
        line = self.lines[self.next]
        if line == "die":
            raise DependencyFailed("policy", "is gone")
        self.next += 1
        return line


def echo(text: str, intent: str = "to hear it") -> str:
    return format_tool_call("echo", {"intent": intent, "text": text})


def finish(answer: str) -> str:
    return format_tool_call("finish", {"intent": "to end", "answer": answer})


def research() -> Research:
    """Return the research protocol with the packaged prompts."""
    return Research(Prompts.of(load_catalogue(), load(Config, "planner", environ={})))


def task(max_rounds: int = 10, seconds: float = 20.0) -> Task:
    return Task("run_1", "why?", "script", Sampling(), Limits(max_rounds, 10_000, time.monotonic() + seconds))


def make(
    policy: Script, episode_task: Task | None = None, steps: Sequence[Step] = (), protocol: Any = None
) -> AgentLoop:
    protocol = protocol or research()
    episode = Episode(episode_task or task(), protocol.opening(episode_task or task()))
    for step in steps:
        episode.append(step)
    material = sum(len(result.material) for step in steps for result in step.results)
    return AgentLoop(
        episode,
        protocol,
        policy,
        EpisodeResources(Registry([Echo(), Think(), Finish()], material)),
        RecordingObserver(),
    )


def notes(loop: AgentLoop) -> RecordingObserver:
    observer = loop._observer
    assert isinstance(observer, RecordingObserver)
    return observer


async def test_finishes_with_checked_citations_and_intents_before_results() -> None:
    loop = make(Script(echo("a"), echo("b"), finish("It is so [1, 2] and [9].")))
    outcome = await loop.run()
    assert outcome.stop is StopReason.FINISHED
    assert outcome.answer is not None
    assert outcome.answer.markdown == "It is so [1][2] and ."
    assert (outcome.answer.cited, outcome.answer.unresolved) == ((1, 2), (9,))
    assert notes(loop).log == ["echo: to hear it", "echo ok", "echo: to hear it", "echo ok"]


async def test_ids_are_passed_on_verbatim_and_masked() -> None:
    policy = Script(echo("a"), finish("done"))
    loop = make(policy)
    await loop.run()
    assert policy.requests[0][2] == ([], 0)
    assert policy.requests[1][2] == ([100, 200, 201], 3)  # system, user and assistant are covered; the result is new
    assert loop.episode.token_ids == [100, 200, 201, 101, 201, 202]
    [segment] = loop.episode.segments
    assert segment.mask == [0, 1, 1, 0, 1, 1]
    assert segment.log_probs == [0.0, -0.5, -0.25, 0.0, -0.5, -0.25]
    assert [request[0] for request in policy.requests] == ["run_1-0", "run_1-1"]


async def test_a_simple_question_ends_in_one_call() -> None:
    policy = Script(finish("Hello."))
    outcome = await make(policy).run()
    assert outcome.stop is StopReason.FINISHED
    assert len(policy.requests) == 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('<tool_call>{"name": "nope", "arguments": {}}</tool_call>', "nearest: echo, finish, think"),
        ('<tool_call>{"name": "echo", "arguments": {"intent": "x"}}</tool_call>', "'text' is a required property"),
        ('<tool_call>{"name": "echo", "arguments": {"text": 3}}</tool_call>', "echo.text"),
        ('<tool_call>{"name": "echo", "arguments": {"text": "a", "more": 1}}</tool_call>', "'more' was unexpected"),
        ('<tool_call>{"name": "finish", "arguments": {"answer": " "}}</tool_call>', "must be a non-empty string"),
    ],
)
async def test_malformed_calls_come_back_as_results_that_say_how_to_mend_them(call: str, said: str) -> None:
    loop = make(Script(call, finish("sorry")))
    outcome = await loop.run()
    result = loop.episode.steps[0].results[0]
    assert result.status is ToolStatus.INVALID
    assert said in json.loads(result.content.splitlines()[0])["error"]
    assert outcome.stop is StopReason.FINISHED


async def test_missing_intent_is_repaired() -> None:
    loop = make(Script('<tool_call>{"name": "echo", "arguments": {"text": "a"}}</tool_call>', finish("ok")))
    await loop.run()
    assert loop.episode.steps[0].results[0].status is ToolStatus.OK
    assert notes(loop).log[0] == "echo: Call echo: a"


async def test_a_failed_source_is_a_missing_material_and_the_run_goes_on() -> None:
    loop = make(Script(echo("fail"), finish("Nothing is known [1].")))
    outcome = await loop.run()
    result = loop.episode.steps[0].results[0]
    assert (result.status, result.material[0].kind) == (ToolStatus.FAILED, MaterialKind.MISSING)
    assert "retrieval: is gone" in result.content
    assert outcome.answer is not None
    assert outcome.answer.cited == (1,)


async def test_a_trainers_episode_corrects_prose_once_and_then_takes_it_as_the_answer() -> None:
    policy = Script("I think it is so.", "It is so.")
    outcome = await make(policy, replace(task(), is_rollout=True)).run()
    assert policy.requests[1][1][-1].role is Role.USER
    assert "finish" in policy.requests[1][1][-1].content
    assert outcome.answer is not None
    assert outcome.answer.markdown == "It is so."


async def test_rounds_are_bounded_and_the_last_one_is_announced() -> None:
    policy = Script(*[echo("again")] * 3)
    outcome = await make(policy, task(max_rounds=3)).run()
    assert (outcome.stop, len(policy.requests)) == (StopReason.BUDGET, 3)
    assert "last round" in policy.requests[2][1][-1].content


async def test_the_policy_failing_ends_the_run_with_its_name() -> None:
    outcome = await make(Script(echo("a"), "die")).run()
    assert (outcome.stop, outcome.culprit) == (StopReason.FAILED, "policy")
    assert "is gone" in outcome.error


async def test_the_deadline_names_what_was_waited_for() -> None:
    outcome = await make(Script(echo("hang")), task(seconds=0.5)).run()
    assert (outcome.stop, outcome.culprit) == (StopReason.BUDGET, "echo")


async def test_stop_cancels_the_call_in_flight() -> None:
    loop = make(Script(echo("hang")))
    running = asyncio.create_task(loop.run())
    await eventually(lambda: notes(loop).log)
    loop.stop()
    assert await running == Outcome(StopReason.STOPPED)


@pytest.mark.parametrize("known", [0, 1, 2, 3])
async def test_resuming_after_any_step_gives_the_same_episode(known: int) -> None:
    lines = (echo("a"), format_tool_call("think", {"intent": "i", "content": "hm"}), echo("b"), finish("So [2]."))
    whole = make(Script(*lines))
    expected = await whole.run()
    resumed = make(Script(*lines, first=known), steps=whole.episode.steps[:known])
    assert await resumed.run() == expected
    assert resumed.episode.hash() == whole.episode.hash()
    assert resumed.episode.messages == whole.episode.messages


async def test_search_r1_searches_then_answers_within_its_rounds() -> None:
    class Documents(Echo):
        name = "search"
        parameters = make_schema(["query"], query={"type": "string"}, top_k={"type": "integer"})

        async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply:
            hit = {"id": "d", "time": "", "title": "Paris", "summary": "is the <answer>capital</answer> of France."}
            return Reply(ToolStatus.OK, {"hits": [hit]})

    protocol = SearchR1("Answer the question below.")
    policy = Script("<think>x</think><search>capital of France</search>", "no tag", "<answer> Paris </answer>")
    episode = Episode(task(), protocol.opening(task()))
    loop = AgentLoop(episode, protocol, policy, EpisodeResources(Registry([Documents()])), RecordingObserver())
    outcome = await loop.run()
    assert outcome.answer is not None
    assert outcome.answer.markdown == "Paris"
    shown = policy.requests[1][1][-1].content
    assert shown == "\n\n<information>Doc 1(Title: Paris) is the ‹answer›capital‹/answer› of France.</information>\n\n"
    assert "<search>" in policy.requests[2][1][-1].content
    assert "<answer>" in policy.requests[2][1][-1].content
    assert protocol.sampling(task()).stop == ("</search>", "</answer>")
    assert policy.requests[0][3] == ()


@pytest.mark.parametrize(("settings", "wanted"), [({}, 3), ({"documents": 1}, 1)])
def test_search_r1_asks_for_as_many_documents_as_it_is_told(settings: dict[str, int], wanted: int) -> None:
    protocol = SearchR1("Answer.", **settings).with_texts(TagTexts("Be brief."))  # type: ignore[arg-type]
    said = Completion((), (), (), "<search> Paris </search>", (), FinishReason.STOP, 0, 0, Usage(), True, "m")
    (call,) = protocol.decide(said, corrected=False, last=False).calls
    assert json.loads(call.arguments_json)["top_k"] == wanted


async def test_a_checkpoint_of_elsewhere_is_shown_the_texts_that_it_was_trained_with() -> None:
    own = SearchR1("Answer.")
    texts = TagTexts(instruction="Answer, please. Question: {question}\n", invalid_action="\nWrong. Again.\n")
    protocol = own.with_texts(texts)
    policy = Script("no tag", "<answer> Paris </answer>")
    episode = Episode(task(), protocol.opening(task()))
    loop = AgentLoop(episode, protocol, policy, EpisodeResources(Registry([])), RecordingObserver())
    outcome = await loop.run()
    assert outcome.answer is not None
    first, second = (request[1] for request in policy.requests)
    assert [message.content for message in first] == [f"Answer, please. Question: {task().question}\n"]
    assert second[-1].content == "\nWrong. Again.\n"
    hashes = {one.prompt_hash(task()) for one in (own, protocol, own.with_texts(TagTexts(invalid_action="No.")))}
    assert len(hashes) == 3, "a record names the texts that its episode was shown"


def test_texts_that_cannot_be_shown_are_refused() -> None:
    with pytest.raises(InvalidField, match=r"instruction: has no \{question\}"):
        TagTexts(instruction="Answer.")
    with pytest.raises(InvalidField, match="instruction: takes the place of system_prompt"):
        TagTexts("Be brief.", "Answer {question}")


async def test_registry_adds_intent_to_every_schema_in_sorted_order() -> None:
    specs = Registry([Think(), Echo(), Finish()]).specs
    assert [spec.name for spec in specs] == ["echo", "finish", "think"]
    for spec in specs:
        parameters = json.loads(spec.parameters_json)
        assert parameters["required"][0] == "intent"
        assert parameters["properties"]["intent"]["type"] == "string"


def test_question_limits() -> None:
    from fathom.services.planner.episode.limits import cap_limit, validate_question

    assert validate_question("  why?  ", 10) == "why?"
    for bad in ("", "   ", "x" * 11):
        with pytest.raises(InvalidField, match="question"):
            validate_question(bad, 10)
    assert (cap_limit(0, 5, "f"), cap_limit(3, 5, "f"), cap_limit(9, 5, "f")) == (5, 3, 5)
    with pytest.raises(InvalidField, match="f: must not be negative"):
        cap_limit(-1, 5, "f")


async def test_the_last_round_shows_the_numbered_material() -> None:
    policy = Script(echo("a"), echo("b"), finish("So [1]."))
    await make(policy, task(max_rounds=3)).run()
    said = policy.requests[2][1][-1].content
    assert said.index("last round") < said.index("[1] MISSING a: no match") < said.index("[2] MISSING b: no match")
