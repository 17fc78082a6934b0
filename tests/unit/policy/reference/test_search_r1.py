"""The reference policy in Search-R1's tags."""

from __future__ import annotations

import pytest

from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, Sampling, ToolFormat
from fathom.domain.chat.tags import INVALID_ACTION, information_block, parse_action
from fathom.services.policy.backends.rules.backend import RulesBackend
from fathom.services.policy.backends.rules.search_r1 import short_answer
from fathom.services.policy.config import RulesModel
from fathom.services.policy.model import Request

INSTRUCTION = "Use <search> query </search>; results come between <information> and </information>.\n\nQuestion: "
STOPS = ("</search>", "</answer>")


async def turn(*messages: Message) -> Completion:
    request = Request("r", "", messages, sampling=Sampling(stop=STOPS), tool_format=ToolFormat.TAGS)
    items = [item async for item in RulesBackend("rules", RulesModel()).generate(request)]
    assert isinstance(items[-1], Completion)
    return items[-1]


async def test_it_searches_then_answers_from_the_information() -> None:
    question = Message(Role.USER, f"{INSTRUCTION}Who wrote the novel Middlemarch?\n")
    first = await turn(question)
    assert parse_action(first.text).kind == "search"
    assert parse_action(first.text).content == "Who wrote the novel Middlemarch?"
    assert first.finish_reason is FinishReason.STOP
    assert first.text.endswith("</search>")
    block = information_block('Doc 1(Title: "Middlemarch") Middlemarch is a novel written by George Eliot in 1871.')
    second = await turn(question, Message(Role.ASSISTANT, first.text), Message(Role.USER, block))
    assert parse_action(second.text).kind == "answer"
    assert parse_action(second.text).content == "George Eliot"


async def test_empty_information_is_searched_for_once_more_and_then_admitted() -> None:
    messages = [Message(Role.USER, f"{INSTRUCTION}Who wrote Middlemarch?\n")]
    texts = []
    for _ in range(3):
        completion = await turn(*messages)
        texts.append(completion.text)
        messages += [Message(Role.ASSISTANT, completion.text), Message(Role.USER, information_block(""))]
    assert [parse_action(text).kind for text in texts] == ["search", "search", "answer"]
    assert parse_action(texts[2]).content == "unknown"


async def test_a_word_of_correction_is_no_information() -> None:
    question = Message(Role.USER, f"{INSTRUCTION}Who wrote Middlemarch?\n")
    completion = await turn(question, Message(Role.ASSISTANT, "hm"), Message(Role.USER, INVALID_ACTION))
    assert parse_action(completion.text).kind == "search"


@pytest.mark.parametrize(
    ("question", "information", "answer"),
    [
        ("When was Middlemarch published?", "Doc 1(Title: Middlemarch) Middlemarch was published in 1871.", "1871"),
        ("How many legs has a spider?", "Doc 1(Title: Spider) A spider has 8 legs in all.", "8"),
        ("Where is the Louvre?", "Doc 1(Title: Louvre) The Louvre is a museum in Paris.", "Paris"),
        ("Where is the Louvre?", "Doc 1(Title: Herbs) Basil goes well with fish.", "unknown"),
        ("Where is the Louvre?", "", "unknown"),
    ],
)
def test_short_answers(question: str, information: str, answer: str) -> None:
    assert short_answer(question, information) == answer
