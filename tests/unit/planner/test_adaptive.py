"""The agent's two ends (row A05): a simple question at once, a hard one in steps that each need the one before."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fathom.protocol.hermes import format_tool_call, parse_tool_calls
from fathom.protocol.messages import Completion, FinishReason, Message, Role, Sampling, ToolSpec, Usage
from services.planner.loop import Loop
from services.planner.model import Episode, Task, ToolState
from services.planner.protocols import Research
from services.planner.stage import Stage
from services.planner.tools.registry import Registry
from services.planner.tools.think import Finish
from services.planner.tools.tool import Reply, schema
from services.planner.window.view import View
from tests.unit.planner.long_runs import PROMPTS, Notebook, task

QUESTION = "Who audits the largest supplier of the company that bought the maker of the cheapest widget?"
CHAIN = {"cheapest widget": "Norwell", "Norwell": "Quillon", "Quillon": "Ostrava Steel", "Ostrava Steel": "Pemberton"}


class Registrar:
    """Knows one name behind each: none of them is in the question."""

    name, description, reads = "search", "Finds who is next.", True
    parameters = schema(["query"], query={"type": "string"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply:
        known = next(answer for key, answer in CHAIN.items() if key == arguments["query"])
        return Reply(ToolState.OK, {"hits": []}, f"Behind it stands: {known}.")


class Curious:
    """Asks about the name that the last result gave; four names on it knows enough. A greeting it answers at once."""

    def __init__(self) -> None:
        self.calls = 0

    async def generate(
        self,
        request_id: str,
        task: Task,
        view: View,
        tools: Sequence[ToolSpec],
        sampling: Sampling,
        hear: Callable[[str], None] | None = None,
    ) -> Completion:
        self.calls += 1
        results = [message for message in view.messages if message.role is Role.TOOL]
        text = format_tool_call("finish", {"intent": "to end", "answer": "Hello."})
        if task.question == QUESTION:
            names = ["cheapest widget", *(named(message) for message in results)]
            call = {"intent": f"who is behind {names[-1]}", "query": names[-1]}
            text = format_tool_call("search", call)
            if len(results) == len(CHAIN):
                text = format_tool_call("finish", {"intent": "to end", "answer": f"It is {names[-1]}."})
        usage = Usage(1, 1, 0, 0)
        return Completion(
            (), (1,), (0.0,), text, parse_tool_calls(text)[1], FinishReason.STOP, 0, 0, usage, True, "curious"
        )


def named(message: Message) -> str:
    found = re.search(r"Behind it stands: (.*)\.", message.content)
    assert found is not None
    return found.group(1)


async def played(question: str) -> tuple[Episode, str, int]:
    research, policy = Research(PROMPTS), Curious()
    of = task(question)
    episode = Episode(of, research.opening(of))
    outcome = await Loop(episode, research, policy, Stage(Registry([Registrar(), Finish()])), Notebook()).run()
    assert outcome.answer is not None, outcome
    return episode, outcome.answer.markdown, policy.calls


async def test_a_hard_question_takes_four_steps_each_with_a_value_that_only_the_one_before_gave() -> None:
    episode, answer, _ = await played(QUESTION)
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
    assert "Pemberton" in answer


async def test_a_simple_question_is_answered_in_one_model_call() -> None:
    _, answer, calls = await played("Hello")
    assert (answer, calls) == ("Hello.", 1)
