"""A draft that the planner gives back: what does not hold goes, the rest stays, and an open one is given again."""

from __future__ import annotations

import json

import pytest

from fathom.domain.chat.hermes import format_tool_call, parse_tool_calls
from fathom.domain.chat.messages import Message, Role, ToolSpec
from fathom.services.policy.backends.rules.backend import reply
from fathom.services.policy.model import Request

BESIDE = "Microsoft rose by 12.5% [1]."


def answer_again(draft: str, head: dict[str, str], body: str, question: str = "Hello") -> str:
    """Return the answer to a question that follows a draft with this result."""
    call = parse_tool_calls(format_tool_call("finish", {"intent": "x", "answer": draft}))[1][0]
    messages = (
        Message(Role.USER, question),
        Message(Role.ASSISTANT, "", (call,)),
        Message(Role.TOOL, f"{json.dumps(head)}\n\n{body}", tool_call_id=call.id),
    )
    said = reply(Request("r", "m", messages, tools=(ToolSpec("finish", "", "{}"),)))
    return str(json.loads(parse_tool_calls(said)[1][0].arguments_json)["answer"])


@pytest.mark.parametrize(
    ("wrong", "words", "note"),
    [
        ("It was 11.7 in 2019 [2].", "11.7", "statements that no material supports"),
        ("It's 10.0% [2].", "It's 10.0% [2].", "statements that no material supports"),
        ("2009年3月为10.0%[2]。", "10.0%", "没有材料支持而删去"),
    ],
)
def test_a_sentence_that_does_not_hold_goes(wrong: str, words: str, note: str) -> None:
    finding = f"- number: {words!r}: neither in [2] nor in other material\n\n# Material\n<quoted>\n[1] x\n</quoted>"
    text = answer_again(
        f"{BESIDE} {wrong}\n\n{{{{table:sheet_1}}}}",
        {"status": "invalid"},
        finding,
        "失业率" if "月" in wrong else "Hello",
    )
    assert text.startswith(("Not covered: ", "未涵盖：")), "a reader of the bare text is told as well"
    assert BESIDE in text
    assert "{{table:sheet_1}}" in text
    assert wrong not in text
    assert note in text


def test_an_open_draft_is_given_again_and_a_refused_end_is_not() -> None:
    draft = f"{BESIDE} It was 11.7 [2]."
    assert answer_again(draft, {"status": "open"}, "- entity “Intel”: nothing is about it") == draft
    assert BESIDE not in answer_again(draft, {"status": "refused", "error": "no source was asked"}, "")
