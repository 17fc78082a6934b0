"""Test what prompts say of the tools: examples are calls that the tools take, and small windows get less of both."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from fathom.domain.chat.messages import Sampling
from fathom.services.planner.config import Config
from fathom.services.planner.episode.dialogue import Research
from fathom.services.planner.model.episode import Limits, Task
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.services.planner.prompts.selection import SHORT_TOOLS, SMALL_WINDOW, Prompts
from fathom.services.planner.tools.arguments import make_validator
from fathom.services.planner.tools.data import Data, DataCatalogue, Sql
from fathom.services.planner.tools.documents import Fetch, Search
from fathom.services.planner.tools.python import Python
from fathom.services.planner.tools.registry import specify
from fathom.services.planner.tools.think import Finish, Think
from fathom.services.planner.tools.tool import Tool

TOOLS: dict[str, Any] = {tool.name: tool for tool in (Data, DataCatalogue, Fetch, Finish, Python, Search, Sql)}
CALL = re.compile(rf"\b({'|'.join(TOOLS)}) (?=\{{)")
PROMPTS = ("research.v4.en", "research.v4.zh", "research.short.v1.en", "research.short.v1.zh")


def list_calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    decode = json.JSONDecoder().raw_decode
    return [(match[1], decode(text, match.end())[0]) for match in CALL.finditer(text)]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_every_example_is_a_call_that_its_tool_takes(prompt: str) -> None:
    calls = list_calls(load_catalogue().get(prompt).body)
    for name, arguments in calls:
        checker = make_validator(name, TOOLS[name].parameters)
        assert checker.validate({key: value for key, value in arguments.items() if key != "intent"})
        assert name == "finish" or arguments["intent"]
    assert any(name == "finish" and "[1]" in arguments["answer"] for name, arguments in calls)
    assert any(name == "data" for name, _ in calls)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_prompts_name_the_catalogue_and_the_library_of_finance(prompt: str) -> None:
    text = load_catalogue().get(prompt).render()
    assert "`catalogue`" in text
    assert "`finance`" in text


def make_prompts() -> Prompts:
    return Prompts.of(load_catalogue(), Config())


def test_a_small_window_gets_short_prompts_unless_others_are_named() -> None:
    prompts = make_prompts()
    assert prompts.choose("why?", window_tokens=SMALL_WINDOW - 1) == {
        "research": "research.short.v1.en",
        "answer": "answer.short.v1.en",
    }
    assert prompts.choose("why?", {"research": "v4"}, window_tokens=4_096)["research"] == "research.v4.en"
    for large in (0, SMALL_WINDOW):
        assert prompts.choose("why?", window_tokens=large)["research"] == "research.v4.en"


def test_prompts_and_tools_of_a_small_window_leave_most_of_it_to_the_work() -> None:
    research = Research(make_prompts())
    chosen = research.prompts("why?", {}, 4_096)
    task = Task("run_1", "why?", "m", Sampling(), Limits(5, 1000, 0.0), prompts=chosen)
    said = "".join(message.content for message in research.opening(task))
    tools: list[Tool] = [TOOLS[name] for name in (*SHORT_TOOLS, Finish.name)]
    specs = [specify(tool) for tool in tools]
    size = len(said) + sum(len(spec.description) + len(spec.parameters_json) for spec in specs)
    # Three to four characters a token: far below the 5,000 tokens of the usual prompt and all tools.
    assert size < 9_000
    assert Think.name not in {spec.name for spec in specs}
