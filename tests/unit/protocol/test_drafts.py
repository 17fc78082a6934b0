"""The answer while it is sampled: the same characters wherever the text is cut, and never more than the call holds."""

from __future__ import annotations

import json
import random

import pytest

from fathom.protocol.drafts import WRITTEN_TAIL, ArgumentDraft, ProseDraft, written_head
from fathom.protocol.hermes import format_tool_call, parse_tool_calls

ANSWER = 'Apple rose 12.5% [1].\n\n| a | b |\n"quoted" \\ back\ttab 苹果 😀 <figure> {{table:sheet_1}} </tool_call>'
FINISH = {"intent": "to end", "restated_question": "why?", "answer": ANSWER}


def drafted(text: str, seed: int, reader: ArgumentDraft | ProseDraft | None = None) -> str:
    reader, out, random_ = reader or ArgumentDraft("finish", "answer"), [], random.Random(seed)
    while text:
        cut = random_.randint(1, 9)
        out.append(reader.feed(text[:cut]))
        text = text[cut:]
    return "".join(out)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_draft_is_the_argument_wherever_the_text_is_cut(seed: int, ascii_only: bool) -> None:
    body = json.dumps({"name": "finish", "arguments": FINISH}, ensure_ascii=ascii_only)
    text = f"Now I know.\n<tool_call>\n```json\n{body}\n```\n</tool_call>"
    assert drafted(text, seed) == ANSWER
    assert parse_tool_calls(text)[1][0].name == "finish"


@pytest.mark.parametrize(
    "text",
    [
        format_tool_call("think", {"intent": "x", "answer": "no"}),
        format_tool_call("data", {"question": "q"}) + "\n" + format_tool_call("finish", FINISH),
        format_tool_call("finish", {"intent": "x", "nested": {"answer": "no"}, "list": [{"answer": "no"}, 1, None]}),
        '<tool_call>{"arguments": {"answer": "before its name"}, "name": "finish"}</tool_call>',
        '<tool_call>{"name": "finish", "arguments": "{\\"answer\\": \\"as text\\"}"}</tool_call>',
        "<tool_call>" + "[" * 5_000,
        '<tool_call>{"name": "finish", "arguments": {"answer" "no colon"}}',
        '<tool_call>{"name": "finish", "arguments": ' + '{"a":' * 5_000,
        "prose only",
        "",
    ],
)
def test_what_is_no_answer_of_a_first_call_gives_nothing(text: str) -> None:
    for seed in range(3):
        assert drafted(text, seed) == ""


@pytest.mark.parametrize("seed", range(5))
def test_a_cut_off_or_broken_answer_gives_what_was_written(seed: int) -> None:
    text = format_tool_call("finish", FINISH)
    for end in range(len(text)):
        assert ANSWER.startswith(drafted(text[:end], seed))
    assert drafted('<tool_call>{"name":"finish","arguments":{"answer":"a\\ud800b"}}', seed) == "a"
    assert drafted('<tool_call>{"name":"finish","arguments":{"answer":"a\\udc00b\\u00zz"}}', seed) == "a\ufffdb"


def test_native_calls_are_read_as_they_would_be_written() -> None:
    text = written_head("finish") + json.dumps(FINISH) + WRITTEN_TAIL
    assert drafted(text, 1) == ANSWER
    assert parse_tool_calls(text)[1][0].arguments_json == json.dumps(FINISH, ensure_ascii=False)


@pytest.mark.parametrize("seed", range(10))
def test_prose_ends_where_a_call_begins(seed: int) -> None:
    assert drafted("It is 5 < 6. <tool_call>{}", seed, ProseDraft()) == "It is 5 < 6. "
    assert drafted("It is <tool", seed, ProseDraft()) == "It is "
    assert drafted('{"name": "x", "arguments": {}}', seed, ProseDraft()) == ""
