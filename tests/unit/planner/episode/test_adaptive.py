"""The agent's two ends: a simple question at once, a hard one in steps that each need the one before."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fathom.domain.chat.hermes import format_tool_call
from fathom.domain.chat.messages import Message, Role
from fathom.services.planner.episode.agent import AgentLoop
from fathom.services.planner.episode.dialogue import Research
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import Episode, ToolStatus
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.think import Finish
from fathom.services.planner.tools.tool import Reply, make_schema
from tests.support.observer import RecordingObserver
from tests.support.policy import FakePolicy, PolicyRequest
from tests.unit.planner.window.long_runs import PROMPTS, task

QUESTION = "Who audits the largest supplier of the company that bought the maker of the cheapest widget?"
CHAIN = {"cheapest widget": "Norwell", "Norwell": "Quillon", "Quillon": "Ostrava Steel", "Ostrava Steel": "Pemberton"}


# A search whose results name the next search: only a model that reads results gets to the end.
class Registrar:
    """Knows one name behind each: none of them is in the question."""

    name, description, reads = "search", "Finds who is next.", True
    parameters = make_schema(["query"], query={"type": "string"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply:
        known = next(answer for key, answer in CHAIN.items() if key == arguments["query"])
        return Reply(ToolStatus.OK, {"hits": []}, f"Behind it stands: {known}.")


class Curious(FakePolicy):
    """Asks about the name that the last result gave; four names on it knows enough. A greeting it answers at once."""

    def __init__(self) -> None:
        self.calls = 0

    # Stands for a model that plans step by step; it knows nothing that the results have not said.
    async def write(self, request: PolicyRequest) -> str:
        self.calls += 1
        if request.task.question != QUESTION:
            return format_tool_call("finish", {"intent": "to end", "answer": "Hello."})
        results = [message for message in request.view.messages if message.role is Role.TOOL]
        names = ["cheapest widget", *(read_name(message) for message in results)]
        if len(results) == len(CHAIN):
            return format_tool_call("finish", {"intent": "to end", "answer": f"It is {names[-1]}."})
        return format_tool_call("search", {"intent": f"who is behind {names[-1]}", "query": names[-1]})


def read_name(message: Message) -> str:
    found = re.search(r"Behind it stands: (.*)\.", message.content)
    assert found is not None
    return found.group(1)


async def play_question(question: str) -> tuple[Episode, str, int]:
    research, policy = Research(PROMPTS), Curious()
    of = task(question)
    episode = Episode(of, research.opening(of))
    outcome = await AgentLoop(
        episode, research, policy, EpisodeResources(Registry([Registrar(), Finish()])), RecordingObserver()
    ).run()
    assert outcome.answer is not None, outcome
    return episode, outcome.answer.markdown, policy.calls


async def test_a_hard_question_takes_four_steps_each_with_a_value_that_only_the_one_before_gave() -> None:
    episode, answer, _ = await play_question(QUESTION)
    asked = [
        json.loads(result.call.arguments_json)["query"]
        for step in episode.steps
        for result in step.results
        if result.call.name == "search"
    ]
    assert len(asked) >= 4
    results = [result.content for step in episode.steps for result in step.results]
    for n, query in enumerate(asked[1:], start=1):
        assert query not in QUESTION
        assert query in results[n - 1], "known from the step before"
        assert not any(query in earlier for earlier in results[: n - 1]), "and from no other"
    # Four links: the last name is in no question and in no result but the last one.
    assert "Pemberton" in answer


async def test_a_simple_question_is_answered_in_one_model_call() -> None:
    _, answer, calls = await play_question("Hello")
    assert (answer, calls) == ("Hello.", 1)
