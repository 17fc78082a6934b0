"""The prefix that all questions share is rendered first and token by token the same, by every engine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from fathom.domain.chat.messages import Message, Sampling, ToolSpec
from fathom.services.planner.config import Config
from fathom.services.planner.episode.dialogue import Research
from fathom.services.planner.model.episode import Limits, Task
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.tools.data import Data
from fathom.services.planner.tools.data.catalogue import DataCatalogue
from fathom.services.planner.tools.data.sql import Sql
from fathom.services.planner.tools.documents import Fetch, Search, ShownDocuments
from fathom.services.planner.tools.python import Python
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.think import Finish, Think
from fathom.services.policy.backends.chat import Template
from fathom.services.policy.backends.openai.profile import make_profile
from fathom.services.policy.backends.openai.request import build_body
from fathom.services.policy.backends.rules.tokenizer import RulesTokenizer, load_vocabulary
from fathom.services.policy.backends.transformers.tokenizer import ChatTokenizer
from fathom.services.policy.config import OpenAIModel
from fathom.services.policy.model import Request
from tests.integration.policy.scribe import TEMPLATE, fast_tokenizer

# As Qwen's and Hermes' templates do: tools stand in the system turn, in the order in which the template gets them.
WITH_TOOLS = (
    "{% if tools %}<|im_start|>system\n{{ messages[0]['content'] }}\n{% for tool in tools %}{{ tool | tojson }}\n"
    "{% endfor %}<|im_end|>\n{% set messages = messages[1:] %}{% endif %}" + TEMPLATE
)
NOTHING = cast(Any, None)


def research_tools() -> tuple[ToolSpec, ...]:
    """All tools that production's agent has."""
    tools = (
        Think(), Finish(), Search(NOTHING, ("",), NOTHING, 1.0, ShownDocuments("r")), Fetch(NOTHING, ("",), NOTHING, 1.0, ShownDocuments("r")),
        DataCatalogue(NOTHING, NOTHING, 1.0), Data(NOTHING, NOTHING, NOTHING, 1.0), Sql(NOTHING, NOTHING, 1.0), Python(NOTHING, NOTHING, NOTHING, "r", NOTHING),
    )  # fmt: skip
    return tuple(Registry(tools).specs)


def opening(question: str, run_id: str, date: str) -> tuple[Message, ...]:
    """The messages of a run's first round, by production's own prompts."""
    research = Research(Prompts.of(load_catalogue(), Config.model_validate({})))
    return research.opening(Task(run_id, question, "m", Sampling(), Limits(5, 1000, 0.0), date=date))


FIRST = opening("What is the maximum drawdown of Apple?", "run_1", "2020-01-02")
OTHER = opening("How did gold do in 2011, and why?", "run_2", "2024-05-06")


def chat(template: str) -> ChatTokenizer:
    tokenizer = fast_tokenizer()
    tokenizer.chat_template = template
    return ChatTokenizer(tokenizer, frozenset())


TEMPLATES: dict[str, Callable[[], Template]] = {
    "rules": lambda: RulesTokenizer(load_vocabulary()),
    "transformers and vllm": lambda: chat(TEMPLATE),
    "transformers and vllm, a template that knows tools": lambda: chat(WITH_TOOLS),
}


def common(one: list[int], other: list[int]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@pytest.mark.parametrize("name", TEMPLATES)
def test_two_questions_share_the_tokens_of_system_and_tools(name: str) -> None:
    template, tools = TEMPLATES[name](), research_tools()
    one, other = (template.encode(template.render(messages, tools, True)) for messages in (FIRST, OTHER))
    shared = template.encode(template.render(FIRST[:1], tools, False))
    assert len(shared) > 500
    assert common(one, other) >= len(shared), "all of it, where the row wants 90 %"
    assert one[: len(shared)] == shared == other[: len(shared)]


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_order_of_tools_changes_nothing(name: str) -> None:
    template, tools = TEMPLATES[name](), research_tools()
    text = template.render(FIRST, tools, True)
    assert template.render(FIRST, tools[::-1], True) == text
    places = [text.index(f'"name": "{tool.name}"') for tool in sorted(tools, key=lambda tool: tool.name)]
    assert places == sorted(places)


def test_an_endpoint_gets_the_same_first_message_and_the_same_tools() -> None:
    profile = make_profile(OpenAIModel(engine="openai", model="far", base_url="http://127.0.0.1:9/v1", api_key_env=""))
    tools = research_tools()
    one, other = (
        build_body(Request("r", "m", messages, tools=offered, sampling=Sampling()), profile)
        for messages, offered in ((FIRST, tools), (OTHER, tools[::-1]))
    )
    assert json.dumps([one["messages"][0], one["tools"]]) == json.dumps([other["messages"][0], other["tools"]])
    assert [tool["function"]["name"] for tool in one["tools"]] == sorted(tool.name for tool in tools)


def test_nothing_in_the_prefix_changes_from_day_to_day() -> None:
    template = RulesTokenizer(load_vocabulary())
    prefix = template.render(FIRST[:1], research_tools(), False)
    assert not re.search(r"run_\d|\b[0-9a-f]{8}-[0-9a-f]{4}-", prefix)
    assert "2020-01-02" not in prefix
