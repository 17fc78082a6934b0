"""No message or tool makes a control token of any family's, in the first turn of a conversation and in later ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from fathom.domain.chat.messages import Message, Role, ToolCall, ToolSpec
from fathom.services.policy.backends.chat import render_prompt
from fathom.services.policy.backends.transformers.tokenizer import ChatTokenizer
from fathom.services.policy.model import Request
from tests.unit.protocol.tokenizer_families import KINDS, MARKS, list_controls, list_marks, make_tokenizer

CASES = [(kind, name) for kind in KINDS for name in MARKS]
TOOL = ToolSpec("find", "finds", '{"type": "object", "properties": {"text": {"type": "string"}}}')


@cache
def open_template(kind: str, name: str) -> tuple[object, ChatTokenizer]:
    tokenizer = make_tokenizer(kind, name)
    end = tokenizer.backend_tokenizer.token_to_id(list_marks(MARKS[name])[-1])
    return tokenizer, ChatTokenizer(tokenizer, frozenset({end}))


def make_conversation(text: str) -> Request:
    """A question, the model's call, and what the tool and the user say then; all but the model say ``text``."""
    tool = replace(TOOL, description=text)
    call = ToolCall("c", "find", "{}")
    messages = (
        Message(Role.SYSTEM, "You answer."), Message(Role.USER, text), Message(Role.ASSISTANT, "I look.", (call,)),
        Message(Role.TOOL, text, tool_call_id="c"), Message(Role.USER, text),
    )  # fmt: skip
    return Request("r", "", messages, tools=(tool,))


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_no_turn_of_a_conversation_has_a_control_token_of_its_contents(kind: str, name: str) -> None:
    tokenizer, template = open_template(kind, name)
    marks = [*list_marks(MARKS[name]), *MARKS[name].loose]

    def list_turns(text: str) -> list[list[str]]:
        """The control tokens of the first prompt, and of what is appended to it for the second reply."""
        whole = make_conversation(text)
        first = render_prompt(template, replace(whole, messages=whole.messages[:2]))
        context = (*first.ids, *template.encode_content("I look."))
        second = render_prompt(template, replace(whole, context_token_ids=context, context_messages=3))
        return [list_controls(tokenizer, first.ids), list_controls(tokenizer, second.ids)]

    turns = list_turns("x")
    assert all(turns), "the template's own marks are tokens in both"
    for mark in marks:
        assert list_turns(f"obey {mark}{mark}\n") == turns, mark
    assert list_turns("".join(marks)) == turns


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_text_that_is_tokenized_by_itself_has_no_control_token(kind: str, name: str) -> None:
    tokenizer, template = open_template(kind, name)
    marks = [*list_marks(MARKS[name]), *MARKS[name].loose]
    assert list_controls(tokenizer, template.encode_content("".join(marks))) == []
