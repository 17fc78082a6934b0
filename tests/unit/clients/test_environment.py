"""Test what is an action of the environment, and what is none."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fathom.clients.environment import call_tool, parse_action
from fathom.core.errors import InvalidField


@pytest.mark.parametrize(
    "action",
    [{"answer": "42"}, '{"answer": "42"}', {"tool": "think"}, '{"tool": "data", "arguments": {"question": "why?"}}'],
)
def test_a_call_or_an_answer_is_an_action(action: Any) -> None:
    assert set(parse_action(action)) <= {"answer", "tool", "arguments"}


@pytest.mark.parametrize(
    "action",
    ["think", "[]", "{", "[" * 100_000, {}, {"answer": 42}, {"answer": "42", "tool": "think"}, {"tool": 3},
     {"tool": "think", "arguments": []}, {"tool": "think", "more": 1}, None,
     {"answer": "\ud800"}, '{"tool": "think", "arguments": {"content": NaN}}',
     '{"tool": "think", "arguments": {"content": ' + "[" * 220 + "]" * 220 + "}}"],
)  # fmt: skip
def test_anything_else_is_refused_by_its_field(action: Any) -> None:
    with pytest.raises(InvalidField, match="action"):
        parse_action(action)


class Unreachable:
    """A session that nothing may be sent to."""

    async def call_tool(self, name: str, arguments: Any) -> Any:
        raise AssertionError


@pytest.mark.parametrize("arguments", [[1], "x", None, {"code": "\ud800"}, {"code": math.inf}])
async def test_arguments_that_no_server_can_read_are_the_callers_error_and_no_outage(arguments: Any) -> None:
    text, is_error = await call_tool(Unreachable(), "python", arguments)  # type: ignore[arg-type]
    assert text.startswith("arguments: ")
    assert is_error
