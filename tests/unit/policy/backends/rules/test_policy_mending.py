"""The reference policy's second turn: what the list names is corrected, what it only doubts goes, the rest stays."""

from __future__ import annotations

import json

import pytest

from fathom.domain.chat.hermes import format_tool_call, parse_tool_calls
from fathom.domain.chat.messages import Message, Role, ToolSpec
from fathom.services.policy.backends.rules.backend import reply
from fathom.services.policy.backends.rules.findings import collect
from fathom.services.policy.backends.rules.mending import Finding, rewritten
from fathom.services.policy.backends.rules.question import read_question
from fathom.services.policy.backends.rules.reading import Reading, Step
from fathom.services.policy.model import Request

BESIDE = "Microsoft rose by 12.5% [1]."


@pytest.mark.parametrize(
    ("wrong", "finding", "right"),
    [
        ("It was 10.0% in October 2008 [2].", ("time", "10.0%", "this is the value of 2009-10-31"), "It was 10.0% in October 2009 [2]."),
        ("On 2020-04-23 it was 5.5 [2].", ("time", "5.5", "this is the value of 2020-03-23"), "On 2020-03-23 it was 5.5 [2]."),
        ("2009年3月为10.0%[2]。", ("time", "10.0%", "this is the value of 2009-10-31"), "2009年10月为10.0%[2]。"),
        ("The bank raised it [2].", ("event", "The bank raised it [2].", "the text says 'raised', the material 'cut'"), "The bank cut it [2]."),
        # What the list does not name, nobody can write: it goes.
        ("It was 11.7 [2].", ("number", "11.7", "neither in [2] nor in other material"), ""),
        ("From 2019-01-02 to 2020-01-02 it was 4.4 [2].", ("time", "4.4", "this is the value of 2021-01-02"), ""),
        ("It was 10.0% [2].", ("time", "10.0%", "this is the value of 2009-10-31, 2010-01-31"), ""),
    ],
)  # fmt: skip
def test_each_finding_is_followed(wrong: str, finding: tuple[str, str, str], right: str) -> None:
    text = rewritten(f"{BESIDE} {wrong}\n\n{{{{table:sheet_1}}}}", [Finding(*finding)])
    assert text.startswith(BESIDE)
    assert "{{table:sheet_1}}" in text
    assert wrong not in text
    if right:
        assert right in text
        assert "Left out" not in text
    else:
        assert "Left out for want of support: 1" in text


def test_a_refused_draft_is_mended_an_open_one_repeated_and_a_refused_end_neither() -> None:
    def next_answer(head: dict[str, str], body: str) -> str:
        call = parse_tool_calls(format_tool_call("finish", {"intent": "x", "answer": f"{BESIDE} It was 11.7 [2]."}))[1][
            0
        ]
        messages = (
            Message(Role.USER, "Hello"),
            Message(Role.ASSISTANT, "", (call,)),
            Message(Role.TOOL, f"{json.dumps(head)}\n\n{body}", tool_call_id=call.id),
        )
        said = reply(Request("r", "m", messages, tools=(ToolSpec("finish", "", "{}"),)))
        return str(json.loads(parse_tool_calls(said)[1][0].arguments_json)["answer"])

    listed = (
        "- number: '11.7': neither in [2] nor in other material\n\nMend them.\n\n# Material\n<quoted>\n[1] x\n</quoted>"
    )
    mended = next_answer({"tool": "finish", "status": "invalid"}, listed)
    assert mended.startswith(BESIDE)
    assert "11.7" not in mended
    assert BESIDE not in next_answer({"tool": "finish", "status": "refused", "error": "no source was asked"}, "")
    opened = {"tool": "finish", "status": "open", "error": "parts of the question stay open"}
    assert next_answer(opened, "- entity “Intel”: nothing is about it") == f"{BESIDE} It was 11.7 [2]."


def test_a_draft_that_was_sent_back_is_no_failed_step() -> None:
    sent_back = Step("finish", {"answer": "It rose."}, {"status": "invalid", "error": "Your answer was checked."}, "")
    cell = Step("python", {"code": "x"}, {"status": "failed", "error": "NameError: x"}, "")
    asked = "How did it go?"
    assert collect(Reading(asked, (cell, sent_back), False), read_question(asked)).errors == ("python: NameError: x",)
